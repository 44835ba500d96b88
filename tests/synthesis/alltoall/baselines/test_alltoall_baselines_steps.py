"""Step baselines of all-to-all: exact costs, optimality where it is claimed, the verifier everywhere."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import ceil, log2

import pytest

from samples.table import ALLTOALL_BASELINES
from treadle.errors import InfeasibleError, ScheduleError
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.alltoall.exchange_cost import exchange_algbw, step_times
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.synthesis.alltoall.baselines import (
    bruck_exchange,
    hypercube_exchange,
    mesh_exchange,
    pairwise_exchange,
    torus_exchange,
)
from treadle.topologies import parse
from treadle.topologies.catalogue.direct import from_arcs
from treadle.topologies.catalogue.graphs import complete, hypercube, mesh, torus
from treadle.topologies.topology import Topology
from treadle.verification.alltoall.exchange_check import verify_exchange
from treadle.verification.routes.route_check import verify_routes

Generator = Callable[[Topology, Collective], ExchangeSchedule]


def everyone(fabric: Topology) -> Collective:
    return on_all_ranks(fabric, CollectiveKind.ALLTOALL)


def checked_time(fabric: Topology, collective: Collective, schedule: ExchangeSchedule) -> Fraction:
    """Time per unit of demand, after the verifier has accepted schedule and cost."""
    algbw = exchange_algbw(fabric, collective, schedule)
    report = verify_exchange(fabric, collective, schedule, claimed_algbw=algbw)
    assert not report.violations
    return collective.pair_demands.buffer_units / algbw


@pytest.mark.parametrize("d", [1, 2, 3, 5, 6])
def test_hypercube_exchange_is_johnsson_and_hos(d: int) -> None:
    """All-port optimum of Johnsson and Ho (1989): d steps, N / 2 units over every link, N / (2 d) a step."""
    cube = hypercube(d)
    schedule = hypercube_exchange(cube, everyone(cube))
    assert checked_time(cube, everyone(cube), schedule) == 2**d / Fraction(2)
    assert step_times(cube, everyone(cube), schedule) == [Fraction(2**d, 2 * d)] * d


@pytest.mark.parametrize("sides", [(4, 3), (3, 5, 2), (6, 2), (2, 4), (7, 3)])
def test_mesh_exchange_with_unequal_sides(sides: tuple[int, ...]) -> None:
    fabric = mesh(*sides)
    schedule = mesh_exchange(fabric, everyone(fabric))
    n = fabric.n_nodes
    busiest = max(n // side * (side * side // 4) for side in sides)
    assert checked_time(fabric, everyone(fabric), schedule) == busiest
    assert schedule.n_steps == len(sides) * ceil(Fraction(busiest * max(sides), n))


@pytest.mark.parametrize("sides", [(3, 3, 3), (8, 8), (5, 5), (4, 4, 4), (7,), (6, 6)])
def test_torus_exchange_has_least_steps_and_time(sides: tuple[int, ...]) -> None:
    fabric = torus(*sides)
    schedule = torus_exchange(fabric, everyone(fabric))
    side, n = sides[0], fabric.n_nodes
    assert schedule.n_steps == len(sides) * (side // 2)
    assert checked_time(fabric, everyone(fabric), schedule) == Fraction(n * (side**2 - side % 2), 8 * side)


@pytest.mark.parametrize("sides", [(4, 3), (5, 4, 2), (6, 3), (2, 5)])
def test_torus_exchange_with_unequal_sides(sides: tuple[int, ...]) -> None:
    fabric = torus(*sides)
    n = fabric.n_nodes
    loads = [Fraction(n, 2) if side == 2 else Fraction(n * (side**2 - side % 2), 8 * side) for side in sides]
    schedule = torus_exchange(fabric, everyone(fabric))
    assert checked_time(fabric, everyone(fabric), schedule) == max(loads)


@pytest.mark.parametrize(
    ("generator", "fabric", "message"),
    [
        (hypercube_exchange, torus(3, 3), "sides"),
        (hypercube_exchange, parse("twisted_hypercube(3)"), "not a mesh"),
        (mesh_exchange, torus(3, 3), "wraps"),
        (torus_exchange, mesh(3, 3), "does not wrap"),
        (torus_exchange, parse("star(3)"), "not a mesh"),
        (mesh_exchange, mesh(200), "at most 128"),
        (pairwise_exchange, parse("dgx_a100(1)"), "switches"),
        (bruck_exchange, parse("dgx_a100(1)"), "switches"),
    ],
)
def test_what_does_not_fit_is_refused(generator: Generator, fabric: Topology, message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        generator(fabric, everyone(fabric))


@pytest.mark.parametrize("n", [2, 5, 8, 16])
def test_bruck_on_complete_graphs(n: int) -> None:
    """ceil(log2 N) rounds; round k carries the offsets whose bit k is set (Bruck et al., section 3)."""
    fabric = complete(n)
    schedule = bruck_exchange(fabric, everyone(fabric))
    assert schedule.n_steps == ceil(log2(n))
    expected = sum(bin(offset).count("1") for offset in range(n))
    assert checked_time(fabric, everyone(fabric), schedule) == expected


def test_bruck_with_the_largest_radix_is_the_pairwise_exchange() -> None:
    fabric = parse("generalized_kautz(3, 10)")
    assert bruck_exchange(fabric, everyone(fabric), radix=10) == pairwise_exchange(fabric, everyone(fabric))
    middle = bruck_exchange(complete(9), everyone(complete(9)), radix=3)
    assert middle.n_steps == 4
    assert checked_time(complete(9), everyone(complete(9)), middle) == 3 * 4
    with pytest.raises(ScheduleError, match="radix"):
        bruck_exchange(fabric, everyone(fabric), radix=1)


def test_unreachable_ranks_are_named() -> None:
    fabric = from_arcs("oneway", [0, 1], [1, 2], n=3)
    with pytest.raises(InfeasibleError, match="no path leads"):
        pairwise_exchange(fabric, everyone(fabric))


@pytest.mark.parametrize("name", sorted(ALLTOALL_BASELINES))
def test_every_baseline_serves_a_cube(name: str) -> None:
    cube = hypercube(3)
    generator = ALLTOALL_BASELINES[name]
    if name == "torus-exchange":
        cube = torus(2, 2, 2)
    schedule = generator(cube, everyone(cube))
    if isinstance(schedule, ExchangeSchedule):
        assert checked_time(cube, everyone(cube), schedule) >= 4
    else:
        report = verify_routes(cube, everyone(cube), schedule)
        assert not report.violations
        assert report.algbw is not None
        assert report.algbw <= 2
