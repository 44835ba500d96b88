"""Exact synthesis: found schedules are right and optimal, refusals are true."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from fractions import Fraction
from math import gcd

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.exact_reference import schedule_exists
from reference.step_times import t_b
from treadle.errors import ScheduleError
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.steps.steps import StepSchedule
from treadle.synthesis.steps.exact import (
    ExactResult,
    ExactStatus,
    FreeRounds,
    Obstruction,
    SolverProcess,
    synthesise_exact,
)
from treadle.synthesis.steps.exact.exact_problem import exact_problem
from treadle.synthesis.steps.exact.semiregular import link_permutation, semiregular_group
from treadle.topologies import parse
from treadle.topologies.catalogue.direct import from_arcs
from treadle.topologies.topology import Topology, TopologyBuilder
from treadle.verification.steps.step_check import verify_steps

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("ortools") is None, reason="ortools is not installed (extra exact)"
)
ALLGATHER, REDUCE_SCATTER = CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER


@pytest.fixture(scope="module")
def solver() -> Iterator[SolverProcess]:
    with SolverProcess() as process:
        yield process


def checked(
    topology: Topology, kind: CollectiveKind, result: ExactResult, root: int | None = None
) -> StepSchedule:
    """The schedule, after the independent verifier accepted it; rounds hold the loads."""
    schedule = result.schedule
    assert result.status is ExactStatus.FOUND
    assert schedule is not None
    report = verify_steps(topology, on_all_ranks(topology, kind, root=root), schedule)
    assert not report.n_violations, report.violations[:3]
    unit = gcd(*(int(b) for b in topology.bandwidths))
    for steps, phase in zip(schedule.phases, result.phases, strict=True):
        assert steps.n_steps == len(phase.rounds)
        load: dict[tuple[int, int], int] = {}
        for link, step, low, high in zip(
            steps.link.tolist(),
            steps.send_steps().tolist(),
            steps.low.tolist(),
            steps.high.tolist(),
            strict=True,
        ):
            load[link, step] = load.get((link, step), 0) + high - low
        for (link, step), chunks in load.items():
            assert chunks <= phase.rounds[step] * int(topology.bandwidths[link]) // unit
    return schedule


@pytest.mark.parametrize(
    ("expression", "chunks", "rounds"),
    [
        ("complete_bipartite(2, 2)", 2, (2, 1)),  # figure 3.1
        ("hypercube(2)", 2, (2, 1)),  # the rest: figure 3.10, N up to 9
        ("hypercube(3)", 3, (3, 3, 1)),
        ("torus(2, 2)", 2, (2, 1)),
        ("torus(3, 3)", 1, (1, 1)),
    ],
)
@pytest.mark.parametrize("kind", [ALLGATHER, REDUCE_SCATTER, CollectiveKind.ALLREDUCE])
def test_figure_3_10_least_steps_and_bandwidth_optimal(
    solver: SolverProcess, expression: str, chunks: int, rounds: tuple[int, ...], kind: CollectiveKind
) -> None:
    topology = parse(expression)
    given = rounds[::-1] if kind is REDUCE_SCATTER else rounds
    schedule = checked(
        topology, kind, synthesise_exact(topology, kind, chunks=chunks, rounds=given, solver=solver)
    )
    graph = nx.DiGraph(zip(topology.tails.tolist(), topology.heads.tolist(), strict=True))
    phases = len(schedule.phases)
    n = topology.n_nodes
    assert schedule.n_steps == phases * nx.diameter(graph)
    assert t_b(topology, schedule) == phases * Fraction(n - 1, n)
    if chunks > 1:  # the chunks are the fewest: with fewer no bandwidth-optimal total is an integer
        degree = topology.n_links // n
        assert all(fewer * (n - 1) % degree for fewer in range(1, chunks))


@pytest.mark.parametrize("seed", [0, 1])
def test_same_seed_same_schedule(solver: SolverProcess, seed: int) -> None:
    topology = parse("hypercube(3)")
    runs = [
        synthesise_exact(topology, ALLGATHER, chunks=2, rounds=[2, 2, 1], seed=seed, solver=solver)
        for _ in range(2)
    ]
    assert runs[0].schedule == runs[1].schedule


def test_a_total_below_the_bound_needs_no_search() -> None:
    # R d < (N - 1) C: 9 rounds x 3 links < 7 x 4 chunks. No solver is given, none is started.
    result = synthesise_exact(parse("hypercube(3)"), ALLGATHER, chunks=4, rounds=[3, 3, 3])
    assert result.status is ExactStatus.INFEASIBLE
    certificate = result.phases[0].obstruction
    assert certificate == Obstruction(nodes=(0,), shards=tuple(range(1, 8)), demand=28, supply=27)
    assert result.seconds == 0


def test_too_few_steps_and_too_early_rounds_are_refused() -> None:
    ring = parse("ring(5)")
    assert synthesise_exact(ring, ALLGATHER, chunks=1, rounds=[9]).status is ExactStatus.INFEASIBLE
    # Two shards are two hops away, one over each link: rounds before step 1 do not help them.
    assert synthesise_exact(ring, ALLGATHER, chunks=2, rounds=[9, 1]).status is ExactStatus.INFEASIBLE
    apart = from_arcs("apart", [0, 1], [1, 0], n=3)
    assert synthesise_exact(apart, ALLGATHER, chunks=1, rounds=[3, 3]).status is ExactStatus.INFEASIBLE


def test_a_cut_between_node_sets_is_a_witness() -> None:
    # Two triangles joined by one link each way: three shards must cross, each node alone has room enough.
    arcs = [(u, w) for base in (0, 3) for u in range(base, base + 3) for w in range(base, base + 3) if u != w]
    arcs += [(2, 3), (3, 2)]
    topology = from_arcs("dumbbell", [u for u, _ in arcs], [w for _, w in arcs], n=6)
    result = synthesise_exact(topology, ALLGATHER, chunks=2, rounds=[1, 1, 1, 1, 1])
    assert result.status is ExactStatus.INFEASIBLE
    certificate = result.phases[0].obstruction
    assert certificate is not None
    assert (len(certificate.nodes), certificate.demand, certificate.supply) == (3, 6, 5)


def test_search_proves_what_counting_cannot(solver: SolverProcess) -> None:
    # DBJMod(2,3) has diameter 3, but no bandwidth-optimal schedule of 3 steps (T_L = 4 in table A.3).
    topology = parse("modified_de_bruijn(2, 3)")
    result = synthesise_exact(topology, ALLGATHER, chunks=2, rounds=FreeRounds(3, 7), solver=solver)
    assert result.status is ExactStatus.INFEASIBLE
    assert result.phases[0].obstruction is None
    assert result.phases[0].reason == "search exhausted"


def test_symmetric_search_finds_more_and_claims_no_proof(solver: SolverProcess) -> None:
    topology = parse("hypercube(4)")
    result = synthesise_exact(
        topology, ALLGATHER, chunks=4, rounds=[4, 6, 4, 1], symmetric=True, solver=solver
    )
    assert t_b(topology, checked(topology, ALLGATHER, result)) == Fraction(15, 16)
    # DBJMod(2,3) has a symmetry of order 2; DBJMod(2,4) has none, so that the search is complete.
    for name, chunks, rounds, status in (
        ("modified_de_bruijn(2, 3)", 2, FreeRounds(3, 7), ExactStatus.UNKNOWN),
        ("modified_de_bruijn(2, 4)", 2, FreeRounds(4, 15), ExactStatus.INFEASIBLE),
    ):
        failed = synthesise_exact(
            parse(name), ALLGATHER, chunks=chunks, rounds=rounds, symmetric=True, solver=solver
        )
        assert failed.status is status
    assert failed.phases[0].reason == "search exhausted"


@pytest.mark.parametrize(
    ("expression", "order"),
    [("hypercube(3)", 8), ("torus(3, 3)", 9), ("torus(4, 4)", 16), ("directed_circulant(7, 1, 2)", 7),
     ("complete(6)", 6), ("uni_ring(2, 4)", 4), ("modified_de_bruijn(2, 3)", 2),
     ("modified_de_bruijn(2, 4)", 1)],
)  # fmt: skip
def test_imposed_groups(expression: str, order: int) -> None:
    topology = parse(expression)
    problem = exact_problem(topology, range(topology.n_nodes), chunks=1, rounds=[1] * topology.n_nodes)
    group = semiregular_group(problem, seed=0)
    nodes = list(range(topology.n_nodes))
    assert group[0] == tuple(nodes)
    assert len(set(group)) == len(group) == order
    links = sorted(zip(problem.tails, problem.heads, strict=True))
    for element in group:
        assert sorted(element) == nodes
        assert element == group[0] or all(image != node for node, image in enumerate(element))
        assert sorted((element[u], element[w]) for u, w in links) == links
        moved = link_permutation(problem, element)
        assert sorted(moved) == list(range(len(links)))
        for link, image in enumerate(moved):
            assert problem.tails[image] == element[problem.tails[link]]
            assert problem.heads[image] == element[problem.heads[link]]
        assert all(tuple(other[v] for v in element) in group for other in group)


@st.composite
def tiny_fabrics(draw: st.DrawFn) -> Topology:
    """Three or four nodes, a cycle and a few more links of capacity 1 or 2, self-loops among them."""
    n = draw(st.integers(3, 4))
    builder = TopologyBuilder("tiny")
    names = [builder.compute(f"n{i}") for i in range(n)]
    for i in range(n):
        builder.link(names[i], names[(i + 1) % n], draw(st.integers(1, 2)))
    for _ in range(draw(st.integers(0, 3))):
        ends = st.integers(0, n - 1)
        builder.link(names[draw(ends)], names[draw(ends)], draw(st.integers(1, 2)))
    return builder.build()


@settings(max_examples=21)
@given(topology=tiny_fabrics(), data=st.data())
def test_agrees_with_exhaustive_search(
    solver: SolverProcess, topology: Topology, data: st.DataObject
) -> None:
    kind = data.draw(st.sampled_from([ALLGATHER, REDUCE_SCATTER, CollectiveKind.BROADCAST]))
    n = topology.n_nodes
    root = data.draw(st.integers(0, n - 1)) if kind is CollectiveKind.BROADCAST else None
    chunks = data.draw(st.integers(1, 3 if root is not None else 2 if n == 3 else 1))
    rounds = data.draw(st.lists(st.integers(1, 2), min_size=1, max_size=3))
    reducing = kind is REDUCE_SCATTER
    unit = gcd(*(int(b) for b in topology.bandwidths))
    expected = schedule_exists(
        topology.transpose() if reducing else topology,
        range(n) if root is None else (root,),
        chunks=chunks,
        rounds=rounds[::-1] if reducing else rounds,
        capacity=[int(b) // unit for b in topology.bandwidths],
    )
    result = synthesise_exact(topology, kind, chunks=chunks, rounds=rounds, root=root, solver=solver)
    assert result.status is (ExactStatus.FOUND if expected else ExactStatus.INFEASIBLE)
    if expected:
        checked(topology, kind, result, root)
    elif certificate := result.phases[0].obstruction:
        recheck(topology, root, chunks, rounds, certificate, reducing=reducing)
    free = synthesise_exact(
        topology, kind, chunks=chunks, rounds=FreeRounds(len(rounds), sum(rounds)), root=root, solver=solver
    )
    assert free.status is ExactStatus.FOUND or not expected
    if free.status is ExactStatus.FOUND:
        assert sum(free.phases[0].rounds) == sum(rounds)
        checked(topology, kind, free, root)


def recheck(
    topology: Topology,
    root: int | None,
    chunks: int,
    rounds: list[int],
    certificate: Obstruction,
    *,
    reducing: bool,
) -> None:
    """Recompute both sides of an obstruction by its definition."""
    ends = list(
        zip(topology.tails.tolist(), topology.heads.tolist(), topology.bandwidths.tolist(), strict=True)
    )
    if reducing:
        ends, rounds = [(w, u, b) for u, w, b in ends], rounds[::-1]
    graph = nx.DiGraph([(u, w) for u, w, _ in ends])
    homes = [shard if root is None else root for shard in certificate.shards]
    unit = gcd(*(b for _, _, b in ends))
    supply = 0
    for tail, head, bandwidth in ends:
        if head in certificate.nodes and tail not in certificate.nodes:
            hops = min(nx.shortest_path_length(graph, home, tail) for home in homes)
            supply += sum(rounds[hops:]) * bandwidth // unit
    assert not set(homes) & set(certificate.nodes)
    assert (certificate.demand, certificate.supply) == (chunks * len(homes), supply)
    assert supply < certificate.demand


def test_reduce_mirrors_broadcast(solver: SolverProcess) -> None:
    topology = parse("directed_circulant(7, 1, 2)")
    for kind in (CollectiveKind.BROADCAST, CollectiveKind.REDUCE):
        result = synthesise_exact(topology, kind, chunks=2, rounds=[1, 1, 1, 1], root=3, solver=solver)
        assert checked(topology, kind, result, 3).n_steps == 4


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"chunks": 0}, "chunks must be 1 to 65536"),
        ({"chunks": 65536, "rounds": [1] * 50}, "send variables"),
        ({"rounds": []}, "at least 1 for each step"),
        ({"rounds": [1, 0]}, "at least 1 for each step"),
        ({"rounds": FreeRounds(3, 2)}, "one round per"),
        ({"time_limit_s": 0.0}, "positive seconds"),
        ({"time_limit_s": float("nan")}, "positive seconds"),
        ({"seed": -1}, "seed"),
        ({"workers": 0}, "workers"),
        ({"root": 1}, "has no root"),
        ({"reduce_rounds": [1]}, "are for an allreduce"),
    ],
)
def test_bad_arguments(changed: dict[str, object], words: str) -> None:
    arguments: dict[str, object] = {"chunks": 1, "rounds": [1, 1], **changed}
    with pytest.raises(ScheduleError, match=words):
        synthesise_exact(parse("ring(4)"), ALLGATHER, **arguments)


def test_switches_and_missing_roots_are_refused() -> None:
    with pytest.raises(ScheduleError, match="switches"):
        synthesise_exact(parse("dgx_a100(2)"), ALLGATHER, chunks=1, rounds=[1])
    for root in (None, 4, -1):
        with pytest.raises(ScheduleError, match="needs a root from 0 to 3"):
            synthesise_exact(parse("ring(4)"), CollectiveKind.BROADCAST, chunks=1, rounds=[1], root=root)
    with pytest.raises(ScheduleError, match="symmetric search is for"):
        synthesise_exact(
            parse("ring(4)"), CollectiveKind.BROADCAST, chunks=1, rounds=[2, 2], root=0, symmetric=True
        )
