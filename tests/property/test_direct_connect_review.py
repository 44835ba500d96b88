"""Regressions of an independent review of step schedules, breadth-first broadcast, expansions, finder."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from treadle.errors import ScheduleError, TopologyError
from treadle.finder.construction import Base, ScheduleMethod
from treadle.finder.evaluate import call_seconds, cheapest_sequence, group_costs
from treadle.finder.measure import Option
from treadle.finder.predict import Performance
from treadle.finder.search import FabricCandidate
from treadle.finder.workload import Call, Exchange, Network
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.steps.steps import Steps, StepSchedule
from treadle.schedules.trees.forest import Direction
from treadle.synthesis.steps.bfb import bfb_schedule
from treadle.synthesis.steps.exact import synthesise_exact
from treadle.synthesis.steps.exact.exact_problem import exact_problem
from treadle.topologies import parse
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


def test_alltoall_has_no_schedule_of_reducing_and_broadcasting_steps() -> None:
    with pytest.raises(ScheduleError, match="alltoall"):
        StepSchedule(CollectiveKind.ALLTOALL)
    with pytest.raises(ScheduleError, match="alltoall"):
        bfb_schedule(parse("ring(4)"), CollectiveKind.ALLTOALL)
    with pytest.raises(ScheduleError, match="alltoall"):
        synthesise_exact(parse("ring(4)"), CollectiveKind.ALLTOALL, chunks=1, rounds=[1, 1])


def test_reduce_scatter_in_groups_is_told_by_trees_of_the_transpose() -> None:
    """The links into a group need not be able to do what those out of it can."""
    text = "kautz(2, 2)"
    rough = Performance(12, 2, 3, Fraction(9), None, None, True, False, True, False, False, False)
    option = Option(FabricCandidate(Base(text, text, ScheduleMethod.BFB, "test"), rough, rough), None)
    call = Call(Exchange.REDUCE_SCATTER, 12, group_size=4)
    figures = group_costs(option, call.groups(12))
    assert (figures.t_b, figures.t_b_reduce) == (Fraction(3, 2), Fraction(5, 2))
    network = Network(alpha_s=0.0, bandwidth_bytes_per_s=1)
    assert call_seconds(call, option, network, figures) == pytest.approx(12 * 5 / 2)


@pytest.mark.parametrize("loop", [1, 2, 5])
def test_self_loops_do_not_decide_what_a_round_is(loop: int) -> None:
    """Rounds of exact synthesis count chunks of the links that carry something."""
    fabric = Topology("loop", ("a", "b"), [True, True], [0, 0, 1], [0, 1, 0], [loop, 4, 4])
    assert exact_problem(fabric, [0, 1], chunks=1, rounds=[1]).capacity == (1, 1)


@pytest.mark.parametrize("delay", [1.0, 1e17, float("inf")])
def test_no_call_is_given_to_a_fabric_that_cannot_serve_it(delay: float) -> None:
    """Costs so large that a second more makes no difference."""
    fabrics, seconds = cheapest_sequence([{"a": 1.0}, {"b": 1.0}], delay)
    assert (fabrics, seconds) == (("a", "b"), 2 + 2 * delay)
