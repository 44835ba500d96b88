"""Regressions of an independent review of step schedules, breadth-first broadcast, expansions, finder."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from treadle.errors import ScheduleError, TopologyError
from treadle.schedules.forest import Direction
from treadle.schedules.steps import Steps
from treadle.topologies.topology import Topology

WRONG_NUMBERS = [
    np.array([2**32], dtype=np.int64),
    np.array([2**64 - 2**32], dtype=np.uint64),
    np.array([0.5]),
    np.array([np.nan]),
]
"""What numpy would turn into link or node 0, or some other number, without a word."""


@pytest.mark.parametrize("link", WRONG_NUMBERS, ids=str)
def test_link_numbers_are_not_wrapped_or_cut(link: NDArray[np.generic]) -> None:
    one = np.array([0])
    with pytest.raises(ScheduleError, match="link: expected int32"):
        Steps(Direction.BROADCAST, 2, [0, 1], 1, [0, 1], one, link, one, one + 1)


@pytest.mark.parametrize("tail", WRONG_NUMBERS, ids=str)
def test_node_numbers_are_not_wrapped_or_cut(tail: NDArray[np.generic]) -> None:
    with pytest.raises(TopologyError, match="tails: expected int32"):
        Topology("pair", ("a", "b"), [True, True], tail, [1], [1])


def test_whole_numbers_of_another_type_are_taken() -> None:
    pair = Topology("pair", ("a", "b"), [True, True], np.array([0.0, 1.0]), np.array([1, 0]), [1.0, 2.0])
    assert (pair.tails.tolist(), pair.bandwidths.tolist()) == ([0, 1], [1, 2])
