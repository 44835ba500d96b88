"""Two rounds on line digraphs: every length, damaged ones, data, files, texts, times, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from reference.program_check import check_program
from shortcuts.executed import execute
from shortcuts.step_sums import all_right
from treadle.errors import FormatError, ScheduleError
from treadle.planning import solve
from treadle.program.any_schedule import lower
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.plan_files.archive import dump_plan, parse_plan
from treadle.schedules.steps.step_transforms import combine, pipelined, reverse, subdivide
from treadle.schedules.steps.steps import Steps, StepSchedule
from treadle.schedules.steps.urgent_first import urgent_first
from treadle.schedules.trees.forest import Direction
from treadle.synthesis.sizes.two_rounds import two_round
from treadle.topologies import parse
from treadle.topologies.topology import Topology
from treadle.verification.schedules import verify

K = CollectiveKind


def made(fabric: Topology, rounds: tuple[int, int]) -> StepSchedule:
    return two_round(fabric, on_all_ranks(fabric, K.ALLREDUCE), rounds=rounds)


def reducing(schedule: StepSchedule) -> Steps:
    assert schedule.reduce is not None
    return schedule.reduce


@pytest.mark.parametrize(
    ("words", "rounds"),
    [
        ("generalized_kautz(2, 4)", [(1, 1)]),
        ("generalized_kautz(2, 8)", [(1, 2), (2, 1), (1, 3), (2, 2), (3, 1), (2, 3), (3, 2)]),
        ("generalized_kautz(3, 9)", [(1, 1), (1, 2), (2, 1)]),
        ("generalized_kautz(2, 16)", [(1, 3), (2, 2), (3, 1), (2, 3), (3, 3), (3, 4)]),
        ("de_bruijn(2, 3)", [(1, 2), (2, 2)]),
        ("de_bruijn(3, 2)", [(1, 1)]),
        ("kautz(2, 2)", [(1, 4), (4, 1)]),
        ("complete_bipartite(3, 3)", []),
    ],
)
def test_every_rank_gets_every_contribution_once(words: str, rounds: list[tuple[int, int]]) -> None:
    fabric = parse(words)
    collective = on_all_ranks(fabric, K.ALLREDUCE)
    inputs = [np.arange(29, dtype=np.int32) * 3 + 37**2 * rank for rank in range(collective.n_ranks)]
    for pair in rounds:
        schedule = made(fabric, pair)
        assert schedule.n_steps == 2
        assert verify(fabric, collective, schedule).violations == ()
        assert all_right(fabric, schedule)
        program = lower(fabric, collective, schedule)
        assert not check_program(program)
        for output in execute(program, inputs):
            assert np.array_equal(output, sum(inputs)), pair


def test_slices_and_what_is_dropped() -> None:
    """64 ranks, 16 in a class: four slices, and a sum goes on only where the rank's own belongs to it."""
    fabric = parse("generalized_kautz(4, 64)")
    steps = reducing(made(fabric, (2, 2)))
    assert steps.n_shards == 4
    heads = fabric.heads[steps.way_links[steps.way_offset[1:] - 1]][steps.link]
    for step in range(2):
        span = steps.span(step)
        kept = {
            (int(heads[send]), int(steps.shard[send]))
            for send in range(*span.indices(steps.n_sends))
            if not steps.fresh[send]
        }
        # a rank of 4 is in the block that it reaches itself
        assert len(kept) == 16


def test_transforms() -> None:
    fabric = parse("generalized_kautz(2, 8)")
    collective = on_all_ranks(fabric, K.ALLREDUCE)
    schedule = made(fabric, (2, 2))
    steps = reducing(schedule)
    for changed in (
        pipelined(steps, 3),
        subdivide(steps, 2),
        combine([steps, steps], shares=[1, 2]),
        combine([steps, replace(steps, fresh=steps.fresh.copy())]),
    ):
        other = StepSchedule(K.ALLREDUCE, changed, schedule.broadcast)
        assert verify(fabric, collective, other).violations == ()
    plain = replace(steps, fresh=np.zeros(0, dtype=np.bool_))
    mixed = combine([steps, plain])
    assert mixed.fresh.sum() == steps.fresh.sum()
    assert urgent_first(steps, fabric, 4) == steps
    with pytest.raises(ScheduleError, match="cannot be reversed"):
        reverse(steps)
    with pytest.raises(ScheduleError, match=f"fresh has 1 rows, expected {steps.n_sends}"):
        replace(steps, fresh=np.ones(1, dtype=np.bool_))
    with pytest.raises(ScheduleError, match="only sums start again"):
        replace(steps, direction=Direction.BROADCAST)
    for kind in (K.REDUCE_SCATTER, K.ALLREDUCE):
        with pytest.raises(ScheduleError, match="only in an allreduce of two phases"):
            StepSchedule(kind, reduce=steps)


def test_a_file_whose_flags_are_none() -> None:
    import io
    import zipfile

    from treadle.schedules.plan_files.members import to_npy

    plan = solve("generalized_kautz(2, 8)", "allreduce", algorithm="two-round").plan
    for values, message in (([2] * 3, "expected 0 and 1 only"), ([1] * 3, "fresh has 3 rows")):
        changed = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(dump_plan(plan))) as old, zipfile.ZipFile(changed, "w") as new:
            for name in old.namelist():
                is_flags = name == "steps/0/fresh.npy"
                new.writestr(name, to_npy(np.array(values, dtype=np.int32)) if is_flags else old.read(name))
        with pytest.raises((FormatError, ScheduleError), match=message):
            parse_plan(changed.getvalue(), source="two.plan")


def test_what_it_refuses() -> None:
    for fabric, kind, rounds, why in (
        ("torus(3, 4)", "allreduce", None, "in classes that reach blocks of ranks"),
        ("dgx_a100:2", "allreduce", None, "two-round"),
        ("generalized_kautz(2, 7)", "allreduce", None, "in classes"),
        ("generalized_kautz(2, 8)", "allreduce", (1, 1), "rounds 1,1: expected one of 1,2, 2,1"),
        ("generalized_kautz(2, 8)", "allreduce", (3, 3), "rounds 3,3"),
        ("generalized_kautz(2, 8)", "allgather", None, "allreduce"),
    ):
        options = {} if rounds is None else {"rounds": rounds}
        with pytest.raises(ScheduleError, match=why):
            solve(fabric, kind, algorithm="two-round", **options)  # type: ignore[arg-type]
