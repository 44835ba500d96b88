"""All-to-alls factor by factor: every factoring, demands, damaged ones, messages, files, data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from shortcuts.switched_ranks import factorings, in_boxes, on_a_switch
from treadle.errors import ScheduleError
from treadle.planning import run, solve
from treadle.program.any_schedule import lower
from treadle.program.program import OperationKind, Program
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.schedules.plan_files.archive import dump_plan, parse_plan
from treadle.synthesis.sizes.factor_exchange import factor_exchange
from treadle.topologies import parse
from treadle.topologies.topology import Topology
from treadle.verification.schedules import verify

K = CollectiveKind
ODD = [0, 4, 28, 1020, 4 * 997]


def all_right(fabric: Topology, collective: Collective, schedule: ExchangeSchedule) -> bool:
    """Moves every shard, send after send: whoever sends must have it, and it must end at its target once."""
    sends = schedule.sends
    rank_of = {node: rank for rank, node in enumerate(collective.ranks)}
    at = schedule.sources.copy()
    for step in range(sends.n_steps):
        before, moved = at.copy(), set()
        for send in range(*sends.span(step).indices(sends.n_sends)):
            links, shard = sends.path(int(sends.link[send])).tolist(), int(sends.shard[send])
            tail, head = rank_of[int(fabric.tails[links[0]])], rank_of[int(fabric.heads[links[-1]])]
            if before[shard] != tail or shard in moved or tail == schedule.targets[shard]:
                return False
            moved.add(shard)
            at[shard] = head
    return bool(np.array_equal(at, schedule.targets))


@pytest.mark.parametrize("n", [2, 3, 4, 5, 8, 12])
def test_every_factoring_and_bruck(n: int) -> None:
    fabric = on_a_switch(n)
    collective = on_all_ranks(fabric, K.ALLTOALL)
    for factors in (*factorings(n), (2,) * (n - 1).bit_length(), (3,) * (1 + (n > 3) + (n > 9))):
        schedule = factor_exchange(fabric, collective, factors=factors)
        assert schedule.n_steps == len(factors)
        assert verify(fabric, collective, schedule).violations == ()
        assert all_right(fabric, collective, schedule)
    for factors in (None, (2,) * (n - 1).bit_length()):
        plan = solve(fabric, "alltoall", algorithm="factor-exchange", factors=factors).plan
        assert not any(row.wrong for row in run(plan, ODD, iterations=1).rows)
        assert parse_plan(dump_plan(plan), source="test") == plan


def test_the_verifier_agrees_with_slow_moves_on_mutants() -> None:
    fabric = in_boxes(3, 3)
    collective = on_all_ranks(fabric, K.ALLTOALL)
    schedule = factor_exchange(fabric, collective)
    sends, chance = schedule.sends, np.random.default_rng(2)
    verdicts = []
    for _ in range(200):
        send, column = int(chance.integers(sends.n_sends)), str(chance.choice(["link", "shard"]))
        values = getattr(sends, column).copy()
        values[send] = chance.integers(sends.n_paths if column == "link" else sends.n_shards)
        mutant = replace(schedule, sends=replace(sends, **{column: values}))
        verdicts.append(verify(fabric, collective, mutant).is_ok)
        assert verdicts[-1] == all_right(fabric, collective, mutant)
    assert 0 < sum(verdicts) < 50  # a value may happen to stay what it was
    broken = sends.way_links.copy()
    broken[0] = fabric.n_links
    report = verify(fabric, collective, replace(schedule, sends=replace(sends, way_links=broken)))
    assert "the fabric has only links 0 to" in str(report.violations[0])
    stops = replace(schedule, sends=replace(sends, way_offset=np.arange(len(sends.way_links) + 1)))
    assert "a switch cannot hold chunks" in str(verify(fabric, collective, stops).violations[0])
    with pytest.raises(ScheduleError, match="expected one owner of each shard"):
        replace(schedule, sends=replace(sends, twins=sends.homes))


def messages(program: Program) -> int:
    return int((program.operation_kind == OperationKind.SEND).sum())


def test_boxes_first_sends_few_messages() -> None:
    """In the box 3 messages, across 3; what is apart in the buffers travels together on one level."""
    fabric = in_boxes(4, 4, 4, 4)
    collective = on_all_ranks(fabric, K.ALLTOALL)
    program = lower(fabric, collective, factor_exchange(fabric, collective))
    assert messages(program) == 16 * (3 * 4 + 3 * 4)
    pairs = {
        (int(program.operation_rank[one]), int(program.peer[one]), int(program.step[one]))
        for one in np.flatnonzero(program.operation_kind == OperationKind.SEND)
    }
    assert len(pairs) == 16 * (3 + 3)


def test_demands_forwarders_and_unequal_boxes() -> None:
    chance = np.random.default_rng(3)
    fabric = in_boxes(2, 3)
    matrix = chance.integers(0, 4, size=(5, 5))
    matrix[0, 1] = 3
    collective = replace(on_all_ranks(fabric, K.ALLTOALL), demands=Demands(matrix))
    schedule = factor_exchange(fabric, collective, factors=(2, 3))
    assert verify(fabric, collective, schedule).violations == ()
    path = parse("path(3)")
    ends = Collective(K.ALLTOALL, (0, 2), forwarders=(1,))
    schedule = factor_exchange(path, ends)
    assert verify(path, ends, schedule).violations == ()
    program = lower(path, ends, schedule)
    assert program.links(int(program.path.max())).size == 2
    torus = solve("torus(4, 4)", "alltoall", algorithm="factor-exchange", factors=(16,))
    assert torus.report.n_steps == 1


def test_factors_of_no_use_are_refused() -> None:
    fabric = on_a_switch(6)
    collective = on_all_ranks(fabric, K.ALLTOALL)
    for factors in ((2, 2), (3, 2, 2), (0, 6), ()):
        with pytest.raises(ScheduleError, match="expected a product of 6 ranks, or the first above"):
            factor_exchange(fabric, collective, factors=factors)
    with pytest.raises(ScheduleError, match="allgather is not supported"):
        factor_exchange(fabric, on_all_ranks(fabric, K.ALLGATHER))
