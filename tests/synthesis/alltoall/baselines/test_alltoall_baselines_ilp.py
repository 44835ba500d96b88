"""Single paths by integer programming: published ratios, brute force, limits."""

from __future__ import annotations

import numpy as np
import pytest

from treadle.errors import ScheduleError
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.synthesis.alltoall.baselines import (
    best_single_paths,
    ilp_disjoint,
    ilp_shortest,
)
from treadle.synthesis.alltoall.routes.disjoint_paths import disjoint_paths
from treadle.topologies import TopologyBuilder, parse
from treadle.topologies.topology import Topology


def everyone(fabric: Topology) -> Collective:
    return on_all_ranks(fabric, CollectiveKind.ALLTOALL)


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
