"""Fabrics as values: what the constructor and the builder refuse, at the boundary of each limit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
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


@pytest.mark.parametrize(
    "change",
    [
        {"bandwidths": [1, 2**50, 1, 2**50]},
        {"injection_bytes_per_s": [2**50, 1, 0]},
        {"multicast": [False] * 3, "turns_round": [False, False, True]},
        {"aggregation": [False] * 3, "turns_round": [False, False, True]},
        {"node_names": ("a", "b\u00a0c", "s")},  # not printable, and one line
    ],
)
def test_what_is_just_allowed(change: dict[str, Any]) -> None:
    assert replace(star(), **change).n_links == 4


def test_a_switch_needs_a_link_and_a_rank_does_not() -> None:
    builder = TopologyBuilder("lone")
    builder.compute("a")
    assert builder.build().n_nodes == 1
    builder.switch("s")
    with pytest.raises(TopologyError, match="switch 's' has no link; remove it or connect it"):
        builder.build()


@pytest.mark.parametrize("key", ["bandwidths", "injection_bytes_per_s"])
def test_sums_stay_below_two_to_the_62(key: str) -> None:
    n = 2**12
    ranks = np.arange(n)
    ring = Topology(
        name="ring",
        node_names=tuple(map(str, ranks)),
        is_compute=np.ones(n, dtype=np.bool_),
        tails=ranks,
        heads=(ranks + 1) % n,
        bandwidths=np.full(n, 5),
        latencies_ns=np.zeros(n, dtype=np.int64),
    )
    values = np.full(n, 2**50)
    values[0] -= 1
    assert replace(ring, **{key: values}).n_links == n
    values[0] += 1
    with pytest.raises(TopologyError, match="add up to 4611686018427387904 bytes/s, expected less than 2"):
        replace(ring, **{key: values})


def test_the_builder_names_what_it_refuses() -> None:
    builder = TopologyBuilder("b")
    for name in "ab":
        builder.compute(name)
    with pytest.raises(TopologyError, match="node 'a' is named twice"):
        builder.switch("a")
    with pytest.raises(TopologyError, match="link a->c: no node is called 'c'"):
        builder.link("a", "c", 5)
    with pytest.raises(TopologyError, match="link c->a: no node is called 'c'"):
        builder.link("c", "a", 5)
    for bandwidth in (0, 2**50 + 1):
        with pytest.raises(TopologyError, match="link a->b: bandwidth"):
            builder.link("a", "b", bandwidth)
    builder.link("a", "b", 2**50)
    builder.link("b", "a", 1)
    assert builder.build().bandwidths.tolist() == [2**50, 1]
    assert builder.build().node_index("b") == 1
    with pytest.raises(TopologyError, match="b: no node is called 'c'"):
        builder.build().node_index("c")
