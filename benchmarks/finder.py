"""The topology finder over all sizes: search time, figure A.4's winners, figure 3.7's curves, table A.1.

Run ``python -m benchmarks.finder [--nodes 2000] [--out FOLDER] [--published]``. `treadle reproduce` has what
the texts say of both figures. Writes CSV files, and
pictures where matplotlib is installed. ``--published`` leaves out the Cayley digraphs of our own search.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from treadle.finder.construction import notation
from treadle.finder.search import Finder
from treadle.finder.tables import Tables, shipped_tables
from treadle.reproduction.finder_figures import (
    all_to_all_points,
    allreduce_points,
    allreduce_us,
    bound_us,
    side,
    summary_symbols,
    winners,
)

SIZES = {"1MB": 2**20, "100MB": 100 * 2**20}
DEGREES = (2, 4, 8, 16)
TABLE_A1 = (32, 64, 128, 256, 512, 1024)


def finder(tables: Tables, *, bidirectional: bool = False) -> Finder:
    """A finder with nothing computed yet."""
    return Finder(tables.bases, bidirectional=bidirectional)


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
                    summary_symbols(best.construction),
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
    reduced = {n: allreduce_points(search, n, size) for n in range(7, nodes + 1)}
    sampled = [n for n in range(7, nodes + 1) if n % 5 == 0 or side(n) or 900 <= n <= 1000]
    exchanged = {n: all_to_all_points(n, size) for n in sampled}
    for kind, points in (("allreduce", reduced), ("all_to_all", exchanged)):
        names = list(next(iter(points.values())))
        rows = [(n, *found.values()) for n, found in points.items()]
        path = out / f"figure_3_7_{kind}.csv"
        write_csv(path, ("n", *(f"{name}_us" for name in names)), rows)
        draw(path.with_suffix(".png"), partial(plot_3_7, kind=kind, names=names, rows=rows))


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
