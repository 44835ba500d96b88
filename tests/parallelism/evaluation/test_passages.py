"""Passages of the evaluator: as cheap as any sequence of collectives that sets of elements allow."""

from __future__ import annotations

import numpy as np
import pytest

from parallelism.state.shards_on_ranks import all_shardings
from parallelism.state.test_transitions import ITEM_BYTES, DrawnCosts, brute_force
from treadle.errors import ScheduleError
from treadle.parallelism.evaluation.reshardings import Reshardings
from treadle.parallelism.state.sharding import Sharding
from treadle.parallelism.state.transitions import Transitions
from treadle.schedules.mesh import Mesh
from treadle.training.costs import RememberedCosts


@pytest.mark.parametrize(
    ("sizes", "shape", "seed"),
    [
        ({"a": 2, "b": 2}, (8, 8), 1),
        ({"a": 2, "b": 4}, (8, 16), 2),
        ({"a": 2, "b": 2}, (2, 3), 3),
        ({"a": 3, "b": 2}, (6, 2, 6), 4),
        ({"a": 2, "b": 2, "c": 2}, (8,), 5),
    ],
)
def test_no_sequence_of_collectives_is_cheaper(
    sizes: dict[str, int], shape: tuple[int, ...], seed: int
) -> None:
    costs = RememberedCosts(DrawnCosts(seed))
    passages = Reshardings(sizes, costs)
    states, least = brute_force(costs, shape, sizes)
    step = 1 if len(states) < 50 else 5
    for i in range(0, len(states), step):
        for j in range(0, len(states), step):
            found = passages.cheapest(states[i], states[j], shape=shape, element_bytes=ITEM_BYTES)
            assert found.seconds == least[i][j], (states[i], states[j])
            assert found.seconds == sum(passages.time_s(one) for one in found.collectives)


def test_two_searches_agree_where_enumeration_is_too_long() -> None:
    """Against the search's transitions, on three axes and a tensor like an activation's heads."""
    mesh, shape = Mesh((4, 2, 2), ("a", "b", "c")), (8, 16, 4, 1, 6)
    sizes = {"a": 4, "b": 2, "c": 2}
    passages = Reshardings(sizes, DrawnCosts(7))
    transitions = Transitions(mesh, DrawnCosts(7), shape, ITEM_BYTES)
    states, rng = all_shardings(shape, sizes), np.random.default_rng(7)
    for _ in range(15):
        source, target = (states[at] for at in rng.integers(len(states), size=2))
        found = passages.cheapest(source, target, shape=shape, element_bytes=ITEM_BYTES)
        assert found.seconds == transitions.cheapest(source, target).seconds, (source, target)


def test_what_a_rank_does_by_itself_is_free_whatever_collectives_cost() -> None:
    passages = Reshardings({"a": 2, "b": 2}, DrawnCosts(1))
    whole, cut = Sharding(((), ())), Sharding((("a",), ("b",)))
    for source, target in (
        (whole, cut),
        (cut, Sharding((("a",), ()), frozenset(("b",)))),
        (Sharding((("a",), ())), Sharding((("a", "b"), ()))),
        (Sharding((("a", "b"), ())), Sharding((("a",), ()), frozenset(("b",)))),
    ):
        found = passages.cheapest(source, target, shape=(8, 8), element_bytes=2)
        assert (found.seconds, found.collectives) == (0.0, ())
        assert passages.cheapest(target, source, shape=(8, 8), element_bytes=2).seconds > 0


def test_a_tensor_that_cannot_lie_so_is_refused() -> None:
    with pytest.raises(ScheduleError, match="dimension 0 of 3 over 2 ranks"):
        Reshardings({"a": 2}, DrawnCosts(1)).cheapest(
            Sharding((("a",),)), Sharding(((),)), shape=(3,), element_bytes=2
        )
