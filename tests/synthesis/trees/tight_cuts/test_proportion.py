"""Integers in proportion, scales of cut classes, and layers of boxes."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from treadle.schedules.collective import Collective, CollectiveKind
from treadle.synthesis.trees.instance import instance_of
from treadle.synthesis.trees.tight_cuts.components import Split, split_layers
from treadle.synthesis.trees.tight_cuts.family import Family
from treadle.synthesis.trees.tight_cuts.near_egress import assigned
from treadle.topologies.topology import Topology, TopologyBuilder
from treadle.unsupported import Unsupported


def boxes(
    n_boxes: int, size: int, inside: int, *, across: int, odd: int = 0, direct: bool = False
) -> Topology:
    """Boxes on switches, all ranks at a network switch besides; rank 0's links there differ by `odd`."""
    builder = TopologyBuilder("boxes")
    builder.switch("network")
    for box in range(n_boxes):
        builder.switch(f"s{box}")
        for place in range(size):
            name = builder.compute(f"g{box}.{place}")
            builder.duplex(name, f"s{box}", inside)
            builder.duplex(name, "network", across + (odd if box == place == 0 else 0))
    if direct:
        builder.duplex("g0.0", "g1.0", across)
    return builder.build()


def family_of(topology: Topology, size: int) -> Family:
    """The boxes as sets."""
    width = size + 1
    innermost = [0, *(1 + (node - 1) // width for node in range(1, topology.n_nodes))]
    return Family(np.array([-1, *[0] * max(innermost)], dtype=np.int32), np.array(innermost, dtype=np.int32))


def split(topology: Topology, size: int, *, weights: tuple[int, ...] | None = None) -> Split | Unsupported:
    ranks = tuple(topology.compute_nodes.tolist())
    problem = instance_of(topology, Collective(CollectiveKind.ALLGATHER, ranks, weights=weights))
    return split_layers(problem, family_of(topology, size))


@pytest.mark.parametrize(
    ("n_boxes", "size", "inside", "across", "scale", "trees"),
    [
        # boxes 12 * 5 = 60, flat 6 * (5 - 1) - 12 = 12: 5 : 1; the border of 6 has 5 + 5, the inside 20 units
        (2, 3, 12, 6, Fraction(5, 3), (5, 1)),
        # 2 * 5 = 10 : 6 * (5 - 1) - 2 = 22
        (2, 3, 2, 6, Fraction(10), (5, 11)),
        # three boxes of two: 5 * 5 = 25 : 4 * (5 - 2) - 2 * 5 = 2
        (3, 2, 5, 4, Fraction(15), (25, 2)),
    ],
)
def test_two_layers_fill_every_rank(
    n_boxes: int, size: int, inside: int, across: int, scale: Fraction, trees: tuple[int, int]
) -> None:
    fabric = boxes(n_boxes, size, inside, across=across)
    found = split(fabric, size)
    assert isinstance(found, Split)
    assert [set(part.multiplicities.tolist()) for part in found.parts] == [{each} for each in trees]
    assert (found.scale, found.trees) == (scale, sum(trees))
    n, others = n_boxes * size, n_boxes - 1
    layers = (part.capacities.tolist() for part in found.parts)
    for bandwidth, one, other in zip(fabric.bandwidths.tolist(), *layers, strict=True):
        if bandwidth == inside:
            assert (one, other) == (trees[0] * (n - 1 - others), 0)
            assert one == scale * inside
        else:
            assert (one, other) == (trees[0] * others, trees[1] * (n - 1))
            assert one + other == scale * across


def test_borders_that_just_bind_make_no_flat_layer() -> None:
    """24 (6 - 2) - 24 = 0 flat trees: 6 * 4 = 24."""
    found = split(boxes(2, 3, 24, across=6), 3)
    assert isinstance(found, Split)
    assert (found.trees, len(found.parts)) == (1, 1)
    assert isinstance(split(boxes(2, 3, 25, across=6), 3), Unsupported)


@pytest.mark.parametrize(
    ("need", "have", "depth", "latest"),
    [
        ([3, 2], [2, 3], [[0, 1], [1, 0]], {0: {0: 2, 1: 1}, 1: {1: 2}}),
        ([2, 2, 2], [1, 2, 3], [[0, 1, 2], [1, 0, 1], [2, 1, 0]], None),
        ([4], [1, 1, 2], [[3, 0, 1]], {0: {0: 1, 1: 1, 2: 2}}),
    ],
)
def test_units_of_near_suppliers(
    need: list[int], have: list[int], depth: list[list[int]], latest: dict[int, dict[int, int]] | None
) -> None:
    """All that is needed, no more than there is, and as near as can be."""
    before = list(need), list(have)
    flow = assigned(need, have, np.array(depth))
    assert (need, have) == before
    assert [sum(taken.values()) for taken in flow] == need
    for supplier, units in enumerate(have):
        assert sum(taken.get(supplier, 0) for taken in flow) <= units
    if latest is not None:
        assert [{one: units for one, units in taken.items() if units} for taken in flow] == list(
            latest.values()
        )
    else:  # taker 0 lacks one unit, which taker 1 gives up for one of supplier 2
        assert max(depth[i][j] for i, taken in enumerate(flow) for j, units in taken.items() if units) == 1
