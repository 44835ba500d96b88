"""Route baselines of all-to-all: published ratios, known optima, and the verifier on random fabrics."""

from __future__ import annotations

import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samples.strategies import digraphs
from treadle.errors import InfeasibleError, ScheduleError
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.synthesis.alltoall.baselines import (
    dimension_order,
    equal_weight_shortest_paths,
    native_routes,
    path_mcf_disjoint,
    route_algbw,
    route_loads,
    route_time,
    single_source_shortest_paths,
    with_layers,
)
from treadle.synthesis.alltoall.baselines.equal_weight import EqualSplit
from treadle.synthesis.alltoall.routes.shortest_paths import split_over_shortest_paths
from treadle.topologies import parse
from treadle.topologies.catalogue.direct import from_arcs
from treadle.topologies.catalogue.graphs import complete_bipartite, hypercube, mesh, ring, torus
from treadle.topologies.topology import Topology
from treadle.verification.routes.route_check import verify_routes

# 1/F in link times; generalized Kautz graphs by LP (6)-(9) to 1e-6
OPTIMUM = {
    "torus(3, 3, 3)": 9.0,
    "complete_bipartite(4, 4)": 2.5,
    "generalized_kautz(4, 27)": 1 / 0.06701708,
    "generalized_kautz(4, 64)": 1 / 0.02170767,
}


def everyone(fabric: Topology) -> Collective:
    return on_all_ranks(fabric, CollectiveKind.ALLTOALL)


@st.composite
def exchanges(draw: st.DrawFn) -> tuple[Topology, Collective]:
    fabric = draw(digraphs())
    n = fabric.n_nodes
    entries = st.lists(st.integers(0, 3), min_size=n * n, max_size=n * n)
    matrix = np.array(draw(entries)).reshape(n, n)
    matrix[0, 1] += 1
    demands = Demands(matrix) if draw(st.booleans()) else None
    return fabric, Collective(CollectiveKind.ALLTOALL, tuple(range(n)), demands=demands)


@pytest.mark.parametrize(
    ("name", "ratio"),
    [
        ("torus(3, 3, 3)", 1.0),
        ("complete_bipartite(4, 4)", 1.0),
        ("generalized_kautz(4, 27)", 1.42),
        ("generalized_kautz(4, 64)", 1.24),
    ],
)
def test_ewsp_over_the_optimum(name: str, ratio: float) -> None:
    fabric = parse(name)
    result = equal_weight_shortest_paths(fabric, everyone(fabric))
    time = float(route_time(fabric, everyone(fabric), result.schedule))
    assert time / OPTIMUM[name] == pytest.approx(ratio, abs=5e-3)
    assert result.loss == 0


@pytest.mark.parametrize(
    ("name", "ratio"),
    [
        ("torus(3, 3, 3)", 1.78),
        ("complete_bipartite(4, 4)", 2.0),
        ("generalized_kautz(4, 27)", 1.34),
        ("generalized_kautz(4, 64)", 1.24),
    ],
)
def test_sssp_over_the_optimum(name: str, ratio: float) -> None:
    fabric = parse(name)
    routes = single_source_shortest_paths(fabric, everyone(fabric))
    time = float(route_time(fabric, everyone(fabric), routes))
    assert time / OPTIMUM[name] == pytest.approx(ratio, abs=5e-3)


def test_small_generalized_kautz_has_one_shortest_path_a_pair() -> None:
    fabric = parse("generalized_kautz(4, 16)")
    times = {
        route_time(fabric, everyone(fabric), routes)
        for routes in (
            equal_weight_shortest_paths(fabric, everyone(fabric)).schedule,
            single_source_shortest_paths(fabric, everyone(fabric)),
            native_routes(fabric, everyone(fabric)),
        )
    }
    assert times == {Fraction(9)}


@pytest.mark.parametrize(
    ("fabric", "time"),
    [
        (torus(3, 3, 3), 9),  # N/3 * 1
        (torus(8, 8), 64),  # N/8 * 8^2/8
        (torus(5, 3), 9),
        (torus(4, 4, 2), 16),
        (hypercube(4), 8),  # N/2
        (mesh(4, 4), 16),  # 4^3/4, Scott (1991)
        (mesh(5), 6),
        (mesh(2, 3), 4),
    ],
)
def test_dimension_order_meets_the_bisection(fabric: Topology, time: int) -> None:
    routes = dimension_order(fabric, everyone(fabric))
    assert route_time(fabric, everyone(fabric), routes) == time
    layered = with_layers(fabric, routes)
    report = verify_routes(fabric, everyone(fabric), layered)
    assert not report.violations
    assert report.algbw == route_algbw(fabric, everyone(fabric), layered)


def test_dimension_order_needs_one_layer_on_meshes_and_short_rings() -> None:
    for fabric in (mesh(4, 3), torus(3, 3, 3), hypercube(3)):
        assert with_layers(fabric, dimension_order(fabric, everyone(fabric))).n_layers == 1


@pytest.mark.parametrize(
    "fabric",
    [
        complete_bipartite(3, 3),
        parse("generalized_kautz(2, 8)"),
        ring(5, bidirectional=False),
        parse("punctured(torus(4, 4), links=1)"),
        parse("star(4)"),
    ],
)
def test_other_fabrics_are_no_grids(fabric: Topology) -> None:
    with pytest.raises(ScheduleError, match="not a mesh, torus"):
        dimension_order(fabric, everyone(fabric))


def test_routes_of_too_many_links_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """9 ranks, each 12 links from all others together: 108."""
    fabric = torus(3, 3)
    module = sys.modules[
        "treadle.synthesis.alltoall.baselines.dimension_order"
    ]  # the package has the function
    monkeypatch.setattr(module, "_MAX_HOPS", 108)
    assert dimension_order(fabric, everyone(fabric)).n_ranks == 9
    monkeypatch.setattr(module, "_MAX_HOPS", 107)
    with pytest.raises(ScheduleError, match="have over 107 links in all; use fewer ranks"):
        dimension_order(fabric, everyone(fabric))


def test_shortest_paths_of_too_many_links_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ring of 4: 8 neighbours by a link, 4 opposite pairs by two paths of two; 16 begin, 8 go on."""
    fabric = ring(4)
    equal_weight, shortest_paths = (
        sys.modules[f"treadle.synthesis.alltoall.{name}"]
        for name in ("baselines.equal_weight", "routes.shortest_paths")
    )
    for module, name, most, words in (
        (equal_weight, "MAX_HOPS", 24, "ewsp: the paths of ring(4) have 24 links in all, at most 23 can be "
         "listed; allow fewer chunks, or use fewer ranks"),
        (shortest_paths, "_MAX_HOPS", 16, "ring(4): the shortest paths have over 15 links in all; allow "
         "fewer chunks (--chunks)"),
    ):  # fmt: skip
        make = equal_weight_shortest_paths if module is equal_weight else split_over_shortest_paths
        monkeypatch.setattr(module, name, most)
        assert make(fabric, everyone(fabric)) is not None
        monkeypatch.setattr(module, name, most - 1)
        with pytest.raises(ScheduleError) as caught:
            make(fabric, everyone(fabric))
        assert str(caught.value) == words
        with pytest.raises(ScheduleError, match=r"^chunks: expected at least 1 per unit of demand, found 0$"):
            make(fabric, everyone(fabric), max_chunks=0)


@settings(max_examples=10, deadline=None, derandomize=True)
@given(exchanges())
def test_routes_are_sound_on_random_fabrics(case: tuple[Topology, Collective]) -> None:
    fabric, collective = case
    for routes in (
        equal_weight_shortest_paths(fabric, collective).schedule,
        equal_weight_shortest_paths(fabric, collective, max_chunks=1).schedule,
        single_source_shortest_paths(fabric, collective),
        native_routes(fabric, collective),
    ):
        report = verify_routes(fabric, collective, with_layers(fabric, routes))
        assert not report.violations
        assert report.algbw == route_algbw(fabric, collective, routes)


@settings(max_examples=10, deadline=None, derandomize=True)
@given(exchanges())
def test_counting_paths_gives_the_loads_of_listing_them(case: tuple[Topology, Collective]) -> None:
    fabric, collective = case
    result = equal_weight_shortest_paths(fabric, collective, max_chunks=10**6)
    exact = route_loads(fabric, result.schedule) / result.schedule.n_chunks
    assert EqualSplit(fabric, collective).loads() == pytest.approx(exact)


def test_rounding_ewsp_reports_its_loss() -> None:
    fabric = parse("generalized_kautz(4, 27)")
    result = equal_weight_shortest_paths(fabric, everyone(fabric), max_chunks=1)
    ideal = 27 / EqualSplit(fabric, everyone(fabric)).loads().max()
    assert result.schedule.n_chunks == 1
    assert result.loss == pytest.approx(1 - float(result.algbw) / ideal)
    assert result.loss != 0


def test_unreachable_ranks_are_named() -> None:
    fabric = from_arcs("oneway", [0, 1], [1, 2], n=3)
    for generate in (equal_weight_shortest_paths, single_source_shortest_paths, native_routes):
        with pytest.raises(InfeasibleError, match="n1"):
            generate(fabric, everyone(fabric))


def test_link_disjoint_paths_are_split_as_well_as_can_be() -> None:
    """Two ways round a ring of 5: three links of one and two of the other; all of them end up alike."""
    fabric = ring(5)
    schedule = path_mcf_disjoint(fabric, everyone(fabric))
    assert route_time(fabric, everyone(fabric), schedule) == 3
