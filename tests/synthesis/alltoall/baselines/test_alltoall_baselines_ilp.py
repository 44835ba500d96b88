"""Single paths by integer programming: published ratios, brute force, limits."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samples.strategies import digraphs
from treadle.errors import ScheduleError
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.synthesis.alltoall.baselines import (
    best_single_paths,
    ilp_disjoint,
    ilp_shortest,
    route_algbw,
    route_time,
    with_layers,
)
from treadle.synthesis.alltoall.routes.disjoint_paths import bounded_paths, disjoint_paths
from treadle.synthesis.alltoall.routes.path_sets import PathSet
from treadle.topologies import TopologyBuilder, parse
from treadle.topologies.topology import Topology
from treadle.verification.routes.route_check import verify_routes


def everyone(fabric: Topology) -> Collective:
    return on_all_ranks(fabric, CollectiveKind.ALLTOALL)


@pytest.mark.parametrize(
    ("name", "time"),
    [
        ("torus(3, 3, 3)", 9),  # 1.00 times the optimum
        ("complete_bipartite(4, 4)", 3),  # 1.20: figure 4 of the paper, not bandwidth-optimal here
        ("generalized_kautz(4, 16)", 9),  # 1.189
        ("generalized_kautz(4, 27)", 16),  # 1.072 times 1 / .06701708
    ],
)
def test_ilp_disjoint_over_the_optimum(name: str, time: int) -> None:
    fabric = parse(name)
    result = ilp_disjoint(fabric, everyone(fabric), time_limit_s=60)
    assert (result.time, result.bound, result.gap, result.is_late) == (time, time, 0, False)
    assert route_time(fabric, everyone(fabric), result.schedule) == time


def test_ilp_shortest_is_the_only_choice_on_a_small_generalized_kautz_graph() -> None:
    fabric = parse("generalized_kautz(4, 16)")
    result = ilp_shortest(fabric, everyone(fabric))
    assert (result.time, result.gap) == (9, 0)


def test_the_program_improves_on_the_local_search() -> None:
    fabric = parse("torus(3, 3, 3)")
    assert ilp_shortest(fabric, everyone(fabric), time_limit_s=0).time == 10
    assert ilp_shortest(fabric, everyone(fabric), time_limit_s=60).time == 9


def test_without_time_there_is_still_an_incumbent_with_a_gap() -> None:
    fabric = parse("generalized_kautz(4, 27)")
    result = ilp_disjoint(fabric, everyone(fabric), time_limit_s=0)
    assert result.is_late
    assert 16 <= result.time <= 18
    # 702 pairs, 1544 hops on 104 links that are no self-loops
    assert result.bound == pytest.approx(1544 / 104)
    assert result.gap == pytest.approx(1 - result.bound / float(result.time))
    with pytest.raises(ScheduleError, match="time limit"):
        ilp_disjoint(fabric, everyone(fabric), time_limit_s=-1)


def _best_by_trying(fabric: Topology, collective: Collective, paths: PathSet) -> Fraction:
    demand = collective.pair_demands.between
    number = paths.source * collective.n_ranks + paths.target
    groups = [np.flatnonzero(number == pair).tolist() for pair in np.unique(number)]
    best = None
    for choice in product(*groups):
        load = [0] * fabric.n_links
        for path in choice:
            for link in paths.links_of(path).tolist():
                load[link] += int(demand[paths.source[path], paths.target[path]])
        time = max(Fraction(a, int(b)) for a, b in zip(load, fabric.bandwidths, strict=True))
        best = time if best is None else min(best, time)
    assert best is not None
    return best


@settings(max_examples=9, deadline=None, derandomize=True)
@given(st.data())
def test_the_program_finds_the_best_choice(data: st.DataObject) -> None:
    fabric = data.draw(
        digraphs(compute=(2, 4), extra_links=5, max_bandwidth=data.draw(st.sampled_from([1, 4])))
    )
    n = fabric.n_nodes
    matrix = np.array(data.draw(st.lists(st.integers(0, 3), min_size=n * n, max_size=n * n))).reshape(n, n)
    matrix[0, 1] += 1
    collective = Collective(CollectiveKind.ALLTOALL, tuple(range(n)), demands=Demands(matrix))
    paths = data.draw(
        st.sampled_from([disjoint_paths(fabric, collective), bounded_paths(fabric, collective)])
    )
    counts = np.unique(paths.source * n + paths.target, return_counts=True)[1]
    if np.prod(counts) > 2000:
        return
    result = best_single_paths(fabric, collective, paths)
    assert result.time == _best_by_trying(fabric, collective, paths)
    assert result.bound == pytest.approx(float(result.time), rel=1e-5)
    report = verify_routes(fabric, collective, with_layers(fabric, result.schedule))
    assert not report.violations
    assert report.algbw == route_algbw(fabric, collective, result.schedule)


@pytest.mark.parametrize("seed", range(3))
def test_units_of_bandwidth_do_not_matter(seed: int) -> None:
    """Links of 1 to 7 B/s, and of so many GB/s, whose times are small beside the solver's tolerances."""
    random, n = np.random.default_rng(seed), 6
    matrix, widths = random.integers(0, 6, size=(n, n)), random.integers(1, 8, size=(n, 3)).tolist()
    matrix[0, 1] += 1
    times = []
    for unit in (1, 10**9):
        builder = TopologyBuilder("circulant")
        names = [builder.compute(f"n{node}") for node in range(n)]
        for node, row in enumerate(widths):
            for step, width in enumerate(row, start=1):
                builder.link(names[node], names[(node + step) % n], width * unit)
        fabric = builder.build()
        collective = Collective(CollectiveKind.ALLTOALL, tuple(range(n)), demands=Demands(matrix))
        result = best_single_paths(fabric, collective, disjoint_paths(fabric, collective))
        assert result.bound == pytest.approx(float(result.time), rel=1e-5)
        times.append(result.time * unit)
    assert times[0] == times[1]
