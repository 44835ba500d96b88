"""All-to-all steps as programs and as MSCCL XML."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from reference.program_check import check_program
from samples import exchange_samples as samples
from treadle.errors import InfeasibleError, ScheduleError
from treadle.formats.msccl.interpreter import interpret_msccl_xml
from treadle.formats.msccl.writer import emit_msccl_xml
from treadle.program.any_schedule import lower
from treadle.program.program import Buffer, Operation, OperationKind, program_from_operations
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.steps.steps import steps_from_sends
from treadle.schedules.trees.forest import Direction
from treadle.topologies import parse
from treadle.topologies.catalogue.direct import from_arcs
from treadle.topologies.topology import TopologyBuilder

FABRICS = ["hypercube:3", "torus:3,3", "generalized_kautz:2,5", "uni_ring:2,4", "complete:4"]


@pytest.mark.parametrize("name", FABRICS)
@pytest.mark.parametrize("channels", [1, 2])
def test_programs_keep_the_rules(name: str, channels: int) -> None:
    topology = parse(name)
    n = len(topology.compute_nodes)
    for demands in (None, samples.random_demands(n, seed=n)):
        collective = samples.alltoall(topology, demands)
        for rounds, merge in ((None, True), (3, False)):
            schedule = samples.over_shortest_paths(topology, collective, rounds=rounds)
            program = lower(topology, collective, schedule, channels=channels, merge=merge)
            assert check_program(program) == ()
            units = collective.pair_demands.matrix
            assert program.n_addresses * units.sum(axis=1).max() >= program.n_chunks * units.sum() // n
            assert len(program.shard_offset) == n * n + 1


@pytest.mark.parametrize("name", FABRICS)
def test_text_does_what_an_alltoall_asks(name: str) -> None:
    topology = parse(name)
    collective = samples.alltoall(topology)
    for rounds in (None, 3):
        program = lower(
            topology, collective, samples.over_shortest_paths(topology, collective, rounds=rounds)
        )
        text = emit_msccl_xml(program)
        assert 'coll="alltoall"' in text
        seen = interpret_msccl_xml(text, fifo_depth=8)
        assert seen.violations == ()
        assert seen.n_chunks == program.n_chunks


def test_a_program_by_hand() -> None:
    # 0 -> 1 -> 2: rank 0's data for 2 rests at 1; all demands are one unit of two chunks
    path = from_arcs("path", [0, 1, 2, 2], [1, 2, 0, 1], n=3)
    sends = [(0, 0, 0, 0, 2), (1, 0, 0, 0, 2), (1, 1, 1, 0, 1), (1, 1, 2, 1, 2), (2, 1, 0, 0, 2)]
    homes, targets = [0, 0, 1], [1, 2, 2]
    demands = Demands([[1, 1, 1], [0, 0, 1], [0, 0, 0]])
    schedule = ExchangeSchedule(
        steps_from_sends(Direction.BROADCAST, 3, 2, sends, homes=homes), np.array(targets)
    )
    program = lower(path, samples.alltoall(path, demands), schedule)
    assert program.shard_offset.tolist() == [0, 2, 4, 6, 6, 6, 8, 8, 8, 8]
    assert program.n_chunks == 6  # rank 0 sends three units
    assert program.ranges(0, Buffer.INPUT) == [(0, 6)]
    assert program.ranges(0, Buffer.OUTPUT) == [(0, 2)]
    assert program.ranges(1, Buffer.SCRATCH) == [(4, 6)]
    assert program.ranges(2, Buffer.OUTPUT) == [(4, 8)]
    # a copy of what stays at home; one message of what goes to 1 and what goes on; and so on
    own = [OperationKind(kind).name for kind in program.operation_kind[list(program.operations(0))]]
    assert own == ["COPY", "SEND", "SEND"]
    assert check_program(program) == ()


def test_what_programs_cannot_do_is_refused() -> None:
    cube = parse("hypercube:3")
    collective = samples.alltoall(cube)
    schedule = samples.over_shortest_paths(cube, collective)
    with pytest.raises(InfeasibleError, match="cannot be one memory"):
        lower(cube, collective, schedule, in_place=True)
    with pytest.raises(ScheduleError, match="channels: expected at least 1"):
        lower(cube, collective, schedule, channels=0)
    with pytest.raises(ScheduleError, match="the collective is allgather"):
        lower(cube, on_all_ranks(cube, CollectiveKind.ALLGATHER), schedule)
    with pytest.raises(ScheduleError, match="not just the pairs"):
        lower(cube, samples.alltoall(cube, samples.random_demands(8, 1)), schedule)
    sends = samples.sends_of(schedule)
    for wrong, said in (
        (sends[1:], "never leaves its source|before it has come"),
        (sends[:-1], "does not get to its target"),
        ([(*send[:2], send[2] or 9, *send[3:]) for send in sends], "before it has come"),
        ([*sends[1:], (sends[0][0], 24, *sends[0][2:])], "expected links from 0 to 23"),
    ):
        with pytest.raises(ScheduleError, match=said):
            lower(cube, collective, samples.with_sends(schedule, wrong))


def test_what_forwarders_pass_on_is_one_message_of_ranks() -> None:
    # 0 -> f -> 1 -> 2 and 0 -> g -> f -> 2; all of it in steps, so that forwarders hold chunks for some
    arcs = [(0, 3), (3, 1), (1, 2), (0, 4), (4, 3), (3, 2), (1, 0), (2, 0)]
    fabric = from_arcs("relays", *map(list, zip(*arcs, strict=True)), n=5)
    collective = samples.alltoall(fabric, Demands([[0, 0, 1], [0, 0, 0], [0, 0, 0]]), n_ranks=3)
    sends = [
        (0, 0, 0, 0, 1),
        (0, 1, 2, 0, 1),
        (0, 2, 3, 0, 1),
        (0, 3, 1, 1, 2),
        (0, 4, 2, 1, 2),
        (0, 5, 3, 1, 2),
    ]
    steps = steps_from_sends(Direction.BROADCAST, 3, 2, sends, homes=[0])
    schedule = ExchangeSchedule(steps, np.array([2]))
    program = lower(fabric, collective, schedule)
    assert check_program(program) == ()
    assert check_program(program) == ()
    sent = [operation for operation in range(program.n_operations) if program.path[operation] >= 0]
    found = [
        (
            int(program.operation_rank[operation]),
            int(program.peer[operation]),
            int(program.step[operation]),
            *program.links(int(program.path[operation])),
        )
        for operation in sent
    ]
    assert found == [(0, 1, 0, 0, 1), (0, 2, 1, 3, 4, 5), (1, 2, 3, 2)]
    backwards = [*sends[:1], (0, 1, 0, 0, 1), *sends[2:]]
    with pytest.raises(ScheduleError, match="before it has come"):
        lower(fabric, collective, samples.with_sends(schedule, backwards))


def test_circles_switches_and_too_many_chunks_cannot_be_lowered() -> None:
    ring = from_arcs("ring", [0, 1, 2, 0, 1, 2], [1, 2, 0, 2, 0, 1], n=3)
    demands = Demands([[0, 0, 1], [0, 0, 0], [0, 0, 0]])
    home = steps_from_sends(
        Direction.BROADCAST, 3, 1, [(0, 0, 0, 0, 1), (0, 4, 1, 0, 1), (0, 3, 2, 0, 1)], homes=[0]
    )
    with pytest.raises(InfeasibleError, match="comes to a rank twice"):
        lower(ring, samples.alltoall(ring, demands), ExchangeSchedule(home, np.array([2])))
    line = from_arcs("line", [0, 2, 2, 1], [2, 1, 0, 2], n=3)
    forwarded = samples.alltoall(line, n_ranks=2)
    schedule = samples.over_shortest_paths(line, forwarded)
    assert samples.is_correct(line, forwarded, schedule)
    assert check_program(lower(line, forwarded, schedule)) == ()
    builder = TopologyBuilder("switched")
    for name in ("n0", "n1"):
        builder.compute(name)
    builder.switch("n2")
    for tail, head in (("n0", "n2"), ("n2", "n1"), ("n1", "n2"), ("n2", "n0")):
        builder.link(tail, head, 1)
    switched = builder.build()
    with pytest.raises(InfeasibleError, match="'n2' is no rank and has no program"):
        lower(switched, samples.alltoall(switched), schedule)
    many = replace(schedule.sends, n_chunks=2**24 - 1, high=np.full(4, 2**24 - 1), low=np.array([0, 0, 1, 1]))
    uneven = Demands([[2**20, 1], [1, 0]])
    with pytest.raises(InfeasibleError, match="use a schedule with fewer chunks"):
        lower(line, replace(forwarded, demands=uneven), ExchangeSchedule(many, schedule.targets))


def test_malformed_programs_are_refused() -> None:
    copy = [Operation(OperationKind.COPY, 0, 1)]
    with pytest.raises(ScheduleError, match="cannot be in place"):
        program_from_operations(
            CollectiveKind.ALLTOALL, [copy, []], n_chunks=1, shard_offset=[0, 1, 1, 1, 1], in_place=True
        )
    with pytest.raises(ScheduleError, match="must rise from 0 to 1 in 5 values"):
        program_from_operations(CollectiveKind.ALLTOALL, [copy, []], n_chunks=1, shard_offset=[0, 1, 1])
    stray = program_from_operations(
        CollectiveKind.ALLTOALL, [[], copy], n_chunks=1, shard_offset=[0, 1, 1, 1, 1]
    )
    assert any("uses INPUT chunks [0, 1), which has none" in fault for fault in check_program(stray))


def test_uneven_demands_have_no_text() -> None:
    cube = parse("hypercube:3")
    collective = samples.alltoall(cube, samples.random_demands(8, 2))
    program = lower(cube, collective, samples.over_shortest_paths(cube, collective))
    with pytest.raises(ScheduleError, match="alltoall with unequal shards"):
        emit_msccl_xml(program)
