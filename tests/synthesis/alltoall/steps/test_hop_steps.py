"""Steps of the hops of routes: correct, as few as asked, hardly longer in all than the fullest link."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from treadle import planning
from treadle.context import Context, under
from treadle.errors import InfeasibleError
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.alltoall.route_cost import route_algbw
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.synthesis.alltoall.rate.rate import optimal_rate
from treadle.synthesis.alltoall.routes.extract import extract_paths
from treadle.synthesis.alltoall.routes.integral_units import rounded_routes
from treadle.synthesis.alltoall.searched.searched_routes import searched_routes
from treadle.synthesis.alltoall.steps.hop_steps import routes_in_steps
from treadle.topologies import parse
from treadle.topologies.topology import Topology
from treadle.verification.alltoall.exchange_check import verify_exchange


def everyone(fabric: Topology) -> Collective:
    return on_all_ranks(fabric, CollectiveKind.ALLTOALL)


def share(fabric: Topology, collective: Collective, routes: RouteSchedule, **options: int) -> float:
    """Rate of the verified steps over that of the routes."""
    schedule = routes_in_steps(fabric, collective, routes, **options)
    assert schedule.n_steps <= options.get("max_steps", 99)
    report = verify_exchange(fabric, collective, schedule)
    assert report.is_ok, report.violations[:3]
    assert report.algbw is not None
    return float(report.algbw / route_algbw(fabric, collective, routes))


@pytest.mark.parametrize(
    ("expression", "max_steps", "least"),
    [("generalized_kautz(4, 64)", 12, 0.99), ("torus(6, 6)", 18, 0.98), ("jellyfish(48, 4)", 15, 0.98)],
)
def test_steps_keep_the_rate_of_the_routes(expression: str, max_steps: int, least: float) -> None:
    fabric = parse(expression)
    routes = searched_routes(fabric, everyone(fabric)).schedule
    assert share(fabric, everyone(fabric), routes, max_steps=max_steps) >= least


def test_fewest_steps_are_slower_and_fewer_are_refused() -> None:
    fabric = parse("generalized_kautz(4, 64)")
    routes = searched_routes(fabric, everyone(fabric), max_hops=4).schedule
    longest = int(routes.hops.max())
    few = share(fabric, everyone(fabric), routes, max_steps=longest)
    assert few < share(fabric, everyone(fabric), routes, max_steps=3 * longest)
    with pytest.raises(InfeasibleError, match=rf"at most {longest - 1} steps are allowed \(--max-steps\)"):
        routes_in_steps(fabric, everyone(fabric), routes, max_steps=longest - 1)


def test_sparse_demands_in_steps_end_near_the_bound() -> None:
    """5940 pairs of 1 to 50 units: half a percent below what no schedule can exceed, at most."""
    rng = np.random.default_rng(5)
    matrix = rng.integers(1, 51, (100, 100)) * (rng.random((100, 100)) < 0.6)
    np.fill_diagonal(matrix, 0)
    group = everyone(parse("generalized_kautz(4, 100)"))
    collective = Collective(CollectiveKind.ALLTOALL, group.ranks, demands=Demands(matrix))
    found = planning.solve(parse("generalized_kautz(4, 100)"), collective)
    assert found.report.is_ok
    assert found.bound is not None
    assert 1 - found.algbw / found.bound.algbw <= Fraction(1, 200)


def test_hops_that_fill_all_links_are_levelled_by_prices() -> None:
    """An optimal flow's paths of 248 unequal pairs: no link has room where a hop could wait."""
    fabric = parse("torus(5, 5)")
    rng = np.random.default_rng(1)
    matrix = rng.integers(1, 50, (25, 25)) * (rng.random((25, 25)) < 0.4)
    np.fill_diagonal(matrix, 0)
    collective = Collective(CollectiveKind.ALLTOALL, everyone(fabric).ranks, demands=Demands(matrix))
    flow = optimal_rate(fabric, collective).flow.by_source
    routes = rounded_routes(collective, extract_paths(fabric, collective, flow), parts=128)
    steps = 3 * int(routes.hops.max())
    levelled = share(fabric, collective, routes, max_steps=steps, max_chunks=128, is_tight=True)
    assert levelled >= 0.97
    assert levelled >= share(fabric, collective, routes, max_steps=steps, max_chunks=128) + 0.015


def test_a_late_search_gives_correct_steps() -> None:
    fabric = parse("torus(4, 4)")
    routes = searched_routes(fabric, everyone(fabric)).schedule
    with under(Context(deadline=0.0)):
        schedule = routes_in_steps(fabric, everyone(fabric), routes, max_steps=5)
    assert verify_exchange(fabric, everyone(fabric), schedule).is_ok
