"""Explicit breadth-first-broadcast schedules: Theorem 14, the value's T_B, the verifier, fewest chunks."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings

from reference.bfb_lp import breaches_of_theorem_14
from reference.step_times import t_b
from samples.strategies import digraphs
from treadle.errors import InfeasibleError, ScheduleError, TopologyError
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.steps.step_cost import bandwidth_time
from treadle.schedules.steps.steps import Steps, StepSchedule
from treadle.synthesis.steps.bfb import (
    bfb_allgather,
    bfb_broadcast,
    bfb_reduce_scatter_value,
    bfb_schedule,
    bfb_value,
    chunk_count,
)
from treadle.synthesis.steps.bfb.breadth_first import step_chunks
from treadle.topologies import Topology, parse
from treadle.topologies.catalogue.direct import from_arcs
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


def gathering(steps: Steps) -> StepSchedule:
    return StepSchedule(CollectiveKind.ALLGATHER, broadcast=steps)


def is_accepted(topology: Topology, schedule: StepSchedule, root: int | None = None) -> bool:
    return not verify_steps(topology, on_all_ranks(topology, schedule.kind, root=root), schedule).violations


@settings(max_examples=14, deadline=None, derandomize=True)
@given(topology=digraphs(compute=(2, 7), max_bandwidth=4, extra_links=14))
def test_schedules_are_breadth_first_and_attain_the_value(topology: Topology) -> None:
    steps = bfb_allgather(topology)
    value = bfb_value(topology)
    assert breaches_of_theorem_14(topology, steps) == []
    assert steps.n_steps == value.diameter
    assert bandwidth_time(topology, gathering(steps)) == value.seconds_per_byte
    assert is_accepted(topology, gathering(steps))


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


def test_schedules_reach_the_checker_s_limits() -> None:
    """The slow checker refuses a schedule that it should refuse."""
    topology = parse("hypercube(3)")
    steps = bfb_allgather(topology)
    shorter = {key: getattr(steps, key)[:-1] for key in ("shard", "link", "low", "high")}
    offset = np.minimum(steps.step_offset, steps.n_sends - 1)
    assert breaches_of_theorem_14(topology, replace(steps, step_offset=offset, **shorter))
    assert breaches_of_theorem_14(topology, replace(steps, link=steps.link[::-1]))
    assert not is_accepted(topology, gathering(replace(steps, step_offset=offset, **shorter)))


@pytest.mark.parametrize("name", NAMES[:4])
def test_no_fewer_chunks_attain_the_optimum(name: str) -> None:
    """A step's fullest link carries at least ceil(P U(t)) chunks, so that fewer chunks cost more time."""
    value = bfb_value(parse(name))
    for chunks in range(1, chunk_count(value)):
        assert Fraction(sum(step_chunks(value, chunks)), chunks) > sum(value.loads)


@pytest.mark.parametrize(("name", "most"), [("hypercube(10)", 1.05), ("generalized_kautz(4, 1000)", 1.01)])
def test_shards_are_cut_into_few_pieces(name: str, most: float) -> None:
    topology = parse(name)
    pairs = topology.n_nodes * (topology.n_nodes - 1)
    steps = bfb_allgather(topology)
    assert pairs <= steps.n_sends <= most * pairs


def test_sends_are_adopted_without_a_copy_and_in_order() -> None:
    steps = bfb_allgather(parse("torus(4, 4)"))
    assert not steps.link.flags.writeable
    assert not steps.link.flags.owndata  # memory of the core
    heads = parse("torus(4, 4)").heads[steps.link[steps.span(1)]]
    assert np.all(np.diff(heads) >= 0)
    assert steps == bfb_allgather(parse("torus(4, 4)"))


def test_a_limit_on_chunks() -> None:
    topology = parse("hypercube(4)")  # P = 4
    best = bfb_allgather(topology, max_chunks=3)
    assert best.n_chunks == 2  # 1 and 2 chunks cost 5/4 and 1, 3 chunks cost 1
    assert t_b(topology, gathering(best)) == 1
    assert is_accepted(topology, gathering(best))
    assert bfb_allgather(topology, max_chunks=4).n_chunks == 4
    with pytest.raises(ScheduleError, match="expected 1 to"):
        bfb_allgather(topology, max_chunks=0)


def test_a_default_where_the_optimum_needs_too_many_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treadle.synthesis.steps.bfb.breadth_first.MAX_CHUNKS", 3)
    monkeypatch.setattr("treadle.synthesis.steps.bfb.breadth_first.DEFAULT_CHUNKS", 3)
    assert bfb_allgather(parse("hypercube(4)")).n_chunks == 2
    assert bfb_allgather(parse("hypercube(4)"), max_chunks=9).n_chunks == 4


@settings(max_examples=10, deadline=None, derandomize=True)
@given(topology=digraphs(compute=(2, 7), max_bandwidth=1, extra_links=14))
def test_rooted_collectives(topology: Topology) -> None:
    for kind in (CollectiveKind.BROADCAST, CollectiveKind.REDUCE):
        schedule = bfb_schedule(topology, kind, root=topology.n_nodes - 1)
        assert is_accepted(topology, schedule, root=topology.n_nodes - 1)


def test_broadcast_spreads_over_all_usable_links() -> None:
    """On hypercube(3) a node at distance t has t usable links, so T_B = 1 + 1/2 + 1/3 shard times."""
    topology = parse("hypercube(3)")
    schedule = bfb_schedule(topology, CollectiveKind.BROADCAST, root=5)
    assert bandwidth_time(topology, schedule) == Fraction(11, 6)
    assert schedule.phases[0].n_chunks == 6


def test_wrong_requests_are_refused_in_one_line() -> None:
    ring = parse("ring(4)")
    with pytest.raises(ScheduleError, match="needs a root"):
        bfb_schedule(ring, CollectiveKind.BROADCAST)
    with pytest.raises(ScheduleError, match="has no root"):
        bfb_schedule(ring, CollectiveKind.ALLGATHER, root=0)
    with pytest.raises(ScheduleError, match="expected a rank from 0 to 3"):
        bfb_broadcast(ring, 4)
    with pytest.raises(InfeasibleError, match="no path"):
        bfb_broadcast(from_arcs("one way", [0, 1], [1, 2], n=3), 1)
    with pytest.raises(InfeasibleError, match="no path"):
        bfb_allgather(from_arcs("one way", [0, 1], [1, 2], n=3))
    with pytest.raises(TopologyError, match="without switches"):
        bfb_schedule(parse("dgx_a100(1)"), CollectiveKind.ALLREDUCE)
    with pytest.raises(ScheduleError, match="equal links"):
        bfb_broadcast(replace(ring, bandwidths=np.arange(1, 9)), 0)
