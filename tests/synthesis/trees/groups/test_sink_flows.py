"""Flows to one sink by classes of pairs, and the program of shares on boxes of unequal widths."""

from __future__ import annotations

from fractions import Fraction

import pytest

from treadle.schedules.collective import Collective, CollectiveKind
from treadle.synthesis.trees.groups.allocation_lp import AllocationLp
from treadle.synthesis.trees.groups.every_group import EveryGroup, every_group
from treadle.synthesis.trees.groups.group_colours import refined
from treadle.synthesis.trees.groups.representative import representatives
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
