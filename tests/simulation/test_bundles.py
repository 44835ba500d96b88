"""Messages of one step in one: as many bytes, fewer messages, nothing sent before all of it is there."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from samples.program_cases import random_case
from shortcuts.switched_ranks import in_boxes
from treadle.planning import program_of, solve
from treadle.program.any_schedule import lower
from treadle.program.operation_lists import OperationKind
from treadle.schedules.collective import SPANNING_KINDS, CollectiveKind
from treadle.simulation.costs.cost_presets import cost_presets
from treadle.simulation.costs.message_prices import protocol_options
from treadle.simulation.simulate import simulate_graph
from treadle.simulation.simulated_sizes import best_slices
from treadle.simulation.simulation_options import LatencyModel, Sharing, SimulationOptions
from treadle.simulation.tasks import Follows, TaskGraph, coalesced, task_graph


def graph_of(algorithm: str, kind: str, *sizes: int) -> TaskGraph:
    plan = solve(in_boxes(*sizes), kind, algorithm=algorithm).plan
    return task_graph(plan.topology, program_of(plan, 2**20))


def bytes_on(graph: TaskGraph) -> list[int]:
    used = graph.resource >= 0
    return np.bincount(graph.resource[used], graph.chunks[used], graph.n_resources).astype(int).tolist()


@pytest.mark.parametrize(
    ("algorithm", "kind", "before", "after"),
    [
        ("factor-exchange", "alltoall", 16 * (3 * 4 + 3 * 4), 16 * (3 + 3)),
        ("rail", "allgather", 16 * (3 + 3 + 3 * 3), 16 * (3 + 3 + 3)),
        ("one-shot", "allgather", 16 * 15, 16 * 15),
        ("factor-allreduce", "allreduce", 16 * (3 + 3 + 3), 16 * (3 + 3 + 3)),
    ],
)
def test_a_message_carries_all_that_is_sent_in_a_step(
    algorithm: str, kind: str, before: int, after: int
) -> None:
    graph = graph_of(algorithm, kind, 4, 4, 4, 4)
    sends = graph.program.operation_kind[graph.operation] == OperationKind.SEND
    assert len(np.unique(graph.operation[sends])) == before
    joined = coalesced(graph)
    sends = joined.program.operation_kind[joined.operation] == OperationKind.SEND
    assert len(np.unique(joined.operation[sends])) == after
    assert (joined is graph) == (before == after)
    assert bytes_on(joined) == bytes_on(graph)
    received = graph.program.operation_kind[graph.operation] != OperationKind.SEND
    assert int((~sends).sum()) == int(received.sum())
    delivered = np.bincount(
        joined.edge_target[joined.edge_kind == Follows.DELIVERY], minlength=joined.n_tasks
    )
    assert np.all(delivered[~sends] <= 1)
    assert graph.coalesced is graph.coalesced


def test_times_of_messages_that_cost_a_microsecond_each() -> None:
    """3 in the box, then 3 across; apart 12 on each of the two links, side by side but for the first."""
    graph = graph_of("factor-exchange", "alltoall", 4, 4, 4, 4)
    options = SimulationOptions(alpha_ns=1000, latency_model=LatencyModel.PER_MESSAGE)
    apart, together = (simulate_graph(one, 0, options).time for one in (graph, graph.coalesced))
    assert together == Fraction(6, 10**6)
    assert apart == Fraction(13, 10**6)
    assert best_slices(graph, 0, options).simulation.time == together
    pipelined = SimulationOptions(alpha_ns=1000)
    assert best_slices(graph, 0, pipelined).simulation.time == Fraction(2, 10**6)


def test_costs_of_messages_count_bundles_once() -> None:
    """Cost model `reference`: 16 ranks of 4 boxes are quicker where 3 + 3 messages are sent, not 12 + 12."""
    graph = graph_of("factor-exchange", "alltoall", 4, 4, 4, 4)
    (options,) = protocol_options(SimulationOptions(), cost_presets()["reference"])
    apart, together = (simulate_graph(one, 0, options).time for one in (graph, graph.coalesced))
    assert together < apart
    assert best_slices(graph, 0, options).simulation.time == together


@pytest.mark.parametrize("sharing", list(Sharing))
def test_all_bytes_of_a_bundle_cross_however_links_are_shared(sharing: Sharing) -> None:
    """48 bytes on every link of a ring of four, in one message of many parts or in several."""
    plan = solve("hypercube:2", "allreduce", algorithm="bfb").plan
    graph = task_graph(plan.topology, program_of(plan, 64))
    assert graph.coalesced is not graph
    for form in (graph, graph.coalesced):
        assert float(simulate_graph(form, 64, SimulationOptions(sharing=sharing)).time) == pytest.approx(48)


@pytest.mark.parametrize("kind", SPANNING_KINDS)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("has_steps", [True, False])
def test_random_programs_end(seed: int, kind: CollectiveKind, has_steps: bool) -> None:
    """No circle arises, and just as many bytes are sent."""
    topology, collective, schedule = random_case(seed, kind)
    program = lower(topology, collective, schedule)
    if not has_steps:
        program = replace(program, step=np.zeros_like(program.step))
    graph = task_graph(topology, program)
    joined = coalesced(graph)
    assert bytes_on(joined) == bytes_on(graph)
    assert simulate_graph(joined, 1000, SimulationOptions()).time >= 0


def test_copies_in_the_network_stay_one_by_one() -> None:
    plan = solve("dgx_h100(1, gpus_per_box=4, nvls=True)", "allgather", algorithm="nvls").plan
    graph = task_graph(plan.topology, program_of(plan, 2**20))
    assert coalesced(graph) is graph
