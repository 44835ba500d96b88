"""Times of small programs told by hand, and of random ones by a slow simulator."""

from __future__ import annotations

import random
from fractions import Fraction
from math import inf, nextafter

import numpy as np
import pytest

from samples.program_cases import random_case
from samples.simulation_samples import chain, messages, relay, slow_times, star
from shortcuts.simulated import simulate_program
from treadle.engine import core
from treadle.errors import ScheduleError
from treadle.program.any_schedule import lower
from treadle.program.program import Operation, OperationKind, program_from_operations
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.trees.forest_cost import link_loads
from treadle.simulation.clock import Clock, timed_graph
from treadle.simulation.core_values import TaskArrays, TaskTimes
from treadle.simulation.messages import seconds_below
from treadle.simulation.simulate import simulate_graph
from treadle.simulation.simulation_options import Forwarding, LatencyModel, Sharing, SimulationOptions
from treadle.simulation.tasks import task_graph

NS = Fraction(1, 10**9)
SIZE = 1200
"""Bytes: 1200 ns on a link."""


def time_of(topology, program, size=SIZE, **options) -> Fraction:
    result = simulate_program(topology, program, size, SimulationOptions(**options))
    assert result.is_exact
    return result.time / NS


@pytest.mark.parametrize("slices", [1, 4])
def test_a_relay_with_stores_is_a_pipeline(slices: int) -> None:
    """h links in a row, S slices: (S + h - 1) / S times the time of one link."""
    found = time_of(chain(4), relay(4), slices=slices, forwarding=Forwarding.STORE_AND_FORWARD)
    assert found == Fraction(slices + 5, slices) * 1200


@pytest.mark.parametrize("slices", [1, 4])
def test_switches_that_cut_through_add_nothing(slices: int) -> None:
    assert time_of(chain(4), relay(4), slices=slices) == Fraction(slices + 2, slices) * 1200


def test_a_slow_link_after_a_fast_one_and_before_one() -> None:
    """Cut-through: as long as the slowest of the path, whatever the order."""
    for rates in ((10**9, 2 * 10**9), (2 * 10**9, 10**9)):
        assert time_of(chain(2, rates=rates), relay(2)) == 1200
        stored = time_of(chain(2, rates=rates), relay(2), forwarding=Forwarding.STORE_AND_FORWARD)
        assert stored == 1800


def test_ticks_need_not_measure_chunks() -> None:
    """Two of three chunks in one message: 80 ns on the first link, 200 on the second, a tick of 40."""
    program = messages(2, [(0, 1, 2, 0)], [(0, 1)], 3)
    assert time_of(chain(2, rates=(30 * 10**9, 12 * 10**9)), program, size=3600) == 200


def test_latencies_that_delay_and_latencies_that_hold() -> None:
    """Three hops of two links, 7 ns each, and 100 ns of software a message; four slices."""
    topology, program = chain(4, latency_ns=7), relay(4)
    options = {"slices": 4, "alpha_ns": 100}
    assert time_of(topology, program, **options) == 6 * 300 + 3 * (100 + 14)
    # each slice holds the first link of a hop for 100 + 7 + 300; the second starts when the head is there
    held = time_of(topology, program, latency_model=LatencyModel.PER_MESSAGE, **options)
    assert held == 6 * (300 + 107) + 3 * 7


def test_messages_that_share_a_link_take_turns() -> None:
    """Ranks 0 and 1 send 1 and 2 chunks to rank 2 through one switch port."""
    topology = star(3)
    program = messages(3, [(0, 2, 1, 0), (1, 2, 2, 1)], [(0, 5), (2, 5)], 3)
    assert time_of(topology, program, size=900) == 900
    result = simulate_program(topology, program, 900, SimulationOptions())
    assert [busy * result.tick_s / NS for busy in result.busy.tolist()] == [300, 0, 600, 0, 0, 900]
    assert result.utilisation[5] == 1


def test_fair_sharing_ends_the_short_message_first() -> None:
    """Half the rate each until the short one (300 ns alone) has ended at 600, then the long one alone."""
    topology = star(3)
    program = messages(3, [(0, 2, 1, 0), (1, 2, 2, 1)], [(0, 5), (2, 5)], 3)
    result = simulate_program(topology, program, 900, SimulationOptions(sharing=Sharing.FAIR))
    ends = result.operation_spans()[1] * float(result.tick_s) * 1e9
    assert ends[[0, 1]] == pytest.approx([600, 900], rel=1e-9)
    assert result.time_s == pytest.approx(900e-9, rel=1e-9)


def test_max_min_gives_what_others_leave() -> None:
    """Rank 0's port is shared by two messages, rank 3's by three, one of which is rank 0's: a third of the
    port for each of those, and two thirds of rank 0's port for the other."""
    topology = star(5)
    program = messages(
        5,
        [(0, 3, 1, 0), (0, 4, 2, 1), (1, 3, 1, 2), (2, 3, 1, 3)],
        [(0, 7), (0, 9), (2, 7), (4, 7)],
        5,
    )
    result = simulate_program(topology, program, 5 * 100, SimulationOptions(sharing=Sharing.FAIR))
    ends = result.operation_spans()[1] * float(result.tick_s) * 1e9
    is_send = program.operation_kind == OperationKind.SEND
    assert ends[is_send] == pytest.approx([300, 300, 300, 300], rel=1e-9)


@pytest.mark.parametrize("sharing", Sharing)
def test_a_host_cap_bounds_what_leaves_and_what_comes(sharing: Sharing) -> None:
    """Rank 0 sends half to each of two ranks, through two links but one host port of the speed of one."""
    builder_star = star(3, cap=10**9)
    program = messages(3, [(0, 1, 1, 0), (0, 2, 1, 1)], [(0, 3), (0, 5)], 2)
    result = simulate_program(builder_star, program, 1000, SimulationOptions(sharing=sharing, slices=4))
    assert result.time_s == pytest.approx(1000e-9, rel=1e-9)
    tight = star(3, cap=5 * 10**8)
    result = simulate_program(tight, program, 1000, SimulationOptions(sharing=sharing, slices=4))
    # a message's first link waits until it can pass at its full rate: one slice's time is lost, 125 ns
    late = 0 if sharing is Sharing.FAIR else 125e-9
    assert result.time_s == pytest.approx(2000e-9 + late, rel=1e-9)


def test_slice_order_lets_late_steps_of_early_slices_go_first() -> None:
    """Rank 1 has its own 4 slices ready at once and relays rank 0's: in order of arrival these come last."""
    topology = chain(3)
    program = program_from_operations(
        CollectiveKind.ALLREDUCE,
        [
            [Operation(OperationKind.SEND, 0, 1, peer=1, path=0)],
            [
                Operation(OperationKind.RECEIVE_REDUCE, 0, 1, peer=0),
                Operation(OperationKind.SEND, 1, 1, peer=2, path=1),
                Operation(OperationKind.SEND, 0, 1, peer=2, path=1, step=1, waits=(0,)),
            ],
            [
                Operation(OperationKind.RECEIVE_REDUCE, 1, 1, peer=1),
                Operation(OperationKind.RECEIVE_REDUCE, 0, 1, peer=1, step=1),
            ],
        ],
        n_chunks=2,
        shard_offset=[0, 0, 0, 2],
        paths=[(0, 1), (2, 3)],
    )
    graph = task_graph(topology, program)
    relayed = {}
    for sharing in (Sharing.FIFO, Sharing.SLICE_ORDER):
        result = simulate_graph(graph, 800, SimulationOptions(slices=4, sharing=sharing))
        assert result.time == 800 * NS
        task = int(np.flatnonzero((graph.operation == 3) & (graph.resource == 2))[0])
        relayed[sharing] = [int(t * result.tick_s / NS) for t in result.start[:, task]]
    # rank 0's slices are there at 100, 200, 300 and 400 ns
    assert relayed[Sharing.FIFO] == [400, 500, 600, 700]
    assert relayed[Sharing.SLICE_ORDER] == [100, 300, 500, 700]


@pytest.mark.parametrize("sharing", [Sharing.FIFO, Sharing.SLICE_ORDER])
@pytest.mark.parametrize("kind", [CollectiveKind.ALLGATHER, CollectiveKind.ALLREDUCE, CollectiveKind.REDUCE])
def test_agrees_with_a_slow_simulator(kind: CollectiveKind, sharing: Sharing) -> None:
    for seed in range(3):
        rng = random.Random(f"{seed}{kind}{sharing}")
        topology, collective, schedule = random_case(seed, kind)
        program = lower(topology, collective, schedule)
        options = SimulationOptions(
            slices=rng.randint(1, 3),
            alpha_ns=rng.choice((0, 50)),
            sharing=sharing,
            latency_model=rng.choice(list(LatencyModel)),
            forwarding=rng.choice(list(Forwarding)),
        )
        graph = task_graph(topology, program)
        found = simulate_graph(graph, 5000, options)
        expected = slow_times(timed_graph(graph, 5000, options), options.slices, sharing)
        assert len(expected) == found.start.size
        assert all(found.start[item] == time for item, time in expected.items())


@pytest.mark.parametrize("sharing", [Sharing.FIFO, Sharing.SLICE_ORDER])
def test_what_is_faster_than_a_limit_is_told_and_nothing_else(sharing: Sharing) -> None:
    """Limits at, just above, far below and far above the whole time, on all kinds of random programs."""
    given_up = 0
    for seed in range(8):
        rng = random.Random(f"{seed}{sharing}")
        kind = rng.choice([CollectiveKind.ALLGATHER, CollectiveKind.ALLREDUCE, CollectiveKind.REDUCE])
        topology, collective, schedule = random_case(seed, kind)
        graph = task_graph(topology, lower(topology, collective, schedule))
        options = SimulationOptions(
            slices=rng.randint(1, 5),
            alpha_ns=rng.choice((0, 50)),
            sharing=sharing,
            latency_model=rng.choice(list(LatencyModel)),
            forwarding=rng.choice(list(Forwarding)),
        )
        whole = simulate_graph(graph, 5000, options)
        clock, seconds = Clock(graph, options), float(whole.time)
        assert seconds_below(clock, 5000, options) == seconds
        assert seconds_below(clock, 5000, options, seconds) is None
        assert seconds_below(clock, 5000, options, nextafter(seconds, inf)) == seconds
        for share in (0, 0.3, 0.9, 0.999, 1.001, 3):
            found = seconds_below(clock, 5000, options, seconds * share)
            assert found == (seconds if share > 1 else None)
        tasks = TaskArrays(
            graph.n_resources,
            graph.resource,
            whole.held,
            graph.edge_offset,
            graph.edge_target,
            timed_graph(graph, 5000, options).edge_shift,
        )
        order = 0 if sharing is Sharing.FIFO else 1
        _, times = core.simulate_tasks(
            tasks, options.slices, order, False, whole.finish * 2 // 3, np.zeros(3, dtype=np.int64)
        )
        assert TaskTimes(*times).is_beyond
        given_up += TaskTimes(*times).done < graph.n_tasks * options.slices
    assert given_up == 8, "no run went on to its end"


def test_a_run_below_a_limit_tells_of_deadlocks() -> None:
    def both(peer: int) -> list[Operation]:
        return [
            Operation(OperationKind.RECEIVE_REDUCE, peer, 1, peer=peer),
            Operation(OperationKind.SEND, 1 - peer, 1, peer=peer, path=1 - peer, waits=(0,)),
        ]

    program = program_from_operations(
        CollectiveKind.ALLREDUCE,
        [both(1), both(0)],
        n_chunks=2,
        shard_offset=[0, 1, 2],
        paths=[(0, 3), (2, 1)],
    )
    options = SimulationOptions()
    with pytest.raises(ScheduleError, match="deadlock"):
        seconds_below(Clock(task_graph(star(2), program), options), 100, options, 1.0)


@pytest.mark.parametrize("sharing", Sharing)
@pytest.mark.parametrize("kind", [CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER])
def test_links_carry_what_the_schedule_says(kind: CollectiveKind, sharing: Sharing) -> None:
    for seed in range(4):
        topology, collective, schedule = random_case(seed, kind)
        program = lower(topology, collective, schedule)
        result = simulate_program(topology, program, 60000, SimulationOptions(slices=3, sharing=sharing))
        loads = link_loads(topology, schedule)
        expected = loads / schedule.total_units * 60000 / topology.bandwidths
        assert result.busy * float(result.tick_s) == pytest.approx(expected, rel=1e-9)
        assert result.time_s >= expected.max() * (1 - 1e-12)


def test_more_or_less_exact() -> None:
    """Sizes and rates without a common measure that 61 bits could count in are rounded, hardly visibly."""
    rates = [999_999_937, 1_000_000_007, 1_000_000_009, 999_999_893, 998_244_353, 999_999_929]
    topology, program = chain(4, rates=rates, latency_ns=1), relay(4)
    result = simulate_program(
        topology, program, 10**9 + 7, SimulationOptions(forwarding=Forwarding.STORE_AND_FORWARD, slices=3)
    )
    assert not result.is_exact
    # the slowest link passes all three slices; the others one each, before and after it
    expected = sum(Fraction(10**9 + 7, 3 * rate) for rate in rates) + 2 * Fraction(10**9 + 7, 3 * 998_244_353)
    assert abs(result.time - (expected + 6 * NS)) / expected < Fraction(1, 10**12)


def test_waits_in_a_circle_are_told_in_one_line() -> None:
    def both(peer: int) -> list[Operation]:
        return [
            Operation(OperationKind.RECEIVE_REDUCE, peer, 1, peer=peer),
            Operation(OperationKind.SEND, 1 - peer, 1, peer=peer, path=1 - peer, waits=(0,)),
        ]

    program = program_from_operations(
        CollectiveKind.ALLREDUCE,
        [both(1), both(0)],
        n_chunks=2,
        shard_offset=[0, 1, 2],
        paths=[(0, 3), (2, 1)],
    )
    for sharing in Sharing:
        with pytest.raises(
            ScheduleError, match=r"deadlock: .* never start, the first is rank 0, operation 0"
        ):
            simulate_program(star(2), program, 100, SimulationOptions(sharing=sharing))


def test_a_lost_message_is_refused() -> None:
    program = program_from_operations(
        CollectiveKind.BROADCAST,
        [[], [Operation(OperationKind.RECEIVE, 0, 1, peer=0)]],
        n_chunks=1,
        shard_offset=[0, 1, 1],
        root=0,
    )
    with pytest.raises(ScheduleError, match="0 sends, 1 receives"):
        simulate_program(star(2), program, 100)


def test_bad_paths_are_refused() -> None:
    for path, words in (((0, 1), "another fabric"), ((0, 0), "follow each other"), ((0, 99), "link 99")):
        program = messages(3, [(0, 2, 1, 0)], [path], 1)
        with pytest.raises(ScheduleError, match=words):
            simulate_program(star(3), program, 100)
    with pytest.raises(ScheduleError, match="no physical path"):
        simulate_program(star(3), messages(3, [(0, 2, 1, -1)], [], 1), 100)


@pytest.mark.parametrize(
    "options",
    [{"slices": 0}, {"slices": 2**21}, {"alpha_ns": -1}, {"reduction_bytes_per_s": -1}],
)
def test_options_have_ranges(options: dict[str, int]) -> None:
    with pytest.raises(ScheduleError, match="expected"):
        SimulationOptions(**options)


def test_sums_take_the_time_they_are_given() -> None:
    program = messages(3, [(0, 2, 1, 0)], [(0, 5)], 1)
    assert time_of(star(3), program, reduction_bytes_per_s=4 * 10**9) == 1200 + 300
    result = simulate_program(
        star(3), program, SIZE, SimulationOptions(reduction_bytes_per_s=4 * 10**9, sharing=Sharing.FAIR)
    )
    assert result.time_s == pytest.approx(1500e-9, rel=1e-9)


def test_nothing_takes_no_time() -> None:
    for sharing in Sharing:
        result = simulate_program(chain(3), relay(3), 0, SimulationOptions(sharing=sharing))
        assert (result.time, result.algbw_bytes_per_s) == (0, 0)


def test_a_port_of_a_host_never_stores() -> None:
    """Stores are at the switch only: out of the host and over its link in one go, and so into the other."""
    program = messages(3, [(0, 1, 1, 0)], [(0, 3)], 1)
    options = {"forwarding": Forwarding.STORE_AND_FORWARD}
    assert time_of(star(3, cap=10**9), program, **options) == 2 * 1200
