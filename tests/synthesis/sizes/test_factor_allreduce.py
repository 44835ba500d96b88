"""Allreduces factor by factor: every factoring and choice of exchanges, damaged ones, times, files, data."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from shortcuts.executed import execute
from shortcuts.step_sums import all_right, mutants
from shortcuts.switched_ranks import factorings, on_a_switch
from treadle.errors import InfeasibleError, ScheduleError
from treadle.planning import run, solve
from treadle.program.any_schedule import lower
from treadle.program.program import Buffer, OperationKind
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.schedules.plan import Plan
from treadle.schedules.plan_files.archive import dump_plan, parse_plan
from treadle.schedules.steps.step_transforms import combine, reverse
from treadle.schedules.steps.steps import Steps, StepSchedule
from treadle.simulation.alpha_beta import alpha_beta_time
from treadle.synthesis.sizes.factor_allreduce import factor_allreduce
from treadle.topologies import parse
from treadle.topologies.topology import Topology, TopologyBuilder
from treadle.verification.schedules import ViolationKind, verify

K = CollectiveKind
ODD = [0, 4, 28, 1020, 4 * 997]


def made(fabric: Topology, factors: tuple[int, ...], exchanged: tuple[int, ...]) -> StepSchedule:
    return factor_allreduce(fabric, on_all_ranks(fabric, K.ALLREDUCE), factors=factors, exchanged=exchanged)


@pytest.mark.parametrize("n", [2, 3, 5, 6, 8, 12])
def test_every_factoring_and_every_choice(n: int) -> None:
    fabric = on_a_switch(n)
    collective = on_all_ranks(fabric, K.ALLREDUCE)
    inputs = [np.arange(29, dtype=np.int32) + 37 * rank for rank in range(n)]
    for factors in factorings(n):
        for count in range(len(factors) + 1):
            for exchanged in combinations(range(1, len(factors) + 1), count):
                schedule = made(fabric, factors, exchanged)
                assert verify(fabric, collective, schedule).violations == ()
                assert schedule.n_steps == 2 * len(factors) - len(exchanged)
                for output in execute(lower(fabric, collective, schedule), inputs):
                    assert np.array_equal(output, sum(inputs)), f"{factors} {exchanged}"


@pytest.mark.parametrize(("factors", "exchanged"), [((3, 2), (2,)), ((2, 3), (1, 2)), ((2, 2, 2), (2,))])
def test_the_verifier_agrees_with_a_slow_count_on_mutants(
    factors: tuple[int, ...], exchanged: tuple[int, ...]
) -> None:
    fabric = on_a_switch(int(np.prod(factors)))
    collective = on_all_ranks(fabric, K.ALLREDUCE)
    schedule = made(fabric, factors, exchanged)
    assert all_right(fabric, schedule)
    verdicts = set()
    for mutant in mutants(schedule, 60):
        is_ok = verify(fabric, collective, mutant).is_ok
        assert is_ok == all_right(fabric, mutant)
        verdicts.add(is_ok)
    assert False in verdicts


def test_what_is_no_way_and_no_home_is_named() -> None:
    fabric = on_a_switch(4)
    collective = on_all_ranks(fabric, K.ALLREDUCE)
    schedule = made(fabric, (2, 2), (2,))
    steps, after = schedule.reduce, schedule.broadcast
    assert steps is not None
    assert after is not None

    def found(reduce: Steps, broadcast: Steps = after) -> list[str]:
        report = verify(fabric, collective, StepSchedule(K.ALLREDUCE, reduce, broadcast))
        return [f"{one.kind}: {one}" for one in report.violations]

    links = steps.way_links.copy()
    links[1] = links[0]
    assert "does not continue the link before" in found(replace(steps, way_links=links))[0]
    links = steps.way_links.copy()
    links[0] = fabric.n_links
    assert "the fabric has only links 0 to 7" in found(replace(steps, way_links=links))[0]
    to_switch = replace(steps, way_offset=np.arange(len(steps.way_links) + 1))
    assert "a switch cannot hold chunks" in found(to_switch)[0]
    homes, twins = steps.homes, steps.twins
    wrong = {"homes": twins, "twins": twins}
    assert found(replace(steps, **wrong), replace(after, **wrong))  # a sum that is not where it is said to be
    for kind, one in ((K.ALLGATHER, {"broadcast": after}), (K.REDUCE_SCATTER, {"reduce": steps})):
        other = on_all_ranks(fabric, kind)
        report = verify(fabric, other, StepSchedule(kind, **one))
        assert {violation.kind for violation in report.violations} == {ViolationKind.SHAPE}
    assert homes.tolist() == [0, 1]
    assert twins.tolist() == [2, 3]


def test_forms_of_ways_and_twins_are_checked() -> None:
    steps = made(on_a_switch(4), (2, 2), (2,)).reduce
    assert steps is not None
    for change, expected in (
        ({"way_offset": steps.way_offset[:-1]}, "way_offset must rise from 0"),
        ({"way_offset": []}, "way_links or way_kinds without way_offset"),
        ({"link": steps.link + steps.n_paths}, "link: found"),
        ({"twins": [4, 4]}, "twins: found 4, expected 0 to 3"),
        ({"twins": [1, 2, 3]}, "3 further owners, expected as many for each shard"),
    ):
        with pytest.raises(ScheduleError, match=expected):
            replace(steps, **change)  # type: ignore[arg-type]
    assert reverse(reverse(steps)) == steps
    assert reverse(steps).path(0).tolist() == steps.path(0).tolist()[::-1]
    with pytest.raises(ScheduleError, match="must have the same paths"):
        combine([steps, replace(steps, way_links=steps.way_links[::-1].copy())])


def time_of_nothing(plan: Plan) -> Fraction:
    (entry,) = plan.entries
    return alpha_beta_time(plan.topology, plan.collective, entry.schedule, 0)


def test_loads_and_times() -> None:
    """Two boxes of two: 10 ns a link; M/2 in the box, M/2 across, M/2 in the box."""
    fabric = replace(on_a_switch(4), latencies_ns=np.full(8, 10))
    found = solve(fabric, "allreduce", algorithm="factor-allreduce", factors=(2, 2), exchanged=(2,))
    assert found.algbw == 1 / (3 * Fraction(1, 2) / 10)
    assert time_of_nothing(found.plan) == Fraction(60, 10**9)
    full = solve(fabric, "allreduce", algorithm="factor-allreduce", factors=(4,))
    assert full.algbw == Fraction(10, 3)
    assert time_of_nothing(full.plan) == Fraction(20, 10**9)


def test_boxes_by_default_and_what_is_refused() -> None:
    fabric = parse("dgx_a100_flat(3, gpus_per_box=2)")
    schedule = factor_allreduce(fabric, on_all_ranks(fabric, K.ALLREDUCE))
    assert schedule.reduce is not None
    assert [homes.tolist() for homes in schedule.reduce.all_owners] == [[0, 1], [2, 3], [4, 5]]
    assert schedule.n_steps == 3
    flat = on_a_switch(6)
    assert factor_allreduce(flat, on_all_ranks(flat, K.ALLREDUCE)).n_steps == 1
    with pytest.raises(ScheduleError, match="factors 4,2: expected a product of 6 ranks"):
        made(flat, (4, 2), ())
    with pytest.raises(ScheduleError, match="exchanged 0: expected places from 1 to 2"):
        made(flat, (3, 2), (0,))
    with pytest.raises(ScheduleError, match="allgather is not supported"):
        factor_allreduce(flat, Collective(K.ALLGATHER, tuple(range(6))))
    apart = TopologyBuilder("apart")
    apart.compute("a")
    apart.compute("b")
    with pytest.raises(InfeasibleError, match="apart: no path leads from 'a' to 'b'"):
        factor_allreduce(apart.build(), Collective(K.ALLREDUCE, (0, 1)))


def test_plan_files_keep_ways_and_twins() -> None:
    for kind in ((2,), (1, 2), ()):
        plan = solve(
            on_a_switch(6), "allreduce", algorithm="factor-allreduce", factors=(3, 2), exchanged=kind
        ).plan
        content = dump_plan(plan)
        found = parse_plan(content, source="test")
        assert found == plan
        assert dump_plan(found) == content


def test_sums_that_are_exchanged_go_to_other_memory() -> None:
    """What a step sends is not written by what comes in it, so no receive waits for a send of its step."""
    fabric = on_a_switch(8)
    collective = on_all_ranks(fabric, K.ALLREDUCE)
    program = lower(fabric, collective, made(fabric, (2, 2, 2), (1, 2, 3)))
    receives = program.operation_kind == OperationKind.RECEIVE_REDUCE
    assert [set(program.target[receives & (program.step == step)].tolist()) for step in range(3)] == [
        {Buffer.OUTPUT},
        {Buffer.SCRATCH},
        {Buffer.OUTPUT},
    ]
    sends = program.operation_kind == OperationKind.SEND
    for operation in np.flatnonzero(receives).tolist():
        waited = program.waits_of(operation)
        assert not np.any(sends[waited] & (program.step[waited] == program.step[operation]))


def test_in_place_where_the_input_is_not_what_is_exchanged() -> None:
    fabric = on_a_switch(6)
    plan = solve(fabric, "allreduce", algorithm="factor-allreduce", factors=(3, 2), exchanged=(2,)).plan
    assert not any(row.wrong for row in run(plan, ODD, iterations=1, in_place=True).rows)
    plan = solve(fabric, "allreduce", algorithm="factor-allreduce").plan
    with pytest.raises(InfeasibleError, match="cannot run in place"):
        run(plan, ODD, iterations=1, in_place=True)


def test_ways_may_pass_other_ranks() -> None:
    fabric = parse("torus(4, 4)")
    found = solve(fabric, "allreduce", algorithm="factor-allreduce", factors=(4, 4), exchanged=(1, 2))
    assert found.report.is_ok
    assert found.report.n_steps == 2
    assert not any(row.wrong for row in run(found.plan, ODD, iterations=1).rows)
