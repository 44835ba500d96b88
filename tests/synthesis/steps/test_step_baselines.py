"""Classic algorithms as step schedules: the verifier, a slow checker and closed forms judge them."""

from __future__ import annotations

from fractions import Fraction
from math import gcd

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.step_times import runtime_s, t_b
from samples.step_samples import is_correct, slow_algbw
from samples.strategies import digraphs
from samples.table import BASELINES, STEP_BASELINES
from treadle.errors import InfeasibleError, ScheduleError
from treadle.planning import algorithm_names, solve
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.schedules.steps.step_cost import algbw, bandwidth_time
from treadle.schedules.steps.steps import StepSchedule
from treadle.synthesis.steps.baselines import (
    double_binary_tree_steps,
    one_diameter,
    reduce_broadcast,
    ring_steps,
    shifted_bfb_ring,
    traditional_torus,
)
from treadle.synthesis.steps.baselines.binary_tree_times import best_chunk_count, double_binary_tree_time_s
from treadle.synthesis.steps.bfb import bfb_reduce_scatter_value
from treadle.topologies import parse
from treadle.topologies.catalogue.direct import from_arcs
from treadle.topologies.catalogue.rings import two_trees
from treadle.topologies.distances import diameter, eccentricities
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


def test_names_are_unique() -> None:
    assert not set(STEP_BASELINES) & set(BASELINES)
    assert len(set(algorithm_names())) == len(algorithm_names())


# --- rings -------------------------------------------------------------------------------------------------


@given(st.integers(3, 14), st.integers(1, 13), st.sampled_from(KINDS))
@settings(max_examples=9, deadline=None, derandomize=True)
def test_shifted_rings_of_any_stride(n: int, stride: int, kind: CollectiveKind) -> None:
    """T_L = N - 1 and floor(N / 2), both bandwidth-optimal, for every stride that is coprime to N."""
    stride %= n
    if gcd(stride, n) != 1:
        stride = 1
    topology = parse(f"shifted_ring({n}, {stride})")
    phases = 2 if kind is ALLREDUCE else 1
    for name, steps in (("ring-steps", n - 1), ("shifted-bfb-ring", n // 2)):
        schedule = made(name, topology, kind)
        judge(topology, schedule)
        assert schedule.n_steps == phases * steps
        assert t_b(topology, schedule) == phases * bandwidth_optimum(n)


@given(st.integers(2, 12), st.integers(1, 4))
@settings(max_examples=12, deadline=None, derandomize=True)
def test_rings_of_one_direction(n: int, d: int) -> None:
    topology = parse(f"uni_ring({d}, {n})")
    schedule = made("ring-steps", topology, ALLGATHER)
    judge(topology, schedule)
    assert (schedule.n_steps, t_b(topology, schedule)) == (n - 1, bandwidth_optimum(n))


def test_rings_share_by_bandwidth() -> None:
    """A ring three times as fast carries three times as much: T_B stays optimal."""
    topology = parse("circulant(7, 1, 2)")
    is_outer = np.isin((topology.heads - topology.tails) % 7, (1, 6))
    mixed = _with_bandwidths(topology, np.where(is_outer, 3, 1))
    for serve in (ring_steps, shifted_bfb_ring):
        schedule = serve(mixed, on_all_ranks(mixed, ALLREDUCE))
        judge(mixed, schedule)
        assert t_b(mixed, schedule) == 2 * bandwidth_optimum(7)


def test_parallel_links_of_unequal_bandwidth_are_rings_of_their_own() -> None:
    topology = parse("uni_ring(2, 5)")
    # the fast link comes first at some nodes and second at others
    mixed = _with_bandwidths(topology, np.array([5, 1, 1, 5, 5, 1, 1, 5, 1, 5]))
    schedule = ring_steps(mixed, on_all_ranks(mixed, ALLGATHER))
    judge(mixed, schedule)
    assert t_b(mixed, schedule) == bandwidth_optimum(5)


def _with_bandwidths(topology: Topology, bandwidths: np.ndarray) -> Topology:
    return Topology(
        name="mixed",
        node_names=topology.node_names,
        is_compute=topology.is_compute,
        tails=topology.tails,
        heads=topology.heads,
        bandwidths=bandwidths.astype(np.int64),
        latencies_ns=topology.latencies_ns,
    )


# --- torus -------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(2, 5), min_size=1, max_size=3), st.sampled_from(KINDS))
@settings(max_examples=12, deadline=None, derandomize=True)
def test_torus_of_any_sides(dims: list[int], kind: CollectiveKind) -> None:
    topology = parse(f"torus({', '.join(map(str, dims))})")
    phases = 2 if kind is ALLREDUCE else 1
    schedule = made("traditional-torus", topology, kind)
    judge(topology, schedule)
    assert schedule.n_steps == phases * sum(side - 1 for side in dims)
    is_optimal = t_b(topology, schedule) == phases * bandwidth_optimum(topology.n_nodes)
    # with a side of 2 there is one port for both ways round
    assert is_optimal == ((len(set(dims)) == 1 and min(dims) > 2) or dims == [2])


@given(st.integers(3, 7), st.integers(3, 7))
@settings(max_examples=10, deadline=None, derandomize=True)
def test_torus_of_two_dimensions(a: int, b: int) -> None:
    """Sides a <= b: a - 1 steps of 1, b - a steps of a + 1 on the long rings, a - 1 steps of b quarters."""
    a, b = sorted((a, b))
    for text in (f"torus({a}, {b})", f"torus({b}, {a})"):
        topology = parse(text)
        schedule = made("traditional-torus", topology, ALLGATHER)
        assert t_b(topology, schedule) == Fraction((a - 1) + (b - a) * (a + 1) + (a - 1) * b, a * b)


def test_torus_with_a_side_of_two() -> None:
    """Sixths of shards on the fullest link in the steps: 2, 1 + 2, 2 * 3, 3 + 6 and 2 * 9; five ports."""
    topology = parse("torus(3, 3, 2)")
    assert t_b(topology, made("traditional-torus", topology, ALLGATHER)) == 5 * Fraction(38, 6 * 18)


def test_torus_with_links_in_another_order() -> None:
    product = parse("cartesian_product(bi_ring(2, 3), bi_ring(2, 4))")
    judge(product, made("traditional-torus", product, ALLREDUCE))
    # rows before columns: what is no torus in row-major order may be one in another order
    judge(parse("circulant(5, 1)"), made("traditional-torus", parse("circulant(5, 1)"), ALLGATHER))


@pytest.mark.parametrize(
    "text", ["shifted_ring(9)", "bi_ring(4, 5)", "circulant(9, 1, 3)", "twisted_torus(3, 6)", "mesh(3, 3)"]
)
def test_torus_refuses_what_only_looks_like_one(text: str) -> None:
    """All of these have names, numbers or degrees like a torus."""
    with pytest.raises(ScheduleError, match="not a torus"):
        made("traditional-torus", parse(text), ALLGATHER)


# --- exchanges ---------------------------------------------------------------------------------------------


@given(st.integers(2, 20))
@settings(max_examples=9, deadline=None, derandomize=True)
def test_exchanges_between_neighbours(n: int) -> None:
    """On a complete graph every message is a hop: the closed forms of the switched network."""
    topology = parse(f"complete({n})")
    low, is_power = n.bit_length() - 1, n & (n - 1) == 0
    core = 2**low
    gather = made("bruck", topology, ALLGATHER)
    assert gather.n_steps == (n - 1).bit_length()
    assert t_b(topology, gather) == bandwidth_optimum(n) * (n - 1)
    halving = made("recursive-doubling", topology, ALLREDUCE)
    judge(topology, halving)
    assert halving.n_steps == 2 * low + (0 if is_power else 2)
    whole = 0 if is_power else 1
    assert t_b(topology, halving) == 2 * (Fraction(core - 1, core) + whole) * (n - 1)
    doubling = made("recursive-doubling", topology, ALLGATHER)
    judge(topology, doubling)
    assert doubling.n_steps == low + (0 if is_power else 2)


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5])
def test_recursive_doubling_on_hypercubes(d: int) -> None:
    """Single hops, but one port of d at a time: T_L = d, T_B = d (N - 1) / N."""
    topology = parse(f"hypercube({d})")
    for kind, phases in ((ALLGATHER, 1), (REDUCE_SCATTER, 1), (ALLREDUCE, 2)):
        schedule = made("recursive-doubling", topology, kind)
        assert schedule.n_steps == phases * d
        assert t_b(topology, schedule) == phases * d * bandwidth_optimum(2**d)


def test_recursive_doubling_congests_on_a_ring() -> None:
    """Eight nodes: exchanges over 1, 2 and 4 hops, the last with 4 shards from everyone."""
    schedule = made("recursive-doubling", parse("ring(8)"), ALLGATHER)
    assert schedule.n_steps == 1 + 2 + 4
    assert t_b(parse("ring(8)"), schedule) > 2 * bandwidth_optimum(8)


def test_messages_share_parallel_links() -> None:
    for name in ("bruck", "recursive-doubling"):
        one, two = (made(name, parse(text), ALLREDUCE) for text in ("bi_ring(2, 6)", "bi_ring(4, 6)"))
        assert two.n_steps == one.n_steps
        assert t_b(parse("bi_ring(4, 6)"), two) == t_b(parse("bi_ring(2, 6)"), one)
    # three links one way and one the other between some nodes: no even share, so one link of each is used
    topology = parse("double_binary_tree(5)")
    judge(topology, made("bruck", topology, ALLREDUCE))


@given(digraphs(compute=(2, 7)), st.sampled_from(sorted(ANYWHERE)), st.sampled_from(KINDS))
@settings(max_examples=14, deadline=None, derandomize=True)
def test_any_digraph(topology: Topology, name: str, kind: CollectiveKind) -> None:
    if name == "reduce-broadcast":
        topology = _with_bandwidths(topology, np.ones(topology.n_links))
    schedule = made(name, topology, ALLREDUCE if name in ALLREDUCE_ONLY else kind)
    judge(topology, schedule)


# --- trees -------------------------------------------------------------------------------------------------


@given(st.integers(2, 20), st.integers(1, 6))
@settings(max_examples=7, deadline=None, derandomize=True)
def test_double_binary_trees(n: int, chunks: int) -> None:
    """2 (h + k - 1) steps with a chunk of 1 / (2 k) on every link in use."""
    topology = parse(f'double_binary_tree({n}, bandwidth="2GB/s")')
    schedule = double_binary_tree_steps(topology, on_all_ranks(topology, ALLREDUCE), chunks=chunks)
    judge(topology, schedule)
    steps = 2 * (n.bit_length() - 2 + chunks)
    assert schedule.n_steps == steps
    assert bandwidth_time(topology, schedule) == Fraction(steps, 2 * chunks) / 2_000_000_000
    cost = {"size_bytes": 10**6, "alpha_s": 3e-6}
    expected = double_binary_tree_time_s(n, chunks, bandwidth_bytes_per_s=2e9, **cost)
    assert runtime_s(topology, schedule, 10**6, alpha_s=3e-6) == pytest.approx(expected)


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


def test_chunks_of_trees_from_the_command_line_down() -> None:
    """`solve --chunks`; the default is 16."""
    for chunks, steps in ((4, 2 * (2 + 4)), (None, 2 * (2 + 16))):
        found = solve(
            "double_binary_tree(8)", "allreduce", algorithm="double-binary-tree-steps", chunks=chunks
        )
        schedule = found.plan.entries[0].schedule
        assert isinstance(schedule, StepSchedule)
        assert schedule.n_steps == steps


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


@pytest.mark.parametrize("text", ["complete(5)", "torus(3, 3)", "kautz(2, 2)", "generalized_kautz(3, 11)"])
def test_one_diameter_costs_n_reduce_scatters(text: str) -> None:
    """Section A.3.3: T_L = D; T_B is N times a reduce-scatter's, (N - 1) M/B if that is optimal."""
    topology = parse(text)
    schedule = one_diameter(topology, on_all_ranks(topology, ALLREDUCE))
    assert schedule.n_steps == diameter(topology)
    assert t_b(topology, schedule) == topology.n_nodes * bfb_reduce_scatter_value(topology).t_b
    assert t_b(topology, schedule) >= topology.n_nodes - 1


@pytest.mark.parametrize("text", ["path(5)", "star(6)", "mesh(3, 4)", "ring(7)", "double_binary_tree(9)"])
def test_reduce_broadcast_takes_twice_the_radius(text: str) -> None:
    """Section A.3.3, where links go both ways; the star's radius is half its diameter."""
    topology = parse(text)
    schedule = reduce_broadcast(topology, on_all_ranks(topology, ALLREDUCE))
    judge(topology, schedule)
    assert schedule.n_steps == 2 * int(eccentricities(topology).min())


def test_reduce_broadcast_picks_one_centre_for_both_ways() -> None:
    """Out and in distances of a digraph differ: node 3 is reached in 2 steps, all others take 3 both ways."""
    topology = parse("generalized_kautz(2, 7)")
    schedule = reduce_broadcast(topology, on_all_ranks(topology, ALLREDUCE))
    both = eccentricities(topology) + eccentricities(topology.transpose())
    assert schedule.n_steps == both.min()


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


def test_one_root_needs_equal_links() -> None:
    topology = _with_bandwidths(parse("ring(3)"), np.array([1, 1, 1, 1, 1, 2]))
    with pytest.raises(ScheduleError, match="reduce-broadcast: mixed has links of different bandwidths"):
        made("reduce-broadcast", topology, ALLREDUCE)


def test_functions_are_the_named_ones() -> None:
    assert STEP_BASELINES["traditional-torus"] is traditional_torus
    assert STEP_BASELINES["shifted-bfb-ring"] is shifted_bfb_ring
