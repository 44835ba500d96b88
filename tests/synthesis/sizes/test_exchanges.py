"""Rounds in which everybody sends all that it holds: whole trees, their depths, who sends whom."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, log

import numpy as np
import pytest

from treadle.arrays import Int32Array
from treadle.synthesis.sizes.boxed import rail_trees, three_stage_trees
from treadle.synthesis.sizes.exchanges import (
    Round,
    bruck,
    direct,
    far_first,
    grid_trees,
    on_axis,
    ring,
    trees_of,
)

BOXES = ([(0, 1, 2), (3, 4, 5)], [(0, 3), (1, 4), (2, 5)], [(0, 1, 2, 3, 4), (5, 6), (7, 8, 9)])
"""Two, three, and some of different sizes."""


def depths(parent: Int32Array) -> list[list[int]]:
    """Edges from each root to each rank, followed one by one; fails where the root is never reached."""
    found = []
    for root, above in enumerate(parent.tolist()):
        row = []
        for rank in range(len(above)):
            place, depth = rank, 0
            while place != root:
                assert above[place] >= 0, f"rank {rank} is not below root {root}"
                assert depth < len(above), f"a circle above rank {rank}"
                place, depth = above[place], depth + 1
            row.append(depth)
        assert above[root] == -1
        found.append(row)
    return found


@pytest.mark.parametrize("n", range(1, 18))
def test_every_axis_reaches_everybody_in_its_rounds(n: int) -> None:
    ways: list[tuple[Callable[[int], list[Round]], int]] = [
        (direct, min(1, n - 1)),
        (ring, n - 1),
        *((lambda size, r=radix: bruck(size, r), ceil(log(n) / log(radix) - 1e-9)) for radix in (2, 3, 4)),
        (far_first, ceil(log(n) / log(2) - 1e-9)),
    ]
    for way, rounds in ways:
        assert len(way(n)) == rounds
        reached = depths(trees_of(way(n), n))
        assert max(map(max, reached)) <= rounds
        # whatever the rank, the picture is the same
        assert all(sorted(row) == sorted(reached[0]) for row in reached)


def test_distances_grow_or_shrink() -> None:
    assert [one[0][0] for one in bruck(8)] == [1, 2, 4]
    assert [one[0][0] for one in far_first(8)] == [4, 2, 1]
    assert bruck(6, 4)[1].tolist() == [[4, 5, 0, 1, 2, 3]]
    # the last message of Bruck's is the largest: it brings half of all shards
    sent = trees_of(bruck(8), 8)
    assert sum(sent[root, 0] == 4 for root in range(8)) == 4
    assert sum(trees_of(far_first(8), 8)[root, 0] == 7 for root in range(8)) == 4


@pytest.mark.parametrize("shape", [(2, 3), (3, 2, 2), (1, 5), (4, 4)])
def test_grids_go_digit_by_digit(shape: tuple[int, ...]) -> None:
    n = int(np.prod(shape))
    rounds = [on_axis(shape, axis, one) for axis, size in enumerate(shape) for one in direct(size)]
    parent = trees_of(rounds, n)
    assert np.array_equal(grid_trees(shape), parent)
    digits = np.array(np.unravel_index(np.arange(n), shape)).T
    away = (digits[:, None] != digits).sum(axis=2)
    assert depths(parent) == away.tolist()
    for root in range(n):
        for rank in range(n):
            if rank != root:  # the last digit that differs was mended last
                differing = np.flatnonzero(digits[root] != digits[rank])
                expected = digits[rank].copy()
                expected[differing[-1]] = digits[root][differing[-1]]
                assert digits[parent[root, rank]].tolist() == expected.tolist()


@pytest.mark.parametrize("boxes", BOXES)
@pytest.mark.parametrize("way", [direct, bruck, ring])
def test_rails_enter_every_box_once(boxes: list[tuple[int, ...]], way: Callable[[int], list[Round]]) -> None:
    parent = rail_trees(boxes, way(len(boxes)))
    depths(parent)
    box_of = {rank: number for number, box in enumerate(boxes) for rank in box}
    for root, above in enumerate(parent.tolist()):
        entered = [rank for rank, source in enumerate(above) if source >= 0]
        crossing = [rank for rank in entered if box_of[rank] != box_of[above[rank]]]
        assert len(crossing) == len(boxes) - 1
        place = boxes[box_of[root]].index(root)
        for rank in crossing:
            box = boxes[box_of[rank]]
            assert box.index(rank) == place % len(box)


@pytest.mark.parametrize("boxes", [*BOXES, [tuple(range(8 * box, 8 * box + 8)) for box in range(16)]])
def test_three_stages_share_boxes_out(boxes: list[tuple[int, ...]]) -> None:
    parent = three_stage_trees(boxes)
    assert max(map(max, depths(parent))) <= 3
    box_of = {rank: number for number, box in enumerate(boxes) for rank in box}
    sent: dict[int, list[int]] = {}
    for above in parent.tolist():
        for rank, source in enumerate(above):
            if source >= 0 and box_of[rank] != box_of[source]:
                sent.setdefault(source, []).append(rank)
    for box in boxes:  # every member carries as many shards across as there are other boxes
        assert [len(sent[rank]) for rank in box] == [len(boxes) - 1] * len(box)
    if len(boxes) == 16:
        assert max(len(set(targets)) for targets in sent.values()) == 3
