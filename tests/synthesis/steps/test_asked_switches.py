"""Sends that become operations of switches: which, what they cost, the data they move, files, simulation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from shortcuts.asking_switches import asked, asking_boxes
from shortcuts.executed import execute
from shortcuts.simulated import simulate_program
from shortcuts.switched_ranks import in_boxes
from treadle.arrays import frozen
from treadle.errors import ScheduleError
from treadle.planning import lower as lower_texts
from treadle.planning import run, simulate, solve, solve_sizes
from treadle.program.any_schedule import lower
from treadle.program.in_network import in_network_sends
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.plan_files.archive import dump_plan, parse_plan
from treadle.schedules.steps import step_cost
from treadle.schedules.steps.steps import PathKind, StepSchedule, steps_from_sends
from treadle.schedules.transfer import transfer_schedule
from treadle.schedules.trees.forest import Direction
from treadle.simulation.simulation_options import Sharing, SimulationOptions
from treadle.synthesis.steps.gpu_initiated import use_in_network
from treadle.verification.schedules import verify

K = CollectiveKind
ODD = [0, 4, 28, 1020, 4 * 997]
REFERENCE = "reference"


def kinds(schedule: StepSchedule) -> list[dict[PathKind, int]]:
    """How many sends of each kind each phase has."""
    return [
        {kind: int(np.sum(steps.way_kinds[steps.link] == kind)) for kind in PathKind if steps.has_operations}
        for steps in schedule.phases
    ]


def test_what_costs_fewer_links_becomes_an_operation() -> None:
    """Boxes of four: 12 sums and 12 copies in each; across, and in boxes of three, sends are as they were."""
    schedule = asked(asking_boxes(2, 4))
    assert kinds(schedule) == [
        {PathKind.PLAIN: 8, PathKind.COPY: 0, PathKind.SUM: 24},
        {PathKind.PLAIN: 0, PathKind.COPY: 24, PathKind.SUM: 0},
    ]
    in_full = asked(asking_boxes(2, 4), factors=(4, 2), exchanged=(1, 2))
    assert kinds(in_full)[0] == {PathKind.PLAIN: 8, PathKind.COPY: 0, PathKind.SUM: 24}
    assert kinds(asked(asking_boxes(2, 2))) == [{}, {}]
    plain = in_boxes(4, 4)
    whole = asked(plain)
    assert use_in_network(plain, on_all_ranks(plain, K.ALLREDUCE), whole) is whole
    assert kinds(whole) == [{}, {}]


def test_a_switch_that_only_copies_copies_sums_too() -> None:
    """Whole sums to everybody: each rank's part leaves it once, and is added up where it comes."""
    fabric = replace(asking_boxes(1, 5), aggregation=np.zeros(7, dtype=np.bool_))
    collective = on_all_ranks(fabric, K.ALLREDUCE)
    schedule = asked(fabric, factors=(5,), exchanged=(1,))
    assert kinds(schedule)[0] == {PathKind.PLAIN: 0, PathKind.COPY: 20, PathKind.SUM: 0}
    assert verify(fabric, collective, schedule).is_ok
    inputs = [np.arange(29, dtype=np.int32) + 37 * rank for rank in range(5)]
    for output in execute(lower(fabric, collective, schedule), inputs):
        assert np.array_equal(output, sum(inputs))


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


def test_an_operation_is_of_one_step() -> None:
    """A rank has the same chunk copied twice, for two others each time."""
    fabric = asking_boxes(1, 5)
    sends = [(0, 0, 0, 0, 1), (0, 1, 0, 0, 1), (0, 2, 1, 0, 1), (0, 3, 1, 0, 1)]
    steps = replace(
        steps_from_sends(Direction.BROADCAST, 5, 1, sends, homes=[0]),
        way_offset=frozen([0, 2, 4, 6, 8], np.int64),
        way_links=frozen([0, 5, 0, 9, 0, 13, 0, 17], np.int32),
        way_kinds=frozen([PathKind.COPY] * 4, np.int32),
    )
    schedule = StepSchedule(K.BROADCAST, broadcast=steps)
    collective = on_all_ranks(fabric, K.BROADCAST, root=0)
    assert verify(fabric, collective, schedule).violations == ()
    result = simulate_program(fabric, lower(fabric, collective, schedule), 1200)
    busy = result.busy[: fabric.n_links] * float(result.tick_s)
    # both times up once, and down to all five
    assert busy.tolist() == pytest.approx([20 if link in (0, 1, 5, 9, 13, 17) else 0 for link in range(20)])


def test_a_message_of_an_operation_is_started_once() -> None:
    """1 and 5 us, then 1: each rank starts a sum, a message across and a copy; no other is started for it."""
    plan = solve("dgx_h100(2, nvls=True)", "allreduce", algorithm="factor-allreduce", multicast=True).plan
    run_ = simulate(plan, [1], cost_model=REFERENCE)
    assert float(run_.rows[0].time) == pytest.approx(7e-6 + 2 * 0.05e-6 + 0.2e-6, rel=1e-2)


def test_files_keep_the_kinds_of_ways() -> None:
    plan = solve("dgx_h100(2, nvls=True)", "allreduce", algorithm="factor-allreduce", multicast=True).plan
    content = dump_plan(plan)
    found = parse_plan(content, source="test")
    assert found == plan
    assert dump_plan(found) == content
    (entry,) = found.entries
    assert isinstance(entry.schedule, StepSchedule)
    assert all(steps.has_operations for steps in entry.schedule.phases)
    assert plan.provenance["asked_multicast"]
    moved = transfer_schedule(entry.schedule, plan.topology, plan.topology)
    assert moved == entry.schedule
    assert not any(row.wrong for row in run(plan, ODD, iterations=1, in_place=True).rows)
    assert lower_texts(plan, to="msccl-xml").files


def test_exchanges_have_no_operations() -> None:
    sends = steps_from_sends(Direction.BROADCAST, 2, 1, [(0, 0, 0, 0, 1)], homes=[0])
    ways = {"way_offset": frozen([0, 2], np.int64), "way_links": frozen([0, 1], np.int32)}
    with pytest.raises(ScheduleError, match="no switch may multicast or aggregate"):
        ExchangeSchedule(
            replace(sends, **ways, way_kinds=frozen([1], np.int32)), np.array([1], dtype=np.int32)
        )


def test_sets_of_sizes_use_them() -> None:
    found = solve_sizes(
        "dgx_h100(2, nvls=True)",
        "allreduce",
        "256K,4M",
        algorithms=["factor-allreduce"],
        cost_model=REFERENCE,
    )
    assert [
        ("multicast" in row.title, row.seconds < limit)
        for row, limit in zip(found.rows, (8.76e-6, 21.6e-6), strict=True)
    ] == [(True, True)] * 2
