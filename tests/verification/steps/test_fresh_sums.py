"""Sums that begin anew: random ones beside a slow count, their programs on real data, and with faults."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from reference.program_check import check_program
from shortcuts.executed import execute
from shortcuts.step_sums import all_right, mutants
from treadle.errors import ScheduleError
from treadle.program.any_schedule import lower
from treadle.program.operation_lists import OperationKind
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.steps.steps import StepSchedule, steps_from_sends
from treadle.schedules.trees.forest import Direction
from treadle.topologies import parse
from treadle.verification.schedules import verify

Send = tuple[int, int, int, int, int]


def random_sums(
    chance: np.random.Generator, n: int, shard: int, home: int, link: np.ndarray
) -> list[tuple[Send, bool]]:
    """Sends that gather a shard at home; who has sent its sum away may begin another."""
    alive, found, step = set(range(n)), list[tuple[Send, bool]](), 0
    while alive != {home}:
        leaving = {u for u in sorted(alive) if chance.random() < 0.4}
        free = sorted(set(range(n)) - (alive - leaving))  # what they have is sent in this step, or was before
        taken: dict[int, bool] = {}
        for u in sorted(leaving):
            others = [v for v in range(n) if v != u and (v not in leaving or v in free)]
            if alive == {u}:
                others = [home]
            v = int(chance.choice(others))
            taken.setdefault(v, v in free)
            found.append(((shard, int(link[u, v]), step, 0, 1), taken[v]))
        alive = (alive - leaving) | set(taken)
        step += 1
    return found


def random_allreduce(seed: int) -> tuple[object, StepSchedule]:
    chance = np.random.default_rng(seed)
    n, shards = int(chance.integers(3, 7)), int(chance.integers(1, 5))
    fabric = parse(f"complete({n})")
    link = np.full((n, n), -1)
    link[fabric.tails, fabric.heads] = np.arange(fabric.n_links)
    homes = chance.integers(n, size=shards).tolist()
    sends = [one for shard in range(shards) for one in random_sums(chance, n, shard, homes[shard], link)]
    order = np.argsort([step for (_, _, step, _, _), _ in sends], kind="stable")
    reduce = steps_from_sends(Direction.REDUCE, n, 1, [sends[i][0] for i in order], homes=homes)
    reduce = replace(reduce, fresh=np.array([sends[i][1] for i in order], dtype=np.bool_))
    spread = [(s, int(link[h, v]), 0, 0, 1) for s, h in enumerate(homes) for v in range(n) if v != h]
    broadcast = steps_from_sends(Direction.BROADCAST, n, 1, spread, homes=homes)
    return fabric, StepSchedule(CollectiveKind.ALLREDUCE, reduce, broadcast)


@pytest.mark.parametrize("seed", range(40))
def test_random_sums(seed: int) -> None:
    fabric, schedule = random_allreduce(seed)
    collective = on_all_ranks(fabric, CollectiveKind.ALLREDUCE)
    assert all_right(fabric, schedule)
    assert verify(fabric, collective, schedule).violations == ()
    program = lower(fabric, collective, schedule)
    assert not check_program(program)
    n = collective.n_ranks
    inputs = [np.arange(31, dtype=np.int32) + 101**2 * rank for rank in range(n)]
    for output in execute(program, inputs):
        assert np.array_equal(output, sum(inputs))
    assert schedule.reduce is not None
    for mutant in mutants(schedule, 20):
        report = verify(fabric, collective, mutant)
        assert report.is_ok == all_right(fabric, mutant)
        if not report.is_ok:
            with pytest.raises(ScheduleError):
                lower(fabric, collective, mutant)


def test_most_random_sums_begin_anew_and_are_stored() -> None:
    anew = stored = 0
    for seed in range(40):
        fabric, schedule = random_allreduce(seed)
        assert schedule.reduce is not None
        anew += schedule.reduce.restarts
        program = lower(fabric, on_all_ranks(fabric, CollectiveKind.ALLREDUCE), schedule)
        reducing = program.step < schedule.reduce.n_steps
        stored += bool((program.operation_kind[reducing] == OperationKind.RECEIVE).any())
    assert anew > 30
    assert stored > 25
