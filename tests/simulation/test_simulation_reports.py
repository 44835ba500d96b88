"""Critical paths, traces, alpha-beta times, slices that suit a size."""

from __future__ import annotations

import dataclasses
import json
import random
from fractions import Fraction

import numpy as np
import pytest

from reference.step_times import runtime_s
from samples.program_cases import random_case as random_forest_case
from samples.simulation_samples import chain, relay
from samples.step_samples import random_case
from shortcuts.simulated import simulate_program
from treadle import planning
from treadle.errors import ScheduleError
from treadle.program.any_schedule import lower
from treadle.schedules.alltoall.exchange_cost import exchange_runtime_s
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.trees.forest_cost import algbw
from treadle.simulation.alpha_beta import alpha_beta_time
from treadle.simulation.critical_path import critical_path, describe_path
from treadle.simulation.simulated_sizes import best_slices
from treadle.simulation.simulation_options import Forwarding, LatencyModel, Sharing, SimulationOptions
from treadle.simulation.slice_limits import SliceLimit
from treadle.simulation.tasks import task_graph
from treadle.simulation.trace import simulation_trace
from treadle.simulation.utilization_drawing import draw_utilization, utilisation_over_time
from treadle.traces.chrome_json import chrome_json

NS = Fraction(1, 10**9)


def test_the_critical_path_of_a_relay() -> None:
    """Four slices over six links of 300 ns with stores: the first slice to the end, then those behind it."""
    options = SimulationOptions(slices=4, alpha_ns=50, forwarding=Forwarding.STORE_AND_FORWARD)
    result = simulate_program(chain(4), relay(4), 1200, options, with_binding=True)
    path = critical_path(result)
    assert path.total == (4 + 5) * 300 * NS + 3 * 50 * NS
    assert sum(path.resource_s.values()) == 9 * 300 * NS
    assert path.latency == 150 * NS
    assert sum(step.waited_for_resource for step in path.steps) == 3
    lines = describe_path(result, path, most=2)
    assert lines[-1] == f"{150 / 2850:6.1%}  latency"
    assert len(lines) == 5


@pytest.mark.parametrize("latency_model", LatencyModel)
def test_each_step_of_the_critical_path_starts_when_the_one_before_lets_it(latency_model) -> None:
    for seed in range(5):
        topology, collective, schedule = random_forest_case(seed, CollectiveKind.ALLREDUCE)
        program = lower(topology, collective, schedule)
        options = SimulationOptions(slices=2, alpha_ns=20, latency_model=latency_model)
        result = simulate_program(topology, program, 6000, options, with_binding=True)
        path = critical_path(result)
        assert path.steps[0].start == 0
        for one, other in zip(path.steps, path.steps[1:], strict=False):
            assert one.start <= other.start <= one.start + one.held + 20 * NS
        assert path.steps[-1].start + path.steps[-1].held == path.total
        assert 0 <= path.latency <= path.total


def test_without_a_record_there_is_no_critical_path() -> None:
    with pytest.raises(ScheduleError, match="with_binding"):
        critical_path(simulate_program(chain(2), relay(2), 100))


@pytest.mark.parametrize("sharing", Sharing)
def test_a_trace_has_every_message_in_its_lane(sharing: Sharing) -> None:
    options = SimulationOptions(slices=2, sharing=sharing)
    result = simulate_program(chain(3), relay(3), 1200, options)
    trace = json.loads(chrome_json(simulation_trace(result)))
    spans = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    on_links = [event for event in spans if event["pid"] == 1]
    assert len(on_links) == 4 * 2
    assert len(spans) == len(on_links) + 4 * 2
    for link in range(4):
        lane = sorted((e["ts"], e["dur"]) for e in on_links if e["tid"] == link)
        assert [duration for _, duration in lane] == pytest.approx([0.6, 0.6])
        assert lane[0][0] + 0.6 <= lane[1][0] + 1e-6
    names = {e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"}
    assert "0: a->sw0" in names
    assert "rank 2: c" in names
    assert trace["otherData"]["time_s"] == pytest.approx(1.8e-6)


def test_alpha_beta_of_steps_is_exactly_their_cost() -> None:
    for seed in range(8):
        topology, collective, schedule = random_case(random.Random(seed))
        found = alpha_beta_time(topology, collective, schedule, 12345, alpha_ns=70)
        assert found is not None
        assert float(found) == pytest.approx(runtime_s(topology, schedule, 12345, alpha_s=70e-9), rel=1e-12)


def test_alpha_beta_counts_host_caps() -> None:
    """Both directions of a ring leave through one port: half the speed."""
    plan = planning.solve('ring(4, bandwidth="1GB/s")', "allgather", algorithm="bfb").plan
    capped = dataclasses.replace(plan.topology, injection_bytes_per_s=np.full(4, 10**9))
    schedule = plan.entries[0].schedule
    free, slow = (
        alpha_beta_time(fabric, plan.collective, schedule, 8000, alpha_ns=100)
        for fabric in (plan.topology, capped)
    )
    assert (free, slow) == (200 * NS + 3000 * NS, 200 * NS + 6000 * NS)


def test_alpha_beta_of_exchanges_and_trees() -> None:
    plan = planning.solve("ring(4)", "alltoall").plan
    schedule = plan.entries[0].schedule
    found = alpha_beta_time(plan.topology, plan.collective, schedule, 4096, alpha_ns=70)
    expected = exchange_runtime_s(plan.topology, plan.collective, schedule, 4096, alpha_s=70e-9)
    assert float(found) == pytest.approx(expected, rel=1e-12)
    topology, collective, forest = random_forest_case(1, CollectiveKind.ALLREDUCE)
    latency = alpha_beta_time(topology, collective, forest, 0, alpha_ns=70) / (70 * NS)
    assert latency.denominator == 1
    assert 2 <= latency <= 2 * (collective.n_ranks - 1)
    found = alpha_beta_time(topology, collective, forest, 10**6, alpha_ns=70)
    assert found == latency * 70 * NS + 10**6 / algbw(topology, forest)


@pytest.mark.parametrize("n", [4, 7])
def test_a_ring_allgather_costs_what_the_textbook_says(n: int) -> None:
    """(N - 1)(alpha + M / N / B) one way round, in every model of latency and sharing."""
    plan = planning.solve(f'uni_ring(1, {n}, bandwidth="1GB/s")', "allgather", algorithm="bfb").plan
    program = planning.program_of(plan, n * 1000)
    for sharing in Sharing:
        for model in LatencyModel:
            options = SimulationOptions(alpha_ns=300, sharing=sharing, latency_model=model)
            result = simulate_program(plan.topology, program, n * 1000, options)
            assert result.time_s == pytest.approx((n - 1) * 1300e-9, rel=1e-9)


def test_slices_suit_the_size() -> None:
    """A relay over six stores: with latencies that hold links, few bytes want one slice, many want many."""
    graph = task_graph(chain(4), relay(4))
    options = SimulationOptions(
        alpha_ns=1000, latency_model=LatencyModel.PER_MESSAGE, forwarding=Forwarding.STORE_AND_FORWARD
    )
    options = dataclasses.replace(options, least_slice_bytes=1)
    sized = [best_slices(graph, size, options) for size in (100, 10**4, 10**5, 10**6)]
    found = [one.simulation.options.slices for one in sized]
    assert found == sorted(set(found))
    assert (found[0], found[-1] > 8) == (1, True)
    assert [one.limit for one in sized[:3]] == [None] * 3


def test_no_slice_is_below_the_least() -> None:
    """Latencies that hold nothing: thinner slices always help, down to the least and up to the most."""
    graph = task_graph(chain(4), relay(4))  # one chunk: messages are as large as the buffer
    store = SimulationOptions(forwarding=Forwarding.STORE_AND_FORWARD)
    for least, size, slices, limit in (
        (4096, 1024, 1, SliceLimit.LEAST_SLICE),
        (4096, 8191, 1, SliceLimit.LEAST_SLICE),
        (4096, 8192, 2, SliceLimit.LEAST_SLICE),
        (512, 8192, 16, SliceLimit.LEAST_SLICE),
        (512, 2**20, 64, SliceLimit.MOST_SLICES),
    ):
        sized = best_slices(graph, size, dataclasses.replace(store, least_slice_bytes=least))
        assert (sized.simulation.options.slices, sized.limit) == (slices, limit)
        assert size / slices >= min(least, size)
    assert store.least_slice_bytes == 4096
    with pytest.raises(ScheduleError, match="at least 0 bytes, expected 1"):
        SimulationOptions(least_slice_bytes=0)


def test_the_smallest_message_counts() -> None:
    """A broadcast round a ring, half of the buffer each way: parts of 4 KB are an eighth of 64 KB."""
    plan = planning.solve('ring(5, bandwidth="1GB/s")', "broadcast", root=0).plan
    run = planning.simulate(plan, [2**13, 2**14, 2**16], options=SimulationOptions())
    chunks = run.last.graph.chunks
    assert chunks.min() * 2 == run.last.graph.program.n_chunks
    assert [row.slices for row in run.rows] == [1, 2, 8]


def test_a_trial_of_too_many_messages_is_not_made_and_said() -> None:
    graph = task_graph(chain(4), relay(4))
    store = SimulationOptions(forwarding=Forwarding.STORE_AND_FORWARD)
    most = 8 * graph.n_tasks
    sized = best_slices(graph, 2**20, store, most_tasks=most)
    assert (sized.simulation.options.slices, sized.limit) == (8, SliceLimit.MESSAGES)
    sized = best_slices(graph, 2**20, store, most_tasks=0)
    assert (sized.simulation.options.slices, sized.limit) == (1, SliceLimit.MESSAGES)


def test_utilisation_over_time_adds_up() -> None:
    """Each link's average is its utilisation; links that serve one message at a time are held or not."""
    topology, collective, schedule = random_forest_case(3, CollectiveKind.ALLREDUCE)
    program = lower(topology, collective, schedule)
    for sharing in Sharing:
        options = SimulationOptions(slices=3, alpha_ns=100, sharing=sharing)
        result = simulate_program(topology, program, 5000, options)
        for bins in (1, 7, 50):
            shares = utilisation_over_time(result, bins)
            assert shares.shape == (topology.n_links, bins)
            assert shares.mean(axis=1) == pytest.approx(result.utilisation, abs=1e-9)
            assert shares.min() >= -1e-9
            if sharing is not Sharing.FAIR:
                assert shares.max() <= 1 + 1e-9


def test_utilisation_of_a_relay() -> None:
    """Two links of 300 ns with a store: the first is held in the first half, the second in the other."""
    options = SimulationOptions(forwarding=Forwarding.STORE_AND_FORWARD)
    result = simulate_program(chain(2), relay(2), 300, options)
    assert utilisation_over_time(result, 4) == pytest.approx(np.array([[1, 1, 0, 0], [0, 0, 1, 1]]))
    with pytest.raises(ScheduleError, match="0 parts"):
        utilisation_over_time(result, 0)


def test_pictures() -> None:
    pytest.importorskip("matplotlib")
    result = simulate_program(chain(3), relay(3), 1200, SimulationOptions(slices=2))
    assert draw_utilization(result).startswith(b"\x89PNG")
    assert b"<svg" in draw_utilization(result, file_format="svg")
    with pytest.raises(ScheduleError, match="expected png, svg or pdf"):
        draw_utilization(result, file_format="bmp")
    nothing = simulate_program(chain(3), relay(3), 0)
    assert draw_utilization(nothing).startswith(b"\x89PNG")
