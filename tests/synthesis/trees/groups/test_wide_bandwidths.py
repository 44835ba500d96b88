"""Bounds where links are a million million times apart: what trees cannot use counts for nothing."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samples.strategies import extreme_topologies, relay_balanced_topologies
from treadle import planning
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.synthesis.trees.groups.group_optimum import group_optimum
from treadle.topologies import Topology, TopologyBuilder

WIDE = 2**40


def fabric(links: str) -> Topology:
    """Links as "a-b:3"; s is a switch, the others compute."""
    builder = TopologyBuilder("wide")
    rows = [(*ends.split("-"), int(width)) for ends, width in (link.split(":") for link in links.split())]
    nodes = {name: builder.compute(name) for name in sorted({end for row in rows for end in row[:2]} - {"s"})}
    nodes["s"] = builder.switch("s")
    for tail, head, width in rows:
        builder.link(nodes[tail], nodes[head], width)
    return builder.build()


@pytest.mark.parametrize(
    ("links", "kind", "algbw"),
    [
        (f"s-b:{WIDE} b-a:1 a-s:2 a-s:1 a-b:3", "allgather", 2),
        (f"a-b:{WIDE} b-s:3 s-a:2", "allgather", 4),
        (f"b-a:{WIDE} a-s:2 s-c:1 c-b:2", "broadcast", 1),
        (f"b-a:{WIDE} a-s:2 s-c:1 c-b:2", "allgather", Fraction(3, 2)),
        (f"b-a:{WIDE} a-s:2 s-c:1 c-b:2", "reduce-scatter", Fraction(3, 2)),
    ],
)
def test_the_cut_binds(links: str, kind: str, algbw: Fraction) -> None:
    found = planning.bound(fabric(links), kind)
    assert (found.bound.algbw, found.bound.is_tight) == (algbw, True)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(relay_balanced_topologies(compute=(2, 5), switches=(1, 2)), st.data())
def test_one_wide_link(topology: Topology, data: Any) -> None:
    """A link of a million times the others is worth as much as one of a million million times."""
    link = data.draw(st.integers(0, topology.n_links - 1))
    kind = data.draw(
        st.sampled_from([kind for kind in CollectiveKind if kind is not CollectiveKind.ALLTOALL])
    )
    root = 0 if kind.is_rooted else None
    rates = []
    for width in (10**5, WIDE):
        bandwidths = topology.bandwidths.copy()
        bandwidths[link] = width
        wide = replace(topology, bandwidths=bandwidths)
        found = group_optimum(wide, on_all_ranks(wide, kind, root=root))
        assert found.is_exact
        # lengths prove it on the fabric itself, not only on what trees can use of it
        assert found.topology is wide
        assert found.certificate.bound(wide, found.collective) == found.upper
        rates.append(found.upper)
    assert rates[0] == rates[1]


@settings(max_examples=40, deadline=None, derandomize=True)
@given(extreme_topologies(compute=(2, 5), switches=(0, 2)), st.sampled_from(["allgather", "broadcast"]))
def test_no_bound_is_above_a_cut(topology: Topology, kind: str) -> None:
    found = planning.bound(topology, kind)
    ranks = topology.compute_nodes.tolist()
    for node in ranks[1:]:
        entering = sum(topology.bandwidths[(topology.heads == node) & (topology.tails != node)].tolist())
        share = Fraction(len(ranks) - 1, len(ranks)) if kind == "allgather" else Fraction(1)
        assert found.bound.algbw * share <= entering


def test_what_trees_can_use_is_left() -> None:
    """In groups and of unequal shards, the rate is that of the fabric with its surplus."""
    builder = TopologyBuilder("star")
    top = builder.switch("top")
    nodes = [builder.compute(f"n{i}") for i in range(4)]
    for number, node in enumerate(nodes):
        builder.duplex(node, top, WIDE if number == 3 else 3)
    topology = builder.build()
    two = Collective(CollectiveKind.ALLGATHER, (1, 2, 3, 4), groups=((0, 1), (2, 3)))
    assert group_optimum(topology, two).upper == 6
    shares = on_all_ranks(topology, CollectiveKind.ALLGATHER, weights=(0, 0, 0, 5))
    assert group_optimum(topology, shares).upper == 3  # whoever has it all is entered by nothing
    assert np.all(topology.bandwidths[topology.tails == 4] == WIDE)
