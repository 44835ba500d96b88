"""Lowered step schedules keep the rules of programs, deliver what is asked, and wait for no step."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.every_order import any_order_fails
from reference.program_check import check_program
from samples import greedy_steps as samples
from samples.program_cases import reference_errors
from treadle.errors import InfeasibleError, ScheduleError
from treadle.formats.msccl.interpreter import interpret_msccl_xml
from treadle.formats.msccl.writer import emit_msccl_xml
from treadle.program.any_schedule import lower
from treadle.program.program import Buffer, OperationKind, Program
from treadle.program.steps.step_lowering import lower_steps
from treadle.runtime.measured_sizes import measure
from treadle.schedules.collective import SPANNING_KINDS, Collective, CollectiveKind, on_all_ranks
from treadle.schedules.steps.steps import Send, StepSchedule, steps_from_sends
from treadle.schedules.trees.forest import Direction
from treadle.synthesis.steps.bfb import bfb_schedule
from treadle.topologies import parse
from treadle.topologies.catalogue.direct import from_arcs
from treadle.topologies.topology import Topology, TopologyBuilder
from treadle.verification.steps.step_check import verify_steps

FABRICS: dict[str, Callable[[], Topology]] = {
    "ring": lambda: samples.ring(5),
    "both ways": lambda: samples.ring(5, both=True),
    "parallel links": lambda: samples.ring(4, links=3),
    "hypercube": lambda: parse("hypercube(3)"),
    "torus": lambda: parse("torus(3,3)"),
    "K22": lambda: parse("complete_bipartite(2,2)"),
}


def check(topology: Topology, program: Program) -> None:
    """All that must hold of a program of steps, but for its data."""
    assert check_program(program) == ()
    sends = np.flatnonzero(program.operation_kind == OperationKind.SEND)
    assert np.all(program.path[sends] >= 0)
    assert np.all(np.delete(program.path, sends) == -1)
    used = defaultdict(set)
    for send in sends.tolist():
        (link,) = program.links(int(program.path[send])).tolist()
        sender, receiver = int(program.operation_rank[send]), int(program.peer[send])
        assert topology.tails[link] == program.nodes[sender]
        assert topology.heads[link] == program.nodes[receiver]
        used[sender, receiver, int(program.channel[send])].add(link)
    assert all(len(links) == 1 for links in used.values())  # a stream takes one link
    waiting = np.repeat(np.arange(program.n_operations), np.diff(program.wait_offset))
    assert np.all(program.step[program.waits] <= program.step[waiting])
    assert runs_without_buffering(program)


def runs_without_buffering(program: Program) -> bool:
    """Whether all ranks get to the end of their lists if a send must meet its receive."""
    places = [program.operations(rank).start for rank in range(program.n_ranks)]

    def head(rank: int) -> tuple[int, ...]:
        number = places[rank]
        if number == program.operations(rank).stop:
            return (-1,)
        kind = int(program.operation_kind[number])
        if kind == OperationKind.COPY:
            return (kind,)
        ends = (rank, int(program.peer[number]))
        ends = ends if kind == OperationKind.SEND else ends[::-1]
        return (kind, *ends, int(program.channel[number]), int(program.first[number]))

    moved = True
    while moved:
        moved = False
        for rank in range(program.n_ranks):
            now = head(rank)
            if now[0] == OperationKind.COPY:
                places[rank] += 1
                moved = True
            elif now[0] == OperationKind.SEND and head(now[2])[1:] == now[1:]:
                places[rank] += 1
                places[now[2]] += 1
                moved = True
    return all(places[rank] == program.operations(rank).stop for rank in range(program.n_ranks))


@pytest.mark.parametrize(
    ("kind", "in_place", "name"),
    [
        (kind, bool((i + j) % 2), name)
        for i, kind in enumerate(SPANNING_KINDS)
        for j, name in enumerate(FABRICS)
    ],
)
def test_breadth_first_schedules_move_the_right_data(name: str, kind: CollectiveKind, in_place: bool) -> None:
    topology = FABRICS[name]()
    if kind.is_rooted:
        collective, schedule = samples.greedy_schedule(topology, kind, root=1, n_chunks=3)
    else:
        collective, schedule = on_all_ranks(topology, kind), bfb_schedule(topology, kind)
    program = lower(topology, collective, schedule, in_place=in_place)
    check(topology, program)
    assert reference_errors(program) == []
    assert [row.wrong for row in measure(program, [4, 68, 4096], iterations=1)] == [0, 0, 0]
    text = emit_msccl_xml(program)
    seen = interpret_msccl_xml(text, root=max(0, program.root))
    assert seen.violations == ()
    assert seen.n_chunks == program.n_chunks


@settings(max_examples=14, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32), kind=st.sampled_from(SPANNING_KINDS), in_place=st.booleans())
def test_random_schedules_lower_to_correct_programs(seed: int, kind: CollectiveKind, in_place: bool) -> None:
    rng = random.Random(seed)
    topology = samples.random_digraph(rng, rng.randint(2, 6))
    homes = None
    if kind is CollectiveKind.ALLREDUCE and rng.random() < 0.5:
        homes = [rng.randrange(topology.n_nodes) for _ in range(rng.randint(1, 5))]
    collective, schedule = samples.greedy_schedule(
        topology,
        kind,
        seed=seed,
        n_chunks=rng.randint(1, 4),
        root=rng.randrange(topology.n_nodes),
        homes=homes,
        waste=rng.choice([0, 0.5]),
    )
    assert verify_steps(topology, collective, schedule).is_ok
    program = lower_steps(
        topology,
        collective,
        schedule,
        in_place=in_place,
        merge=rng.random() < 0.5,
        channels=rng.randint(1, 3),
    )
    check(topology, program)
    assert reference_errors(program) == []
    assert interpret_msccl_xml(emit_msccl_xml(program), root=max(0, program.root)).violations == ()


def test_the_ring_is_what_one_writes_by_hand() -> None:
    schedule = StepSchedule(
        CollectiveKind.ALLREDUCE,
        samples.ring_steps(3, Direction.REDUCE),
        samples.ring_steps(3, Direction.BROADCAST),
    )
    topology = samples.ring(3)
    program = lower_steps(topology, on_all_ranks(topology, CollectiveKind.ALLREDUCE), schedule)
    kind, buffer = OperationKind, Buffer
    rows = [
        (
            kind(program.operation_kind[i]),
            int(program.first[i]),
            buffer(program.source[i]),
            buffer(program.target[i]),
            int(program.step[i]),
            program.waits_of(i).tolist(),
        )
        for i in program.operations(0)
    ]
    # rank 0 sends on what it has summed, gets its own shard complete last, and passes the results on
    assert rows == [
        (kind.SEND, 2, buffer.INPUT, buffer.INPUT, 0, []),
        (kind.RECEIVE_REDUCE, 1, buffer.INPUT, buffer.OUTPUT, 0, []),
        (kind.SEND, 1, buffer.OUTPUT, buffer.OUTPUT, 1, [1]),
        (kind.RECEIVE_REDUCE, 0, buffer.INPUT, buffer.OUTPUT, 1, []),
        (kind.SEND, 0, buffer.OUTPUT, buffer.OUTPUT, 2, [3]),
        (kind.RECEIVE, 2, buffer.OUTPUT, buffer.OUTPUT, 2, []),
        (kind.SEND, 2, buffer.OUTPUT, buffer.OUTPUT, 3, [5]),
        (kind.RECEIVE, 1, buffer.OUTPUT, buffer.OUTPUT, 3, [2]),
    ]


def test_every_wait_is_needed() -> None:
    """Without any one of them the program is wrong, and the checker says so."""
    topology = samples.ring(4, both=True)
    collective, schedule = samples.greedy_schedule(topology, CollectiveKind.ALLREDUCE, seed=2)
    for in_place in (False, True):
        program = lower_steps(topology, collective, schedule, in_place=in_place)
        assert len(program.waits) > 20
        for place in range(len(program.waits)):
            offsets = program.wait_offset - (program.wait_offset > place)
            assert check_program(replace(program, waits=np.delete(program.waits, place), wait_offset=offsets))


def test_nothing_waits_for_a_step() -> None:
    """Rank 1's own shard leaves at step 5 of the schedule, yet needs nothing."""
    topology = samples.ring(2)
    steps = steps_from_sends(Direction.BROADCAST, 2, 1, [(0, 0, 0, 0, 1), (1, 1, 5, 0, 1)])
    schedule = StepSchedule(CollectiveKind.ALLGATHER, broadcast=steps)
    program = lower_steps(topology, on_all_ranks(topology, CollectiveKind.ALLGATHER), schedule)
    assert program.waits.size == 0
    assert sorted(set(program.step.tolist())) == [0, 5]


def test_adjacent_chunks_are_one_message() -> None:
    """Recursive doubling on a hypercube: one message per dimension, however many shards it carries."""
    n, sends = 4, []
    topology = from_arcs(
        "square",
        [u for u in range(n) for _ in range(2)],
        [u ^ 1 << bit for u in range(n) for bit in range(2)],
        n=n,
    )
    for bit in range(2):
        for u in range(n):
            held = [v for v in range(n) if v >> bit == u >> bit]
            sends += [(v, 2 * u + bit, bit, 0, 1) for v in held]
    schedule = StepSchedule(
        CollectiveKind.ALLGATHER, broadcast=steps_from_sends(Direction.BROADCAST, n, 1, sends)
    )
    collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)
    assert verify_steps(topology, collective, schedule).is_ok
    merged = lower_steps(topology, collective, schedule, in_place=True)
    plain = lower_steps(topology, collective, schedule, in_place=True, merge=False)
    assert merged.n_operations == n * 2 * 2
    assert plain.n_operations == n * 3 * 2
    for program in (merged, plain):
        check(topology, program)
        assert reference_errors(program) == []
        assert interpret_msccl_xml(emit_msccl_xml(program)).violations == ()


def test_parallel_links_have_streams_of_their_own() -> None:
    topology = samples.ring(3, links=2)
    collective, schedule = samples.greedy_schedule(topology, CollectiveKind.ALLGATHER, n_chunks=4)
    assert len(set(schedule.phases[0].link.tolist())) == 6
    program = lower_steps(topology, collective, schedule, channels=3)
    check(topology, program)
    for i in np.flatnonzero(program.operation_kind == OperationKind.SEND).tolist():
        link = int(program.path_links[program.path[i]])
        assert program.channel[i] // 3 == link % 2


def padded(schedule: StepSchedule, sends: list[Send], direction: Direction) -> StepSchedule:
    """The schedule with more sends in one phase."""
    (steps,) = schedule.phases
    rows = zip(steps.shard, steps.link, steps.send_steps(), steps.low, steps.high, strict=True)
    both = [*((int(a), int(b), int(c), int(d), int(e)) for a, b, c, d, e in rows), *sends]
    more = steps_from_sends(direction, steps.n_ranks, steps.n_chunks, both)
    return replace(schedule, **{direction.value: more})


@pytest.mark.parametrize(
    ("direction", "more"),
    [
        # back home, twice on one link in a step, again later, and from the other side
        (Direction.BROADCAST, [(0, 4, 1, 0, 1), (0, 0, 0, 0, 1), (0, 0, 1, 0, 1), (0, 5, 2, 0, 1)]),
        # rank 1 sends its sum at step 0; what comes to it then or later must not get into the others
        (Direction.REDUCE, [(0, 5, 0, 0, 1), (0, 5, 1, 0, 1)]),
    ],
)
def test_sends_without_effect_are_left_out(direction: Direction, more: list[Send]) -> None:
    topology = samples.ring(4, both=True)  # link i leaves rank i for i + 1, link 4 + i comes back
    is_broadcast = direction is Direction.BROADCAST
    kind = CollectiveKind.ALLGATHER if is_broadcast else CollectiveKind.REDUCE_SCATTER
    collective = on_all_ranks(topology, kind)
    schedule = StepSchedule(kind, **{direction.value: samples.ring_steps(4, direction)})
    wasteful = padded(schedule, more, direction)
    assert verify_steps(topology, collective, wasteful).is_ok
    program = lower_steps(topology, collective, wasteful)
    assert reference_errors(program) == []
    check(topology, program)
    assert program == lower_steps(topology, collective, schedule)


def test_shards_lie_in_the_order_of_their_homes() -> None:
    topology = samples.ring(4, both=True)
    homes = [3, 1, 3, 0, 1]
    collective, schedule = samples.greedy_schedule(
        topology, CollectiveKind.ALLREDUCE, homes=homes, n_chunks=2
    )
    program = lower_steps(topology, collective, schedule)
    assert program.n_chunks % 5 == 0
    assert (program.shard_offset * 5 // program.n_chunks).tolist() == [0, 1, 3, 3, 5]
    assert reference_errors(program) == []


def test_chunks_are_no_finer_than_needed() -> None:
    topology = samples.ring(2)
    sends = [(0, 0, 0, 0, 4), (0, 0, 0, 4, 12), (1, 1, 0, 0, 12)]
    schedule = StepSchedule(
        CollectiveKind.ALLGATHER, broadcast=steps_from_sends(Direction.BROADCAST, 2, 12, sends)
    )
    program = lower_steps(topology, on_all_ranks(topology, CollectiveKind.ALLGATHER), schedule, merge=False)
    assert program.n_chunks == 6
    counts = program.count[program.operation_kind == OperationKind.SEND]
    assert sorted(counts.tolist()) == [1, 2, 3]
    fine = [(0, 0, 0, 0, 1), (0, 0, 0, 1, 2**24), (1, 1, 0, 0, 2**24)]
    many = steps_from_sends(Direction.BROADCAST, 2, 2**24, fine)
    program = lower_steps(
        topology,
        on_all_ranks(topology, CollectiveKind.ALLGATHER),
        replace(schedule, broadcast=many),
    )
    assert program.n_chunks == 2**25


def test_bounds_too_fine_for_programs_are_refused() -> None:
    topology = samples.ring(2)
    reduce = steps_from_sends(
        Direction.REDUCE, 2, 2**24, [(0, 1, 0, 0, 2**24), (1, 0, 0, 0, 1), (1, 0, 0, 1, 2**24)]
    )
    odd = 2**24 - 1
    broadcast = steps_from_sends(
        Direction.BROADCAST, 2, odd, [(0, 0, 0, 0, odd), (1, 1, 0, 0, 1), (1, 1, 0, 1, odd)]
    )
    schedule = StepSchedule(CollectiveKind.ALLREDUCE, reduce, broadcast)
    with pytest.raises(InfeasibleError, match="use a schedule with fewer chunks per shard"):
        lower_steps(topology, on_all_ranks(topology, CollectiveKind.ALLREDUCE), schedule)


def test_whole_buffer_allreduce_needs_no_relay() -> None:
    topology, collective, schedule = samples.whole_buffer_allreduce(4)
    assert verify_steps(topology, collective, schedule).is_ok
    program = lower_steps(topology, collective, schedule)
    check(topology, program)
    assert reference_errors(program) == []
    assert program.n_operations == 4 * 3 * 2
    assert [row.wrong for row in measure(program, [4096], iterations=1)] == [0]
    assert interpret_msccl_xml(emit_msccl_xml(program)).violations == ()
    with pytest.raises(InfeasibleError, match="cannot run in place"):
        lower_steps(topology, collective, schedule, in_place=True)
    ring = StepSchedule(CollectiveKind.ALLREDUCE, reduce=samples.ring_steps(4, Direction.REDUCE))
    with pytest.raises(InfeasibleError, match="every rank is linked to every other"):
        lower_steps(samples.ring(4), collective, ring)


@pytest.mark.parametrize(
    ("kind", "sends", "message"),
    [
        (CollectiveKind.ALLGATHER, [(0, 1, 0, 0, 1)], "step 0: rank 1 sends a piece that it does not have"),
        (CollectiveKind.ALLGATHER, [(0, 0, 0, 0, 1), (0, 1, 0, 0, 1)], "does not have yet, to rank 2"),
        (
            CollectiveKind.ALLGATHER,
            [(0, 0, 0, 0, 1), (0, 1, 1, 0, 1)],
            "rank 0 never gets a piece of which rank 1",
        ),
        (CollectiveKind.REDUCE_SCATTER, [(0, 2, 0, 0, 1)], "rank 0 has no part in a piece of which rank 1"),
        (
            CollectiveKind.REDUCE_SCATTER,
            [(0, 2, 0, 0, 1), (0, 2, 1, 0, 1)],
            "step 0: rank 2 sends a sum twice, to rank 0",
        ),
        (CollectiveKind.ALLGATHER, [(0, 7, 0, 0, 1)], "link 7, expected links from 0 to 2"),
    ],
)
def test_what_is_missing_is_refused(kind: CollectiveKind, sends: list[Send], message: str) -> None:
    topology = samples.ring(3)
    direction = Direction.BROADCAST if kind.broadcasts else Direction.REDUCE
    schedule = StepSchedule(kind, **{direction.value: steps_from_sends(direction, 3, 1, sends)})
    with pytest.raises(ScheduleError, match=message):
        lower_steps(topology, on_all_ranks(topology, kind), schedule)


def test_misfits_are_refused() -> None:
    topology = samples.ring(3)
    collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)
    schedule = StepSchedule(CollectiveKind.ALLGATHER, broadcast=samples.ring_steps(3, Direction.BROADCAST))
    steps = schedule.broadcast
    assert steps is not None
    broadcast = on_all_ranks(topology, CollectiveKind.BROADCAST, root=1)
    cases = [
        ({"channels": 0}, collective, schedule, "channels: expected at least 1"),
        ({}, on_all_ranks(topology, CollectiveKind.ALLREDUCE), schedule, "the schedule is for allgather"),
        ({}, replace(collective, weights=(1, 2, 3)), schedule, "shards of step schedules are of one size"),
        (
            {},
            collective,
            replace(schedule, broadcast=replace(steps, homes=[0, 0, 1])),
            "rank 0 is the home of 2 shards, expected 1",
        ),
        (
            {},
            broadcast,
            StepSchedule(CollectiveKind.BROADCAST, broadcast=steps),
            "rank 0 is the home of 1 shards, expected 0",
        ),
        (
            {},
            collective,
            StepSchedule(CollectiveKind.ALLGATHER, broadcast=samples.ring_steps(4, Direction.BROADCAST)),
            "the schedule has 4 ranks, the collective 3",
        ),
        (
            {},
            collective,
            replace(schedule, broadcast=steps_from_sends(Direction.BROADCAST, 3, 1, [], homes=[])),
            "no shards",
        ),
    ]
    for options, asked, given_, message in cases:
        with pytest.raises(ScheduleError, match=message):
            lower_steps(topology, asked, given_, **options)


def test_only_ranks_have_programs() -> None:
    builder = TopologyBuilder("relay")
    for name in ("a", "b", "relay"):
        builder.compute(name)
    builder.switch("sw")
    for one, other in (("a", "relay"), ("relay", "b"), ("b", "sw"), ("sw", "a"), ("a", "b"), ("a", "a")):
        builder.link(one, other, 1)
    topology = builder.build()
    collective = Collective(CollectiveKind.BROADCAST, (0, 1), root=0, forwarders=(2,))

    def schedule(*links: int) -> StepSchedule:
        sends = [(0, link, t, 0, 1) for t, link in enumerate(links)]
        steps = steps_from_sends(Direction.BROADCAST, 2, 1, sends, homes=[0])
        return StepSchedule(CollectiveKind.BROADCAST, broadcast=steps)

    assert reference_errors(lower_steps(topology, collective, schedule(4))) == []
    with pytest.raises(InfeasibleError, match="use link a->relay, but 'relay' is no rank and has no program"):
        lower_steps(topology, collective, schedule(0, 1))
    with pytest.raises(InfeasibleError, match="'sw' is no rank"):
        lower_steps(topology, collective, schedule(4, 2))
    with pytest.raises(ScheduleError, match="leads nowhere"):
        lower_steps(topology, collective, schedule(4, 5))


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("kind", SPANNING_KINDS)
def test_every_order_of_execution_is_right(kind: CollectiveKind, in_place: bool) -> None:
    for topology in (samples.ring(2, links=2), samples.ring(3)):
        if topology.n_nodes == 3 and kind is CollectiveKind.ALLREDUCE:
            continue  # too many orders
        collective, schedule = samples.greedy_schedule(topology, kind, n_chunks=4 - topology.n_nodes, root=1)
        program = lower_steps(topology, collective, schedule, in_place=in_place)
        assert not any_order_fails(program)


def test_links_that_the_fabric_has_not_are_refused() -> None:
    topology = samples.ring(4)
    steps = steps_from_sends(Direction.BROADCAST, 4, 1, [(0, 0, 0, 0, 1), (0, topology.n_links, 0, 0, 1)])
    schedule = StepSchedule(CollectiveKind.ALLGATHER, broadcast=steps)
    with pytest.raises(ScheduleError, match=f"link {topology.n_links}, expected links from 0 to"):
        lower_steps(topology, on_all_ranks(topology, CollectiveKind.ALLGATHER), schedule)
