"""Exact optima of the catalogue's platforms at 1 to 8192 boxes, with what proves each: the record atlas.

    python -m benchmarks.atlas                   # all that is missing; all: minutes of CPU time
    python -m benchmarks.atlas --most 64 --anew  # up to 64 boxes, computed again

Rows go to docs/records/atlas.data.json one by one; tables and picture (docs/images/atlas.svg) come from them.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import groupby
from typing import Any

import matplotlib
from matplotlib.ticker import FixedLocator
from tools.records import RECORDS, Table, write_tables

import treadle
from treadle.atomic import write_bytes
from treadle.errors import TreadleError
from treadle.render.names import describe_links
from treadle.render.problems import describe_certificate
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.synthesis.alltoall.rate.flow_instance import flow_instance
from treadle.synthesis.alltoall.rate.flow_symmetry import known_symmetry
from treadle.viz.matplotlib_plots import new_plot, plot_bytes

PLATFORMS: dict[str, Callable[[int], str | None]] = {
    "dgx_a100": lambda n: f"dgx_a100({n})",
    "dgx_a100_flat": lambda n: f"dgx_a100_flat({n})",
    "dgx_h100": lambda n: f"dgx_h100({n})",
    "gb200_nvl72": lambda n: f"gb200_nvl72({n})",
    "mi250": lambda n: f"mi250({n})",
    "mi300x": lambda n: f"mi300x({n})",
    "rail_optimized": lambda n: f"rail_optimized({n})",
    "pods": lambda n: f"pods({n // 32}, 32)" if n >= 64 else None,
    "leaf_spine": lambda n: f"leaf_spine({n}, 4)" if n >= 2 else None,
    "fat_tree": lambda n: f"fat_tree({round((32 * n) ** (1 / 3))})" if n in (2, 16, 128, 1024) else None,
    "dgx1_v100": lambda n: "dgx1_v100()" if n == 1 else None,
}
"""The expression of so many boxes; None where there is no fabric of that size."""
COLLECTIVES = ("allgather", "reduce-scatter", "allreduce", "broadcast", "reduce", "alltoall")
MOST_SECONDS = 12
"""Of CPU: rows beyond a smaller one that took longer are left out."""
SIZES = tuple(2**power for power in range(14))
MOST_RANKS_OF_ALLTOALL = 512
"""An all-to-all's flows of every source over every link fit up to about there."""
MOST_ALIKE_RANKS = 4096
"""Where symmetry leaves one source; its demands grow with the square."""

DATA = RECORDS / "atlas.data.json"


def solved(expression: str, collective: str) -> dict[str, Any]:
    """One row: the optimum, how it is known, and what proves it in words."""
    begin = time.process_time()
    row: dict[str, Any] = {"fabric": expression, "collective": collective}
    try:
        topology = treadle.parse(expression)
        if collective == "alltoall" and not is_served(topology):
            return row
        found = treadle.bound(topology, collective)
    except TreadleError as error:
        return {**row, "refused": str(error)}
    if found.rate is not None:
        row["binds"] = "bottleneck: " + describe_links(topology, found.rate.binding_links())
        row["known"] = "exact" if found.rate.exact is not None else "certified"
    else:
        proof = found.bound
        row["binds"] = describe_certificate(topology, found.collective, proof.certificate, proof.algbw)
        row["known"] = "exact" if proof.is_tight else "bound"
    algbw = found.algbw if row["known"] == "exact" else Fraction(float(found.algbw)).limit_denominator(10**6)
    return {**row, "algbw": str(algbw), "seconds": round(time.process_time() - begin, 2)}


def is_served(topology: treadle.Topology) -> bool:
    """Whether an all-to-all's rate takes seconds: few ranks, or many of which one stands for all."""
    ranks = len(topology.compute_nodes)
    if not MOST_RANKS_OF_ALLTOALL < ranks <= MOST_ALIKE_RANKS:
        return ranks <= MOST_RANKS_OF_ALLTOALL
    return (
        known_symmetry(flow_instance(topology, on_all_ranks(topology, CollectiveKind.ALLTOALL))).n_sources
        == 1
    )


def cell(row: dict[str, Any]) -> str:
    """GB/s with a mark that says how it is known."""
    if "algbw" not in row:
        return "-"
    mark = {"exact": "", "certified": "~", "bound": "≤"}[row["known"]]
    return f"{mark}{float(Fraction(row['algbw'])) / 1e9:.2f}"


def cuts(rows: list[dict[str, Any]], boxes: list[int]) -> list[str]:
    """Lines that say bottleneck, one for all sizes where it is the same but for numbers."""
    there = [(n, row["binds"]) for n, row in zip(boxes, rows, strict=True) if "binds" in row]
    lines = []
    for _, group in groupby(there, key=lambda item: re.sub(r"[\d.]+", "#", item[1])):
        found = list(group)
        sizes = str(found[0][0]) if len(found) == 1 else f"{found[0][0]} to {found[-1][0]}"
        lines.append(f"{sizes}: {found[-1][1]}")
    return lines


def tables(rows: dict[tuple[str, str], dict[str, Any]]) -> Iterator[Table]:
    """Two tables for each platform: optima by size, and bottleneck, with the figures of the largest size."""
    for name, made in PLATFORMS.items():
        pieces = {n: one for n in SIZES if (one := made(n)) is not None}
        sizes = [n for n, one in pieces.items() if all((one, each) in rows for each in COLLECTIVES)]
        optima = [[str(n), *(cell(rows[pieces[n], one]) for one in COLLECTIVES)] for n in sizes]
        yield Table(name, ["boxes", *COLLECTIVES], optima)
        binding = {one: cuts([rows[pieces[n], one] for n in sizes], sizes) for one in COLLECTIVES}
        words = [[one, "<br>".join(lines)] for one, lines in binding.items() if lines]
        columns = ["collective", "boxes: bottleneck, with the figures of the largest"]
        yield Table(f"{name}: bottleneck", columns, words)


def picture(rows: dict[tuple[str, str], dict[str, Any]]) -> bytes:
    """Algbw against boxes: a panel for each of three collectives, a line for each platform."""
    matplotlib.rcParams["svg.hashsalt"] = "atlas"
    figure = new_plot(10, 4, "svg")
    panels = figure.subplots(1, 3, sharex=True)
    markers = "osD^v<>PX*h"
    for panel, collective in zip(panels, ("allgather", "allreduce", "alltoall"), strict=True):
        for mark, (name, made) in zip(markers, PLATFORMS.items(), strict=True):
            found = [(n, rows.get((made(n) or "", collective), {})) for n in SIZES]
            points = [(n, float(Fraction(row["algbw"])) / 1e9) for n, row in found if "algbw" in row]
            if len(found) > 1 and name != "dgx1_v100" and points:
                panel.plot(*zip(*points, strict=True), marker=mark, markersize=3, linewidth=1, label=name)
        panel.set(title=collective, xscale="log", yscale="log", xlabel="boxes")
        panel.set_xscale("log", base=2)
        panel.yaxis.set_major_locator(FixedLocator([20, 50, 100, 200, 500, 1000]))
        panel.yaxis.set_major_formatter("{x:.0f}")
        panel.yaxis.set_minor_formatter("")
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("optimal algbw, GB/s")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    matplotlib.rcParams["svg.fonttype"] = "none"
    return plot_bytes(figure, "svg")


def main() -> None:
    """Compute what is missing, smallest first, then write page and picture."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--most", type=int, default=SIZES[-1], help="boxes; the rows beyond stay as they are")
    parser.add_argument("--anew", action="store_true", help="compute also rows that are there")
    asked = parser.parse_args()
    kept = json.loads(DATA.read_text(encoding="utf-8")) if DATA.exists() else []
    rows = {(row["fabric"], row["collective"]): row for row in kept}
    took: dict[tuple[str, str], float] = {}
    for n in (n for n in SIZES if n <= asked.most):
        for name, made in PLATFORMS.items():
            for collective in COLLECTIVES if (expression := made(n)) else ():
                key = str(expression), collective
                if key not in rows or asked.anew:
                    is_long = took.get((name, collective), 0) > MOST_SECONDS
                    rows[key] = {"fabric": key[0], "collective": collective} if is_long else solved(*key)
                    print(*key, cell(rows[key]), rows[key].get("seconds", ""), flush=True)
                took[name, collective] = rows[key].get("seconds", took.get((name, collective), 0))
        text = "[\n" + ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows.values()) + "\n]\n"
        write_bytes(DATA, text.encode())
    write_tables("atlas", *tables(rows))
    write_bytes(RECORDS.parent / "images" / "atlas.svg", picture(rows))


if __name__ == "__main__":
    main()
