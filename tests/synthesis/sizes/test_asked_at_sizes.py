"""What schedulers of sizes are tried with and refuse: whole lists and whole texts, at the limits."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
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
    two_rounds,
)
from treadle.synthesis.sizes.leaders import even_boxes
from treadle.synthesis.sizes.routed_rounds import sides_are_powers_of_two
from treadle.synthesis.sizes.spanning_exchanges import few_ranks, mixed_radix, not_too_many, rail_bruck
from treadle.topologies import parse
from treadle.topologies.catalogue.direct import from_arcs
from treadle.topologies.topology import Topology

K = CollectiveKind


def everyone(fabric: Topology, kind: CollectiveKind = K.ALLREDUCE) -> Collective:
    return on_all_ranks(fabric, kind)


PIECES = [{"chunks": 3}, {"chunks": 4}, {"chunks": 8}]
SCATTERED = [{"exchanged": (), **one} for one in PIECES]


@pytest.mark.parametrize(
    ("fabric", "shapes"),
    [
        (
            in_boxes(2, 2, 2),
            [{"factors": (2, 3), "exchanged": (1, 2)}, {"factors": (2, 3), "exchanged": ()}],
        ),
        (
            on_a_switch(6),
            [
                {"factors": (6,), "exchanged": ()},
                {"factors": (3, 2), "exchanged": (1, 2)},
                {"factors": (3, 2), "exchanged": (2,)},
                {"factors": (3, 2), "exchanged": ()},
            ],
        ),
        (
            in_boxes(2, 2, 2, 2),
            [
                {"factors": (2, 4), "exchanged": (1, 2)},
                {"factors": (2, 4), "exchanged": ()},
                {"factors": (2, 2, 2), "exchanged": (1, 2, 3)},
                {"factors": (2, 2, 2), "exchanged": (2, 3)},
                {"factors": (2, 2, 2), "exchanged": (3,)},
                {"factors": (2, 2, 2), "exchanged": ()},
            ],
        ),
        (
            in_boxes(18, 18),
            [
                {"factors": (6, 3, 2), "chunks": 4},
                {"factors": (9, 2, 2), "chunks": 4},
                {"factors": (18, 2), "exchanged": (1, 2)},
                {"factors": (18, 2), "exchanged": ()},
            ],
        ),
        (
            in_boxes(16, 16),
            [{"factors": (16, 2), "exchanged": (1, 2)}, {"factors": (16, 2), "exchanged": ()}],
        ),
        (on_a_switch(2), [{"factors": (2,), "exchanged": ()}]),
    ],
    ids=lambda one: one.name if isinstance(one, Topology) else "",
)
def test_trials_of_factors(fabric: Topology, shapes: list[dict[str, object]]) -> None:
    assert factor_allreduce._trials(fabric, everyone(fabric)) == [*PIECES, *SCATTERED, *shapes]


def test_trials_of_axes() -> None:
    def tried(name: str) -> list[dict[str, object]]:
        return [dict(one) for one in axis_exchange._trials(parse(name), everyone(parse(name)))]

    assert tried("torus(3, 4)") == [{}]
    assert tried("torus(3, 3)") == [{}, {"exchanged": (2,)}, {"exchanged": ()}]
    assert tried("torus(3, 3, 3)") == [{}, {"exchanged": (2, 3)}, {"exchanged": (3,)}, {"exchanged": ()}]
    assert tried("ring(5)") == [{}, {"exchanged": ()}]


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


def ranks(n: int) -> Collective:
    return Collective(K.ALLGATHER, tuple(range(n)))


def test_so_many_ranks_are_served() -> None:
    fabric = on_a_switch(2)
    assert few_ranks(fabric, ranks(512)) is None
    assert str(few_ranks(fabric, ranks(513))) == "expected at most 512 ranks, found 513"
    assert not_too_many(fabric, ranks(2048)) is None
    assert str(not_too_many(fabric, ranks(2049))) == "expected at most 2048 ranks, found 2049"


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


def test_refusals_of_boxes_and_sides() -> None:
    def words(fabric: Topology) -> str:
        return str(even_boxes(fabric, everyone(fabric)))

    assert words(in_boxes(2, 2)) == "None"
    assert words(in_boxes(3, 3)) == "expected boxes of one even size, found 3"
    assert words(in_boxes(4, 2, 2)) == "expected boxes of one even size, found 2, 4"
    four, five = in_boxes(2, 2, 2, 2), in_boxes(2, 2, 2, 2, 2)
    assert scatter_chunks.few_boxes(four, everyone(four)) is None
    assert str(scatter_chunks.few_boxes(five, everyone(five))) == "expected at most 4 boxes, found 5"
    several = spanning_exchanges.several_boxes
    assert several(four, everyone(four)) is None
    flat = on_a_switch(4)
    assert str(several(flat, everyone(flat))) == "switch(4) is one box; use one-shot or mixed-radix"
    torus = parse("torus(4, 2)")
    assert sides_are_powers_of_two(torus, everyone(torus)) is None
    torus = parse("torus(4, 3)")
    text = "expected sides that are powers of two, found 4, 3; use trivance"
    assert str(sides_are_powers_of_two(torus, everyone(torus))) == text


@pytest.mark.parametrize("factors", [(1,), (2, 2), (0,), (-3,), ()])
def test_bruck_between_boxes_wants_one_radix(factors: tuple[int, ...]) -> None:
    fabric = in_boxes(2, 2, 2)
    listed = ",".join(map(str, factors))
    message = f"rail-bruck: factors {listed}: expected one radix, at least 2"
    with pytest.raises(ScheduleError, match=f"^{re.escape(message)}$"):
        rail_bruck(fabric, everyone(fabric, K.ALLGATHER), factors=factors)


def parents(fabric: Topology, factors: tuple[int, ...]) -> dict[int, list[int]]:
    forest = rail_bruck(fabric, everyone(fabric, K.ALLGATHER), factors=factors).broadcast
    assert forest is not None
    return {tree.root: tree.parent.tolist() for root in range(forest.n_ranks) for tree in forest.trees(root)}


def test_bruck_between_boxes_doubles_by_default() -> None:
    """Four boxes of two: shard 0 to the boxes at 1, then from these two to those at 2; in base 4 to all."""
    fabric = in_boxes(2, 2, 2, 2)
    assert parents(fabric, (2,))[0] == [-1, 0, 0, 2, 0, 4, 2, 6]
    assert parents(fabric, (4,))[0] == [-1, 0, 0, 2, 0, 4, 0, 6]
    assert parents(fabric, (4,))[3] == [1, 3, 3, -1, 5, 3, 7, 3]


@pytest.mark.parametrize(
    ("fabric", "expected"),
    [(in_boxes(2, 2, 2), (2, 3)), (in_boxes(2, 4), (3, 2)), (on_a_switch(12), (4, 3)),
     (on_a_switch(7), (7, 1)), (on_a_switch(9), (3, 3))],
)  # fmt: skip
def test_radices_by_default(fabric: Topology, expected: tuple[int, ...]) -> None:
    collective = everyone(fabric, K.ALLGATHER)
    assert mixed_radix(fabric, collective) == mixed_radix(fabric, collective, factors=expected)


@pytest.mark.parametrize("factors", [(2, 2), (0, 6), (-2, -3), (7,)])
def test_radices_multiply_to_the_ranks(factors: tuple[int, ...]) -> None:
    fabric = on_a_switch(6)
    listed = ",".join(map(str, factors))
    message = f"mixed-radix: factors {listed}: expected a product of 6 ranks"
    with pytest.raises(ScheduleError, match=f"^{re.escape(message)}$"):
        mixed_radix(fabric, everyone(fabric, K.ALLGATHER), factors=factors)
    message = f"factor-allreduce: factors {listed}: expected a product of 6 ranks"
    with pytest.raises(ScheduleError, match=f"^{re.escape(message)}$"):
        factor_allreduce.factor_allreduce(fabric, everyone(fabric), factors=factors)


def test_the_first_product_above_the_ranks_is_of_use() -> None:
    fabric = on_a_switch(6)
    collective = everyone(fabric, K.ALLTOALL)
    exchange = factor_exchange.factor_exchange
    assert exchange(fabric, collective, factors=(7,)).n_steps == 1
    assert exchange(fabric, collective, factors=(5, 2)).n_steps == 2
    for factors in ((6, 2), (2, 3, 2), (5,), (1, 5), (7, 1)):
        listed = ",".join(map(str, factors))
        message = f"factor-exchange: factors {listed}: expected a product of 6 ranks, or the first above it"
        with pytest.raises(ScheduleError, match=f"^{re.escape(message)}$"):
            exchange(fabric, collective, factors=factors)
    boxes = in_boxes(2, 2, 2)
    everybody = everyone(boxes, K.ALLTOALL)
    assert exchange(boxes, everybody) == exchange(boxes, everybody, factors=(2, 3))
    uneven = in_boxes(2, 4)
    everybody = everyone(uneven, K.ALLTOALL)
    assert exchange(uneven, everybody) == exchange(uneven, everybody, factors=(6,))


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


def test_walks_up_to_eight_links_and_loops_that_there_are() -> None:
    """A node with fewer links than others stays for the rest, besides the loop that it has."""
    ring = parse("ring(12, bidirectional=False)")
    walks = list(two_rounds._walks(ring))
    assert len(walks) == 8
    assert [np.flatnonzero(reached[0]).tolist() for reached in walks] == [[hops] for hops in range(1, 9)]
    looped = from_arcs("looped", [0, 0, 1, 1], [0, 1, 0, 0], n=2)
    assert next(iter(two_rounds._walks(looped))).tolist() == [[True, True], [True, False]]
    short = from_arcs("short", [0, 0, 1], [1, 2, 2], n=3)
    first, second = list(two_rounds._walks(short))[:2]
    assert first.tolist() == [[False, True, True], [False, True, True], [False, False, True]]
    assert second.tolist() == [[False, True, True], [False, True, True], [False, False, True]]
