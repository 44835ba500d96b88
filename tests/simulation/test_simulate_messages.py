"""Times of small programs told by hand, and of random ones by a slow simulator."""

from __future__ import annotations

import random
from fractions import Fraction
from math import inf, nextafter

import numpy as np
import pytest

from samples.program_cases import random_case
from samples.simulation_samples import chain, messages, relay, star
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
