"""Fit NCCL's times on measured rows; constants of the package, the record measured and its picture.

    python -m benchmarks.measured --rows ../shared/data/measured           # print the tables
    python -m benchmarks.measured --rows ../shared/data/measured --write   # and write all three

Needs matplotlib (``pip install 'treadle[plot]'``) for the picture; about two minutes.
"""

from __future__ import annotations

import argparse
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from tools.measured_fit import (
    MACHINES,
    SIBLINGS,
    SOURCES,
    Fit,
    MeasuredPoint,
    Predictions,
    accuracies,
    bands,
    cross_validate,
    read_points,
)
from tools.records import RECORDS, Table, show, write_tables

from treadle.atomic import write_bytes
from treadle.machines import achievable as constants_module
from treadle.machines.achievable import Achievable, Segment, achievable, measured_constants
from treadle.machines.system import Generation, System
from treadle.reproduction.measured_times import CASES, SIZES, SYSTEMS
from treadle.schedules.collective import CollectiveKind, busbw_factor
from treadle.units import format_size

WITHOUT_ROWS = {
    "H100 SXM x8": SYSTEMS["h200_sxm"],
    "B200 SXM x8": SYSTEMS["b300_sxm"],
    "GB200, tray of 4": SYSTEMS["gb300"],
    "L40S server x8": System(
        Generation.AMPERE, 1, 8, 32 * 10**9, has_fast_links=False, has_switch=False, cpu="amd"
    ),
}
KINDS = ("allgather", "reduce-scatter", "allreduce", "alltoall")
SHOWN = KINDS[2:]
"""Collectives of the tables and the picture."""


def constants_text(points: Sequence[MeasuredPoint], predictions: Mapping[str, Predictions]) -> str:
    """Return the text of `measured.toml`."""
    fit = Fit(points)
    lines = [
        "# Fitted on measured rows by `python -m benchmarks.measured`; read by treadle.machines.achievable.",
        "# A curve by GPUs: segments [protocol, last size in bytes, latency us, more latency us, log2 of its",
        "# size, GB/s, growth of the rate per doubling, power that joins latency and transfer].",
        "# bands: half of the 90% band of log(measured / predicted) at small, middle and large sizes.",
        "# errors on rows left out: median, 90th percentile, share in the bands, rows.",
    ]
    for name, source in SOURCES.items():
        lines += ["", f"[systems.{json.dumps(name)}]", f"source = {json.dumps(source)}"]
        lines.append(f"sibling = {json.dumps(name in SIBLINGS)}")
        curves: dict[str, dict[int, list[Segment]]] = {}
        for kind in KINDS:
            for gpus in (2, 4, 8):
                own = [
                    one
                    for one in points
                    if (one.system, one.kind, one.gpus, one.is_integer) == (name, kind, gpus, False)
                ]
                if own:
                    launch, curves.setdefault(kind, {})[gpus] = fit.curve(
                        sorted(own, key=lambda one: one.size_bytes)
                    )
        lines.append(f"launch_us = {launch:.4g}")
        for kind, of in curves.items():
            lines.append(f"[systems.{json.dumps(name)}.{kind}]")
            lines += [
                f"{gpus} = {json.dumps([rounded(segment) for segment in segments])}"
                for gpus, segments in of.items()
            ]
    halves = {
        (name or case, "alltoall" if is_alltoall else "rings", index): half
        for case, of_case in predictions.items()
        for (name, is_alltoall, index), half in bands(case, of_case).items()
    }
    for name in dict.fromkeys(name for name, _, _ in halves):
        lines += ["", f"[bands.{name}]"]
        lines += [
            f"{kind} = {[round(halves[name, kind, index], 3) for index in range(3)]}"
            for kind in ("rings", "alltoall")
        ]
    for case, by_machine in accuracies(predictions).items():
        lines += ["", f"[errors.{case}]"]
        lines += [
            f"{name} = {[round(one.median, 4), round(one.ninth_decile, 4), round(one.coverage, 3), one.rows]}"
            for name, one in by_machine.items()
        ]
    return "\n".join(lines) + "\n"


def rounded(segment: Segment) -> list[Any]:
    return [*segment[:2], *(float(f"{number:.4g}") for number in segment[2:])]


def errors_table() -> Table:
    """A row for each machine and case."""
    rows = []
    for case, words in CASES.items():
        for name, (median, ninth_decile, coverage, number) in measured_constants()["errors"][case].items():
            label = "all" if name == "all" else SOURCES[name].partition(",")[0]
            rows.append(
                [words, label, f"{median:.1%}", f"{ninth_decile:.1%}", f"{coverage:.0%}", f"{number}"]
            )
    columns = ["left out", "machine", "median error", "90th percentile", "in bands of 90%", "rows"]
    return Table("Errors on rows that the fit has not seen", columns, rows)


def predictions_table() -> Table:
    """A row for each machine without rows."""
    rows = []
    for name, system in WITHOUT_ROWS.items():
        for kind in SHOWN:
            found = [achievable(system, kind, size) for size in SIZES]
            cells = [
                f"{one.time_s * 1e6:.4g} ({one.low_s * 1e6:.4g} to {one.high_s * 1e6:.4g})"
                for one in found
                if isinstance(one, Achievable)
            ]
            source = found[0].source if isinstance(found[0], Achievable) else str(found[0])
            rows.append([name, kind, *cells, source])
    return Table("Machines without rows", ["machine", "collective", *map(format_size, SIZES), "from"], rows)


def picture(points: Sequence[MeasuredPoint]) -> bytes:
    """Busbw against size: fitted lines with their bands, and rows as dots; PNG."""
    figure = Figure(figsize=(15, 6), dpi=70, layout="constrained")
    for row, kind in zip(figure.subplots(len(SHOWN), len(MACHINES), sharex=True), SHOWN, strict=True):
        for place, name in zip(row, MACHINES, strict=True):
            own = [one for one in points if (one.system, one.kind, one.is_integer) == (name, kind, False)]
            for index, gpus in enumerate(sorted({one.gpus for one in own})):
                curve = sorted((one for one in own if one.gpus == gpus), key=lambda one: one.size_bytes)
                sizes = [one.size_bytes for one in curve]
                found = [achievable(SYSTEMS[name], kind, size, gpus) for size in sizes]
                fitted = [one for one in found if isinstance(one, Achievable)]
                bits = float(busbw_factor(CollectiveKind(kind), gpus)) / 1e9
                low, high, middle = (
                    [bits * one.size_bytes / time for one, time in zip(fitted, times, strict=True)]
                    for times in (
                        [one.high_s for one in fitted],
                        [one.low_s for one in fitted],
                        [one.time_s for one in fitted],
                    )
                )
                place.fill_between(sizes, low, high, color=f"C{index}", alpha=0.2, linewidth=0)
                place.plot(sizes, middle, color=f"C{index}", label=f"{gpus} GPUs")
                measured = [bits * 1e6 * one.size_bytes / one.times_us[0] for one in curve]
                place.plot(sizes, measured, ".", color=f"C{index}")
            place.set(xscale="log", yscale="log", title=f"{SOURCES[name].partition(',')[0]}, {kind}")
            place.set_xscale("log", base=2)
            place.set_xticks([2**10, 2**15, 2**20, 2**25], ["1KB", "32KB", "1MB", "32MB"])
            place.grid(visible=True, alpha=0.3)
        row[0].set_ylabel("busbw (GB/s)")
    figure.axes[0].legend()
    stream = io.BytesIO()
    figure.savefig(stream, format="png", metadata={"Software": None})
    return stream.getvalue()


def main() -> None:
    """Fit, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=Path, required=True, help="folder with nccl.csv")
    parser.add_argument("--write", action="store_true", help="constants, record and picture")
    options = parser.parse_args()
    points = read_points(options.rows)
    text = constants_text(points, cross_validate(points))
    if options.write:
        write_bytes(Path(constants_module.__file__).with_name("measured.toml"), text.encode())
        measured_constants.cache_clear()
    tables = errors_table(), predictions_table()
    show(*tables)
    if options.write:
        write_tables("measured", *tables)
        write_bytes(RECORDS.parent / "images" / "measured.png", picture(points))


if __name__ == "__main__":
    main()
