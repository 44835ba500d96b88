"""Where schedules overtake each other on emulated networks: predicted from other schedules, and measured.

Run ``python -m benchmarks.testbed_crossovers FOLDER [--runs 3] [--write]`` as root; it writes the record
testbed-figures. Every run of a case becomes a file of FOLDER, what ``treadle testbed
--json`` prints; those that are there are not run again. All cases take a quarter of an hour on two cores.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tools.records import Table, show, write_tables

from treadle.atomic import write_bytes
from treadle.units import format_size

COMMON = (
    *("--delay", "5ms", "--rate", "20Mbit/s", "--iterations", "4", "--rounds", "2"),
    *("--crossovers", "--json"),
)
CASES = (
    ("ring(8)", "allgather,allreduce", "bfb,ring-steps,trivance,swing", "4K,64K..2M"),
    ("torus(2, 4)", "allreduce", "bfb,traditional-torus,mixed-radix,halving-doubling,ring", "4K,32K..1M"),
    ("complete(8)", "allreduce", "bfb,one-diameter,mixed-radix,halving-doubling,ring", "2K,8K..1M"),
)
"""Fabric, collectives, algorithms and sizes."""

WITHIN = 2.0


def one_run(case: tuple[str, str, str, str], path: Path) -> dict[str, Any]:
    """What the testbed says of a case; run if there is no file of it."""
    fabric, collectives, algorithms, sizes = case
    if not path.exists():
        words = ["testbed", fabric, "--collectives", collectives, "--algorithms", algorithms, "--size", sizes]
        done = subprocess.run(
            [sys.executable, "-m", "treadle", *words, *COMMON], stdout=subprocess.PIPE, check=True
        )
        write_bytes(path, done.stdout)
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if found["wrong"]:
        raise SystemExit(f"{path}: {found['wrong']} wrong elements")
    return found


def lines_of(fabric: str, runs: Sequence[dict[str, Any]]) -> list[tuple[list[str], bool]]:
    """A row of the table for each pair that any run lists, and whether it is within the factor in all."""
    pairs: dict[tuple[str, str, str], list[dict[str, Any] | None]] = {}
    for place, run in enumerate(runs):
        for one in run["crossovers"]:
            few, many = sorted((one["small"], one["large"]))
            pairs.setdefault((one["collective"], few, many), [None] * len(runs))[place] = one
    lines = []
    for (collective, _, _), found in pairs.items():
        seen = [one for one in found if one is not None]
        ratios = [None if one is None else one["ratio"] for one in found]
        within = all(ratio is not None and 1 / WITHIN <= ratio <= WITHIN for ratio in ratios)
        cells = [
            *(f"`{fabric}`", collective, seen[0]["small"], seen[0]["large"]),
            _sizes([None if one is None else one["predicted_bytes"] for one in found]),
            _sizes([None if one is None else one["measured_bytes"] for one in found]),
            ", ".join("-" if ratio is None else f"{ratio:.2f}" for ratio in ratios),
        ]
        lines.append((cells, within))
    return lines


def _sizes(sizes: Sequence[float | None]) -> str:
    return ", ".join("-" if size is None else format_size(round(size / 1024) * 1024) for size in sizes)


def table(folder: Path, n_runs: int) -> Table:
    """The table; its note says how many pairs are within the factor."""
    rows = []
    held, late, frames, dropped = [], [], 0, 0
    found: list[list[dict[str, Any]]] = [[] for _ in CASES]
    for number in range(n_runs):
        for case, runs in zip(CASES, found, strict=True):
            stem = "".join(letter for letter in case[0] if letter.isalnum())
            runs.append(one_run(case, folder / f"{stem}-{number + 1}.json"))
    for case, runs in zip(CASES, found, strict=True):
        for line, within in lines_of(case[0], runs):
            rows.append(line)
            held.append(within)
        late += [run["frames_latest_s"] for run in runs]
        frames += sum(run["frames"] for run in runs)
        dropped += sum(run["frames_dropped"] for run in runs)
    columns = ["fabric", "collective", "at small sizes", "at large sizes", "predicted", "measured", "ratios"]
    note = (
        "The size from which the second schedule is faster: predicted by a model fitted to the other "
        "schedules of the case, and measured. Links of 5 ms and 20 Mbit/s, eight nodes. "
        f"{sum(held)} of {len(held)} pairs are within a factor of {WITHIN:g} in all {n_runs} runs. Links "
        f"forwarded {frames} frames and dropped {dropped}; the latest of a run came "
        f"{min(late) * 1e3:.0f} to {max(late) * 1e3:.0f} ms after its due time."
    )
    return Table("Where schedules overtake each other", columns, rows, note)


def main() -> None:
    """Print the table; write it where asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="into the record testbed-figures")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    found = table(asked.folder, asked.runs)
    show(found)
    if asked.write:
        write_tables("testbed-figures", found)


if __name__ == "__main__":
    main()
