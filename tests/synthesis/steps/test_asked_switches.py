"""Sends that become operations of switches: which, what they cost, the data they move, files, simulation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from shortcuts.asking_switches import asked, asking_boxes
from shortcuts.executed import execute
from shortcuts.simulated import simulate_program
from treadle.arrays import frozen
from treadle.errors import ScheduleError
from treadle.planning import simulate, solve
from treadle.program.any_schedule import lower
from treadle.program.in_network import in_network_sends
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.steps import step_cost
from treadle.schedules.steps.steps import steps_from_sends
from treadle.schedules.trees.forest import Direction
from treadle.simulation.simulation_options import Sharing, SimulationOptions
from treadle.verification.schedules import verify

K = CollectiveKind
REFERENCE = "reference"


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6, 8, 9, 12])
def test_data_of_every_number_of_ranks(n: int) -> None:
    size = max(part for part in range(1, n + 1) if n % part == 0 and (part < n or n < 6))
    fabric = asking_boxes(n // size, size) if size > 1 else asking_boxes(1, n)
    collective = on_all_ranks(fabric, K.ALLREDUCE)
    inputs = [np.arange(31, dtype=np.int32) + 41 * rank for rank in range(n)]
    for options in (
        {},
        {"chunks": 3},
        {"factors": (n,), "exchanged": (1,)},
        {"factors": (n,), "exchanged": ()},
    ):
        schedule = asked(fabric, **options)
        assert verify(fabric, collective, schedule).violations == ()
        for output in execute(lower(fabric, collective, schedule), inputs):
            assert np.array_equal(output, sum(inputs))


@pytest.mark.parametrize("sharing", Sharing)
def test_links_carry_what_the_steps_say(sharing: Sharing) -> None:
    fabric = asking_boxes(2, 4)
    collective, schedule = on_all_ranks(fabric, K.ALLREDUCE), asked(fabric, chunks=2)
    program = lower(fabric, collective, schedule)
    assert len(in_network_sends(fabric, program)) == 2 * 2 * 2 * 4 * 2  # all but one of three, pieces, phases
    result = simulate_program(fabric, program, 1600, SimulationOptions(sharing=sharing))
    loads = [sum(step_cost.step_loads(fabric, steps)) for steps in schedule.phases]
    seconds = sum(loads) * (1600 / 8) / fabric.bandwidths
    busy = result.busy[: fabric.n_links] * float(result.tick_s)
    assert busy.tolist() == pytest.approx(seconds.tolist(), rel=1e-9)


def test_a_message_of_an_operation_is_started_once() -> None:
    """1 and 5 us, then 1: each rank starts a sum, a message across and a copy; no other is started for it."""
    plan = solve("dgx_h100(2, nvls=True)", "allreduce", algorithm="factor-allreduce", multicast=True).plan
    run_ = simulate(plan, [1], cost_model=REFERENCE)
    assert float(run_.rows[0].time) == pytest.approx(7e-6 + 2 * 0.05e-6 + 0.2e-6, rel=1e-2)


def test_exchanges_have_no_operations() -> None:
    sends = steps_from_sends(Direction.BROADCAST, 2, 1, [(0, 0, 0, 0, 1)], homes=[0])
    ways = {"way_offset": frozen([0, 2], np.int64), "way_links": frozen([0, 1], np.int32)}
    with pytest.raises(ScheduleError, match="no switch may multicast or aggregate"):
        ExchangeSchedule(
            replace(sends, **ways, way_kinds=frozen([1], np.int32)), np.array([1], dtype=np.int32)
        )
