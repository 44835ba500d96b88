"""Figs. 8 to 10 of the all-to-all paper: baselines and topologies beside the optimum and the lower bound.

    .venv/bin/python benchmarks/alltoall_figures.py                        # all three, some minutes
    .venv/bin/python benchmarks/alltoall_figures.py --figures 10 --most 1000 --out results

Times are 1/F, the load of the fullest link in units of demand. Figs. 8 and 9: over the optimum of the fabric,
certified to 1e-4. Fig. 10: over the lower bound of theorem 1 for any graph of as many nodes and links. Prints
Markdown tables; with ``--out`` also a picture of each, where matplotlib is installed. Random fabrics by seed.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from treadle.schedules.alltoall.route_cost import route_time
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.synthesis.alltoall import RateResult, optimal_rate
from treadle.synthesis.alltoall.baselines.equal_weight import EqualShares
from treadle.synthesis.alltoall.baselines.single_path_ilp import ilp_disjoint, ilp_shortest
from treadle.synthesis.alltoall.baselines.sssp import single_source_shortest_paths
from treadle.synthesis.alltoall.routes.disjoint_paths import bounded_paths, disjoint_paths
from treadle.synthesis.alltoall.routes.extract import extract_paths
from treadle.synthesis.alltoall.routes.path_mcf import path_mcf
from treadle.topologies import parse
from treadle.topologies.moore import all_to_all_limit
from treadle.topologies.topology import Topology

GAP = 1e-4
DEGREE = 4
FIGURE_8 = (16, 27, 36, 50, 64, 81)
FIGURE_9 = (0, 16, 32, 64)
FIGURE_10 = (16, 36, 64, 100, 144, 256, 400, 625, 1000)
BOUND_RATIO = (5, 12, 20, 21, 48, 80, 85, 100, 200, 320, 341, 500, 700, 1000, 1280)
ILP_SECONDS = 10.0
MOST_DISJOINT = 81 * 80 * 8
"""Paths beyond which the linear program over link-disjoint ones is left out."""

Row = Mapping[str, float]


def alltoall(fabric: Topology) -> Collective:
    """Everyone has a unit for everyone else."""
    return on_all_ranks(fabric, CollectiveKind.ALLTOALL)


def schemes(fabric: Topology, best: RateResult, ilp_s: float) -> dict[str, float]:
    """Time of every path-based scheme over the optimum; nan where it was left out."""
    everyone = alltoall(fabric)
    times: dict[str, float] = {
        "SSSP": float(route_time(fabric, everyone, single_source_shortest_paths(fabric, everyone))),
        "EwSP": float((EqualShares(fabric, everyone).loads() / fabric.bandwidths).max()),
        "ILP-shortest": float(ilp_shortest(fabric, everyone, time_limit_s=ilp_s).time),
        "ILP-disjoint": float(ilp_disjoint(fabric, everyone, time_limit_s=ilp_s).time),
        "pMCF, shortest": 1 / path_mcf(fabric, everyone, bounded_paths(fabric, everyone)).rate,
        "pMCF, disjoint": math.nan,
        "MCF-extP": 1 / extract_paths(fabric, everyone, best.flow.by_source).rate(fabric),
    }
    candidates = disjoint_paths(fabric, everyone)
    if candidates.n_paths <= MOST_DISJOINT:
        times["pMCF, disjoint"] = 1 / path_mcf(fabric, everyone, candidates).rate
    # the optimum is at most `upper`, so no ratio is below 1 because F is not known better
    return {name: time * float(best.upper) for name, time in times.items()}


def ratios_of(name: str, ilp_s: float) -> Row:
    """1/F of a fabric, and the schemes over it."""
    fabric = parse(name)
    best = optimal_rate(fabric, alltoall(fabric), gap=GAP)
    return {"1/F": 1 / best.rate} | schemes(fabric, best, ilp_s)


def over_bound(name: str) -> float:
    """1/F of a fabric over the bound of theorem 1, at most; nan if there is no such fabric."""
    fabric = parse(name)
    best = optimal_rate(fabric, alltoall(fabric), gap=GAP)
    return float(all_to_all_limit(fabric.n_nodes, DEGREE)) / best.rate


def figure_8(most: int, ilp_s: float) -> Iterable[tuple[int, Row]]:
    """Schemes on generalized Kautz graphs of degree 4, by N."""
    for n in FIGURE_8:
        if n <= most:
            yield n, ratios_of(f"generalized_kautz({DEGREE}, {n})", ilp_s)


def figure_9(ilp_s: float) -> Iterable[tuple[int, Row]]:
    """Schemes on 81 nodes of degree 8, by pairs of neighbours parted at random."""
    for links in FIGURE_9:
        whole = "generalized_kautz(8, 81)"
        yield links, ratios_of(f"punctured({whole}, links={links}, seed=1)" if links else whole, ilp_s)


def bound_ratio(most: int) -> Iterable[tuple[int, Row]]:
    """Generalized Kautz graphs over the lower bound: fig. 10, left."""
    for n in BOUND_RATIO:
        if n <= most:
            limit = float(all_to_all_limit(n, DEGREE))
            ratio = over_bound(f"generalized_kautz({DEGREE}, {n})")
            yield n, {"bound of 1/F": 1 / limit, "1/F": ratio / limit, "ratio": ratio}


def figure_10(most: int) -> Iterable[tuple[int, Row]]:
    """Topologies of degree 4 over the lower bound: fig. 10, right; Xpander with the nearest multiple of 5."""
    for n in FIGURE_10:
        if n > most:
            continue
        sides = next((a, n // a) for a in range(math.isqrt(n), 0, -1) if n % a == 0)
        yield (
            n,
            {
                "GenKautz": over_bound(f"generalized_kautz({DEGREE}, {n})"),
                "Xpander": over_bound(f"xpander({DEGREE}, {round(n / 5)})"),
                "Jellyfish": over_bound(f"jellyfish({n}, {DEGREE})"),
                "2D torus": over_bound(f"torus({sides[0]}, {sides[1]})"),
            },
        )


def table(title: str, first: str, rows: Iterable[tuple[int, Row]]) -> list[tuple[int, Row]]:
    """Print rows as they come; returns them."""
    print(f"\n{title}\n")
    kept: list[tuple[int, Row]] = []
    for key, row in rows:
        if not kept:
            print(f"| {first} | {' | '.join(row)} |\n" + "|---" * (1 + len(row)) + "|")
        cells = ["-" if math.isnan(value) else f"{value:.4g}" for value in row.values()]
        print(f"| {key} | {' | '.join(cells)} |", flush=True)
        kept.append((key, row))
    return kept


def draw(path: Path, title: str, first: str, rows: Sequence[tuple[int, Row]]) -> None:
    """A line per column but those of 1/F, if matplotlib is there."""
    try:
        import matplotlib
    except ImportError:
        print(f"{path}: skipped, matplotlib is not installed")
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 4), layout="constrained")
    for name in rows[0][1]:
        if "1/F" in name or all(math.isnan(row[name]) for _, row in rows):
            continue
        axes.plot([key for key, _ in rows], [row[name] for _, row in rows], "o-", ms=3, lw=0.9, label=name)
    axes.axhline(1, color="grey", lw=0.6)
    axes.set(xlabel=first, ylabel="all-to-all time, normalised", title=title)
    axes.title.set_fontsize(9)
    axes.legend(fontsize=7)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
    print(path)


def main() -> None:
    """Print tables, draw pictures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--figures", type=int, nargs="+", choices=(8, 9, 10), default=[8, 9, 10])
    parser.add_argument("--most", type=int, default=400, help="largest N (400)")
    parser.add_argument("--ilp-seconds", type=float, default=ILP_SECONDS)
    parser.add_argument("--out", type=Path, help="folder of the pictures")
    options = parser.parse_args()
    makers: dict[int, list[tuple[str, str, str, Callable[[], Iterable[tuple[int, Row]]]]]] = {
        8: [
            ("figure_8", "Generalized Kautz, d = 4: time / optimum", "N", lambda: figure_8(options.most, ilp))
        ],
        9: [("figure_9", "Generalized Kautz, N = 81, d = 8: time / optimum", "links", lambda: figure_9(ilp))],
        10: [
            ("figure_10_left", "Generalized Kautz, d = 4: bound", "N", lambda: bound_ratio(options.most)),
            ("figure_10_right", "d = 4: time / lower bound", "N", lambda: figure_10(options.most)),
        ],
    }
    ilp = options.ilp_seconds
    for number in options.figures:
        for name, title, first, rows in makers[number]:
            kept = table(f"Fig. {number}. {title}", first, rows())
            if options.out is not None and kept:
                options.out.mkdir(parents=True, exist_ok=True)
                draw(options.out / f"alltoall_{name}.png", title, first, kept)


if __name__ == "__main__":
    main()
