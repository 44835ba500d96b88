"""Outermost pieces with one relay: judged as explicit trees, and in their own form."""

from __future__ import annotations

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
