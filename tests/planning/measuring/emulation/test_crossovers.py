"""Where schedules overtake each other, and predictions of that from other schedules."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from treadle.errors import ScheduleError
from treadle.planning import solve
from treadle.program.any_schedule import lower
from treadle.schedules.collective import CollectiveKind
from treadle.simulation.tasks import TaskGraph, task_graph
from treadle.testbed.crossovers import (
    Crossover,
    MeasuredCurve,
    crossovers,
    is_clear,
    turning_size,
)
from treadle.testbed.network_fit import (
    NetworkModel,
    TimedProgram,
    fit_network,
    predicted_s,
)

RATE, DELAY_NS, SLICE = 2_500_000, 5_000_000, 2**17
TRUE = NetworkModel(alpha_s=8e-4, epsilon_s=3e-3, share=0.9)
SIZES = tuple(2**power for power in range(12, 22))


@pytest.mark.parametrize(
    ("ratios", "turns"),
    [
        ([0.5, 2], 2.0),  # at the middle of the octaves 1 and 4
        ([2, 0.5], 2.0),
        ([0.25, 2], 4 ** (2 / 3)),  # two octaves below and one above
        ([0.5, 0.5, 2], 8.0),
        ([0.5, 2, 0.5, 2, 2], 8.0),  # three places: the middle one
        ([0.5, 2, 0.5], None),
        ([0.5, 0.9], None),
        ([2], None),
    ],
)
def test_the_ratio_of_times_passes_one(ratios: list[float], turns: float | None) -> None:
    sizes = [4**place for place in range(len(ratios))]
    assert turning_size(sizes, [3 * ratio for ratio in ratios], [3.0] * len(ratios)) == (
        None if turns is None else pytest.approx(turns)
    )


def test_a_crossing_is_clear_by_a_tenth_at_both_ends() -> None:
    assert is_clear([1.0, 9.0, 1.2], [1.2, 1.0, 1.0])
    assert not is_clear([1.0, 1.2], [1.09, 1.0])
    assert not is_clear([1.0, 1.09], [1.2, 1.0])
    assert not is_clear([1.0, 1.0], [1.2, 1.2])


def graph_of(kind: CollectiveKind, algorithm: str) -> TaskGraph:
    """A schedule of a ring of eight on links of `RATE` and `DELAY_NS`."""
    plan = solve("ring(8)", kind, algorithm=algorithm).plan
    graph = task_graph(plan.topology, lower(plan.topology, plan.collective, plan.schedule_for(1)))
    links = plan.topology.n_links
    return replace(
        graph,
        resource_bytes_per_s=np.full(links, RATE, dtype=np.int64),
        resource_latency_ns=np.full(links, DELAY_NS, dtype=np.int64),
    )


def curve(algorithm: str, model: NetworkModel = TRUE, factor: float = 1.0) -> MeasuredCurve:
    """An allgather whose times are a model's."""
    graph = graph_of(CollectiveKind.ALLGATHER, algorithm)
    blank = MeasuredCurve(CollectiveKind.ALLGATHER, algorithm, graph, SIZES, (), SLICE)
    times = [factor * predicted_s(model, graph, size, blank.slices(size)) for size in SIZES]
    return replace(blank, times_s=tuple(times))


def test_a_fit_finds_the_figures_that_the_times_come_from() -> None:
    timed = [end for name in ("bfb", "ring-steps", "trivance") for end in curve(name).ends()]
    found = fit_network(timed)
    assert found.alpha_s == pytest.approx(TRUE.alpha_s, rel=0.02)
    assert found.epsilon_s == pytest.approx(TRUE.epsilon_s, rel=0.02)
    assert found.share == pytest.approx(TRUE.share, rel=0.02)


def pair(found: tuple[Crossover, ...], *names: str) -> Crossover:
    return next(one for one in found if {one.small, one.large} == set(names))


def test_predictions_meet_what_a_network_like_the_model_does() -> None:
    curves = [curve(name) for name in ("bfb", "ring-steps", "trivance", "swing")]
    found = crossovers(curves)
    assert {(one.small, one.large) for one in found} >= {("trivance", "ring-steps"), ("trivance", "swing")}
    for one in found:
        assert one.ratio == pytest.approx(1, abs=0.05)  # sizes of the one are octaves
        assert set(one.fitted_to) == {"bfb", "ring-steps", "trivance", "swing"} - {one.small, one.large}


def test_nothing_of_a_pair_goes_into_its_prediction() -> None:
    honest = [curve(name) for name in ("bfb", "swing", "ring-steps", "trivance")]
    slower = [*honest[:3], curve("trivance", factor=1.3)]
    before, after = (pair(crossovers(ways), "trivance", "ring-steps") for ways in (honest, slower))
    assert after.predicted_bytes == before.predicted_bytes
    assert after.measured_bytes is not None
    assert before.measured_bytes is not None
    assert after.measured_bytes < before.measured_bytes


def test_what_crosses_as_measured_only_is_not_passed_over() -> None:
    """A twin that is slower at the smallest size and faster at the largest: no model has a reason for it."""
    one = curve("bfb")
    ends = (one.times_s[0] * 2, *one.times_s[1:-1], one.times_s[-1] / 2)
    reverse = replace(one, algorithm="twin", times_s=ends)
    found = pair(crossovers([one, reverse, curve("swing")]), "bfb", "twin")
    assert (found.small, found.large, found.predicted_bytes, found.ratio) == ("bfb", "twin", None, None)
    assert found.measured_bytes is not None


def test_two_algorithms_leave_nothing_to_predict_from() -> None:
    with pytest.raises(ScheduleError, match="at least three algorithms, found bfb, swing"):
        crossovers([curve("bfb"), curve("swing")])


def test_times_that_do_not_grow_are_refused() -> None:
    graph = graph_of(CollectiveKind.ALLGATHER, "bfb")
    with pytest.raises(ScheduleError, match="at least one time"):
        fit_network([])
    with pytest.raises(ScheduleError, match="nothing can be fitted"):
        fit_network([TimedProgram(graph, 4096, 1, 1e-3), TimedProgram(graph, 2**20, 1, 1e-3)])
