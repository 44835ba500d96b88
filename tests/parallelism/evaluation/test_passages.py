"""Passages of the evaluator: as cheap as any sequence of collectives that sets of elements allow."""

from __future__ import annotations

import numpy as np

from parallelism.state.shards_on_ranks import all_shardings
from parallelism.state.test_transitions import ITEM_BYTES, DrawnCosts
from treadle.parallelism.evaluation.reshardings import Reshardings
from treadle.parallelism.state.transitions import Transitions
from treadle.schedules.mesh import Mesh


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
