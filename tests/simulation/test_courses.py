"""The course of one relay over four unlike links, told by hand: path, trace, shares of time, fluids."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from samples.simulation_samples import chain, messages, relay, star
from shortcuts.simulated import simulate_program
from treadle.errors import ScheduleError
from treadle.program.program import Operation, OperationKind, Program, program_from_operations
from treadle.schedules.collective import CollectiveKind
from treadle.simulation.clock import Clock, timed_graph
from treadle.simulation.costs.cost_model import ClassCost, Protocol
from treadle.simulation.critical_path import CriticalStep, critical_path, describe_path
from treadle.simulation.deadlock import deadlock_error
from treadle.simulation.messages import seconds_below, simulate_messages
from treadle.simulation.result import Simulation
from treadle.simulation.simulate import MAX_TASKS, simulate_graph
from treadle.simulation.simulation_options import Forwarding, LatencyModel, Sharing, SimulationOptions
from treadle.simulation.slice_limits import SliceLimit, slice_limit, slices_at_most
from treadle.simulation.slice_search import SliceSearch, Trial
from treadle.simulation.tasks import TaskGraph, task_graph
from treadle.simulation.trace import simulation_trace
from treadle.simulation.utilization_drawing import utilisation_over_time
from treadle.traces.timed_lanes import TraceSpan

NS = Fraction(1, 10**9)
UNLIKE = chain(3, rates=[10**9, 2 * 10**9, 4 * 10**9, 5 * 10**8], latency_ns=7)
"""A slice of 1000 bytes takes 1000, 500, 250 and 2000 ns on its links, which are 7 ns long."""


def stored(slices: int) -> Simulation:
    """Slices of 1000 bytes each over all four links, stored at each switch, 50 ns of software a message."""
    options = SimulationOptions(slices=slices, alpha_ns=50, forwarding=Forwarding.STORE_AND_FORWARD)
    return simulate_program(UNLIKE, relay(3), 1000 * slices, options, with_binding=True)


def test_each_step_of_a_path() -> None:
    """Each link after the one before and 7 ns; a receive 50 ns later still; the second slice queues."""
    steps = [
        (0, 0, 0, 0, 1000, False),
        (0, 0, 1, 1007, 500, False),
        (1, 0, -1, 1564, 0, False),
        (2, 0, 2, 1564, 250, False),
        (2, 0, 3, 1821, 2000, False),
        (2, 1, 3, 3821, 2000, True),
        (3, 1, -1, 5878, 0, False),
    ]
    path = critical_path(stored(2))
    assert path.steps == tuple(
        CriticalStep(operation, part, resource, start * NS, held * NS, waited)
        for operation, part, resource, start, held, waited in steps
    )
    assert path.total == 5878 * NS
    assert path.resource_s == {0: 1000 * NS, 1: 500 * NS, 2: 250 * NS, 3: 4000 * NS}
    assert path.latency == 128 * NS


def test_a_path_in_words() -> None:
    """Of 3878 ns: 2000, 1000, 500, 250 and 4 x 7 + 2 x 50 = 128 of latency."""
    simulation = stored(1)
    path = critical_path(simulation)
    head = "2 messages over 4 links one after another"
    slowest, first = " 51.6%  sw1->c", " 25.8%  a->sw0"
    assert describe_path(simulation, path) == (
        head, slowest, first, " 12.9%  sw0->b", "  6.4%  1 more", "  3.3%  latency",
    )  # fmt: skip
    assert describe_path(simulation, path, most=2) == (
        head, slowest, first, " 19.3%  2 more", "  3.3%  latency",
    )  # fmt: skip
    assert describe_path(simulation, path, most=4) == (
        head, slowest, first, " 12.9%  sw0->b", "  6.4%  b->sw1", "  3.3%  latency",
    )  # fmt: skip
    twice = stored(2)  # the second slice over the last link is a message of its own
    assert describe_path(twice, critical_path(twice), most=1) == (
        "3 messages over 4 links one after another",
        " 68.1%  sw1->c",
        " 29.8%  3 more",
        "  2.2%  latency",
    )


def test_links_of_equal_shares_are_named_by_number_and_nothing_takes_all_of_no_time() -> None:
    options = SimulationOptions(forwarding=Forwarding.STORE_AND_FORWARD)
    even = simulate_program(chain(3), relay(3), 1000, options, with_binding=True)
    assert describe_path(even, critical_path(even), most=2)[1:3] == (" 25.0%  a->sw0", " 25.0%  sw0->b")
    nothing = simulate_program(chain(2), relay(2), 0, with_binding=True)
    assert describe_path(nothing, critical_path(nothing))[-1] == "  0.0%  latency"


def test_times_of_two_steps_that_overlap_count_once() -> None:
    """Cut-through: the second link begins when its 500 ns end with the first's 1000, and 7 ns later."""
    simulation = simulate_program(UNLIKE, relay(3), 1000, with_binding=True)
    path = critical_path(simulation)
    spans = [(step.resource, step.start, step.held) for step in path.steps]
    expected = [
        (0, 0, 1000), (1, 507, 500), (-1, 1014, 0), (2, 1014, 250), (3, 1021, 2000), (-1, 3028, 0),
    ]  # fmt: skip
    assert spans == [(link, start * NS, held * NS) for link, start, held in expected]
    assert {link: seconds / NS for link, seconds in path.resource_s.items()} == {
        0: 1000, 1: 7, 2: 250, 3: 3021 - 1264,
    }  # fmt: skip
    assert path.latency == (3028 - 3021 + 1014 - 1007) * NS


def test_a_trace_of_two_slices() -> None:
    trace = simulation_trace(stored(2))

    def on_link(name: str, operation: int, step: int, *spans: tuple[int, int]) -> list[TraceSpan]:
        return [
            TraceSpan(name, begin * 1000, end * 1000, {"operation": operation, "slice": part, "step": step})
            for part, (begin, end) in enumerate(spans)
        ]

    def at_rank(name: str, operation: int, part: int, begin: int, end: int) -> TraceSpan:
        return TraceSpan(name, begin * 1000, end * 1000, {"operation": operation, "slice": part})

    first, second = "0->1 [0,1)", "1->2 [0,1)"
    lanes = [(lane.process, lane.name, list(lane.spans)) for lane in trace.lanes]
    assert lanes[:4] == [
        ("links", "0: a->sw0", on_link(first, 0, 0, (0, 1000), (1000, 2000))),
        ("links", "1: sw0->b", on_link(first, 0, 0, (1007, 1507), (2007, 2507))),
        ("links", "2: b->sw1", on_link(second, 2, 1, (1564, 1814), (2564, 2814))),
        ("links", "3: sw1->c", on_link(second, 2, 1, (1821, 3821), (3821, 5821))),
    ]
    assert lanes[4:] == [
        ("ranks", "rank 0: a", [at_rank("send 1 [0,1)", 0, 0, 0, 1507)]),
        ("ranks", "rank 0: a (2)", [at_rank("send 1 [0,1)", 0, 1, 1000, 2507)]),
        (
            "ranks",
            "rank 1: b",
            [at_rank("receive 0 [0,1)", 1, 0, 1564, 1564), at_rank("send 2 [0,1)", 2, 0, 1564, 3821)],
        ),
        (
            "ranks",
            "rank 1: b (2)",
            [at_rank("receive 0 [0,1)", 1, 1, 2564, 2564), at_rank("send 2 [0,1)", 2, 1, 2564, 5821)],
        ),
        (
            "ranks",
            "rank 2: c",
            [at_rank("receive 1 [0,1)", 3, 0, 3878, 3878), at_rank("receive 1 [0,1)", 3, 1, 5878, 5878)],
        ),
    ]
    assert trace.about == {"fabric": "chain", "size_bytes": 2000, "time_s": 5878e-9}


def test_how_many_links_are_busy_when() -> None:
    """A thousand parts of 5.878 ns; of four links one is busy at first, three while both slices move."""
    (counter,) = simulation_trace(stored(2)).counters
    assert (counter.process, counter.name, counter.unit) == ("links", "links busy", "%")
    assert len(counter.points) == 1001
    assert counter.points[:2] == ((0, 25.0), (5878, 25.0))
    assert counter.points[-1] == (5_878_000, 0.0)
    at = dict(counter.points)
    # 1.2 us: both first links; 2.2 us: the second and the last; 3 us: only the last
    assert [at[tick * 5878] for tick in (204, 374, 510, 999)] == [50.0, 50.0, 25.0, 0.0]


def test_a_launch_is_before_what_a_trace_shows() -> None:
    costs = Protocol("p", launch_ns=4000)
    simulation = simulate_program(UNLIKE, relay(3), 1000, SimulationOptions(costs=costs))
    trace = simulation_trace(simulation)
    assert trace.about["time_s"] == pytest.approx(7028e-9, rel=1e-12)
    assert trace.counters[0].points[-1] == (3_028_000, 0.0)


def test_shares_of_time_in_parts_that_messages_fill_in_part() -> None:
    """3878 ns in two parts of 1939: links busy for 1000, 500, 250 in the first; 118 of the last's 2000."""
    shares = utilisation_over_time(stored(1), 2) * 1939
    assert shares == pytest.approx(np.array([[1000, 0], [500, 0], [250, 0], [118, 1882]]))
    assert utilisation_over_time(stored(1)).shape == (4, 400)
    with pytest.raises(ScheduleError) as caught:
        utilisation_over_time(stored(1), 0)
    assert str(caught.value) == "utilisation: 0 parts of the time, expected at least 1"


def test_results_in_words_and_numbers() -> None:
    simulation = stored(2)
    assert simulation.n_transfers == 8
    assert simulation.utilisation == pytest.approx(np.array([2000, 1000, 500, 4000]) / 5878)
    assert simulation.algbw_bytes_per_s == pytest.approx(2000 / 5878e-9)
    begin, end = (
        [time * simulation.tick_s / NS for time in column.tolist()] for column in simulation.operation_spans()
    )
    assert begin == [0, 1564, 1564, 3878]
    assert end == [2507, 2564, 5821, 5878]


def test_fluids_pay_latencies_after_or_before_and_sums_before() -> None:
    """1000 bytes over two links of 7 ns at 1 GB/s, then two at 0.5 GB/s: 1014 and 2014 ns, 50 each."""
    whole = simulate_program(UNLIKE, relay(3), 1000, SimulationOptions(alpha_ns=50, sharing=Sharing.FAIR))
    assert whole.time_s == pytest.approx(3128e-9, rel=1e-9)
    assert whole.busy * float(whole.tick_s) == pytest.approx([1e-6, 5e-7, 2.5e-7, 2e-6], rel=1e-9)
    # two slices: the second's bytes wait for the first's, its latency passes meanwhile
    halves = SimulationOptions(slices=2, alpha_ns=50, sharing=Sharing.FAIR)
    assert simulate_program(UNLIKE, relay(3), 2000, halves).time_s == pytest.approx(5128e-9, rel=1e-9)
    held = SimulationOptions(
        slices=2, alpha_ns=50, sharing=Sharing.FAIR, latency_model=LatencyModel.PER_MESSAGE
    )
    assert simulate_program(UNLIKE, relay(3), 2000, held).time_s == pytest.approx(
        (1064 + 2 * 2064) * 1e-9, rel=1e-9
    )
    # 40 ns of each send's first link and 9 of launch; a sum of 900 bytes at 3 GB/s
    costs = Protocol("p", network=ClassCost(100, 40, 3), launch_ns=9)
    program = messages(3, [(0, 2, 3, 0)], [(0, 5)], 3)
    options = SimulationOptions(sharing=Sharing.FAIR, costs=costs, reduction_bytes_per_s=3 * 10**9)
    found = simulate_program(star(3), program, 900, options)
    assert found.time_s == pytest.approx((9 + 40 + 900 + 100 + 2 * 3 + 300) * 1e-9, rel=1e-9)
    assert found.operation_spans()[0] * float(found.tick_s) == pytest.approx([40e-9, 1346e-9], rel=1e-9)


def circle() -> Program:
    def both(peer: int) -> list[Operation]:
        return [
            Operation(OperationKind.RECEIVE_REDUCE, peer, 1, peer=peer),
            Operation(OperationKind.SEND, 1 - peer, 1, peer=peer, path=1 - peer, waits=(0,)),
        ]

    return program_from_operations(
        CollectiveKind.ALLREDUCE,
        [both(1), both(0)],
        n_chunks=2,
        shard_offset=[0, 1, 2],
        paths=[(0, 3), (2, 1)],
    )


@pytest.mark.parametrize("sharing", Sharing)
def test_what_never_starts_is_counted_over_all_slices(sharing: Sharing) -> None:
    """Two sends of two links each and two receives; fluids count likewise."""
    with pytest.raises(ScheduleError) as caught:
        simulate_program(star(2), circle(), 100, SimulationOptions(slices=3, sharing=sharing))
    told = str(caught.value)
    assert told.startswith(
        "simulation: deadlock: 18 of 18 messages and operations never start, the first is "
    )
    assert told.endswith("; expected dependences without circles")


def test_the_first_that_never_starts_is_named() -> None:
    graph = task_graph(UNLIKE, relay(3))
    # slice 0 has started everything, slice 1 the first task alone
    start = np.array([0, 1, 2, 3, 4, 5, 6, -1, -1, -1, -1, -1])
    told = str(deadlock_error(graph, start, 5))
    assert told.startswith("simulation: deadlock: 5 of 12 messages and operations never start, the first is ")
    assert "rank 0, operation 0" in told


def chain_graph() -> TaskGraph:
    return task_graph(UNLIKE, relay(3))


def test_too_many_messages_are_refused_at_once() -> None:
    graph = chain_graph()
    slices = MAX_TASKS // graph.n_tasks + 1
    assert MAX_TASKS == 2**24
    with pytest.raises(ScheduleError, match=r"expected 1 to"):
        SimulationOptions(slices=slices)
    many = task_graph(star(3), messages(3, [(0, 2, 1, 0)] * 6, [(0, 5)], 6))
    assert many.n_tasks == 18
    with pytest.raises(ScheduleError) as caught:
        simulate_graph(many, 1, SimulationOptions(slices=2**20))
    assert str(caught.value) == (
        f"simulation: {18 * 2**20} messages on links, at most 16777216 are possible; use fewer slices"
    )


def test_a_negative_size_is_refused() -> None:
    with pytest.raises(ScheduleError) as caught:
        timed_graph(chain_graph(), -1, SimulationOptions())
    assert str(caught.value) == "simulation: size -1 bytes, expected none or more"
    assert timed_graph(chain_graph(), 0, SimulationOptions()).duration.tolist() == [0] * 6


def test_a_tick_measures_all_times() -> None:
    """1000, 500, 250 and 2000 ns, 7 of latency: 1 ns; bytes alone: 250 ns; latencies alone: 7."""
    graph = chain_graph()
    assert timed_graph(graph, 1000, SimulationOptions()).tick_s == NS
    bare = task_graph(chain(3, rates=[10**9, 2 * 10**9, 4 * 10**9, 5 * 10**8]), relay(3))
    timed = timed_graph(bare, 1000, SimulationOptions())
    assert (timed.tick_s, timed.is_exact) == (250 * NS, True)
    assert timed.duration.tolist() == [4, 2, 0, 0, 1, 8]
    assert timed_graph(graph, 0, SimulationOptions()).tick_s == 7 * NS
    assert timed_graph(bare, 0, SimulationOptions()).tick_s == NS
    held = timed_graph(graph, 1000, SimulationOptions(alpha_ns=50, latency_model=LatencyModel.PER_MESSAGE))
    assert held.duration.tolist() == [1057, 507, 0, 0, 307, 2007]
    apart = timed_graph(graph, 1000, SimulationOptions(alpha_ns=50))
    assert apart.duration.tolist() == [1000, 500, 0, 0, 250, 2000]
    # hops overlap by the shorter of both; deliveries wait for the link and the software; waits for nothing
    assert apart.edge_shift.tolist() == [7 - 500, 57, 0, 7 - 250, 57]


def test_what_is_given_up_and_what_is_not() -> None:
    graph, options = chain_graph(), SimulationOptions(costs=Protocol("p", launch_ns=1000))
    clock = Clock(graph, options)
    # 1000 of launch and 3028, as above
    assert seconds_below(clock, 1000, options) == pytest.approx(4028e-9, rel=1e-12)
    assert seconds_below(clock, 1000, options, 4.029e-6) == pytest.approx(4028e-9, rel=1e-12)
    assert seconds_below(clock, 1000, options, 4.027e-6) is None
    assert simulate_messages(graph, 1000, options).binding.shape == (0, 0)


def test_slices_end_at_their_limits() -> None:
    graph, options = chain_graph(), SimulationOptions(least_slice_bytes=100)
    assert slice_limit(graph, 800, options, 8, 48) is None
    assert slice_limit(graph, 799, options, 8, 48) is SliceLimit.LEAST_SLICE
    assert slice_limit(graph, 800, options, 8, 47) is SliceLimit.MESSAGES
    assert slice_limit(graph, 12_800, options, 64, 1000) is None
    assert slice_limit(graph, 12_800, options, 128, 1000) is SliceLimit.MOST_SLICES
    assert [slices_at_most(graph, size, options) for size in (0, 199, 200, 800, 10**9)] == [1, 1, 2, 8, 64]
    assert slices_at_most(graph, 10**9, options, 6 * 16) == 16


def test_of_equal_trials_the_simpler_counts() -> None:
    """Fewer slices, then the first protocol, then messages one by one."""
    trial = Trial(4, 1, 1, 2.0)
    just_above = np.nextafter(2.0, np.inf)
    for other in (Trial(2, 1, 1), Trial(4, 0, 1), Trial(4, 1, 0), Trial(2, 5, 1)):
        assert trial.bar(other) == just_above
    for other in (Trial(8, 1, 1), Trial(4, 2, 1), Trial(8, 0, 0), Trial(4, 1, 1)):
        assert trial.bar(other) == (just_above if other == Trial(4, 1, 1) else 2.0)


def test_a_search_counts_what_links_carry_at_least() -> None:
    """The last link: 2 ns a byte, and 30 ns of the sends' first links each slice; 500 of launch."""
    costs = Protocol("p", network=ClassCost(occupancy_ns=30), launch_ns=500)
    search = SliceSearch(chain_graph(), [SimulationOptions(costs=costs, least_slice_bytes=1)], 10**6)
    assert search.floor(1000) == pytest.approx(2500e-9, rel=1e-8)
    assert search.floor(1000) <= 2500e-9
    slow = Protocol("q", network=ClassCost(occupancy_ns=3000))
    search = SliceSearch(chain_graph(), [SimulationOptions(costs=slow, least_slice_bytes=1)], 10**6)
    assert search.floor(1000) == pytest.approx(4000e-9, rel=1e-8)
