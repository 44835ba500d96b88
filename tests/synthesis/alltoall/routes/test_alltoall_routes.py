"""Paths of an all-to-all: sets to choose from, the path LP, column generation, extraction, whole chunks."""

from __future__ import annotations

from fractions import Fraction

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from samples.strategies import digraphs
from treadle.context import Context, TimeLimitError, under
from treadle.engine import core
from treadle.errors import InfeasibleError, ScheduleError
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.synthesis.alltoall.routes import route_columns
from treadle.synthesis.alltoall.routes.cycles import cancel_cycles
from treadle.synthesis.alltoall.routes.disjoint_paths import bounded_paths, disjoint_paths
from treadle.synthesis.alltoall.routes.extract import extract_paths
from treadle.synthesis.alltoall.routes.integral_units import common_chunks
from treadle.synthesis.alltoall.routes.path_mcf import path_mcf
from treadle.synthesis.alltoall.routes.path_sets import (
    PathSet,
    ShortestPaths,
    WeightedPaths,
    check_paths,
    from_lists,
    merge,
    shortest_path_set,
)
from treadle.synthesis.alltoall.routes.restricted_master import PathRestrictedMaster
from treadle.synthesis.alltoall.routes.route_columns import generate_routes
from treadle.synthesis.alltoall.routes.route_units import route_schedule
from treadle.synthesis.core_values.flow_values import PathBasis, PathProgram
from treadle.topologies import parse
from treadle.topologies.catalogue.direct import from_arcs
from treadle.topologies.topology import Topology, TopologyBuilder
from treadle.verification.routes.route_check import verify_routes
from treadle.verification.violations import ViolationKind


def everyone(topology: Topology) -> Collective:
    return on_all_ranks(topology, CollectiveKind.ALLTOALL)


def link_rate(topology: Topology, collective: Collective) -> float:
    """F by the link formulation (6)-(9) of the all-to-all paper, with scipy."""
    demand = collective.pair_demands.between
    n, m = topology.n_nodes, topology.n_links
    ranks = list(collective.ranks)
    rows, rhs = [], []
    for s, origin in enumerate(ranks):
        for node in range(n):
            if node == origin:
                continue
            row = np.zeros(len(ranks) * m + 1)
            for link in range(m):
                if topology.tails[link] != topology.heads[link]:
                    row[s * m + link] += int(topology.heads[link] == node) - int(topology.tails[link] == node)
            if node in ranks:
                row[-1] = -demand[s, ranks.index(node)]
            rows.append(row)
            rhs.append(0)
    capacity = np.zeros((m, len(ranks) * m + 1))
    for s in range(len(ranks)):
        capacity[np.arange(m), s * m + np.arange(m)] = 1
    goal = np.zeros(len(ranks) * m + 1)
    goal[-1] = -1
    found = linprog(goal, capacity, topology.bandwidths, np.array(rows), np.array(rhs), method="highs")
    return float(found.x[-1])


def check_set(topology: Topology, paths: PathSet) -> None:
    """Every path is simple and joins its ranks."""
    for p in range(paths.n_paths):
        links = paths.links_of(p)
        nodes = [int(topology.compute_nodes[paths.source[p]]), *topology.heads[links].tolist()]
        assert topology.tails[links].tolist() == nodes[:-1]
        assert nodes[-1] == topology.compute_nodes[paths.target[p]]
        assert len(set(nodes)) == len(nodes)


@settings(derandomize=True, max_examples=9, deadline=None)
@given(digraphs(compute=(2, 6), extra_links=14))
def test_disjoint_paths_are_as_many_and_as_short_as_can_be(topology: Topology) -> None:
    paths = disjoint_paths(topology, everyone(topology))
    check_set(topology, paths)
    graph = nx.DiGraph()
    for link, (tail, head) in enumerate(zip(topology.tails.tolist(), topology.heads.tolist(), strict=True)):
        graph.add_edge(tail, ("link", link), capacity=1, weight=1)  # parallel links apart
        graph.add_edge(("link", link), head, capacity=1, weight=0)
    for source in range(topology.n_nodes):
        for target in range(topology.n_nodes):
            if source == target:
                continue
            mine = np.flatnonzero((paths.source == source) & (paths.target == target))
            links = np.concatenate([paths.links_of(p) for p in mine])
            assert len(set(links.tolist())) == len(links)
            flow = nx.max_flow_min_cost(graph, source, target)
            assert len(mine) == sum(flow[source].values()) - sum(
                flow[node].get(source, 0) for node in graph.predecessors(source)
            )
            assert len(links) == nx.cost_of_flow(graph, flow)


@settings(derandomize=True, max_examples=25, deadline=None)
@given(digraphs(compute=(2, 5), extra_links=6), st.integers(0, 2))
def test_bounded_paths_are_all_the_short_simple_paths(topology: Topology, slack: int) -> None:
    paths = bounded_paths(topology, everyone(topology), slack=slack, most=10**6)
    check_set(topology, paths)
    graph = nx.MultiDiGraph(zip(topology.tails.tolist(), topology.heads.tolist(), strict=True))
    for source in range(topology.n_nodes):
        distance = nx.single_source_shortest_path_length(graph, source)
        for target in set(range(topology.n_nodes)) - {source}:
            cutoff = distance[target] + slack
            expected = len(list(nx.all_simple_edge_paths(graph, source, target, cutoff=cutoff)))
            assert int(((paths.source == source) & (paths.target == target)).sum()) == expected


def test_bounded_paths_keep_to_their_number() -> None:
    torus = parse("torus(4, 4)")
    paths = bounded_paths(torus, everyone(torus), slack=2, most=5)
    assert np.bincount(paths.source * 16 + paths.target).max() == 5
    assert paths.hops.sum() < bounded_paths(torus, everyone(torus), slack=2, most=9).hops.sum()
    with pytest.raises(ScheduleError, match="expected at least 0 and 1"):
        bounded_paths(torus, everyone(torus), slack=-1)


OPTIMA = [
    ("torus(3, 3, 3)", Fraction(1, 9), Fraction(1)),  # section 5.2: f = 1/9
    ("complete_bipartite(4, 4)", Fraction(2, 5), Fraction(1)),
    ("hypercube(3)", Fraction(1, 4), Fraction(1)),
    ("generalized_kautz(4, 16)", None, 1.083),
    ("generalized_kautz(4, 27)", 0.06701708, 1.020),
]


@pytest.mark.parametrize(("name", "optimum", "ratio"), OPTIMA)
def test_link_disjoint_paths_against_all_paths(name: str, optimum: Fraction | None, ratio: float) -> None:
    """The baseline "pMCF (disjoint)" of Fig. 8 and the optimum of column generation."""
    topology = parse(name)
    best = generate_routes(topology, everyone(topology))
    assert best.rate <= best.bound * (1 + 1e-9)
    assert best.gap < 1e-6
    if optimum is not None:
        assert best.rate == pytest.approx(float(optimum), rel=1e-6)
    pairs = topology.n_nodes * (topology.n_nodes - 1)
    assert best.routing.paths.n_paths <= min(pairs * 1.4, pairs + topology.n_links)
    disjoint = path_mcf(topology, everyone(topology), disjoint_paths(topology, everyone(topology)))
    assert best.rate / disjoint.rate == pytest.approx(float(ratio), abs=4e-3)
    if isinstance(optimum, Fraction):
        assert disjoint.exact == optimum
    assert disjoint.exact is not None
    assert float(disjoint.exact) == pytest.approx(disjoint.rate)


@settings(derandomize=True, max_examples=9, deadline=None)
@given(digraphs(compute=(3, 6), extra_links=10), st.data())
def test_the_simplex_method_of_the_core(topology: Topology, data: st.DataObject) -> None:
    """Its basis has the form that was asked for, and is one in which HiGHS finds next to nothing to do."""
    n = topology.n_nodes
    units = data.draw(st.lists(st.integers(0, 5), min_size=n * n, max_size=n * n))
    between = np.array(units, dtype=np.int64).reshape(n, n)
    np.fill_diagonal(between, 0)
    between[0, 1] = 1
    collective = Collective(CollectiveKind.ALLTOALL, tuple(range(n)), demands=Demands(between))
    every = bounded_paths(topology, collective, slack=2, most=20)
    pair = check_paths(collective, every)
    master, plain = PathRestrictedMaster(topology, collective), PathRestrictedMaster(topology, collective)
    for program in (master, plain):
        program.add(every, pair)
    first = np.searchsorted(pair, np.arange(master.n_pairs))
    none = np.zeros(0, dtype=np.int32)
    status, (key, column, slack), pivots = core.path_simplex(
        PathProgram(master.bandwidth, master.demand, pair.astype(np.int32), every.offset, every.links),
        PathBasis(first.astype(np.int32), none, none),
        10**4,
        np.zeros(3, dtype=np.int64),
    )
    assert status == 0
    assert pivots < 10**4
    assert np.array_equal(pair[key], np.arange(master.n_pairs))
    assert len(column) + len(slack) + 1 == topology.n_links
    assert len({*key.tolist(), *column.tolist()}) == len(key) + len(column)
    assert len(set(slack.tolist())) == len(slack)
    master.start_from(first)
    solution = master.solve()
    assert solution.time == pytest.approx(plain.solve().time)
    used = np.flatnonzero(solution.weights > 1e-9)
    assert len(np.setdiff1d(used, np.concatenate([key, column]))) <= 2  # what the perturbation hid


def test_a_deadline_keeps_the_routing_so_far() -> None:
    """Once a linear program is solved there is a routing; before, the deadline is an error."""
    graph = parse("generalized_kautz(4, 27)")
    most_rounds = route_columns._MAX_ROUNDS

    def stop(stage: str, done: int, total: int) -> None:
        if total == most_rounds:
            raise TimeLimitError(stage)

    def stop_at_once(stage: str, done: int, total: int) -> None:
        raise TimeLimitError(stage)

    with pytest.raises(TimeLimitError), under(Context(stop_at_once)):
        generate_routes(graph, everyone(graph), gap=0.0)
    with under(Context(stop)):
        late = generate_routes(graph, everyone(graph), gap=0.0)
    assert late.is_late
    assert late.rounds == 1
    assert 0.5 * late.bound < late.rate <= late.bound
    assert not generate_routes(graph, everyone(graph)).is_late


def test_the_exact_weights_are_exact() -> None:
    topology = parse("generalized_kautz(4, 16)")
    result = path_mcf(topology, everyone(topology), disjoint_paths(topology, everyone(topology)))
    assert result.exact_weights is not None
    load = [Fraction(0)] * topology.n_links
    for p, weight in enumerate(result.exact_weights):
        for link in result.routing.paths.links_of(p).tolist():
            load[link] += weight
    assert 1 / max(load) == result.exact == Fraction(5, 41)


@settings(derandomize=True, max_examples=9, deadline=None)
@given(digraphs(compute=(2, 5), extra_links=8), st.data())
def test_all_formulations_agree(topology: Topology, data: st.DataObject) -> None:
    """Strong duality and (6)-(9) = (21)-(24) over all paths, for any demands."""
    n = topology.n_nodes
    entries = st.lists(st.integers(0, 4), min_size=n * n, max_size=n * n)
    matrix = np.array(data.draw(entries)).reshape(n, n)
    matrix[0, 1] += 1
    collective = Collective(CollectiveKind.ALLTOALL, tuple(range(n)), demands=Demands(matrix))
    expected = link_rate(topology, collective)
    every = path_mcf(topology, collective, bounded_paths(topology, collective, slack=n, most=10**6))
    assert every.rate == pytest.approx(expected, rel=1e-6)
    assert every.exact is not None
    assert float(every.exact) == pytest.approx(expected, rel=1e-6)
    generated = generate_routes(topology, collective)
    check_set(topology, generated.routing.paths)
    assert generated.rate == pytest.approx(expected, rel=1e-5)
    assert generated.bound == pytest.approx(expected, rel=1e-5)
    assert generated.bound >= expected * (1 - 1e-7)


def test_switches_and_spare_hosts_forward() -> None:
    builder = TopologyBuilder("star")
    for i in range(3):
        builder.compute(f"h{i}")
    builder.switch("sw")
    for i in range(3):
        builder.duplex(f"h{i}", "sw", 4)
    collective = Collective(CollectiveKind.ALLTOALL, (0, 1), forwarders=(2,))
    star = builder.build()
    assert path_mcf(star, collective, shortest_path_set(star, collective)).exact == 4
    found = generate_routes(star, collective)
    assert found.rate == pytest.approx(4)
    made = route_schedule(star, collective, found.routing.paths, found.routing.weights)
    assert verify_routes(star, collective, made.schedule, claimed_algbw=made.algbw).is_ok


def flows_of(topology: Topology, collective: Collective, routing: WeightedPaths) -> np.ndarray:
    flows = np.zeros((collective.n_ranks, topology.n_links))
    paths = routing.paths
    np.add.at(flows, (paths.source[paths.owner], paths.links), routing.weights[paths.owner])
    return flows


@pytest.mark.parametrize(
    ("name", "widest"),
    [("torus(3, 3, 3)", True), ("generalized_kautz(4, 27)", False), ("de_bruijn(2, 4)", True)],
)
def test_extraction_keeps_the_rate(name: str, widest: bool) -> None:
    topology = parse(name)
    collective = everyone(topology)
    best = generate_routes(topology, collective)
    flows = flows_of(topology, collective, best.routing)
    paths = extract_paths(topology, collective, flows, widest=widest)
    check_set(topology, paths.paths)
    assert paths.rate(topology) == pytest.approx(best.rate, rel=1e-9)
    total = np.zeros((collective.n_ranks, collective.n_ranks))
    np.add.at(total, (paths.paths.source, paths.paths.target), paths.weights)
    assert np.allclose(total, collective.pair_demands.between)


def test_extraction_repairs_what_float32_loses() -> None:
    topology = parse("generalized_kautz(4, 27)")
    collective = everyone(topology)
    best = generate_routes(topology, collective)
    noise = np.random.default_rng(3).normal(1, 1e-4, (27, topology.n_links))
    flows = flows_of(topology, collective, best.routing) * noise
    paths = extract_paths(topology, collective, flows)
    assert paths.rate(topology) == pytest.approx(best.rate, rel=1e-3)
    pair = paths.paths.source * 27 + paths.paths.target
    assert np.allclose(
        np.bincount(pair, weights=paths.weights, minlength=729).reshape(27, 27), 1 - np.eye(27)
    )


@settings(derandomize=True, max_examples=14, deadline=None)
@given(digraphs(compute=(3, 6), extra_links=10), st.integers(0, 2**32 - 1))
def test_cycles_go_and_net_flows_stay(topology: Topology, seed: int) -> None:
    flows = np.random.default_rng(seed).exponential(size=(3, topology.n_links))
    left = cancel_cycles(topology, flows)
    assert (left <= flows + 1e-12).all()
    for before, after in zip(flows, left, strict=True):
        net = np.zeros(topology.n_nodes)
        np.add.at(net, topology.heads, before - after)
        np.subtract.at(net, topology.tails, before - after)
        assert np.abs(net).max() < 1e-9
        used = after > 1e-9
        graph = nx.DiGraph(zip(topology.tails[used].tolist(), topology.heads[used].tolist(), strict=True))
        assert nx.is_directed_acyclic_graph(graph)


def test_extraction_goes_round_cycles() -> None:
    topology = parse("hypercube(3)")
    collective = everyone(topology)
    best = generate_routes(topology, collective)
    paths = extract_paths(topology, collective, flows_of(topology, collective, best.routing) + 0.25)
    check_set(topology, paths.paths)


def test_bad_flows_are_refused() -> None:
    topology = parse("hypercube(3)")
    collective = everyone(topology)
    with pytest.raises(ScheduleError, match="shape"):
        extract_paths(topology, collective, np.zeros((3, 3)))
    with pytest.raises(ScheduleError, match="finite"):
        extract_paths(topology, collective, np.full((8, 24), np.nan))
    with pytest.raises(InfeasibleError, match="rank 1 gets 0 from rank 0"):
        extract_paths(topology, collective, np.zeros((8, 24)))


@pytest.mark.parametrize(
    ("chunks", "max_routes"), [(1, None), (3, 1), (3, 2), (16, None), (None, 2), (None, None)]
)
def test_whole_chunks(chunks: int | None, max_routes: int | None) -> None:
    topology = parse("generalized_kautz(4, 16)")
    collective = everyone(topology)
    best = generate_routes(topology, collective).routing
    made = route_schedule(
        topology, collective, best.paths, best.weights, chunks=chunks, max_routes=max_routes
    )
    report = verify_routes(
        topology, collective, made.schedule, claimed_algbw=made.algbw, max_routes=max_routes
    )
    assert {violation.kind for violation in report.violations} <= {ViolationKind.DEADLOCK}
    load = np.zeros(topology.n_links)
    np.add.at(load, made.schedule.path_links, np.repeat(made.schedule.units, made.schedule.hops))
    assert made.algbw == Fraction(16 * made.schedule.n_chunks, int(load.max()))
    assert made.loss == pytest.approx(1 - float(made.algbw) / 16 / best.rate(topology))
    assert made.loss < (0.2 if max_routes == 1 or chunks == 1 else 0.08)
    if chunks is None and max_routes is None:
        assert made.loss < 0.01


def test_shares_with_a_small_denominator_lose_nothing() -> None:
    topology = parse("complete_bipartite(4, 4)")
    collective = everyone(topology)
    paths = bounded_paths(topology, collective)
    weights = 1 / np.bincount(paths.source * 8 + paths.target)[paths.source * 8 + paths.target]
    assert common_chunks(weights) == 4
    made = route_schedule(topology, collective, paths, weights)
    assert (made.algbw, made.schedule.n_chunks) == (Fraction(16, 5), 4)
    assert made.loss == pytest.approx(0, abs=1e-12)
    assert common_chunks(weights, limit=3) is None


def test_moving_chunks_helps() -> None:
    """All chunks on the first of four equal paths: most of them have to move."""
    topology = parse("complete_bipartite(4, 4)")
    collective = everyone(topology)
    paths = bounded_paths(topology, collective)
    weights = np.where(np.append(True, np.diff(paths.source * 8 + paths.target) != 0), 1.0, 1e-9)
    made = route_schedule(topology, collective, paths, weights, chunks=4)
    assert made.algbw >= Fraction(8, 3)
    assert made.loss < -1


def test_what_route_schedule_refuses() -> None:
    topology = parse("complete(3)")
    collective = everyone(topology)
    paths = shortest_path_set(topology, collective)
    one = np.ones(paths.n_paths)
    for arguments, words in (
        ({"chunks": 0}, "0 chunks"),
        ({"max_routes": 0}, "at most 0 routes"),
    ):
        with pytest.raises(ScheduleError, match=words):
            route_schedule(topology, collective, paths, one, **arguments)
    with pytest.raises(ScheduleError, match="not negative"):
        route_schedule(topology, collective, paths, -one)
    with pytest.raises(InfeasibleError, match="rank 0 has none to rank 1"):
        route_schedule(topology, collective, paths, np.where(np.arange(paths.n_paths) == 0, 0.0, 1.0))


def test_disconnected_fabrics_are_refused() -> None:
    builder = TopologyBuilder("one way")
    builder.compute("a"), builder.compute("b")
    builder.link("a", "b", 1)
    topology = builder.build()
    collective = everyone(topology)
    for function in (disjoint_paths, bounded_paths, shortest_path_set, generate_routes):
        with pytest.raises(InfeasibleError, match="no path leads from 'b' to 'a'"):
            function(topology, collective)
    with pytest.raises(InfeasibleError, match="rank 1 has none to rank 0"):
        path_mcf(topology, collective, from_lists([(0, 1, [0])]))


def test_nodes_out_of_reach_have_no_last_link() -> None:
    """In a chain with a node apart; numpy's warnings would be errors here."""
    chain = from_arcs("chain", [0, 1, 3], [1, 2, 3], n=4)
    with np.errstate(all="raise"):
        found = ShortestPaths(chain, everyone(chain)).search(np.array([2.0, 3.0, 1.0]))
    inf = np.inf
    assert found.distance.tolist() == [
        [0, 2, 5, inf],
        [inf, 0, 3, inf],
        [inf, inf, 0, inf],
        [inf, inf, inf, 0],
    ]
    assert found.into[:, 1:3].tolist() == [[0, 1], [-1, 1], [-1, -1], [-1, -1]]
    assert found.paths(np.array([0]), np.array([2])).tolist() == [[0, 1]]
    with pytest.raises(InfeasibleError, match="cannot be reached"):
        found.paths(np.array([2]), np.array([0]))


def test_path_sets_merge() -> None:
    one = from_lists([(1, 0, [3]), (0, 1, [2, 5]), (0, 1, [2, 5]), (0, 1, [1])])
    assert one.source.tolist() == [0, 0, 1]
    assert one.links.tolist() == [2, 5, 1, 3]
    both = merge(one, from_lists([(0, 1, [1]), (0, 2, [7, 8, 9])]))
    assert both.hops.tolist() == [2, 1, 3, 1]
    assert both.take(np.array([True, False, True, False])).links.tolist() == [2, 5, 7, 8, 9]
