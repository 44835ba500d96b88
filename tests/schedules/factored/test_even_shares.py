"""Even shares by formula, against tables summed up cell by cell."""

from __future__ import annotations

import random
from types import SimpleNamespace

import numpy as np

from treadle.schedules.factored import EvenAllocation
from treadle.verification.factored.formulas import even_sums, even_units


def shares_at_random(rng: random.Random) -> EvenAllocation:
    """A few groups of children with a few trees each."""
    n, planes, trees = rng.randint(2, 12), rng.randint(1, 3), rng.randint(1, 5)
    _, group = np.unique([rng.randrange(4) for _ in range(n)], return_inverse=True)
    sizes = np.bincount(group)
    units = np.zeros((len(sizes), len(sizes), planes), dtype=np.int64)
    for a, b in np.ndindex(units.shape[:2]):
        others = max(sizes[a], sizes[b]) - (a == b)
        for plane in rng.choices(range(planes), k=trees * int(others)):
            units[a, b, plane] += 1
    return EvenAllocation(group.astype(np.int32), units)


def test_sums_are_those_of_the_table() -> None:
    rng = random.Random(1)
    for _ in range(100):
        even = shares_at_random(rng)
        every = np.arange(len(even.group))
        table = even.allocation(every[:, None], every)
        assert table.min() >= 0
        assert len(np.unique(table.sum(axis=0)[~np.eye(len(every), dtype=bool)])) == 1
        np.testing.assert_array_equal(even.left, table.sum(axis=2).T)
        np.testing.assert_array_equal(even.entered[-1], table.sum(axis=1).T)
        before = np.cumsum(table[:, even.order], axis=1) - table[:, even.order]
        root, child, plane = (axis.ravel() for axis in np.indices((*table.shape[1:], len(table))))
        found = even.entered_before(even.order[root], child, plane)
        np.testing.assert_array_equal(found, before[plane, root, child])


def test_children_of_a_group_are_served_equally() -> None:
    # exactly by all of a group that is not smaller, else within a unit
    rng = random.Random(2)
    for _ in range(100):
        even = shares_at_random(rng)
        every = np.arange(len(even.group))
        table = even.allocation(every[:, None], every)
        for a, b in np.ndindex(even.units.shape[:2]):
            mine, theirs = np.flatnonzero(even.group == a), np.flatnonzero(even.group == b)
            part = table[:, mine][:, :, theirs]
            for axis, is_exact in ((2, len(mine) <= len(theirs)), (1, len(mine) >= len(theirs))):
                sums = part.sum(axis=axis)
                if is_exact:
                    np.testing.assert_array_equal(sums, np.tile(even.units[a, b][:, None], sums.shape[1]))
                assert np.ptp(sums, axis=1).max() <= 1


def test_what_leaves_before_follows_the_circle() -> None:
    rng = random.Random(3)
    for _ in range(14):
        even = shares_at_random(rng)
        n = len(even.group)
        every = np.arange(n)
        table = even.allocation(every[:, None], every)
        stop = np.cumsum(table, axis=0)
        low, high = sorted(rng.choices(range(6), k=2))
        inside = np.clip(np.minimum(stop, high) - np.maximum(stop - table, low), 0, None)
        for root in range(n):
            circle = even.order[(even.position[root] + every) % n]
            sums = np.cumsum(inside[:, root, circle], axis=1)
            wanted = np.empty_like(sums)
            wanted[:, circle] = sums - inside[:, root, circle]
            wanted[:, root] = sums[:, -1]
            for plane in range(len(table)):
                ends = np.full(n, low), np.full(n, high)
                found = even.sent_nearer(np.full(n, root), every, np.full(n, plane), *ends)
                np.testing.assert_array_equal(found, wanted[plane])


def test_the_verifier_sums_up_the_same_table() -> None:
    rng = random.Random(4)
    for _ in range(100):
        even = shares_at_random(rng)
        trees = SimpleNamespace(group=even.group, group_units=even.units)
        root, child = np.nonzero(~np.eye(len(even.group), dtype=bool))
        np.testing.assert_array_equal(even_units(trees, root, child), even.allocation(root, child))
        np.testing.assert_array_equal(even_sums(trees, leaving=True), even.left)
        np.testing.assert_array_equal(even_sums(trees, leaving=False), even.entered[-1])
