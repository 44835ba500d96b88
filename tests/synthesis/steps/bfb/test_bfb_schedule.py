"""Explicit breadth-first-broadcast schedules: Theorem 14, the value's T_B, the verifier, fewest chunks."""

from __future__ import annotations

from fractions import Fraction

import pytest

from reference.step_times import t_b
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.steps.steps import StepSchedule
from treadle.synthesis.steps.bfb import (
    bfb_allgather,
    bfb_reduce_scatter_value,
    bfb_schedule,
    bfb_value,
)
from treadle.topologies import Topology, parse
from treadle.verification.steps.step_check import verify_steps

NAMES = [
    "torus(3, 4)",
    "hypercube(5)",
    "generalized_kautz(4, 77)",
    "circulant(15, 1, 4, 5)",
    "kautz(3, 1)",
    "complete(70)",
    "complete_bipartite(11, 11)",
    "generalized_kautz(20, 90)",
    "de_bruijn(2, 4)",
    "ring(300, bidirectional=False)",
]


def is_accepted(topology: Topology, schedule: StepSchedule, root: int | None = None) -> bool:
    return not verify_steps(topology, on_all_ranks(topology, schedule.kind, root=root), schedule).violations


@pytest.mark.parametrize("name", NAMES)
def test_sharded_collectives_on_named_graphs(name: str) -> None:
    topology = parse(name)
    gathered, reduced = bfb_value(topology), bfb_reduce_scatter_value(topology)
    expected = {
        CollectiveKind.ALLGATHER: gathered.t_b,
        CollectiveKind.REDUCE_SCATTER: reduced.t_b,
        CollectiveKind.ALLREDUCE: gathered.t_b + reduced.t_b,
    }
    for kind, time in expected.items():
        schedule = bfb_schedule(topology, kind)
        assert t_b(topology, schedule) == time
        assert is_accepted(topology, schedule)
    least = Fraction(topology.n_nodes - 1, topology.n_nodes)
    assert gathered.t_b >= least
    assert reduced.t_b >= least


@pytest.mark.parametrize(("name", "most"), [("hypercube(10)", 1.05), ("generalized_kautz(4, 1000)", 1.01)])
def test_shards_are_cut_into_few_pieces(name: str, most: float) -> None:
    topology = parse(name)
    pairs = topology.n_nodes * (topology.n_nodes - 1)
    steps = bfb_allgather(topology)
    assert pairs <= steps.n_sends <= most * pairs
