"""Outermost pieces with one relay: judged as explicit trees, and in their own form."""

from __future__ import annotations

import numpy as np
import pytest

from reference.formula_checks import check_lookups, one_piece, planes_star
from samples.factored.formula_stars import (
    relayed_star,
)
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.factored import RelayTrees
from treadle.verification.schedules import verify

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
