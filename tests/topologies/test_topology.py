"""Fabrics as values: what the constructor and the builder refuse, at the boundary of each limit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from treadle.errors import TopologyError
from treadle.topologies.topology import Topology, TopologyBuilder


def star() -> Topology:
    """Two ranks at a switch: links a->s, s->a, b->s, s->b."""
    builder = TopologyBuilder("star")
    for name in "ab":
        builder.compute(name)
    builder.switch("s", multicast=True, aggregation=True)
    for name in "ab":
        builder.link(name, "s", 5)
        builder.link("s", name, 7)
    return builder.build()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "two\nlines"}, "name 'two.nlines': expected one line without control characters"),
        ({"node_names": ("a", "b\x07", "s")}, "node name 'b.x07': expected one line without control"),
        ({"node_names": ("a", "", "s")}, "node name '': expected a non-empty string"),
        ({"node_names": ("a", 3, "s")}, "node name 3: expected a non-empty string"),
        ({"node_names": ("a", "a", "s")}, "node 'a' is named twice"),
        ({"node_names": ("a", "b", "c", "s")}, "expected 4 values, found shape"),
        ({"bandwidths": [5, 7, 5]}, "bandwidths: expected 4 values, found shape"),
        ({"latencies_ns": [1]}, "latencies_ns: expected 4 values"),
        ({"tails": [0, 2, 1, 3]}, "tails: node indices must be 0 to 2"),
        ({"heads": [2, 0, 2, -1]}, "heads: node indices must be 0 to 2"),
        ({"bandwidths": [5, 7, 0, 7]}, "link b->s: bandwidth 0 bytes/s, expected 1 to 2"),
        ({"bandwidths": [5, 7, 5, 2**50 + 1]}, "link s->b: bandwidth 1125899906842625 bytes/s"),
        ({"latencies_ns": [0, -1, 0, 0]}, "link s->a: latency must not be negative"),
        ({"multicast": [True, False, False]}, "'a' is a compute node; only switches multicast"),
        ({"aggregation": [False, True, False]}, "'b' is a compute node; only switches multicast"),
        (
            {"multicast": [False] * 3, "aggregation": [False] * 3, "turns_round": [False, False, True]},
            "'s': turns_round needs multicast or aggregation",
        ),
        ({"injection_bytes_per_s": [0, -1, 0]}, "'b': injection cap -1 bytes/s, expected 0"),
        ({"injection_bytes_per_s": [0, 2**50 + 1, 0]}, "'b': injection cap 1125899906842625"),
        ({"injection_bytes_per_s": [0, 0, 9]}, "'s' is a switch; injection caps are for compute nodes"),
    ],
)
def test_what_is_no_fabric(change: dict[str, Any], message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        replace(star(), **change)
