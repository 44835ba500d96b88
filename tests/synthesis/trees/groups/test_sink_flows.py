"""Flows to one sink by classes of pairs, and the program of shares on boxes of unequal widths."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from treadle.schedules.collective import Collective, CollectiveKind
from treadle.synthesis.trees.groups.allocation_lp import AllocationLp
from treadle.synthesis.trees.groups.every_group import EveryGroup, every_group
from treadle.synthesis.trees.groups.group_colours import refined
from treadle.synthesis.trees.groups.rational_allocation import RationalAllocation, fits
from treadle.synthesis.trees.groups.representative import representatives, sink_flow
from treadle.synthesis.trees.groups.supplied_sinks import first_unserved
from treadle.synthesis.trees.groups.tree_optimum import rounded_allocation
from treadle.synthesis.trees.groups.union import union_of
from treadle.topologies.topology import Topology, TopologyBuilder

K = CollectiveKind


def boxes(*, size: int = 2) -> Topology:
    """Boxes of ranks on a switch each (9, 9 and 7 bytes/s), all on a network by 2 bytes/s up and 3 down."""
    builder = TopologyBuilder("boxes")
    builder.switch("network")
    for box, width in enumerate((9, 9, 7)):
        builder.switch(f"s{box}")
        for place in range(size):
            builder.compute(f"g{box}.{place}")
            builder.duplex(f"g{box}.{place}", f"s{box}", width)
            builder.link(f"g{box}.{place}", "network", 2)
            builder.link("network", f"g{box}.{place}", 3)
    return builder.build()


def every_of(
    topology: Topology, size: int, kind: CollectiveKind = K.ALLGATHER, root: int | None = None
) -> EveryGroup:
    groups = tuple(tuple(range(box * size, (box + 1) * size)) for box in range(3))
    union = union_of(
        topology, Collective(kind, tuple(topology.compute_nodes.tolist()), root=root, groups=groups)
    )
    colours = refined(union)
    return every_group(union, colours, representatives(union, colours))


@pytest.mark.parametrize("turned", [False, True])
def test_rows_of_a_flow(turned: bool) -> None:
    """Pairs of one place of each class, into it and out of it; what leaves the sink is left out."""
    every = every_of(boxes(size=3), 3)
    for group in every.groups:
        tails, heads = (group.heads, group.tails) if turned else (group.tails, group.heads)
        sink = int(group.members[1])
        flow = sink_flow(group, sink, turned=turned)
        assert sink not in flow.places
        rows = Counter(
            (int(flow.places[row]), int(flow.share[column]), int(sign))
            for row, column, sign in zip(flow.rows, flow.columns, flow.signs, strict=True)
        )
        wanted: Counter[tuple[int, int, int]] = Counter()
        for tail, head, number in zip(tails.tolist(), heads.tolist(), group.pair_class.tolist(), strict=True):
            if tail != sink:
                wanted.update([(head, number, 1)] if head in flow.places else [])
                wanted.update([(tail, number, -1)] if tail in flow.places else [])
        assert rows == wanted
        # the two other members are alike, and the switch and the network differ: one place of each
        assert len(flow.places) == 3
        assert len(set(flow.places.tolist()) & set(group.members.tolist())) == 1
        # ways into the sink are told from those into others: two up, two down, and two to it
        assert len(flow.share) == 6
        assert sorted(Counter(flow.share.tolist()).values()) == [1, 1, 2, 2]


@pytest.mark.parametrize(
    ("kind", "root", "rate", "total"),
    [
        # each rank of the narrow box sends by 7 and 2 bytes/s to the other one; there are two members
        (K.ALLGATHER, None, 9, 2),
        (K.REDUCE_SCATTER, None, 9, 2),
        (K.BROADCAST, 1, 9, 1),
        (K.REDUCE, 0, 9, 1),
    ],
)
def test_the_program_of_shares(kind: CollectiveKind, root: int | None, rate: int, total: int) -> None:
    every = every_of(boxes(), 2, kind, root)
    program = AllocationLp(every, (kind.reduces,))
    assert (program.unit, program.total) == (9, total)
    # the largest rate, in bytes/s; the least capacity in all: two links for each byte, of one or two ranks in
    # each of three boxes
    assert program.leanest(rate + 1, Fraction(1)).optimum() is None
    lean, _ = program.leanest(rate, Fraction(1)).solve()
    near = [Fraction(v).limit_denominator(10**6) for v in lean.tolist()]
    found = program.as_allocation(near, Fraction(rate, 9))
    assert [len(one) for one in found.shares[0]] == [group.n_classes for group in every.groups]
    used = Fraction(
        sum(
            sum(share * int(size) for share, size in zip(one, group.class_sizes(), strict=True)) * group.times
            for one, group in zip(found.shares[0], every.groups, strict=True)
        ),
        found.denominator,
    )
    assert float(used) == pytest.approx(3 * 2 * total * rate)
    # in units of 3/2 bytes/s links of 7 and 2 hold four and one
    assert program.leanest(5, Fraction(3, 2)).optimum() is not None
    assert program.leanest(6, Fraction(3, 2)).optimum() is None


def test_free_roots_of_both_families() -> None:
    """In-trees and out-trees share every link; a root feeds as much into both."""
    every = every_of(boxes(), 2, K.ALLREDUCE)
    program = AllocationLp(every, (False, True))
    assert (program.free_roots, program.total) == (True, 1)
    # a byte from one rank to the other and back takes a link up and one down of either
    assert program.leanest(10, Fraction(1)).optimum() is None
    columns, _ = program.leanest(9, Fraction(1)).solve()
    near = [Fraction(v).limit_denominator(10**6) for v in columns.tolist()]
    found = program.as_allocation(near, Fraction(1))
    assert [len(family) for family in found.shares] == [2, 2]
    for one in found.roots:
        assert float(sum(one)) / found.denominator == pytest.approx(9)


def test_sinks_that_shares_do_not_serve() -> None:
    """Of the first box, shares by class: ways up and down of the switch and the network."""
    fabric = boxes()
    every = every_of(fabric, 2)
    group = every.groups[0]
    names: dict[int, str] = {}
    for link, number in zip(group.links.tolist(), group.pair_class.tolist(), strict=True):
        ends = fabric.node_names[fabric.tails[link]], fabric.node_names[fabric.heads[link]]
        up = ends[0].startswith("g")
        names[number] = f"{'up' if up else 'down'}_{'network' if ends[up] == 'network' else 's'}"

    def unserved(supplies: list[int], **held: int) -> int | None:
        shares = [held.get(names[number], 0) for number in range(4)]
        return first_unserved(fabric, group, False, shares, supplies)

    first, second = group.members.tolist()
    assert unserved([3, 3], up_s=3, down_s=3) is None
    assert unserved([3, 3], up_s=2, down_s=3, up_network=1, down_network=1) is None
    assert unserved([3, 3], up_s=2, down_s=3) in (first, second)
    assert unserved([0, 3], up_s=2, down_s=3) == first
    assert unserved([3, 1], up_s=2, down_s=3) == second
    assert unserved([0, 0]) is None


def test_types_that_are_no_representatives() -> None:
    """With forwarding ranks three groups differ as types, though the second is like the first."""
    fabric = boxes()
    groups = ((0, 1), (3, 2), (4, 5))
    union = union_of(
        fabric,
        Collective(K.ALLGATHER, tuple(fabric.compute_nodes.tolist()), groups=groups, ranks_forward=True),
    )
    colours = refined(union)
    found = every_group(union, colours, representatives(union, colours))
    assert colours.kinds.tolist() == [0, 0, 1]
    assert [group.times for group in found.groups] == [2, 1]
    ((colour, other),) = found.others()
    assert (colour, other.kind, other.times) == (0, 1, 1)
    assert other.n_classes == found.groups[0].n_classes
    assert np.bincount(other.pair_class).tolist() == found.groups[0].class_sizes().tolist()
    assert found.of_type(0) is found.groups[0]
    assert found.of_type(2) is found.groups[1]
    assert found.starts.tolist()[:2] == [0, found.groups[0].n_classes]


def rounded(every: EveryGroup, held: list[dict[str, float]], fabric: Topology) -> RationalAllocation:
    """Of shares by representative and way, in units of 9 bytes/s."""
    shares = []
    for group, ways in zip(every.groups, held, strict=True):
        values = np.zeros(group.n_classes)
        for link, number in zip(group.links.tolist(), group.pair_class.tolist(), strict=True):
            ends = fabric.node_names[fabric.tails[link]], fabric.node_names[fabric.heads[link]]
            up = ends[0].startswith("g")
            way = f"{'up' if up else 'down'}_{'network' if ends[up] == 'network' else 's'}"
            values[number] = ways.get(way, 0.0)
        shares.append(values)
    program: Any = SimpleNamespace(groups=every.groups, unit=9, families=(False,), free_roots=False)
    return rounded_allocation(every, program, [shares], [])


def test_shares_are_rounded_so_that_they_fit() -> None:
    """Two thirds of 9 bytes/s in the first two boxes, a third in the last: what all are served."""
    fabric = boxes()
    every = every_of(fabric, 2)
    held = [{"up_s": 2 / 3, "down_s": 0.8}, {"up_s": 0.5, "down_s": 1 / 3}]
    found = rounded(every, held, fabric)
    assert fits(every.union, every.number, found)
    # two members, each with a shard
    assert 6 * (1 - 1e-6) < found.rate < 6
    assert [sum(roots) / found.denominator for roots in found.roots] == [float(found.rate)] * 2
    lopsided = rounded(
        every, [{"up_s": 0.3, "down_s": 0.4, "up_network": 0.1, "down_network": 0.2}, held[0]], fabric
    )
    assert 2 * 3.6 * (1 - 1e-6) < lopsided.rate < 2 * 3.6


def test_groups_that_get_nothing_have_no_rate() -> None:
    fabric = boxes()
    every = every_of(fabric, 2)
    one = {"up_s": 0.5, "down_s": 0.5}
    for held in ([one, {}], [{}, one], [one, {"up_s": 0.5}]):
        assert rounded(every, held, fabric).rate == 0
