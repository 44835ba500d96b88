"""Outermost pieces of unequal children behind several relays: traffic in proportion, trees of two hops."""

from __future__ import annotations

import random

import numpy as np
import pytest

from samples.nested_fabrics import case
from treadle.arrays import Int32Array, Int64Array
from treadle.engine import core
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.synthesis.trees import optimum
from treadle.synthesis.trees.tight_cuts.decompose import decompose
from treadle.topologies.catalogue.platforms import add_box
from treadle.topologies.topology import Topology, TopologyBuilder
from treadle.unsupported import Unsupported
from treadle.verification.schedules import verify


def irregular(sizes: list[int], planes: list[list[int]]) -> Topology:
    """Boxes of GPUs, each GPU on the plane given."""
    builder = TopologyBuilder("irregular boxes")
    tops = [builder.switch(f"ib{i}") for i in range(1 + max(map(max, planes)))]
    for i, (size, tops_of) in enumerate(zip(sizes, planes, strict=True)):
        names = add_box(builder, f"box{i}", size, 300) if size > 1 else [builder.compute(f"gpu{i}")]
        for name, top in zip(names, tops_of, strict=True):
            builder.duplex(name, tops[top], 25)
    return builder.build()


def stars(trees: list[int], capacity: Int64Array) -> tuple[Int32Array, Int64Array, Int32Array] | None:
    """The core's answer: roots, multiplicities, parents."""
    n = len(trees)
    status, (root, units, parent), _ = core.relayed_stars(
        n, np.array(trees), capacity.astype(np.int64).ravel(), 10**6, np.zeros(3, dtype=np.int64)
    )
    return None if status else (root, units, parent.reshape(-1, n))


def test_trees_of_two_hops_within_the_capacities() -> None:
    rng = random.Random(2)
    built = 0
    for _ in range(150):
        n = rng.randint(3, 9)
        trees = [rng.randint(0, 6) for _ in range(n)]
        capacity = np.zeros((n, n), dtype=np.int64)
        # what stars that relay at random need
        for x, count in enumerate(trees):
            for _ in range(count):
                near = rng.sample([y for y in range(n) if y != x], rng.randint(1, n - 1))
                for y in range(n):
                    if y != x:
                        capacity[x if y in near else rng.choice(near), y] += 1
        found = stars(trees, capacity)
        if found is None:
            continue
        built += 1
        root, units, parent = found
        np.testing.assert_array_equal(np.bincount(root, weights=units, minlength=n), trees)
        above = np.where(parent < 0, root[:, None], parent)
        np.testing.assert_array_equal(
            np.take_along_axis(above, above, axis=1), np.broadcast_to(root[:, None], above.shape)
        )
        assert np.all((parent < 0) == (np.arange(n) == root[:, None]))
        load = np.zeros((n, n), dtype=np.int64)
        for row, count in zip(parent, units, strict=True):
            np.add.at(load, (row[row >= 0], np.flatnonzero(row >= 0)), count)
        assert np.all(load <= capacity)
    assert built > 120


CASES = [
    ([8, 5, 3, 8, 2, 6], [[0] * 8, [0, 1, 0, 1, 1], [1] * 3, [0, 1] * 4, [0, 0], [1, 1, 0, 1, 0, 0]]),
    ([4, 4, 2, 3, 5], [[0, 1, 2, 0], [1, 1, 2, 2], [0, 1], [0, 1, 2], [0, 0, 1, 2, 2]]),
    ([1, 3, 2, 4, 4, 1], [[0], [0, 1, 1], [0, 1], [0, 1, 0, 1], [1, 1, 1, 0], [1]]),
]


@pytest.mark.parametrize(("sizes", "planes"), CASES)
@pytest.mark.parametrize("kind", [CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER])
def test_irregular_boxes(sizes: list[int], planes: list[list[int]], kind: CollectiveKind) -> None:
    topology = irregular(sizes, planes)
    collective = on_all_ranks(topology, kind)
    found = decompose(topology, collective)
    assert not isinstance(found, Unsupported)
    assert "by relayed stars" in found.summary
    best = optimum(topology, collective).algbw
    for form in (found.schedule, found.schedule.explicit()):
        report = verify(topology, collective, form, claimed_algbw=best)
        assert not report.violations
        assert report.height_max <= 5


def test_ranks_with_trees_that_neither_supply_nor_are_entered() -> None:
    """Here the last rank of a box has trees of its own, but no link to the outside serves it."""
    asked = case(200218)
    found = decompose(asked.topology, asked.collective, budget=asked.budget)
    assert not isinstance(found, Unsupported)
    for form in (found.schedule, found.schedule.explicit()):
        assert verify(asked.topology, asked.collective, form, claimed_algbw=found.algbw).is_ok
