"""The fastest schedule of every size on eleven fabrics, beside baselines, bounds and a prototype's envelope.

    python -m benchmarks.anysize                                   # everything, about 20 minutes of CPU time
    python -m benchmarks.anysize --fabrics 'DGX A100 x2' 'torus 8x8' --write

Octaves from 1 KB to 1 GB under the cost model `reference` (direct links between hosts: `reference-hosts`).
``--write`` writes the record after each problem; fabrics and collectives that are not named keep their
rows, so that a run that was cut off goes on with those that are left. The exit status is 1 if a set is
slower than a baseline at any size, or above 1.03 times a prototype's time.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import process_time

from tools.records import RECORDS, Table, show, write_tables

from treadle import planning
from treadle.atomic import write_bytes
from treadle.units import format_size

COLLECTIVES = ("allgather", "reduce-scatter", "allreduce", "alltoall")
SIZES = tuple(2**exponent for exponent in range(10, 31))
SHOWN = tuple(2**exponent for exponent in (10, 14, 18, 22, 26, 30))
TOLERANCE = 1.03
ROUNDING = 1 + 1e-9


@dataclass(frozen=True)
class Setting:
    """A fabric and what messages cost on it."""

    fabric: str
    cost_model: str = "reference"


SETTINGS: Mapping[str, Setting] = {
    "DGX A100 x2": Setting("dgx_a100(2)"),
    "DGX A100 x16": Setting("dgx_a100(16)"),
    "DGX H100 x2": Setting("dgx_h100(2)"),
    "DGX H100 x2 NVLS": Setting("dgx_h100(2, nvls=True)"),
    "DGX H100 x16": Setting("dgx_h100(16)"),
    "DGX H100 x16 NVLS": Setting("dgx_h100(16, nvls=True)"),
    "MI250 x2": Setting("mi250(2)"),
    "NVL72 x2": Setting("gb200_nvl72(2)"),
    "leaf-spine 128": Setting("leaf_spine(16, 8)"),
    "torus 8x8": Setting('torus(8, 8, bandwidth="50GB/s")'),
    "Kautz 64": Setting('generalized_kautz(4, 64, bandwidth="12.5GB/s")', "reference-hosts"),
}

PROTOTYPE: Mapping[tuple[str, str], Sequence[float]] = {
    ("DGX A100 x2", "allreduce"): (6.6, 7.6, 10.2, 36, 406, 6330),
    ("MI250 x2", "allreduce"): (9.2, 12, 23, 47, 472, 6878),
    ("DGX H100 x16", "allgather"): (8.3, 8.3, 9.1, 20, 174, 2563),
    ("DGX H100 x16", "allreduce"): (9.7, 11.4, 18, 42, 379, 5275),
    ("DGX H100 x2 NVLS", "allreduce"): (6.9, 7.4, 8.5, 21, 187, 2745),
    ("NVL72 x2", "allreduce"): (9.9, 11.4, 15, 25, 178, 2524),
    ("leaf-spine 128", "allgather"): (14, 15, 21, 122, 1381, 21495),
    ("torus 8x8", "allreduce"): (5.6, 8.8, 16, 50, 670, 10579),
}
"""Microseconds at `SHOWN` of a prototype of our own: message graphs whose times were simulated, not run."""

DATA = RECORDS / "anysize.data.json"

Row = dict[str, object]
Results = dict[str, dict[str, list[Row]]]


def run(names: Sequence[str], collectives: Sequence[str], keep: Callable[[Results], None]) -> Results:
    """Collectives on the named fabrics, kept one by one; a line on standard error for each."""
    results: Results = {}
    for name in names:
        for collective in collectives:
            start = process_time()
            results.setdefault(name, {})[collective] = rows_of(SETTINGS[name], collective)
            print(f"{name}, {collective}: {process_time() - start:.1f} s CPU", file=sys.stderr, flush=True)
            keep(results)
    return results


def rows_of(setting: Setting, collective: str) -> list[Row]:
    """A row for each size."""
    found = planning.solve_sizes(
        setting.fabric, collective, [*SIZES], halves=False, cost_model=setting.cost_model
    )
    return [
        {
            "size": row.size_bytes,
            "us": round(row.seconds * 1e6, 4),
            "schedule": row.title,
            "slices": row.slices,
            "baseline": row.baseline,
            "baseline_us": None if row.baseline_seconds is None else round(row.baseline_seconds * 1e6, 4),
            "bound_us": None if row.bound is None else round(float(row.bound.time) * 1e6, 4),
        }
        for row in found.rows
    ]


def shortfalls(results: Results) -> list[str]:
    """Cells above a baseline, or above the prototype by more than is allowed."""
    found = []
    for name, collectives in results.items():
        for collective, rows in collectives.items():
            printed = dict(zip(SHOWN, PROTOTYPE.get((name, collective), ()), strict=False))
            for row in rows:
                size, us = int(str(row["size"])), float(str(row["us"]))
                base, limit = row["baseline_us"], printed.get(size)
                place = f"{name}, {collective}, {format_size(size)}"
                if base is not None and us > float(str(base)) * ROUNDING:
                    found.append(f"{place}: {us:.4g} us, {row['baseline']} takes {base} us")
                if limit is not None and us > limit * TOLERANCE:
                    ratio = us / limit
                    found.append(f"{place}: {us:.4g} us, {ratio:.2f} times the prototype's {limit:g}")
    return found


def tables(results: Results) -> list[Table]:
    """A table per fabric with rows per collective."""
    found = []
    for name, collectives in results.items():
        lines = []
        for collective, rows in collectives.items():
            at = {int(str(row["size"])): row for row in rows}
            lines += [
                [f"**{collective}**", *(f"{at[size]['us']:.4g}" for size in SHOWN)],
                ["best baseline / Treadle", *(_ratio(at[size], "baseline_us") for size in SHOWN)],
                ["Treadle / bound", *(_over(at[size]) for size in SHOWN)],
                ["schedule", *(f"{at[size]['schedule']}" for size in SHOWN)],
            ]
            if (name, collective) in PROTOTYPE:
                lines.append(["prototype", *(f"{value:g}" for value in PROTOTYPE[name, collective])])
        found.append(Table(name, ["", *map(format_size, SHOWN)], lines, f"`{SETTINGS[name].fabric}`"))
    return found


def _ratio(row: Row, key: str) -> str:
    if row[key] is None:
        return "-"
    return f"{float(str(row[key])) / float(str(row['us'])):.2f} {row['baseline']}"


def _over(row: Row) -> str:
    return "-" if row["bound_us"] is None else f"{float(str(row['us'])) / float(str(row['bound_us'])):.2f}"


def known() -> Results:
    """The times measured so far."""
    found: Results = json.loads(DATA.read_text(encoding="utf-8")) if DATA.exists() else {}
    return found


def write(found: Results) -> None:
    """Put what was found beside the times of other fabrics and collectives, and make the tables of all."""
    before = known()
    both = {name: {**before.get(name, {}), **found.get(name, {})} for name in SETTINGS}
    results = {name: one for name, one in both.items() if one}
    write_bytes(DATA, (json.dumps(results) + "\n").encode())
    write_tables("anysize", *tables(results))


def main() -> int:
    """Run, report, write; 1 if a cell falls short."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--fabrics", nargs="*", choices=[*SETTINGS], default=[*SETTINGS])
    parser.add_argument("--collectives", nargs="*", choices=COLLECTIVES, default=COLLECTIVES)
    parser.add_argument("--write", action="store_true", help="into the record anysize")
    arguments = parser.parse_args()
    found = run(arguments.fabrics, arguments.collectives, write if arguments.write else lambda _: None)
    if arguments.write:
        found = known()
    else:
        show(*tables(found))
    short = shortfalls(found)
    for one in short:
        print(one, file=sys.stderr)
    return 1 if short else 0


if __name__ == "__main__":
    raise SystemExit(main())
