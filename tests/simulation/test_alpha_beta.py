"""Alpha-beta times where links are all of unlike length and speed: steps link by link, trees rank by rank."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from random import Random

import numpy as np
import pytest

from samples.program_cases import random_case as random_forest_case
from samples.step_samples import random_case
from treadle import planning
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.steps.step_cost import shard_fraction, step_loads
from treadle.schedules.trees.forest import Forest, ForestSchedule
from treadle.schedules.trees.forest_cost import algbw
from treadle.simulation.alpha_beta import alpha_beta_curve, alpha_beta_time
from treadle.topologies.topology import Topology

NS = Fraction(1, 10**9)


def lengthened(topology: Topology, seed: int) -> Topology:
    drawn = np.random.default_rng(seed).integers(1, 500, topology.n_links)
    return replace(topology, latencies_ns=drawn.astype(np.int64))


def height(topology: Topology, forest: Forest, alpha_ns: int) -> int:
    """Of all trees the longest way from a rank up to its root; of several paths the slowest counts."""
    most = 0
    for root in range(forest.n_ranks):
        for tree in forest.trees(root):
            for rank in range(forest.n_ranks):
                way, at = 0, rank
                while int(tree.parent[at]) >= 0:
                    low, high = int(tree.entry_offset[at]), int(tree.entry_offset[at + 1])
                    paths = [forest.path(int(path)) for path in tree.entry_path[low:high]]
                    way += alpha_ns + max(sum(int(topology.latencies_ns[i]) for i in path) for path in paths)
                    at = int(tree.parent[at])
                most = max(most, way)
    return most


@pytest.mark.parametrize(
    "kind", [CollectiveKind.ALLGATHER, CollectiveKind.ALLREDUCE, CollectiveKind.BROADCAST]
)
@pytest.mark.parametrize("seed", range(4))
def test_trees_take_their_longest_ways_and_all_bytes(seed: int, kind: CollectiveKind) -> None:
    topology, collective, schedule = random_forest_case(seed, kind)
    assert isinstance(schedule, ForestSchedule)
    topology = lengthened(topology, seed)
    for alpha_ns in (0, 70):
        latency = sum(height(topology, forest, alpha_ns) for forest in schedule.forests)
        for size in (0, 12_345):
            found = alpha_beta_time(topology, collective, schedule, size, alpha_ns=alpha_ns)
            assert found == latency * NS + size / algbw(topology, schedule)


@pytest.mark.parametrize("cap", [0, 7])
@pytest.mark.parametrize("seed", range(4))
def test_steps_take_their_slowest_link_or_host(seed: int, cap: int) -> None:
    topology, collective, schedule = random_case(Random(seed))
    topology = lengthened(topology, seed)
    if cap:
        caps = np.where(topology.is_compute, cap * np.arange(1, topology.n_nodes + 1), 0)
        topology = replace(topology, injection_bytes_per_s=caps.astype(np.int64))
    size, alpha_ns = 60_000, 90
    expected = Fraction(0)
    for steps in schedule.phases:
        unit = shard_fraction(schedule, steps) * size / steps.n_chunks
        for load in step_loads(topology, steps):
            times = [
                int(topology.latencies_ns[link]) * NS
                + int(load[link]) * unit / int(topology.bandwidths[link])
                for link in range(topology.n_links)
                if load[link]
            ]
            for node in range(topology.n_nodes):
                if topology.injection_bytes_per_s[node]:
                    for side in (topology.tails == node, topology.heads == node):
                        moved = int(load[side].sum()) * unit
                        times.append(moved / int(topology.injection_bytes_per_s[node]))
            expected += alpha_ns * NS + max(times, default=Fraction(0))
    curve = alpha_beta_curve(topology, collective, schedule, alpha_ns=alpha_ns)
    assert curve(size) == expected
    assert alpha_beta_time(topology, collective, schedule, size, alpha_ns=alpha_ns) == expected


def test_exchanges_take_their_slowest_link_in_each_step() -> None:
    plan = planning.solve("ring(5, bandwidth='3GB/s', bidirectional=False)", "alltoall").plan
    topology = lengthened(plan.topology, 3)
    schedule = plan.entries[0].schedule
    times = [
        alpha_beta_time(topology, plan.collective, schedule, size, alpha_ns=11) for size in (0, 3000, 6000)
    ]
    # linear in the size beside latencies that some step pays at most
    assert times[0] > 0
    assert times[2] - times[1] >= times[1] - times[0] > 0
