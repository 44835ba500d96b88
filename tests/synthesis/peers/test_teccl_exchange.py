"""TE-CCL's linear program of an all-to-all: verified, and as early as the flow allows."""

from __future__ import annotations

import time

import pytest

from treadle import planning
from treadle.context import Context, TimeLimitError, under
from treadle.errors import InfeasibleError, ScheduleError
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.synthesis.alltoall.steps.time_stepped import time_stepped_flow
from treadle.synthesis.peers import teccl_exchange as module
from treadle.synthesis.peers.teccl_exchange import teccl_exchange
from treadle.topologies import parse
from treadle.verification.schedules import verify


@pytest.mark.parametrize(
    ("fabric", "steps"),
    [("complete(4)", 1), ("ring(4)", 2), ("hypercube(3)", 4), ("torus(3, 3)", 3), ("mesh(2, 3)", 4)],
)
def test_as_few_epochs_as_demands_need(fabric: str, steps: int) -> None:
    """On these the distances of all demands fill the links of so many epochs, and the schedule does."""
    topology = parse(fabric)
    collective = on_all_ranks(topology, CollectiveKind.ALLTOALL)
    schedule = teccl_exchange(topology, collective)
    report = verify(topology, collective, schedule)
    assert report.violations == ()
    assert schedule.n_steps == steps
    # no schedule of as many steps of any lengths is faster than the time-stepped flow
    least = time_stepped_flow(topology, collective, steps).time
    assert float(collective.pair_demands.buffer_units / report.algbw) >= least * (1 - 1e-6)
    assert float(collective.pair_demands.buffer_units / report.algbw) <= steps * (1 + 1e-9)


@pytest.mark.parametrize("fabric", ["kautz(2, 1)", "double_binary_tree(6)", "mesh(3, 3)"])
def test_schedules_are_verified_and_below_the_bound(fabric: str) -> None:
    found = planning.solve(fabric, "alltoall", algorithm="te-ccl-alltoall")
    assert found.report.is_ok
    assert found.algbw <= found.optimal_algbw


def test_finer_chunks_are_no_slower() -> None:
    rates = [
        planning.solve("kautz(2, 1)", "alltoall", algorithm="te-ccl-alltoall", chunks=c).algbw
        for c in (1, 2, 4)
    ]
    assert rates[0] <= rates[1] <= rates[2]
    assert rates[0] < rates[2]


def test_more_epochs_than_needed_leave_the_last_empty() -> None:
    """Early reads count more, so nothing waits for the end."""
    topology = parse("torus(3, 3)")
    collective = on_all_ranks(topology, CollectiveKind.ALLTOALL)
    schedule = teccl_exchange(topology, collective, steps=5)
    assert int(schedule.sends.send_steps().max()) == 2
    assert (
        verify(topology, collective, schedule).algbw
        == verify(topology, collective, teccl_exchange(topology, collective)).algbw
    )


def test_what_cannot_be_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    topology = parse("ring(6)")
    collective = on_all_ranks(topology, CollectiveKind.ALLTOALL)
    with pytest.raises(InfeasibleError, match="2 epochs, expected at least"):
        teccl_exchange(topology, collective, steps=2)
    with pytest.raises(TimeLimitError), under(Context(deadline=time.monotonic() - 1)):
        teccl_exchange(topology, collective)
    monkeypatch.setattr(module, "MAX_VARIABLES", 100)
    with pytest.raises(ScheduleError, match="variables, at most 100 are practical"):
        teccl_exchange(topology, collective)
    monkeypatch.setattr(module, "MAX_EPOCHS", 3)
    with pytest.raises(ScheduleError, match="more than 3 epochs"):
        teccl_exchange(topology, collective)
