"""Layers: LASH, DF-SSSP, orders of links, and routes whose paths and layers are chosen together."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from treadle.context import Context, TimeLimitError, under
from treadle.errors import InfeasibleError, ScheduleError
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.synthesis.alltoall.routes.disjoint_paths import bounded_paths
from treadle.synthesis.alltoall.routes.layered_routes import layered_routes
from treadle.synthesis.alltoall.routes.link_orders import (
    grid_orders,
    grid_sides,
)
from treadle.synthesis.alltoall.routes.path_sets import PathSet
from treadle.synthesis.alltoall.routes.route_columns import generate_routes
from treadle.synthesis.alltoall.routes.route_units import route_schedule
from treadle.synthesis.alltoall.routes.virtual_channels import (
    lash_layers,
    shared_waits_cycle,
    waits_of,
)
from treadle.topologies import parse
from treadle.topologies.topology import Topology, TopologyBuilder
from treadle.verification.routes.route_check import verify_routes


def everyone(topology: Topology) -> Collective:
    return on_all_ranks(topology, CollectiveKind.ALLTOALL)


def is_free(paths: PathSet, layer: np.ndarray) -> bool:
    """No cycle of waits in any layer."""
    for number in np.unique(layer):
        graph = nx.DiGraph()
        for p in np.flatnonzero(layer == number):
            graph.add_edges_from(waits_of(paths)[p])
        if not nx.is_directed_acyclic_graph(graph):
            return False
    return True


def test_a_ring_needs_more_layers_than_one() -> None:
    ring = parse("uni_ring(1, 5)")
    paths = bounded_paths(ring, everyone(ring))
    assert lash_layers(paths, 5).max() >= 1


@pytest.mark.parametrize(
    ("name", "sides"),
    [
        ("torus(3, 4, 2)", (3, 4, 2)),
        ("mesh(3, 5)", (3, 5)),
        ("hypercube(3)", (2, 2, 2)),
        ("generalized_kautz(4, 27)", None),
    ],
)
def test_grids_are_recognised(name: str, sides: tuple[int, ...] | None) -> None:
    assert grid_sides(parse(name)) == sides


def test_grid_orders_hold_every_link_once() -> None:
    torus = parse("torus(4, 4)")
    orders = grid_orders(torus, (4, 4), np.random.default_rng(0))
    assert orders.shape == (24, 64)
    assert (np.sort(orders, axis=1) == np.arange(64)).all()


@pytest.mark.parametrize(
    ("name", "layers", "part"),
    [
        ("torus(3, 3, 3)", 1, 1.0),
        ("hypercube(4)", 1, 1.0),
        ("torus(4, 4)", 2, 0.98),
        ("generalized_kautz(4, 27)", 1, 0.55),
        ("generalized_kautz(4, 27)", 2, 0.99),
    ],
)
def test_rate_in_few_layers(name: str, layers: int, part: float) -> None:
    topology = parse(name)
    collective = everyone(topology)
    found = layered_routes(topology, collective, layers, searches=2)
    assert part - 1e-6 <= found.efficiency <= 1 + 1e-9
    made = route_schedule(
        topology, collective, found.routing.paths, found.routing.weights, layer=found.layer, max_routes=8
    )
    report = verify_routes(
        topology, collective, made.schedule, claimed_algbw=made.algbw, max_layers=layers, max_routes=8
    )
    assert report.is_ok, report.violations
    assert found.routing.paths.n_paths < 1.35 * topology.n_nodes * (topology.n_nodes - 1)


def test_lash_on_the_paths_of_the_optimum() -> None:
    """At most four layers on the papers' topologies (section 5.5)."""
    for name in ("torus(3, 3, 3)", "generalized_kautz(4, 27)", "complete_bipartite(4, 4)", "hypercube(3)"):
        topology = parse(name)
        paths = generate_routes(topology, everyone(topology)).routing.paths
        assert lash_layers(paths, topology.n_links).max() < 4


def test_what_cannot_be_layered() -> None:
    """Around a one-way ring of N, a layer without the wait at v serves full circles from v and v + 1 only."""
    ring = parse("uni_ring(1, 5)")
    with pytest.raises(ScheduleError, match="at most 0"):
        layered_routes(ring, everyone(ring), 0)
    with pytest.raises(InfeasibleError, match=r"form a cycle; 3 are enough: .*--layers 3"):
        layered_routes(ring, everyone(ring), 1, searches=1)
    with pytest.raises(InfeasibleError, match=r"in 2 layers was found; 3 are enough: .*--layers 3"):
        layered_routes(ring, everyone(ring), 2, searches=1)
    assert layered_routes(ring, everyone(ring), 3).efficiency == pytest.approx(1)


@pytest.mark.parametrize(
    ("name", "shared"),
    [("uni_ring(1, 3)", True), ("uni_ring(2, 4)", False), ("bi_ring(2, 5)", False), ("hypercube(3)", False)],
)
def test_waits_that_all_routings_share(name: str, shared: bool) -> None:
    ring = parse(name)
    assert shared_waits_cycle(ring, everyone(ring)) == shared


def test_the_same_seed_gives_the_same_routes() -> None:
    graph = parse("generalized_kautz(4, 16)")
    collective = everyone(graph)
    one, same, other = (layered_routes(graph, collective, 1, searches=1, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(one.orders, same.orders)
    assert np.array_equal(one.routing.weights, same.routing.weights)
    assert not np.array_equal(one.orders, other.orders)


def test_a_deadline_keeps_the_best_so_far() -> None:
    graph = parse("generalized_kautz(4, 16)")
    collective = everyone(graph)
    base = generate_routes(graph, collective)

    def stop_after_one_search(stage: str, done: int, total: int) -> None:
        if stage == "layered routes" and done == 1:
            raise TimeLimitError(stage)

    whole = layered_routes(graph, collective, 1, unlayered=base, searches=1)
    with under(Context(stop_after_one_search)):
        late = layered_routes(graph, collective, 1, unlayered=base)
    assert late.is_late
    assert not whole.is_late
    assert np.array_equal(late.orders, whole.orders)
    with pytest.raises(TimeLimitError), under(Context(deadline=0.0)):
        layered_routes(graph, collective, 1, unlayered=base)


def test_orders_that_serve_no_pair_are_passed_over() -> None:
    """A grid's numbers of nodes, but one-way links: many of a grid's orders permit no wanted path."""
    builder = TopologyBuilder("one way")
    for node in range(4):
        builder.compute(f"n{node}")
    for tail, head in [(0, 2), (1, 0), (3, 1), (2, 3), (0, 2)]:
        builder.link(f"n{tail}", f"n{head}", 1)
    fabric = builder.build()
    wanted = Demands([[0, 5, 0, 0], [0, 0, 0, 9], [2, 0, 0, 0], [9, 0, 0, 0]])
    collective = Collective(CollectiveKind.ALLTOALL, (0, 1, 2, 3), demands=wanted)
    found = layered_routes(fabric, collective, 3)
    assert found.efficiency > 1 - 1e-6
    assert is_free(found.routing.paths, found.layer)
