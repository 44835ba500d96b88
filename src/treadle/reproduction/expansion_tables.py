"""Direct-connect fabrics put together from small ones: tables 3.3 to 3.5 and A.1, figures 3.1 to 3.4."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np

from treadle import planning
from treadle.errors import ScheduleError
from treadle.finder.build import build
from treadle.finder.construction import (
    Base,
    Construction,
    DegreeExpansion,
    LineGraph,
    Power,
    Product,
    ScheduleMethod,
)
from treadle.finder.search import Finder
from treadle.finder.tables import shipped_tables
from treadle.reproduction.paper_figure import Rows, yes_or_no
from treadle.reproduction.published_formulas import published_tree_time_s
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.steps.step_cost import bandwidth_time, node_bandwidth
from treadle.schedules.steps.steps import StepSchedule
from treadle.schedules.trees.forest import Direction
from treadle.topologies import Topology, all_to_all_limit, bandwidth_optimum, moore_steps, parse
from treadle.topologies.catalogue.rings import double_binary_tree, shifted_ring
from treadle.topologies.distances import diameter
from treadle.verification.steps.step_check import verify_steps

ALPHA_US = 10
MEGABYTE_US = Fraction(2**20 * 8, 100_000)
"""1 MB at 100 Gbit/s, in microseconds; the tables need 1 MB = 2**20 bytes."""
GAP = 1e-4


def bfb(expression: str) -> Base:
    """Return a catalogue graph with breadth-first broadcast."""
    return Base(expression, expression, ScheduleMethod.BFB, "")


def exact(expression: str) -> Base:
    """Return a base whose schedule is shipped, found by exact synthesis."""
    return Base(expression, expression, ScheduleMethod.EXACT, "")


K44, DISTANCE_REGULAR = bfb("complete_bipartite(4, 4)"), bfb("distance_regular(4, 32)")
RING, DIAMONDS = bfb("uni_ring(1, 4)"), Power(exact("diamond()"), 2)
MODIFIED = Power(exact("modified_de_bruijn(2, 4)"), 2)
TABLE_A1: dict[int, dict[str, Construction]] = {
    32: {"L(K4,4)": LineGraph(K44), "DistReg(4,32)": DISTANCE_REGULAR},
    64: {
        "Pi(4,64)": bfb("generalized_kautz(4, 64)"),
        "L(DBJMod(4,2))": LineGraph(exact("modified_de_bruijn(4, 2)")),
        "Diamond^2": DIAMONDS,
    },
    128: {
        "L^2(K4,4)": LineGraph(K44, 2),
        "L(DistReg(4,32))": LineGraph(DISTANCE_REGULAR),
        "BiRing(2,8) x UniRing(1,4)^2": Product((bfb("bi_ring(2, 8)"), RING, RING)),
    },
    256: {
        "DBJ(4,4)": bfb("de_bruijn(4, 4)"),
        "L^2(DBJMod(4,2))": LineGraph(exact("modified_de_bruijn(4, 2)"), 2),
        "L(Diamond^2)": LineGraph(DIAMONDS),
        "DBJMod(2,4)^2": MODIFIED,
    },
    512: {
        "L^3(K4,4)": LineGraph(K44, 3),
        "L^2(DistReg(4,32))": LineGraph(DISTANCE_REGULAR, 2),
        "L(BiRing(1,4)^3 x UniRing(1,2))": LineGraph(Product((RING, RING, RING, bfb("uni_ring(1, 2)")))),
        "UniRing(1,4)^3 x UniRing(1,8)": Product((RING, RING, RING, bfb("uni_ring(1, 8)"))),
    },
    1024: {
        "Pi(4,1024)": bfb("generalized_kautz(4, 1024)"),
        "L^3(C(16,{3,4}))": LineGraph(bfb("circulant(16, 3, 4)"), 3),
        "L^2(Diamond^2)": LineGraph(DIAMONDS, 2),
        "L(DBJMod(2,4)^2)": LineGraph(MODIFIED),
        "(UniRing(1,4) x UniRing(1,8))^2": Power(Product((RING, bfb("uni_ring(1, 8)"))), 2),
    },
}
"""Graphs by size; BiRing(1,4) has an odd degree and can only be a unidirectional ring."""
TABLE_3_5: dict[int, Construction] = {
    5: bfb("complete(5)"),
    6: DegreeExpansion(bfb("complete(3)"), 2),
    7: bfb("circulant(7, 2, 3)"),
    8: K44,
    9: bfb("hamming(2, 3)"),
    10: bfb("degree_expansion(bi_ring(2, 5), 2)"),
    11: bfb("circulant(11, 2, 3)"),
    12: bfb("circulant(12, 2, 3)"),
}


@dataclass(frozen=True)
class AllgatherCost:
    """Values of a constructed allgather: N, d, T_L / alpha, T_B in M/B."""

    nodes: int
    degree: int
    steps: int
    t_b: Fraction

    @property
    def is_bandwidth_optimal(self) -> bool:
        """Whether no allgather on this number of nodes has a lower T_B."""
        return self.t_b == bandwidth_optimum(self.nodes)

    @property
    def is_moore_optimal(self) -> bool:
        """Whether no graph with this number of nodes has fewer steps."""
        return self.steps == moore_steps(self.nodes, self.degree)


def check_steps(name: str, topology: Topology, schedule: StepSchedule) -> None:
    """Raise ScheduleError unless the verifier accepts the schedule."""
    report = verify_steps(topology, on_all_ranks(topology, schedule.kind), schedule)
    if not report.is_ok:
        raise ScheduleError(f"{name}: {report.violations[0]}")


@cache
def allgather_of(construction: Construction) -> tuple[Topology, AllgatherCost]:
    """Return a fabric and what its allgather costs, built and accepted by the verifier."""
    topology, steps = build(construction, Direction.BROADCAST)
    schedule = StepSchedule(CollectiveKind.ALLGATHER, broadcast=steps)
    check_steps(topology.name, topology, schedule)
    t_b = bandwidth_time(topology, schedule) * node_bandwidth(topology)
    degree = topology.n_links // topology.n_nodes
    return topology, AllgatherCost(topology.n_nodes, degree, schedule.n_steps, t_b)


def all_to_all_rate(topology: Topology) -> float:
    """Return f in link bandwidths, certified to `GAP`."""
    found = planning.bound(topology, CollectiveKind.ALLTOALL, gap=GAP)
    assert found.rate is not None, "an all-to-all has a rate"
    return found.rate.rate / int(topology.bandwidths[0])


def _exchange_us(rate: float, n: int) -> float:
    """Return the time of 1 MB out of each node, 1 / n of it for each, over four links of 25 Gbit/s."""
    return float(4 * MEGABYTE_US) / n / rate


def _reduced_us(steps: int, t_b: Fraction) -> Fraction:
    """Return 2 (T_L + T_B)."""
    return 2 * (steps * ALPHA_US + t_b * MEGABYTE_US)


def table_a_1(_full: bool) -> Rows:
    """Yield T_L, T_B, diameter and all-to-all rate of every row."""
    for n, rows in TABLE_A1.items():
        for name, construction in rows.items():
            topology, found = allgather_of(construction)
            place = f"N={n} {name}"
            yield f"{place}: T_L", found.steps, "alpha"
            yield f"{place}: T_B", found.t_b, "M/B"
            yield f"{place}: D", diameter(topology)
            yield f"{place}: MCF", all_to_all_rate(topology), "b"
        yield f"N={n} bound: T_L", moore_steps(n, 4), "alpha"
        yield f"N={n} bound: T_B", bandwidth_optimum(n), "M/B"
        yield f"N={n} bound: MCF", all_to_all_limit(n, 4), "b"


def table_3_4(_full: bool) -> Rows:
    """Yield the frontier at N = 1024, its times at 1 MB, and the baselines of its caption."""
    for name, construction in TABLE_A1[1024].items():
        topology, found = allgather_of(construction)
        yield f"{name}: T_L", found.steps, "alpha"
        yield f"{name}: T_B", found.t_b, "M/B"
        yield f"{name}: 2(T_L+T_B)", _reduced_us(found.steps, found.t_b), "us"
        yield f"{name}: D", diameter(topology)
        yield f"{name}: all-to-all", _exchange_us(all_to_all_rate(topology), 1024), "us"
    optimum = bandwidth_optimum(1024)
    yield "bound: 2(T_L+T_B)", _reduced_us(moore_steps(1024, 4), optimum), "us"
    yield "bound: all-to-all", _exchange_us(float(all_to_all_limit(1024, 4)), 1024), "us"
    # steps of the schedules: around the ring; along each dimension of the torus
    yield "ShiftedRing: 2(T_L+T_B)", _reduced_us(1023, optimum), "us"
    yield "32x32 torus, traditional: 2(T_L+T_B)", _reduced_us(2 * 31, optimum), "us"
    _, torus = allgather_of(bfb("torus(32, 32)"))
    yield "32x32 torus, BFB: 2(T_L+T_B)", _reduced_us(torus.steps, torus.t_b), "us"
    trees_s = published_tree_time_s(1024, ALPHA_US / 1e6, float(MEGABYTE_US) / 1e6)
    yield "double binary tree: 2(T_L+T_B)", 1e6 * trees_s, "us"
    for name, topology in (
        ("ShiftedRing", shifted_ring(1024)),
        ("double binary tree", double_binary_tree(1024)),
    ):
        yield f"{name}: all-to-all", _exchange_us(prefix_cut_rate(topology), 1024), "us"
    frontier = Finder(shipped_tables().bases).frontier(1024, 4)
    best = min(_reduced_us(one.steps, one.t_b_both / 2) for one in frontier)
    yield "best of `treadle design`: 2(T_L+T_B)", best, "us", "graphs of ours, not in the paper"


def prefix_cut_rate(topology: Topology) -> float:
    """Return an all-to-all's upper bound, in link bandwidths, by cuts between nodes 0 to i and the others."""
    n = topology.n_nodes
    crossing = np.zeros((2, n), dtype=np.int64)
    ways = ((topology.tails, topology.heads), (topology.heads, topology.tails))
    for way, (ends, others) in enumerate(ways):
        is_up = ends < others
        np.add.at(crossing[way], ends[is_up], 1)
        np.subtract.at(crossing[way], others[is_up], 1)
    below = np.arange(1, n)
    links = np.cumsum(crossing, axis=1).min(axis=0)[: n - 1]
    return float((links / (below * (n - below))).min())


def table_3_5(_full: bool) -> Rows:
    """Yield the best fabrics of 5 to 12 nodes: steps of an allreduce, and whether T_B is optimal."""
    for n, construction in TABLE_3_5.items():
        _, found = allgather_of(construction)
        yield f"N={n}: T_L of the allreduce", 2 * found.steps, "alpha"
        yield f"N={n}: bandwidth-optimal", yes_or_no(found.t_b == bandwidth_optimum(n))


def figure_3_1(_full: bool) -> Rows:
    """Yield the allgather of K2,2."""
    _, found = allgather_of(bfb("complete_bipartite(2, 2)"))
    yield "T_L", found.steps, "alpha"
    yield "T_B", found.t_b, "M/B"


def figure_3_2(_full: bool) -> Rows:
    """Yield the line graph of K2,2: as many nodes as K2,2 has links, one step more."""
    topology, found = allgather_of(LineGraph(bfb("complete_bipartite(2, 2)")))
    yield "N", topology.n_nodes
    yield "degree", found.degree
    yield "T_L", found.steps, "alpha"
    yield "T_B", found.t_b, "M/B"


FIGURE_3_3 = {
    "K5": "complete(5)",
    "C(6,{1,2,3,4})": "directed_circulant(6, 1, 2, 3, 4)",
    "K4,4": "complete_bipartite(4, 4)",
    "H(2,3)": "hamming(2, 3)",
}


def figure_3_3(full: bool) -> Rows:
    """Yield T_B / T_B* of L^n of optimal bases, and the steps beyond the Moore bound."""
    for name, expression in FIGURE_3_3.items():
        base = bfb(expression)
        for n in range(5 if full else 3):
            topology, found = allgather_of(LineGraph(base, n) if n else base)
            nodes = topology.n_nodes
            yield f"{name}, n = {n}: T_B/T_B*", found.t_b / bandwidth_optimum(nodes)
            yield f"{name}, n = {n}: T_L - T_L*", found.steps - moore_steps(nodes, 4), "alpha"
        # Corollary 10.1's limit, below which all of them stay
        yield f"{name}: limit of T_B/T_B*", 1 + Fraction(1, 3 * parse(expression).n_nodes)


def figure_3_4(_full: bool) -> Rows:
    """Yield a ring of four, one way, expanded to degree 2."""
    topology, found = allgather_of(DegreeExpansion(bfb("uni_ring(1, 4)"), 2))
    yield "N", topology.n_nodes
    yield "degree", found.degree
    yield "T_L", found.steps, "alpha"
    yield "bandwidth-optimal", yes_or_no(found.is_bandwidth_optimal)


def table_3_3(_full: bool) -> Rows:
    """Yield effect of each expansion on one base: nodes, degree, what is preserved."""
    cases: dict[str, Construction] = {
        "L^2(K3)": LineGraph(bfb("complete(3)"), 2),
        "UniRing(1,4)*2": DegreeExpansion(bfb("uni_ring(1, 4)"), 2),
        "K3^3": Power(bfb("complete(3)"), 3),
        "BiRing(2,3) x BiRing(2,4)": Product((bfb("bi_ring(2, 3)"), bfb("bi_ring(2, 4)"))),
    }
    for name, construction in cases.items():
        topology, found = allgather_of(construction)
        yield f"{name}: nodes", topology.n_nodes
        yield f"{name}: degree", found.degree
        yield f"{name}: Moore-optimal", yes_or_no(found.is_moore_optimal)
        yield f"{name}: bandwidth-optimal", yes_or_no(found.is_bandwidth_optimal)
