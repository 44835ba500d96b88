"""What schedulers of sizes are tried with and refuse: whole lists and whole texts, at the limits."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from shortcuts.switched_ranks import in_boxes, linked_boxes, on_a_switch
from treadle.errors import ScheduleError
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.synthesis.sizes import (
    axis_exchange,
    box_phases,
    breadth_first_chunks,
    factor_allreduce,
    factor_exchange,
    scatter_chunks,
    spanning_exchanges,
)
from treadle.synthesis.sizes.spanning_exchanges import mixed_radix, rail_bruck
from treadle.topologies import parse
from treadle.topologies.topology import Topology

K = CollectiveKind


def everyone(fabric: Topology, kind: CollectiveKind = K.ALLREDUCE) -> Collective:
    return on_all_ranks(fabric, kind)


def test_trials_of_pieces_and_trees() -> None:
    fabric = linked_boxes(2, 4)
    for scheduler, trials in (
        (scatter_chunks.scatter_chunks, [{"chunks": c} for c in (2, 8, 16, 32)]),
        (breadth_first_chunks.bfb_chunks, [{"parts": 5}, {"parts": 5, "chunks": 1}]),
    ):
        assert vars(scheduler)["options_at_sizes"] == trials
    plain = [{"chunks": 1}, {"trees": 1, "chunks": 1}, {"trees": 1}, {"chunks": 16}]
    assert box_phases._trials(fabric, everyone(fabric)) == plain
    assert box_phases._trials(fabric, everyone(fabric, K.REDUCE_SCATTER)) == [
        *plain,
        {"chunks": 8, "parts": 5},
        {"chunks": 12, "parts": 5},
    ]


def test_schedulers_look_at_the_number_of_ranks_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    six, boxes = on_a_switch(6), in_boxes(3, 3)
    monkeypatch.setattr(spanning_exchanges, "MOST_IN_BOXES", 5)
    calls: list[tuple[str, Callable[[], object]]] = [
        ("mixed-radix", lambda: mixed_radix(six, everyone(six))),
        ("rail-bruck", lambda: rail_bruck(boxes, everyone(boxes))),
        ("factor-allreduce", lambda: factor_allreduce.factor_allreduce(six, everyone(six))),
        ("scatter-pieces", lambda: scatter_chunks.scatter_chunks(boxes, everyone(boxes, K.REDUCE_SCATTER))),
    ]
    for name, call in calls:
        with pytest.raises(ScheduleError, match=f"^{name}: expected at most 5 ranks, found 6$"):
            call()
    monkeypatch.setattr(spanning_exchanges, "MOST_RANKS", 5)
    with pytest.raises(ScheduleError, match=r"^factor-exchange: expected at most 5 ranks, found 6$"):
        factor_exchange.factor_exchange(six, everyone(six, K.ALLTOALL))
    torus = parse("torus(2, 3)")
    with pytest.raises(ScheduleError, match=r"^axis-exchange: expected at most 5 ranks, found 6$"):
        axis_exchange.axis_exchange(torus, everyone(torus))
    with pytest.raises(ScheduleError, match=r"^bfb-pieces: expected at most 5 ranks, found 6$"):
        breadth_first_chunks.bfb_chunks(torus, everyone(torus))


@pytest.mark.parametrize("factors", [(1,), (2, 2), (0,), (-3,), ()])
def test_bruck_between_boxes_wants_one_radix(factors: tuple[int, ...]) -> None:
    fabric = in_boxes(2, 2, 2)
    listed = ",".join(map(str, factors))
    message = f"rail-bruck: factors {listed}: expected one radix, at least 2"
    with pytest.raises(ScheduleError, match=f"^{re.escape(message)}$"):
        rail_bruck(fabric, everyone(fabric, K.ALLGATHER), factors=factors)


@pytest.mark.parametrize(
    ("fabric", "expected"),
    [(in_boxes(2, 2, 2), (2, 3)), (in_boxes(2, 4), (3, 2)), (on_a_switch(12), (4, 3)),
     (on_a_switch(7), (7, 1)), (on_a_switch(9), (3, 3))],
)  # fmt: skip
def test_radices_by_default(fabric: Topology, expected: tuple[int, ...]) -> None:
    collective = everyone(fabric, K.ALLGATHER)
    assert mixed_radix(fabric, collective) == mixed_radix(fabric, collective, factors=expected)


@pytest.mark.parametrize(
    ("fabric", "exchanged", "words"),
    [
        ("torus(3, 4)", (1,), "sides 3, 4 differ; exchange all"),
        ("torus(3, 3)", (0,), "exchanged: expected places from 1 to 2"),
        ("torus(3, 3)", (1, 3), "exchanged: expected places from 1 to 2"),
    ],
)
def test_places_of_axes_that_there_are_not(fabric: str, exchanged: tuple[int, ...], words: str) -> None:
    with pytest.raises(ScheduleError, match=f"^axis-exchange: {re.escape(words)}$"):
        axis_exchange.axis_exchange(parse(fabric), everyone(parse(fabric)), exchanged=exchanged)
    axis_exchange.axis_exchange(parse("torus(3, 4)"), everyone(parse("torus(3, 4)")), exchanged=(1, 2))
