"""The topology finder over all sizes: figures 3.7 and A.4 of the dissertation, by the alpha-beta model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import isqrt

from treadle import planning
from treadle.finder.base_formulas import least_circulant_diameter
from treadle.finder.construction import (
    Base,
    Construction,
    DegreeExpansion,
    LineGraph,
    Parallel,
    Power,
    Product,
    WithReverse,
)
from treadle.finder.search import FabricCandidate, Finder
from treadle.finder.tables import Tables, shipped_tables
from treadle.reproduction.expansion_tables import prefix_cut_rate
from treadle.reproduction.paper_figure import Rows
from treadle.reproduction.published_formulas import published_tree_time_s
from treadle.schedules.collective import CollectiveKind
from treadle.synthesis.steps.baselines.binary_tree_times import best_chunk_count, double_binary_tree_time_s
from treadle.topologies.catalogue.circulants import circulant
from treadle.topologies.catalogue.graphs import torus
from treadle.topologies.catalogue.kautz import generalized_kautz
from treadle.topologies.catalogue.rings import double_binary_tree, shifted_ring
from treadle.topologies.distances import all_to_all_bound
from treadle.topologies.moore import all_to_all_limit, bandwidth_optimum, moore_steps
from treadle.topologies.topology import Topology

ALPHA_S = 10e-6
BYTES_PER_S = 12.5e9
MEGABYTE = 2**20
LATE = range(900, 1001)
"""Sizes that the paper discusses."""


def allreduce_us(candidate: FabricCandidate, size: int) -> float:
    """Return 2 (T_L + T_B) of table 3.4, microseconds."""
    return 1e6 * (2 * candidate.steps * ALPHA_S + float(candidate.t_b_both) * size / BYTES_PER_S)


def bound_us(n: int, size: int) -> float:
    """Return the theoretical bound at d = 4."""
    return 1e6 * 2 * (moore_steps(n, 4) * ALPHA_S + float(bandwidth_optimum(n)) * size / BYTES_PER_S)


def summary_symbols(construction: Construction) -> str:
    """Return the expansions in it, as figure A.4 labels them: R, L, D, P, C, or the family of a bare base."""
    if isinstance(construction, Parallel):
        return summary_symbols(construction.of)
    if isinstance(construction, Base):
        return construction.family
    found = _letters(construction)
    return "".join(letter for letter in "RLDPC" if letter in found)


def _letters(construction: Construction) -> set[str]:
    if isinstance(construction, Base):
        return set()
    inner = construction.factors if isinstance(construction, Product) else (construction.of,)
    return set(_LETTERS.get(type(construction), "")).union(*map(_letters, inner))


_LETTERS: dict[type, str] = {Product: "C", LineGraph: "L", DegreeExpansion: "D", Power: "P", WithReverse: "R"}


def winners(search: Finder, nodes: int, size: int) -> Iterator[tuple[int, FabricCandidate]]:
    """Yield the fastest candidate at d = 4 for every N."""
    for n in range(2, nodes + 1):
        yield n, min(search.frontier(n, 4), key=lambda c: allreduce_us(c, size))


def side(n: int) -> int:
    """Return the side of the square torus with n nodes; 0 if there is none."""
    root = isqrt(n)
    return root if root * root == n and root > 2 else 0


Points = Mapping[str, float | None]
"""Microseconds of every curve of figure 3.7 at one size; None where it has no point."""


def allreduce_points(search: Finder, n: int, size: int) -> Points:
    """Return the points of the allreduce."""
    link = {"alpha_s": ALPHA_S, "bandwidth_bytes_per_s": BYTES_PER_S / 4, "size_bytes": size}
    transfer = float(bandwidth_optimum(n)) * size / BYTES_PER_S

    def optimal(steps: int) -> float:
        return 2e6 * (steps * ALPHA_S + transfer)

    return {
        "best": min(allreduce_us(candidate, size) for candidate in search.frontier(n, 4)),
        "shifted_ring": optimal(n - 1),
        "shifted_bfb_ring": optimal(n // 2),
        "double_binary_tree_published": 1e6 * published_tree_time_s(n, ALPHA_S, size / BYTES_PER_S),
        "double_binary_tree_pipelined": 1e6
        * double_binary_tree_time_s(n, best_chunk_count(n, **link), **link),
        "double_binary_tree_whole": 1e6 * double_binary_tree_time_s(n, 1, **link),
        "torus_traditional": optimal(2 * (side(n) - 1)) if side(n) else None,
        "torus_bfb": optimal(2 * (side(n) // 2)) if side(n) else None,
        "bound": bound_us(n, size),
    }


def all_to_all_points(n: int, size: int) -> Points:
    """Return the points of an all-to-all of `size` bytes out of each node.

    Lower bounds by distances and, for ShiftedRing and double binary trees, by cuts between nodes 0 to i and
    the others: a multi-commodity flow may take longer.
    """
    jump = least_circulant_diameter(n)

    def by_distances(topology: Topology, sources: Sequence[int] | None = None) -> float:
        return exchange_us(n, float(all_to_all_bound(topology, sources=sources)), size)

    def by_cuts(topology: Topology) -> float:
        return exchange_us(n, prefix_cut_rate(topology), size)

    ring, trees = shifted_ring(n), double_binary_tree(n)
    return {
        "generalized_kautz": by_distances(generalized_kautz(4, n)),
        "circulant": by_distances(circulant(n, jump, jump + 1), [0]),
        "shifted_ring": max(by_distances(ring, [0]), by_cuts(ring)),
        "double_binary_tree": max(by_distances(trees), by_cuts(trees)),
        "torus": by_distances(torus(side(n), side(n)), [0]) if side(n) else None,
        "bound": exchange_us(n, float(all_to_all_limit(n, 4)), size),
    }


def exchange_us(n: int, rate: float, size: int) -> float:
    """Return the time of size / n bytes per pair at a rate in link bandwidths."""
    return 1e6 * size / n / (rate * BYTES_PER_S / 4)


def mean_ratio(rows: Sequence[Points], other: str, ours: str) -> float:
    """Return the mean of one curve over another, where both have a point."""
    points = ((row[other], row[ours]) for row in rows)
    ratios = [theirs / best for theirs, best in points if theirs is not None and best is not None]
    return sum(ratios) / len(ratios)


def figure_3_7(full: bool) -> Rows:
    """Yield the statements of the paper on the curves from N = 900 to 1000."""
    search = Finder(Tables(shipped_tables().figures).bases)
    reduced = [allreduce_points(search, n, MEGABYTE) for n in LATE]
    for name in list(reduced[0])[1:-1]:
        yield f"allreduce: {name} / best", mean_ratio(reduced, name, "best"), "times"
    exchanged = {n: all_to_all_points(n, MEGABYTE) for n in LATE}
    parts = {"": list(LATE), ", even N": list(LATE[::2]), ", odd N": list(LATE[1::2])}
    cases = [("shifted_ring", ""), ("double_binary_tree", ", even N"), ("double_binary_tree", ", odd N")]
    for ours, others in (("circulant", [*cases, ("torus", "")]), ("generalized_kautz", cases)):
        for other, part in others:
            rows = [exchanged[n] for n in parts[part]]
            found = mean_ratio(rows, other, ours)
            yield f"all-to-all: {other} / {ours}{part}", found, "times"
    above = max(mean_ratio([row], "generalized_kautz", "bound") for row in exchanged.values())
    yield "all-to-all: generalized_kautz above the bound, by distances", 100 * (above - 1), "%"
    if full:
        flows = max(_flow_over_bound(n) for n in (900, 925, 950, 975, 1000))
        yield "all-to-all: generalized_kautz above the bound, by flows", 100 * (flows - 1), "%"


def _flow_over_bound(n: int) -> float:
    """Return the time of a certified flow over the lower bound."""
    found = planning.bound(f"generalized_kautz(4, {n})", CollectiveKind.ALLTOALL).rate
    assert found is not None, "an all-to-all has a rate"
    return float(all_to_all_limit(n, 4)) * int(found.topology.bandwidths[0]) / found.rate


def figure_a_4(full: bool) -> Rows:
    """Yield the construction that is fastest at most sizes, and gap of the best to the bound."""
    nodes = 2000 if full else 500
    every = shipped_tables()
    # Without abelian digraphs and catalogue graphs of all sizes, which leave no other family anything to win.
    searched = Tables(every.figures, every.library)
    for title, tables in (("published bases", Tables(every.figures)), ("all bases", searched)):
        for size, label in ((MEGABYTE, "1 MB"), (100 * MEGABYTE, "100 MB")):
            found = list(winners(Finder(tables.bases), nodes, size))
            counts = Counter(summary_symbols(best.construction) for _, best in found)
            kinds = ", ".join(f"{kind} {count}" for kind, count in counts.most_common(4))
            # the most frequent family that is no expansion
            first = next(kind for kind, _ in counts.most_common() if not set(kind) <= set("RLDPC"))
            place = f"{title}, {label}"
            yield f"{place}: most popular graph", first, "", f"of N <= {nodes}: {kinds}"
            above = [allreduce_us(best, size) / bound_us(n, size) - 1 for n, best in found]
            yield f"{place}: mean above the bound", 100 * sum(above) / len(above), "%"
