"""Several groups simulated at once: loads add up exactly, and large sizes come near the plan's throughput."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest

from shortcuts.group_plans import random_groups, solved_alone
from treadle.program.any_schedule import lower_groups
from treadle.program.operation_lists import OperationKind
from treadle.schedules.collective import SPANNING_KINDS, CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.schedules.trees.forest_cost import group_algbw
from treadle.simulation.alpha_beta import alpha_beta_time
from treadle.simulation.simulate import simulate_graph
from treadle.simulation.simulated_sizes import best_slices
from treadle.simulation.simulation_options import Sharing, SimulationOptions
from treadle.simulation.tasks import task_graph
from treadle.simulation.trace import simulation_trace
from treadle.traces.chrome_json import chrome_json

LEAVES = "leaf_spine:4,2,gpus_per_leaf=8,oversubscription=4"


@pytest.mark.parametrize("kind", SPANNING_KINDS)
def test_what_all_groups_put_on_a_link_is_what_the_closed_form_says(kind: CollectiveKind) -> None:
    for seed in range(4):
        topology, collective, schedule = random_groups(seed, kind)
        lists = lower_groups(topology, collective, schedule).lists
        result = simulate_graph(task_graph(topology, lists), 2**20, SimulationOptions())
        assert result.is_exact
        rate = group_algbw(topology, schedule)
        assert Fraction(int(result.busy.max())) * result.tick_s == Fraction(2**20) / rate
        assert alpha_beta_time(topology, collective, schedule, 2**20) == 2**20 / rate
        assert result.time >= 2**20 / rate


@pytest.mark.parametrize(
    ("kind", "mesh", "axes"),
    [
        (CollectiveKind.ALLGATHER, Mesh((4, 8), ("a", "b")), "a"),
        (CollectiveKind.ALLREDUCE, Mesh((8, 4), ("a", "b")), "a"),
    ],
)
def test_large_sizes_come_near_the_throughput(kind: CollectiveKind, mesh: Mesh, axes: str) -> None:
    plan = solved_alone(LEAVES, kind, mesh, axes)
    lists = lower_groups(plan.topology, plan.collective, plan.entries[0].schedule).lists
    result = best_slices(task_graph(plan.topology, lists), 2**30, SimulationOptions(alpha_ns=1000)).simulation
    assert 0.97 * float(plan.algbw) < result.algbw_bytes_per_s <= float(plan.algbw)


def test_groups_share_links_fairly_too() -> None:
    plan = solved_alone(LEAVES, CollectiveKind.ALLGATHER, Mesh((4, 8), ("a", "b")), "a")
    lists = lower_groups(plan.topology, plan.collective, plan.entries[0].schedule).lists
    result = simulate_graph(
        task_graph(plan.topology, lists), 2**24, SimulationOptions(slices=4, sharing=Sharing.FAIR)
    )
    assert 0.9 * float(plan.algbw) < result.algbw_bytes_per_s <= float(plan.algbw) * (1 + 1e-9)


def test_the_deepest_group_sets_the_latency() -> None:
    depths = set()
    for seed in range(8):
        topology, collective, schedule = random_groups(seed, CollectiveKind.ALLGATHER)
        own = [
            alpha_beta_time(topology, collective.member(group), one, 0, alpha_ns=1000)
            for group, one in enumerate(schedule.groups)
        ]
        depths.add(len(set(own)))
        assert alpha_beta_time(topology, collective, schedule, 0, alpha_ns=1000) == max(own) > 0
        assert alpha_beta_time(topology, collective, schedule, 999, alpha_ns=1000) == max(
            own
        ) + 999 / group_algbw(topology, schedule)
    assert max(depths) > 1, "no case has groups of different depths"


def test_the_trace_names_the_group() -> None:
    topology, collective, schedule = random_groups(2, CollectiveKind.ALLGATHER)
    lists = lower_groups(topology, collective, schedule).lists
    found = simulate_graph(task_graph(topology, lists), 2**20, SimulationOptions())
    trace = json.loads(chrome_json(simulation_trace(found)))
    lanes = [
        event["args"]["name"]
        for event in trace["traceEvents"]
        if event["name"] == "thread_name" and event["pid"] == 2
    ]
    for number, group in enumerate(collective.groups or ()):
        for rank in group:
            assert any(name.startswith(f"group {number}, rank {rank}: ") for name in lanes)
    sends = [event for event in trace["traceEvents"] if event.get("pid") == 1 and event["ph"] == "X"]
    onto = int(np.count_nonzero(lists.operation_kind == OperationKind.SEND))
    assert len(sends) >= onto
    last = {event["name"].split("[")[1].split(",")[1].rstrip(")") for event in sends}
    assert max(map(int, last)) <= lists.n_chunks, "chunks are a group's own"
