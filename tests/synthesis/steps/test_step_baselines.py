"""Classic algorithms as step schedules: the verifier, a slow checker and closed forms judge them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.step_times import t_b
from samples.step_samples import is_correct, slow_algbw
from samples.table import STEP_BASELINES
from treadle.errors import InfeasibleError, ScheduleError
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.schedules.steps.step_cost import algbw, bandwidth_time
from treadle.schedules.steps.steps import StepSchedule
from treadle.synthesis.steps.baselines import (
    double_binary_tree_steps,
)
from treadle.synthesis.steps.baselines.binary_tree_times import best_chunk_count, double_binary_tree_time_s
from treadle.topologies import parse
from treadle.topologies.catalogue.direct import from_arcs
from treadle.topologies.catalogue.rings import two_trees
from treadle.topologies.distances import diameter
from treadle.topologies.moore import bandwidth_optimum
from treadle.topologies.topology import Topology
from treadle.verification.steps.step_check import verify_steps

ALLGATHER, REDUCE_SCATTER, ALLREDUCE = (
    CollectiveKind.ALLGATHER,
    CollectiveKind.REDUCE_SCATTER,
    CollectiveKind.ALLREDUCE,
)
KINDS = (ALLGATHER, REDUCE_SCATTER, ALLREDUCE)
ALLREDUCE_ONLY = {"double-binary-tree-steps", "one-diameter", "reduce-broadcast"}
ANYWHERE = {"recursive-doubling", "bruck", "one-diameter", "reduce-broadcast"}

SPECIAL = {
    "complete(2)": {"ring-steps", "double-binary-tree-steps", "traditional-torus"},
    "uni_ring(2, 2)": {"ring-steps", "shifted-bfb-ring", "double-binary-tree-steps"},
    "uni_ring(1, 6)": {"ring-steps"},
    "ring(5)": {"ring-steps", "shifted-bfb-ring", "traditional-torus"},
    "bi_ring(4, 6)": {"ring-steps", "shifted-bfb-ring"},
    # it has every link that double_binary_tree(7) has
    "shifted_ring(7)": {"ring-steps", "shifted-bfb-ring", "double-binary-tree-steps"},
    "complete(5)": {"ring-steps", "shifted-bfb-ring", "double-binary-tree-steps"},
    "directed_circulant(7, 1, 3)": {"ring-steps"},
    "torus(3, 4)": {"traditional-torus"},
    "torus(4, 2)": {"traditional-torus"},
    "hypercube(3)": {"traditional-torus"},
    "kautz(2, 2)": set(),
    "generalized_kautz(2, 5)": set(),
    "path(3)": set(),
    "star(5)": set(),
    "double_binary_tree(5)": {"double-binary-tree-steps"},
    "double_binary_tree(7)": {"double-binary-tree-steps"},
    "double_binary_tree(8)": {"double-binary-tree-steps"},
}
"""Small fabrics, and what serves them besides the algorithms that serve all."""


def made(name: str, topology: Topology, kind: CollectiveKind) -> StepSchedule:
    return STEP_BASELINES[name](topology, on_all_ranks(topology, kind))


def judge(topology: Topology, schedule: StepSchedule) -> None:
    """Accepted by the verifier at the cost that the slow checker finds; no faster than bounds allow."""
    collective = on_all_ranks(topology, schedule.kind)
    report = verify_steps(topology, collective, schedule, claimed_algbw=algbw(topology, schedule))
    assert report.is_ok, report.violations[:3]
    if topology.n_nodes <= 12:
        assert is_correct(topology, collective, schedule)
        assert slow_algbw(topology, schedule) == algbw(topology, schedule)
    crossings = 2 if schedule.kind is ALLREDUCE else 1
    least = crossings * (topology.n_nodes - 1) * Fraction(1, int(topology.egress_bytes_per_s().sum()))
    assert bandwidth_time(topology, schedule) >= least
    assert schedule.n_steps >= diameter(topology)
    for steps in schedule.phases:
        assert np.diff(steps.step_offset).all(), "a step without sends costs a latency for nothing"


@pytest.mark.parametrize("text", SPECIAL)
@pytest.mark.parametrize("name", STEP_BASELINES)
def test_every_baseline_on_every_fabric(name: str, text: str) -> None:
    topology = parse(text)
    for kind in KINDS:
        if name not in SPECIAL[text] | ANYWHERE or (kind is not ALLREDUCE and name in ALLREDUCE_ONLY):
            with pytest.raises(ScheduleError) as caught:
                made(name, topology, kind)
            assert str(caught.value).startswith(f"{name}: ")
            assert "transpose" not in str(caught.value)
            continue
        schedule = made(name, topology, kind)
        assert schedule.kind is kind
        judge(topology, schedule)


# --- rings -------------------------------------------------------------------------------------------------


# --- torus -------------------------------------------------------------------------------------------------


# --- exchanges ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5])
def test_recursive_doubling_on_hypercubes(d: int) -> None:
    """Single hops, but one port of d at a time: T_L = d, T_B = d (N - 1) / N."""
    topology = parse(f"hypercube({d})")
    for kind, phases in ((ALLGATHER, 1), (REDUCE_SCATTER, 1), (ALLREDUCE, 2)):
        schedule = made("recursive-doubling", topology, kind)
        assert schedule.n_steps == phases * d
        assert t_b(topology, schedule) == phases * d * bandwidth_optimum(2**d)


# --- trees -------------------------------------------------------------------------------------------------


@given(st.integers(2, 2000), st.floats(1, 1e9), st.floats(1e-7, 1e-3))
@settings(max_examples=50, deadline=None, derandomize=True)
def test_best_chunk_count(n: int, size_bytes: float, alpha_s: float) -> None:
    link = {"size_bytes": size_bytes, "alpha_s": alpha_s, "bandwidth_bytes_per_s": 3e9}
    best = best_chunk_count(n, **link)
    least = double_binary_tree_time_s(n, best, **link)
    nearby = {1, 2, 16, 1000, max(1, best - 1), best + 1, 2 * best}
    assert all(least <= double_binary_tree_time_s(n, chunks, **link) for chunks in nearby)


def test_trees_never_meet_on_a_link() -> None:
    """Going down, no node has children in both trees; so any supergraph will do, at the same cost."""
    for n in range(2, 130):
        parents = two_trees(n)
        arcs = [(int(parents[tree, v]), v) for tree in (0, 1) for v in range(n) if parents[tree, v] >= 0]
        assert len(set(arcs)) == len(arcs) == 2 * (n - 1)
    dense, sparse = parse("complete(9)"), parse("double_binary_tree(9)")
    times = [bandwidth_time(g, made("double-binary-tree-steps", g, ALLREDUCE)) for g in (dense, sparse)]
    assert times[0] == times[1]


@pytest.mark.parametrize("chunks", [0, -1, 2**30])
def test_chunks_out_of_range(chunks: int) -> None:
    topology = parse("double_binary_tree(4)")
    with pytest.raises(ScheduleError, match=r"chunks must be from 1 to \d+, found"):
        double_binary_tree_steps(topology, on_all_ranks(topology, ALLREDUCE), chunks=chunks)


@pytest.mark.parametrize("key", ["size_bytes", "alpha_s", "bandwidth_bytes_per_s"])
def test_best_chunk_count_of_nothing(key: str) -> None:
    values = {"size_bytes": 1.0, "alpha_s": 1.0, "bandwidth_bytes_per_s": 1.0}
    with pytest.raises(ScheduleError, match=f"{key} must be positive, found 0"):
        best_chunk_count(4, **{**values, key: 0.0})
    with pytest.raises(ScheduleError, match="at least 2"):
        best_chunk_count(1, **values)


# --- single roots ------------------------------------------------------------------------------------------


# --- what reductions cost ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STEP_BASELINES)
def test_refusals(name: str) -> None:
    """One line, the algorithm, what was expected."""
    serve = STEP_BASELINES[name]
    ring = parse("ring(4)")
    switched = parse("dgx_a100(1)")
    cases = [
        (switched, on_all_ranks(switched, ALLREDUCE), "has switches"),
        (ring, on_all_ranks(ring, CollectiveKind.BROADCAST, root=1), "supports only .*, not broadcast"),
        (ring, Collective(ALLREDUCE, (1, 0, 2, 3)), "supports only all nodes, in order"),
        (ring, Collective(ALLREDUCE, (0, 1, 2), forwarders=(3,)), "supports only all nodes, in order"),
    ]
    if name not in ALLREDUCE_ONLY:
        weighted = on_all_ranks(ring, ALLGATHER, weights=(1, 2, 1, 1))
        cases.append((ring, weighted, "supports only all nodes, in order and with equal shards"))
    for topology, collective, words in cases:
        with pytest.raises(ScheduleError, match=words) as caught:
            serve(topology, collective)
        assert "\n" not in str(caught.value)
        assert str(caught.value).startswith(f"{name}: ")


@pytest.mark.parametrize("name", sorted(ANYWHERE))
def test_unreachable_nodes(name: str) -> None:
    """Infeasible; the pair is named as the user sees the fabric, also for the half that runs backwards."""
    topology = from_arcs("oneway", [0, 1, 2, 0], [1, 2, 1, 2], n=3)
    for kind in KINDS if name not in ALLREDUCE_ONLY else (ALLREDUCE,):
        with pytest.raises(InfeasibleError, match="oneway: n0 cannot be reached from n"):
            made(name, topology, kind)


@pytest.mark.parametrize("name", sorted(set(STEP_BASELINES) - {"double-binary-tree-steps"}))
def test_absurd_sizes_are_refused_before_they_are_made(name: str) -> None:
    topology = parse("torus(90, 90)" if name == "traditional-torus" else "bi_ring(2, 90001)")
    with pytest.raises(ScheduleError, match=r"would take about \d+ sends, more than 50000000"):
        made(name, topology, ALLREDUCE)
