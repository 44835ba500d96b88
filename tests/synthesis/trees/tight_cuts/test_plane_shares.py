"""Planes shared by groups of equal children; fabrics that lost links, at the optimum."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from treadle.arrays import Int64Array
from treadle.engine import core
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.factored import EvenAllocation
from treadle.synthesis.core_values.tree_values import PlanePairs, PlaneTable
from treadle.synthesis.trees import optimum
from treadle.synthesis.trees.tight_cuts.closed_forms.plane_allocation import (
    Changes,
    PlaneAllocation,
    plane_allocation,
)
from treadle.synthesis.trees.tight_cuts.decompose import decompose
from treadle.topologies import parse
from treadle.topologies.transforms.changes import with_failed_links
from treadle.unsupported import Unsupported
from treadle.verification.schedules import verify


def children_that_lost_planes(rng: random.Random, n: int, planes: int, trees: int) -> Int64Array:
    """Units by child and plane of children some of which lack planes, any two with one in common."""
    total = trees * (n - 1)
    sums = np.empty((n, planes), dtype=np.int64)
    for row in sums:
        lost = rng.sample(range(planes), rng.choice([0, 0, 0, 0, 0, 0, 1, 1, 2 if planes > 4 else 1]))
        left = [plane for plane in range(planes) if plane not in lost]
        row[:] = 0
        row[left] = np.diff(np.arange(len(left) + 1) * total // len(left))
    return sums


def table_of(shares: PlaneAllocation) -> Int64Array:
    """Units by plane, sender and receiver."""
    every = np.arange(len(shares.group))
    table = EvenAllocation(shares.group, shares.group_units).allocation(every[:, None], every)
    table[:, shares.pair_root, shares.pair_child] = shares.pair_units.T
    return table


@pytest.mark.parametrize(
    ("n", "planes", "trees"), [(40, 4, 12), (90, 8, 24), (150, 5, 20), (64, 16, 48), (30, 3, 1)]
)
def test_children_that_lost_planes_are_served_in_full(n: int, planes: int, trees: int) -> None:
    rng = random.Random(n)
    for _ in range(3):
        sums = children_that_lost_planes(rng, n, planes, trees)
        found = plane_allocation(sums, sums, np.full(n, trees))
        assert isinstance(found, PlaneAllocation)
        table = table_of(found)
        assert table.min() >= 0
        np.testing.assert_array_equal(table.sum(axis=0), trees * (1 - np.eye(n, dtype=np.int64)))
        np.testing.assert_array_equal(table.sum(axis=2).T, sums)
        np.testing.assert_array_equal(table.sum(axis=1).T, sums)


def test_few_pairs_are_exceptions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treadle.synthesis.trees.tight_cuts.closed_forms.plane_allocation.MOST_CELLS", 0)
    # without the search pair by pair, which serves few children. 200 children in a handful of groups: the
    # pairs of those that lost a plane are no exceptions
    sums = np.full((200, 4), 3 * 199)
    for child, plane in ((7, 0), (50, 0), (90, 1), (120, 2), (121, 3), (180, 3)):
        sums[child] = 4 * 199
        sums[child, plane] = 0
    found = plane_allocation(sums, sums, np.full(200, 12))
    assert isinstance(found, PlaneAllocation)
    assert len(found.group_units) <= 5
    assert len(found.pair_root) < 2 * 200


def test_pairs_that_send_more_or_less_are_given() -> None:
    rng = random.Random(3)
    n, planes, trees = 24, 3, 6
    for _ in range(5):
        table = np.zeros((planes, n, n), dtype=np.int64)
        rows = [(x, y, rng.choice([-2, -1, 1, 3])) for x, y in itertools.permutations(range(n), 2) if x < 4]
        sent = trees * (1 - np.eye(n, dtype=np.int64))
        for x, y, more in rows:
            sent[x, y] += more
        for x, y in itertools.permutations(range(n), 2):
            table[:, x, y] = np.bincount(rng.choices(range(planes), k=int(sent[x, y])), minlength=planes)
        out, into = table.sum(axis=2).T, table.sum(axis=1).T
        root, child, units = np.array(rows, dtype=np.int64).T
        found = plane_allocation(out, into, np.full(n, trees), Changes.of(root, child, units, n))
        assert isinstance(found, PlaneAllocation)
        again = table_of(found)
        assert again.min() >= 0
        np.testing.assert_array_equal(again.sum(axis=0), sent)
        np.testing.assert_array_equal(again.sum(axis=2).T, out)
        np.testing.assert_array_equal(again.sum(axis=1).T, into)


def test_moves_that_cannot_be_made_are_not() -> None:
    # two nodes with one unit each: nothing can be moved to the other plane and stay within all sums
    none = np.zeros(0, dtype=np.int32)
    one, other = np.array([0, 0], dtype=np.int32), np.array([1, 0, 0, 0], dtype=np.int64)
    control = np.zeros(3, dtype=np.int64)
    empty = np.zeros(0, dtype=np.int64)

    def settled(out: list[int], into: list[int]) -> tuple[int, list[int]]:
        needs = (np.array(side, dtype=np.int64) for side in (out, into))
        table = PlaneTable(1, 2, one, other[:2], PlanePairs(none, none, empty))
        status, (_, _, units) = core.settle_planes(table, *needs, control)
        return status, units.tolist()

    assert settled([0, 0, 0, 0], [0, 0, 0, 0]) == (0, [])
    assert settled([-1, 1, 0, 0], [0, 0, -1, 1]) == (0, [0, 1])
    assert settled([1, -1, 0, 0], [0, 0, 1, -1])[0] == 3
    assert settled([-1, 1, 0, 0], [-1, 1, 0, 0])[0] == 3


LOST = [
    ("rail_optimized(16)", "--rail", 3),
    ("rail_optimized(12, gpus_per_box=4)", "--rail", 6),
    ("rail_optimized(16, spines=8, oversubscription=2)", "--rail", 4),
    ("leaf_spine(16, 4, gpus_per_leaf=8, oversubscription=2)", "spine", 4),
    ("dgx_a100(12)", "--ib", 9),
    ("fat_tree(6)", "core", 4),
    ("fat_tree(6)", "agg", 3),
]


@pytest.mark.parametrize(("fabric", "kind", "count"), LOST)
def test_lost_links_cost_no_more_than_they_must(fabric: str, kind: str, count: int) -> None:
    whole = parse(fabric)
    ends = zip(whole.tails.tolist(), whole.heads.tolist(), strict=True)
    names = sorted({"--".join(sorted((whole.node_names[a], whole.node_names[b]))) for a, b in ends})
    chance = random.Random(1)
    topology = with_failed_links(whole, *chance.sample([one for one in names if kind in one], count))
    collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)
    found = decompose(topology, collective)
    assert not isinstance(found, Unsupported)
    best = optimum(topology, collective).algbw
    report = verify(topology, collective, found.schedule, claimed_algbw=best)
    assert not report.violations
    assert found.algbw == best
