"""The topology finder over all sizes: search time, figure A.4's winners, figure 3.7's curves, table A.1.

Run ``python benchmarks/finder.py [--nodes 2000] [--out FOLDER] [--published]``. Writes CSV files, and
pictures where matplotlib is installed. ``--published`` leaves out the Cayley digraphs of our own search.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import isqrt
from pathlib import Path
from typing import Any

import numpy as np
from published_formulas import best_chunk_count, double_binary_tree_time_s, published_tree_time_s

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
    notation,
)
from treadle.finder.search import FabricCandidate, Finder
from treadle.finder.tables import Tables, shipped_tables
from treadle.topologies.catalogue.circulants import circulant
from treadle.topologies.catalogue.graphs import torus
from treadle.topologies.catalogue.kautz import generalized_kautz
from treadle.topologies.catalogue.rings import double_binary_tree, shifted_ring
from treadle.topologies.distances import all_to_all_bound
from treadle.topologies.moore import all_to_all_limit, bandwidth_optimum, moore_steps
from treadle.topologies.topology import Topology

ALPHA_S = 10e-6
BYTES_PER_S = 12.5e9
SIZES = {"1MB": 2**20, "100MB": 100 * 2**20}
DEGREES = (2, 4, 8, 16)
TABLE_A1 = (32, 64, 128, 256, 512, 1024)


def finder(tables: Tables, *, bidirectional: bool = False) -> Finder:
    """A finder with nothing computed yet."""
    return Finder(tables.bases, bidirectional=bidirectional)


def allreduce_us(candidate: FabricCandidate, size: int) -> float:
    """2 (T_L + T_B) of table 3.4, microseconds."""
    return 1e6 * (2 * candidate.steps * ALPHA_S + float(candidate.t_b_both) * size / BYTES_PER_S)


def bound_us(n: int, size: int) -> float:
    """The theoretical bound at d = 4."""
    return 1e6 * 2 * (moore_steps(n, 4) * ALPHA_S + float(bandwidth_optimum(n)) * size / BYTES_PER_S)


def print_search_times(tables: Tables, nodes: int) -> None:
    """CPU time of the whole frontier for all sizes; the dissertation says under a minute (section 3.5.4)."""
    for bidirectional in (False, True):
        search = finder(tables, bidirectional=bidirectional)
        start = time.process_time()
        entries = sum(len(search.frontier(n, d)) for d in DEGREES for n in range(2, nodes + 1))
        kind = "bidirectional" if bidirectional else "any links    "
        print(f"{kind}  N <= {nodes}, d in {DEGREES}: {entries} entries, {time.process_time() - start:.1f} s")


def print_table_a1(tables: Tables) -> None:
    """Every row of our frontier at table A.1's sizes."""
    search = finder(tables)
    for n in TABLE_A1:
        for candidate in search.frontier(n, 4):
            name = notation(candidate.construction)
            print(f"N={n:5} {candidate.steps:3} {float(candidate.t_b_both / 2):.4f}  {name}")


def winners(search: Finder, nodes: int, size: int) -> Iterator[tuple[int, FabricCandidate]]:
    """The fastest candidate at d = 4 for every N."""
    for n in range(2, nodes + 1):
        yield n, min(search.frontier(n, 4), key=lambda c: allreduce_us(c, size))


def summary_letters(construction: Construction) -> str:
    """Which expansions are in it, as figure A.4 labels them: R, L, D, P, C, or the family of a bare base."""
    if isinstance(construction, Parallel):
        return summary_letters(construction.of)
    if isinstance(construction, Base):
        return construction.family
    found = _letters(construction)
    return "".join(letter for letter in "RLDPC" if letter in found)


def _letters(construction: Construction) -> set[str]:
    match construction:
        case Base():
            return set()
        case Parallel(of, _):
            return _letters(of)
        case Product(factors):
            return {"C"}.union(*map(_letters, factors))
        case LineGraph(of, _):
            return {"L"} | _letters(of)
        case DegreeExpansion(of, _):
            return {"D"} | _letters(of)
        case Power(of, _):
            return {"P"} | _letters(of)
        case WithReverse(of):
            return {"R"} | _letters(of)


def write_figure_a4(tables: Tables, nodes: int, out: Path) -> None:
    """Figure A.4: the least allreduce time for every N at d = 4, and which construction reaches it."""
    one_way, two_way = finder(tables), finder(tables, bidirectional=True)
    for label, size in SIZES.items():
        rows: list[tuple[int, str, str, int, float, float, float, float]] = []
        bidirectional = dict(winners(two_way, nodes, size))
        for n, best in winners(one_way, nodes, size):
            rows.append(
                (
                    n,
                    summary_letters(best.construction),
                    notation(best.construction),
                    best.steps,
                    float(best.t_b_both / 2),
                    allreduce_us(best, size),
                    allreduce_us(bidirectional[n], size),
                    bound_us(n, size),
                )
            )
        path = out / f"figure_a4_{label}.csv"
        header = ("n", "construction", "topology", "steps", "t_b", "us", "bidirectional_us", "bound_us")
        write_csv(path, header, rows)
        counts = Counter(row[1] for row in rows).most_common(8)
        print(f"{path}: " + ", ".join(f"{kind} {count}" for kind, count in counts))
        draw(path.with_suffix(".png"), partial(plot_a4, rows=rows, label=label))


def plot_a4(axes: Any, rows: Sequence[Sequence[object]], label: str) -> None:
    """A colour per construction."""
    for kind in dict.fromkeys(row[1] for row in rows):
        mine = [row for row in rows if row[1] == kind]
        axes.scatter([r[0] for r in mine], [r[5] for r in mine], s=4, label=kind)
    axes.plot([r[0] for r in rows], [r[6] for r in rows], lw=0.5, label="best bidirectional")
    axes.plot([r[0] for r in rows], [r[7] for r in rows], "k--", lw=0.5, label="bound")
    axes.set(xlabel="N", ylabel="allreduce, us", title=f"d = 4, alpha = 10 us, {label} at 100 Gbit/s")
    axes.legend(fontsize=6, ncols=2)


def write_figure_3_7(tables: Tables, nodes: int, out: Path) -> None:
    """Figure 3.7: allreduce and all-to-all times at d = 4 and 1 MB of the best topologies and the baselines.

    All-to-all times are lower bounds by distances and, for ShiftedRing and double binary trees, by cuts
    between nodes 0 to i and the others: a multi-commodity flow may take longer.
    """
    search, size = finder(tables), SIZES["1MB"]
    reduced = [(n, *allreduce_row(search, n, size)) for n in range(7, nodes + 1)]
    sampled = [n for n in range(7, nodes + 1) if n % 5 == 0 or side(n) or 900 <= n <= 1000]
    exchanged = [(n, *all_to_all_row(n, size)) for n in sampled]
    for kind, names, rows in (("allreduce", ALLREDUCE, reduced), ("all_to_all", ALL_TO_ALL, exchanged)):
        path = out / f"figure_3_7_{kind}.csv"
        write_csv(path, ("n", *(f"{name}_us" for name in names)), rows)
        draw(path.with_suffix(".png"), partial(plot_3_7, kind=kind, names=names, rows=rows))
    print_claims(reduced, exchanged)


ALLREDUCE = (
    "best",
    "shifted_ring",
    "shifted_bfb_ring",
    "double_binary_tree_published",
    "double_binary_tree_pipelined",
    "double_binary_tree_whole",
    "torus_traditional",
    "torus_bfb",
    "bound",
)
ALL_TO_ALL = ("generalized_kautz", "circulant", "shifted_ring", "double_binary_tree", "torus", "bound")


def side(n: int) -> int:
    """Of the square torus with n nodes; 0 where there is none."""
    root = isqrt(n)
    return root if root * root == n and root > 2 else 0


def allreduce_row(search: Finder, n: int, size: int) -> list[float | None]:
    """Microseconds of every curve, None where it has no point."""
    link = {"alpha_s": ALPHA_S, "bandwidth_bytes_per_s": BYTES_PER_S / 4, "size_bytes": size}
    transfer = float(bandwidth_optimum(n)) * size / BYTES_PER_S

    def optimal(steps: int) -> float:
        return 2e6 * (steps * ALPHA_S + transfer)

    return [
        min(allreduce_us(candidate, size) for candidate in search.frontier(n, 4)),
        optimal(n - 1),
        optimal(n // 2),
        1e6 * published_tree_time_s(n, ALPHA_S, size / BYTES_PER_S),
        1e6 * double_binary_tree_time_s(n, best_chunk_count(n, **link), **link),
        1e6 * double_binary_tree_time_s(n, 1, **link),
        optimal(2 * (side(n) - 1)) if side(n) else None,
        optimal(2 * (side(n) // 2)) if side(n) else None,
        bound_us(n, size),
    ]


def all_to_all_row(n: int, size: int) -> list[float | None]:
    """Microseconds of every curve for `size` bytes out of each node, None where it has no point."""
    jump = least_circulant_diameter(n)

    def by_distances(topology: Topology, sources: Sequence[int] | None = None) -> float:
        return exchange_us(n, float(all_to_all_bound(topology, sources=sources)), size)

    ring, trees = shifted_ring(n), double_binary_tree(n)
    return [
        by_distances(generalized_kautz(4, n)),
        by_distances(circulant(n, jump, jump + 1), [0]),
        max(by_distances(ring, [0]), by_prefixes(ring, size)),
        max(by_distances(trees), by_prefixes(trees, size)),
        by_distances(torus(side(n), side(n)), [0]) if side(n) else None,
        exchange_us(n, float(all_to_all_limit(n, 4)), size),
    ]


def exchange_us(n: int, rate: float, size: int) -> float:
    """Time of size / n bytes per pair at a rate in link bandwidths."""
    return 1e6 * size / n / (rate * BYTES_PER_S / 4)


def by_prefixes(topology: Topology, size: int) -> float:
    """The slowest cut between nodes 0 to i and the others, microseconds."""
    n = topology.n_nodes
    crossing = np.zeros((2, n), dtype=np.int64)
    for way, (ends, others) in enumerate(
        ((topology.tails, topology.heads), (topology.heads, topology.tails))
    ):
        is_up = ends < others
        np.add.at(crossing[way], ends[is_up], 1)
        np.subtract.at(crossing[way], others[is_up], 1)
    below = np.arange(1, n)
    links = np.cumsum(crossing, axis=1).min(axis=0)[: n - 1]
    return exchange_us(n, float((links / (below * (n - below))).min()), size)


def print_claims(reduced: Sequence[Sequence[Any]], exchanged: Sequence[Sequence[Any]]) -> None:
    """The ratios of section 3.8.3's text, means over N from 900 to 1000."""
    for kind, names, rows in (("allreduce", ALLREDUCE, reduced), ("all-to-all", ALL_TO_ALL, exchanged)):
        late = [row for row in rows if 900 <= row[0] <= 1000]
        for ours in range(1, 2 if kind == "allreduce" else 3):
            ratios = []
            for column in range(ours + 1, len(names) + 1):
                found = [row[column] / row[ours] for row in late if row[column] is not None]
                if found:
                    ratios.append(f"{names[column - 1]} {sum(found) / len(found):.3f}")
            print(f"{kind}, times that of {names[ours - 1]}, N from 900 to 1000: {', '.join(ratios)}")


def plot_3_7(axes: Any, kind: str, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """A line per topology; marks for square tori."""
    for column, name in enumerate(names, start=1):
        points = [(row[0], row[column]) for row in rows if row[column] is not None]
        style = "k--" if name == "bound" else "." if name.startswith("torus") else "-"
        axes.plot(*zip(*points, strict=True), style, lw=0.8, ms=3, label=name)
    note = " (lower bounds)" if kind == "all_to_all" else ""
    axes.set(xlabel="N", ylabel=f"{kind}{note}, us", yscale="log", title="d = 4, 10 us, 1 MB at 100 Gbit/s")
    axes.legend(fontsize=6, ncols=2)


def write_csv(path: Path, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """One file, floats with four decimals."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows([f"{v:.4f}" if isinstance(v, float) else v for v in row] for row in rows)


def draw(path: Path, plot: Callable[[Any], None]) -> None:
    """A picture, if matplotlib is there."""
    try:
        import matplotlib
    except ImportError:
        print(f"{path}: skipped, matplotlib is not installed")
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 4.5), layout="constrained")
    plot(axes)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
    print(path)


def main() -> None:
    """Everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=2000)
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--published", action="store_true")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    tables = shipped_tables()
    if options.published:
        tables = Tables(tables.figures)
    print_search_times(tables, options.nodes)
    print_table_a1(tables)
    write_figure_a4(tables, options.nodes, options.out)
    write_figure_3_7(tables, options.nodes, options.out)


if __name__ == "__main__":
    main()
