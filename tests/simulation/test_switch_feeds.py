"""Copies and sums made by switches."""

from __future__ import annotations

import dataclasses
from fractions import Fraction

import numpy as np
import pytest

from samples.forest_samples import asked_allreduce, pruned_broadcast, pruned_reduce
from samples.simulation_samples import RATE, one_to_two, star, two_to_one
from shortcuts.simulated import simulate_program
from treadle import planning
from treadle.errors import ScheduleError
from treadle.program.any_schedule import lower
from treadle.program.program import Operation, OperationKind, Program, program_from_operations
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.trees.forest_cost import link_loads
from treadle.simulation.simulation_options import Forwarding, Sharing, SimulationOptions

NS = Fraction(1, 10**9)


@pytest.mark.parametrize("sharing", Sharing)
@pytest.mark.parametrize(("make", "silent"), [(one_to_two, {1, 2, 4}), (two_to_one, {0, 3, 5})])
def test_the_switch_saves_a_crossing(make, silent: set[int], sharing: Sharing) -> None:
    """Each of three links is used once, for all of the data; through and through, 1000 ns."""
    result = simulate_program(star(3, capable=True), make(), 1000, SimulationOptions(sharing=sharing))
    assert result.time_s == pytest.approx(1000e-9, rel=1e-9)
    busy = [busy * float(result.tick_s) for busy in result.busy.tolist()]
    assert busy == pytest.approx([0 if link in silent else 1000e-9 for link in range(6)], rel=1e-9)


@pytest.mark.parametrize("make", [one_to_two, two_to_one])
def test_what_is_crossed_aside_uses_its_hosts_port(make) -> None:
    """Ports of half the links' rate: twice the time, for copies and for sums that no rank receives itself."""
    fabric = star(3, capable=True)
    ports = np.zeros(fabric.n_nodes, dtype=np.int64)
    ports[:3] = RATE // 2
    narrow = dataclasses.replace(fabric, injection_bytes_per_s=ports)
    result = simulate_program(narrow, make(), 1000, SimulationOptions(sharing=Sharing.FAIR))
    assert result.time_s == pytest.approx(2000e-9, rel=1e-9)
    ports_busy = result.busy[fabric.n_links :] * float(result.tick_s)
    assert sorted(ports_busy.tolist()) == pytest.approx([0, 0, 0, *[2000e-9] * 3], rel=1e-9)


def test_sums_wait_for_all_that_they_add() -> None:
    """Stored at the switch: both arrive at 1000 ns, the sum leaves then."""
    options = SimulationOptions(forwarding=Forwarding.STORE_AND_FORWARD)
    assert simulate_program(star(3, capable=True), two_to_one(), 1000, options).time == 2000 * NS


@pytest.mark.parametrize("make", [one_to_two, two_to_one])
def test_a_switch_that_cannot_is_refused(make) -> None:
    with pytest.raises(ScheduleError, match="'sw', which does not"):
        simulate_program(star(3), make(), 1000)


def test_a_copy_of_nothing_is_refused() -> None:
    program = program_from_operations(
        CollectiveKind.BROADCAST,
        [
            [Operation(OperationKind.SEND, 0, 1, peer=1, path=0)],
            [Operation(OperationKind.RECEIVE, 0, 1, peer=0)],
        ],
        n_chunks=1,
        shard_offset=[0, 1, 1],
        root=0,
        paths=[(3,)],
    )
    with pytest.raises(ScheduleError, match="no send brings chunk 0 there"):
        simulate_program(star(2, capable=True), program, 1000)


@pytest.mark.parametrize("sample", [pruned_broadcast, pruned_reduce, asked_allreduce])
@pytest.mark.parametrize("sharing", Sharing)
def test_links_carry_what_the_pruned_schedule_says(sample, sharing: Sharing) -> None:
    topology, collective, schedule = sample()
    program = lower(topology, collective, schedule)
    result = simulate_program(topology, program, 7200, SimulationOptions(slices=2, sharing=sharing))
    expected = link_loads(topology, schedule) / schedule.total_units * 7200 / topology.bandwidths
    assert result.busy * float(result.tick_s) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("cap", [0, 2 * RATE])
@pytest.mark.parametrize("sharing", Sharing)
def test_who_asks_hears_itself(sharing: Sharing, cap: int) -> None:
    """A store comes back to rank 0, and its own data go up with those that it asks the sum of."""
    fabric = star(3, cap=cap)
    flags = ~fabric.is_compute
    asked = dataclasses.replace(fabric, multicast=flags, aggregation=flags)
    by_itself = dataclasses.replace(asked, turns_round=flags)
    for make, link in ((one_to_two, 1), (two_to_one, 0)):
        seconds = []
        for topology in (asked, by_itself):
            result = simulate_program(topology, make(), 1000, SimulationOptions(sharing=sharing))
            seconds.append(result.busy * float(result.tick_s))
            assert result.time_s == pytest.approx(1000e-9, rel=1e-9)
        more = seconds[0] - seconds[1]
        assert np.flatnonzero(more > 1e-12).tolist() == [link, *([] if not cap else [6 + 3 * (link == 1)])]
        assert more[link] == pytest.approx(1000e-9, rel=1e-9)


def test_a_sum_waits_for_the_asker() -> None:
    """Rank 0's own link is four times as slow as the others': its part comes last."""
    fabric = star(3, capable=True)
    slow = fabric.bandwidths // np.array([4, 1, 1, 1, 1, 1])
    flags = ~fabric.is_compute
    for turns, expected in ((flags, 2000), (flags & False, 5000)):
        topology = dataclasses.replace(fabric, bandwidths=slow, turns_round=turns)
        options = SimulationOptions(forwarding=Forwarding.STORE_AND_FORWARD)
        assert simulate_program(topology, two_to_one(), 1000, options).time == expected * NS


def test_operations_are_told_apart_by_who_asks() -> None:
    """Rank 0 sends to rank 1 through the switch, which stores for ranks 2 and 3: nothing starts before."""
    program = program_from_operations(
        CollectiveKind.BROADCAST,
        [
            [Operation(OperationKind.SEND, 0, 1, peer=1, path=0)],
            [
                Operation(OperationKind.RECEIVE, 0, 1, peer=0),
                Operation(OperationKind.SEND, 0, 1, peer=2, path=1, step=1, waits=(0,)),
                Operation(OperationKind.SEND, 0, 1, peer=3, path=2, step=1, waits=(0,)),
            ],
            [Operation(OperationKind.RECEIVE, 0, 1, peer=1, step=1)],
            [Operation(OperationKind.RECEIVE, 0, 1, peer=1, step=1)],
        ],
        n_chunks=1,
        shard_offset=[0, 1, 1, 1, 1],
        root=0,
        paths=[(0, 3), (2, 5), (7,)],
    )
    fabric = star(4, capable=True)
    for turns, expected in ((~fabric.is_compute, 0), (fabric.turns_round & False, 1000)):
        result = simulate_program(dataclasses.replace(fabric, turns_round=turns), program, 1000)
        begin, _ = result.operation_spans()
        # the copy for rank 3 is of rank 1's store, not of what passed before
        assert int(begin[3]) * result.tick_s == expected * NS
        loads = result.busy * float(result.tick_s) / 1e-6
        assert loads == pytest.approx([1, 0, 1, 1, 0, 1, 0, 1] if not expected else [1, 1, 1, 2, 0, 1, 0, 1])


def test_a_plan_of_one_asker_takes_twice_as_long() -> None:
    """One box with NVLink SHARP, many slices: near the plan's algbw, and half with all data at one root."""
    plan = planning.solve("dgx_h100(1, nvls=True)", "allreduce").plan
    row = planning.simulate(plan, [2**30], options=SimulationOptions(slices=256), auto_slices=False).rows[0]
    assert row.efficiency is not None
    assert 0.99 < row.efficiency <= 1
    schedule = plan.entries[-1].schedule
    program = lower(plan.topology, plan.collective, schedule)
    one = only_root(program)
    time = simulate_program(plan.topology, one, 2**30, SimulationOptions(slices=256)).time_s
    assert 2**30 / time == pytest.approx(225e9, rel=0.01)


def only_root(program: Program) -> Program:
    """What rank 0 asks for, for all of the data."""
    mine = program.first == program.first[program.operation_rank == 0].min()
    keep = np.flatnonzero((program.first == 0) & mine)
    number = {int(old): new for new, old in enumerate(keep)}
    waits = [
        [number[int(w)] for w in program.waits[program.wait_offset[i] : program.wait_offset[i + 1]]]
        for i in keep
    ]
    columns = ("operation_kind", "peer", "channel", "step", "source", "target", "path")
    return dataclasses.replace(
        program,
        n_chunks=1,
        shard_offset=np.array([0] + [1] * 8),
        operation_offset=np.searchsorted(program.operation_rank[keep], np.arange(9)),
        first=np.zeros(len(keep), dtype=np.int64),
        count=np.ones(len(keep), dtype=np.int64),
        wait_offset=np.cumsum([0, *map(len, waits)]),
        waits=np.array([w for row in waits for w in row], dtype=np.int64),
        **{key: getattr(program, key)[keep] for key in columns},
    )


def test_an_in_network_allreduce_comes_close_to_its_bound() -> None:
    """Two boxes of H100 with switches that copy and add (figure 4.12's setting): efficiency grows to 1."""
    plan = planning.solve("dgx_h100(2, nvls=True, sharp=True)", "allreduce", multicast=True).plan
    shares = [
        planning.simulate(plan, [2**30], options=SimulationOptions(slices=n), auto_slices=False)
        .rows[0]
        .efficiency
        for n in (16, 256)
    ]
    assert None not in shares
    assert shares[0] < 0.9 < 0.98 < shares[1] <= 1


def through_a_relay(*, reduces: bool) -> Program:
    """Rank 1 stands between 0 and 2 in the tree, but the switch copies (adds) for rank 2 as the data pass."""
    if reduces:
        ranks = [
            [Operation(OperationKind.RECEIVE_REDUCE, 0, 1, peer=1, step=1)],
            [
                Operation(OperationKind.RECEIVE_REDUCE, 0, 1, peer=2),
                Operation(OperationKind.SEND, 0, 1, peer=0, path=0, step=1, waits=(0,)),
            ],
            [Operation(OperationKind.SEND, 0, 1, peer=1, path=1)],
        ]
        kind, paths = CollectiveKind.REDUCE, [(2, 1), (4,)]
    else:
        ranks = [
            [Operation(OperationKind.SEND, 0, 1, peer=1, path=0)],
            [
                Operation(OperationKind.RECEIVE, 0, 1, peer=0),
                Operation(OperationKind.SEND, 0, 1, peer=2, path=1, step=1, waits=(0,)),
            ],
            [Operation(OperationKind.RECEIVE, 0, 1, peer=1, step=1)],
        ]
        kind, paths = CollectiveKind.BROADCAST, [(0, 3), (5,)]
    return program_from_operations(kind, ranks, n_chunks=1, shard_offset=[0, 1, 1, 1], root=0, paths=paths)


@pytest.mark.parametrize("sharing", Sharing)
@pytest.mark.parametrize("reduces", [False, True])
def test_switches_wait_for_no_rank(reduces: bool, sharing: Sharing) -> None:
    """Rank 1 need not have the data for rank 2 to get them; nor need it wait for what never comes to it."""
    program = through_a_relay(reduces=reduces)
    result = simulate_program(star(3, capable=True), program, 1000, SimulationOptions(sharing=sharing))
    assert result.time_s == pytest.approx(1000e-9, rel=1e-9)


@pytest.mark.parametrize("sharing", Sharing)
def test_a_copy_ends_no_earlier_than_what_it_is_made_of(sharing: Sharing) -> None:
    """The way to the switch takes 2000 ns, the links behind it half of that."""
    fabric = star(3, capable=True)
    slow = dataclasses.replace(fabric, bandwidths=fabric.bandwidths // np.array([2, 1, 1, 1, 1, 1]))
    result = simulate_program(slow, one_to_two(), 1000, SimulationOptions(sharing=sharing))
    begin, _ = result.operation_spans()
    assert begin[[2, 3]] * float(result.tick_s) == pytest.approx([2000e-9, 2000e-9], rel=1e-9)


def test_a_copy_is_made_of_the_first_that_comes() -> None:
    """Ranks 0, 1, 2 pass the data on through the switch, which copies them for rank 3 the first time."""
    program = program_from_operations(
        CollectiveKind.BROADCAST,
        [
            [Operation(OperationKind.SEND, 0, 1, peer=1, path=0)],
            [
                Operation(OperationKind.RECEIVE, 0, 1, peer=0),
                Operation(OperationKind.SEND, 0, 1, peer=2, path=1, step=1, waits=(0,)),
                Operation(OperationKind.SEND, 0, 1, peer=3, path=2, step=2, waits=(0,)),
            ],
            [Operation(OperationKind.RECEIVE, 0, 1, peer=1, step=1)],
            [Operation(OperationKind.RECEIVE, 0, 1, peer=1, step=2)],
        ],
        n_chunks=1,
        shard_offset=[0, 1, 1, 1, 1],
        root=0,
        paths=[(0, 3), (2, 5), (7,)],
    )
    result = simulate_program(star(4, capable=True), program, 1000)
    begin, _ = result.operation_spans()
    assert [int(time) * result.tick_s for time in begin[[1, 4, 5]]] == [1000 * NS, 2000 * NS, 1000 * NS]
