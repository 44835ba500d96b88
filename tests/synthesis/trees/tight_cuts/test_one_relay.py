"""Outermost pieces with one relay: judged as explicit trees, and in their own form."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from reference.formula_checks import check_lookups, one_piece, planes_star
from samples.factored.formula_stars import (
    relay_sample,
    relayed_star,
)
from treadle.errors import ScheduleError
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.factored import RelayTrees
from treadle.synthesis.trees import optimum
from treadle.synthesis.trees.tight_cuts.decompose import decompose
from treadle.synthesis.trees.tree_budget import TreeBudget
from treadle.topologies.catalogue.platforms import add_box
from treadle.topologies.topology import Topology, TopologyBuilder
from treadle.unsupported import Unsupported
from treadle.verification.schedules import verify


def boxes_on_one_switch(sizes: list[int], nics: list[int]) -> Topology:
    """Boxes of these numbers of GPUs, each GPU with a NIC of its box's bandwidth to one switch."""
    builder = TopologyBuilder("mixed boxes")
    boxes = [
        add_box(builder, f"box{i}", size, 300) if size > 1 else [builder.compute(f"gpu{i}")]
        for i, size in enumerate(sizes)
    ]
    switch = builder.switch("ib")
    for names, nic in zip(boxes, nics, strict=True):
        for name in names:
            builder.duplex(name, switch, nic)
    return builder.build()


STARS = [
    ([1, 1], [1, 1]),
    ([3, 1, 2], [4, 3, 5]),
    ([1, 1, 0, 0, 0], [1, 1, 2, 2, 2]),  # relays feed relays: docs, after theorem 13
    ([4, 1, 1, 1, 1], [4, 7, 7, 7, 7]),
    ([5, 4, 0, 0, 0, 0, 0], [9, 9, 9, 9, 9, 9, 0]),
    ([2, 2, 2, 2], [6, 6, 6, 6]),
    ([6, 2, 2, 4], [8, 12, 12, 10]),
]


@pytest.mark.parametrize(("weights", "exits"), STARS)
@pytest.mark.parametrize("block", [1, 2])
def test_relays_on_a_star_span_and_use_every_unit_once(
    weights: list[int], exits: list[int], block: int
) -> None:
    weights, exits = [block * w for w in weights], [block * e for e in exits]
    topology, collective, trees = relayed_star(weights, exits, block)
    assert isinstance(trees, RelayTrees)
    schedule = one_piece(topology, trees)
    for form in (schedule, schedule.explicit()):
        report = verify(topology, collective, form)
        assert not report.violations
        assert report.algbw is not None
        assert report.algbw >= sum(weights)
    check_lookups(trees, topology.n_links)


def test_relays_on_random_stars() -> None:
    rng = random.Random(13)
    built = 0
    for _ in range(60):
        n = rng.randint(2, 7)
        weights = [rng.choice([0, 0, 1, 1, 2, 5]) for _ in range(n)]
        total = sum(weights)
        exits = [total - w for w in weights]
        for _ in range(rng.randint(0, 8)):  # theorem 13 asks for the sum and e >= r alone
            one, other = rng.sample(range(n), 2)
            if exits[one] > weights[one]:
                exits[one] -= 1
                exits[other] += 1
        if not total or max(weights) * 2 > total:
            continue
        topology, collective, trees = relayed_star(weights, exits)
        assert isinstance(trees, RelayTrees)
        report = verify(topology, collective, one_piece(topology, trees).explicit())
        assert not report.violations
        assert report.algbw is not None
        assert report.algbw >= total
        check_lookups(trees, topology.n_links)
        built += 1
    assert built > 20


def test_height_two_where_every_helper_is_a_root() -> None:
    # theorem 13: height 2 if every child with e > r (B - 1) is the root of a tree
    topology, collective, trees = relayed_star([4, 1, 1, 1, 1], [4, 7, 7, 7, 7])
    assert isinstance(trees, RelayTrees)
    assert verify(topology, collective, one_piece(topology, trees).explicit()).height_max == 2


def test_relays_refuse_too_few_exits() -> None:
    assert "cannot be left" in str(relayed_star([3, 1, 1], [2, 4, 4])[2])


MIXED = [
    ([4, 8, 4, 8], [50, 25, 50, 25]),
    ([3, 4, 6, 1, 3], [100, 100, 25, 100, 50]),
    ([2, 2, 1, 1, 8, 6, 8], [50, 100, 100, 50, 100, 25, 25]),
    ([6, 3, 2, 6], [50, 50, 25, 100]),
]


@pytest.mark.parametrize(("sizes", "nics"), MIXED)
@pytest.mark.parametrize("kind", [CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER])
def test_unequal_boxes_on_one_switch(sizes: list[int], nics: list[int], kind: CollectiveKind) -> None:
    topology = boxes_on_one_switch(sizes, nics)
    collective = on_all_ranks(topology, kind)
    found = decompose(topology, collective)
    assert not isinstance(found, Unsupported)
    assert "by relay trees" in found.summary
    best = optimum(topology, collective).algbw
    for form in (found.schedule, found.schedule.explicit()):
        report = verify(topology, collective, form, claimed_algbw=best)
        assert not report.violations


def test_trees_leave_by_their_own_rank() -> None:
    # boxes of 4 with twice the NICs: each box of 8 gives away equally much of all its ranks
    topology = boxes_on_one_switch([4, 8, 4, 8, 4, 8], [50, 25, 50, 25, 50, 25])
    collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)
    found = decompose(topology, collective, budget=TreeBudget(trees=1))
    assert not isinstance(found, Unsupported)
    forest = found.schedule.explicit().forests[0]
    box = np.repeat(np.arange(6), [4, 8, 4, 8, 4, 8])
    for root in range(forest.n_ranks):
        for tree in forest.trees(root):
            parent = tree.parent
            crosses = (parent >= 0) & (box[parent] != box)
            assert set(parent[crosses & (box[parent] == box[root])]) == {root}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"block": 2}, "make no such trees"),
        ({"relay_block": [3]}, "no block of that number"),
        ({"relay_child": [0]}, "not its root"),
        ({"relay_count": [0]}, "found 0"),
        ({"relay_count": [2]}, "more than n - 2"),
        ({"native_units": [3, 1, 1]}, "its trees take"),
        ({"relay_root": [], "relay_block": [], "relay_child": [], "relay_count": []}, "its trees take"),
        ({"out_links": [[0]]}, "out_links has shape"),
        ({"in_offset": [[0], [-1], [0]]}, "found -1"),
    ],
)
def test_relay_trees_that_make_no_sense_are_refused(changes: dict[str, object], message: str) -> None:
    _, _, trees = relay_sample()
    columns = {
        key: value if isinstance(value, int) else np.array(value, dtype=getattr(trees, key).dtype)
        for key, value in changes.items()
    }
    with pytest.raises(ScheduleError, match=message):
        replace(trees, **columns)


def test_the_verifier_sees_units_taken_twice_and_links_of_others() -> None:
    topology, collective, trees = relay_sample()
    beyond = np.array(trees.out_offset)
    beyond[0, 0] += 1
    report = verify(topology, collective, one_piece(topology, replace(trees, out_offset=beyond)))
    assert any("is taken; it has" in str(one) for one in report.violations)
    topology, collective, equal = relayed_star([2, 2, 2, 2], [6, 6, 6, 6])
    assert isinstance(equal, RelayTrees)
    swapped = np.array(equal.in_links)[[1, 0, 2, 3]]
    report = verify(topology, collective, one_piece(topology, replace(equal, in_links=swapped)))
    assert any("does not end at rank" in str(one) for one in report.violations)


def test_more_blocks_than_fit_memory_have_a_bound() -> None:
    """A small file may name 2**38 blocks of one unit tree."""
    n, units = 3, 2**36
    sums = np.full((n, 1), (n - 1) * units)
    topology = planes_star(sums, sums)
    out, into = (
        np.array([np.flatnonzero(ends == node) for node in topology.compute_nodes])
        for ends in (topology.tails, topology.heads)
    )
    zero, none = np.zeros((n, 1), dtype=np.int64), np.zeros(0, dtype=np.int64)
    first = np.concatenate([zero, sums], axis=1)
    trees = RelayTrees(out, into, first, first, zero, zero, np.full(n, units), 1, none, none, none, none)
    report = verify(topology, on_all_ranks(topology, CollectiveKind.ALLGATHER), one_piece(topology, trees))
    assert report.is_ok
    assert report.height_max == 1
