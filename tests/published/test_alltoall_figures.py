"""Figs. 8 to 10 of the all-to-all paper at sizes of a test: exact values, else certified sides.

[A] Efficient all-to-all Collective Communication Schedules for Direct-connect Topologies (HPDC 2024),
sections 5.3 and 5.4. The figures have no numbers; the text has: SSSP up to 1.6 times the optimum; EwSP like
SSSP; path flows over link-disjoint paths almost optimal, over shortest ones not; GenKautz 2.4 times as fast
as a 2D torus for large N and a tenth faster than Xpander and Jellyfish; its ratio to the bound approaches 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from itertools import pairwise

import pytest

from treadle.schedules.alltoall.route_cost import route_time
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.synthesis.alltoall import RateResult, optimal_rate
from treadle.synthesis.alltoall.baselines.equal_weight import EqualSplit
from treadle.synthesis.alltoall.baselines.single_path_ilp import ilp_disjoint
from treadle.synthesis.alltoall.baselines.sssp import single_source_shortest_paths
from treadle.synthesis.alltoall.routes.disjoint_paths import bounded_paths, disjoint_paths
from treadle.synthesis.alltoall.routes.extract import extract_paths
from treadle.synthesis.alltoall.routes.path_mcf import path_mcf
from treadle.topologies import parse
from treadle.topologies.moore import all_to_all_limit
from treadle.topologies.topology import Topology

GAP = 2e-4


@dataclass(frozen=True)
class Measured:
    """A fabric and its optimum; `least` and `most` are certified sides of 1/F."""

    name: str

    @cached_property
    def fabric(self) -> Topology:
        return parse(self.name)

    @cached_property
    def everyone(self) -> Collective:
        return on_all_ranks(self.fabric, CollectiveKind.ALLTOALL)

    @cached_property
    def best(self) -> RateResult:
        found = optimal_rate(self.fabric, self.everyone, gap=GAP)
        assert found.gap <= GAP * 1.001
        return found

    @property
    def least(self) -> float:
        return 1 / float(self.best.upper)

    @property
    def most(self) -> float:
        return 1 / self.best.rate

    @property
    def sssp(self) -> Fraction:
        return route_time(
            self.fabric, self.everyone, single_source_shortest_paths(self.fabric, self.everyone)
        )

    @property
    def ewsp(self) -> float:
        return float((EqualSplit(self.fabric, self.everyone).loads() / self.fabric.bandwidths).max())

    @property
    def extracted(self) -> float:
        return 1 / extract_paths(self.fabric, self.everyone, self.best.flow.by_source).rate(self.fabric)


@cache
def measured(name: str) -> Measured:
    """One for all tests."""
    return Measured(name)


def test_figure_8() -> None:
    """d = 4, N = 36: naive paths lose half, link-disjoint ones a hundredth, extracted ones nothing."""
    graph = measured("generalized_kautz(4, 36)")
    fabric, everyone = graph.fabric, graph.everyone
    assert graph.sssp == 36  # 1.54 times the optimum: "up to 1.6"
    assert graph.ewsp == 39
    assert graph.least == pytest.approx(23.375, abs=5e-3)
    disjoint = path_mcf(fabric, everyone, disjoint_paths(fabric, everyone)).exact
    shortest = path_mcf(fabric, everyone, bounded_paths(fabric, everyone)).exact
    assert disjoint == Fraction(5, 118)
    assert shortest == Fraction(1, 27)
    assert 1.15 < 27 / graph.most < 27 / graph.least < 1.16
    assert 1 < (1 / disjoint) / graph.most < 1.011
    # the local search alone: a feasible choice, so the integer program's can only be better
    single = ilp_disjoint(fabric, everyone, time_limit_s=0).time
    assert 1 / disjoint < single < 27 < graph.sssp
    assert graph.extracted == pytest.approx(graph.most, rel=1e-9)


@pytest.mark.parametrize(("links", "time"), [(0, 21.0), (16, 22.73), (32, 24.39)])
def test_figure_9(links: int, time: float) -> None:
    """N = 81, d = 8, links disabled: 1/F certified; extraction keeps it, SSSP loses more than half."""
    whole = "generalized_kautz(8, 81)"
    graph = measured(f"punctured({whole}, links={links}, seed=1)" if links else whole)
    assert graph.fabric.n_nodes == 81
    assert graph.least == pytest.approx(time, rel=5e-4)
    assert 1.55 < float(graph.sssp) / graph.most < float(graph.sssp) / graph.least < 1.75
    assert graph.ewsp > 1.15 * graph.most
    assert graph.extracted == pytest.approx(graph.most, rel=1e-9)


def test_disabled_links_only_slow_down() -> None:
    """The same seed disables the same links first, so 1/F cannot fall."""
    times = [measured("generalized_kautz(8, 81)")]
    times += [measured(f"punctured(generalized_kautz(8, 81), links={k}, seed=1)") for k in (8, 16)]
    assert times[0].most < times[1].least
    assert times[1].most < times[2].least


@pytest.mark.parametrize(
    ("n", "low", "high"),
    [
        (5, 1.0, 1.0),  # complete
        (12, 13 / 9, 13 / 9),  # the worst of all sizes
        (20, 122 / 119, 122 / 119),  # Kautz graph: distances as in the bound, loads nearly even
        (21, 32 / 27, 32 / 27),
        (48, 1.271, 1.272),  # the worst from 22 to 85
        (80, 1.025, 1.026),  # Kautz graph
        (85, 1.110, 1.112),
        (320, 1.020, 1.022),  # Kautz graph
        (341, 1.077, 1.080),
    ],
)
def test_figure_10_left(n: int, low: float, high: float) -> None:
    """Theorem 1's bound over F of generalized Kautz graphs, d = 4: both sides certified."""
    graph, limit = measured(f"generalized_kautz(4, {n})"), float(all_to_all_limit(n, 4))
    assert low * (1 - 1e-12) <= graph.least * limit
    assert graph.most * limit <= high * (1 + 1e-12)


@pytest.mark.parametrize("sizes", [(12, 48), (21, 85, 341)])
def test_ratios_to_the_bound_fall_from_level_to_level(sizes: tuple[int, ...]) -> None:
    """Not monotone in N, but at like places of each level of the ideal tree: full, or worst."""
    sides = []
    for n in sizes:
        graph, limit = measured(f"generalized_kautz(4, {n})"), float(all_to_all_limit(n, 4))
        sides.append((graph.least * limit, graph.most * limit))
    assert all(before[0] > after[1] > 1 for before, after in pairwise(sides))


def test_figure_10_right() -> None:
    """d = 4: generalized Kautz < Xpander, Jellyfish < torus, N = 100; against the torus 2.37 at N = 400."""
    kautz, xpander = measured("generalized_kautz(4, 100)"), measured("xpander(4, 20)")
    jellyfish, torus = measured("jellyfish(100, 4)"), measured("torus(10, 10)")
    assert torus.best.exact == Fraction(1, 125)  # N sqrt(N) / 8 for an even side
    for expander in (xpander, jellyfish):
        assert 1.1 * kautz.most < expander.least
        assert 1.25 * expander.most < torus.least
    large = measured("generalized_kautz(4, 400)")
    assert measured("torus(20, 20)").best.exact == Fraction(1, 1000)
    assert 1000 / large.most == pytest.approx(2.366, abs=2e-3)
    assert 1000 / large.least == pytest.approx(2.366, abs=2e-3)
