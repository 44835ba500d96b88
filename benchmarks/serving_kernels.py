"""Fit the costs of small allreduces on those of serving engines: the presets `kernels-*` of cost_presets.py.

    python -m benchmarks.serving_kernels --rows ../shared/data/measured

Rows: custom_allreduce.csv of ai-dynamo/aiconfigurator (Apache-2.0), captured as graphs, 2 to 8 GPUs, 1 KB to
1 MB. With one step every GPU reads the buffers of all others; with two it reads its part, then the sums:

    time = launch + steps (alpha + (n - 1) occupancy) + bytes read / (rate x efficiency)

which is what the simulator counts for `one-shot`. The steps are those that the engines' sources choose.
"""

from __future__ import annotations

import argparse
import csv
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
MACHINES = {"a100_sxm": ("ampere", 300), "h200_sxm": ("hopper", 450), "b300_sxm": ("blackwell", 900)}
"""Generation, and GB/s of NVLink."""
ELEMENT = 2
"""Bytes: sizes are published as elements of bfloat16; at 512 M of them times are those of NCCL at 1 GB."""
WITH_BARRIERS = ("vLLM 0.14", "vLLM 0.18", "vLLM 0.19", "SGLang 0.5.9", "SGLang 0.5.10")
"""Kernels that meet at a barrier before and after they read: protocol Simple."""
WITH_FLAGS = ("TRTLLM 1.3.0",)
"""Kernels whose data shows by itself that it has come: protocol LL."""
RESAMPLES = 200


class Row(NamedTuple):
    """Times of the engines at a size."""

    gpus: int
    size_bytes: int
    steps: int
    times_us: tuple[float, ...]


def read_rows(folder: Path, machine: str, engines: Sequence[str]) -> list[Row]:
    """Read the rows of some engines on a machine."""
    found: dict[tuple[int, int], list[float]] = defaultdict(list)
    with (folder / "custom_allreduce.csv").open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            gpus, size = int(row["num_gpus"]), ELEMENT * int(row["message_size"])
            name = f"{row['framework']} {row['version']}"
            if row["system"] == machine and name.startswith(tuple(engines)) and "eager" not in row["impl"]:
                found[gpus, size].append(float(row["time_us"]))
    rows = []
    for (gpus, size), times in sorted(found.items()):
        # vLLM's and SGLang's kernels take two steps from 512 KB on 4 GPUs and from 256 KB on 8
        two = engines is WITH_BARRIERS and gpus > 2 and size >= 2**21 // gpus
        if 2**10 <= size <= (2**20 if two or gpus < 8 else 2**19):
            rows.append(Row(gpus, size, 2 if two else 1, tuple(times)))
    return rows


def terms(row: Row, rate: int) -> tuple[float, float, float, float]:
    """Return what multiplies launch, alpha, occupancy and 1 / efficiency; microseconds."""
    read = (row.gpus - 1) * row.size_bytes * (2 / row.gpus if row.steps == 2 else 1)
    return 1, row.steps, row.steps * (row.gpus - 1), read / rate / 1e3


def fit(rows: Sequence[Row], rate: int, launch_us: float | None) -> Floats:
    """Return launch, alpha, occupancy and 1 / efficiency by relative errors; large ones count less."""
    matrix = np.array([terms(row, rate) for row in rows for _ in row.times_us])
    times = np.array([time for row in rows for time in row.times_us])
    known = np.zeros(4) if launch_us is None else np.array([launch_us, 0, 0, 0])
    free = slice(0 if launch_us is None else 1, 4)
    found, weights = known, np.ones(len(times))
    for _ in range(30):
        scale = weights / times
        found = known.copy()
        found[free] = np.linalg.lstsq(
            matrix[:, free] * scale[:, None], (times - matrix @ known) * scale, rcond=None
        )[0]
        weights = 1 / np.sqrt(1 + ((matrix @ found / times - 1) / 0.05) ** 2)
    return found


def errors(found: Floats, rows: Sequence[Row], rate: int) -> list[float]:
    """Return |predicted / measured - 1|."""
    return [abs(float(terms(row, rate) @ found) / time - 1) for row in rows for time in row.times_us]


def main() -> None:
    """Print constants, their 95% intervals, and errors on every other size left out."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=Path, required=True, help="folder with custom_allreduce.csv")
    folder = parser.parse_args().rows
    # a launch and a step can be separated only where two steps are seen often: the launch is Hopper's
    launch_us = float(fit(read_rows(folder, "h200_sxm", WITH_BARRIERS), 450, None)[0])
    random = np.random.default_rng(0)
    for machine, (generation, rate) in MACHINES.items():
        for engines in (WITH_FLAGS, WITH_BARRIERS):
            rows = read_rows(folder, machine, engines)
            known = None if (generation, engines) == ("hopper", WITH_BARRIERS) else launch_us
            # with barriers two steps take B300 three times as long as one, at any size: another kernel
            rows = [row for row in rows if row.steps == 1 or generation != "blackwell"]
            if not rows:
                continue
            left_out = []
            for odd in (0, 1):
                kept = [row for row in rows if row.size_bytes.bit_length() % 2 != odd]
                others = [row for row in rows if row.size_bytes.bit_length() % 2 == odd]
                left_out += errors(fit(kept, rate, known), others, rate)
            draws = [
                fit([rows[index] for index in random.integers(len(rows), size=len(rows))], rate, known)
                for _ in range(RESAMPLES)
            ]
            low, high = np.quantile(draws, (0.025, 0.975), axis=0)
            found = fit(rows, rate, known)
            print(f"{generation}, {engines[0]}: {len(left_out)} rows")
            for name, value, least, most in zip(
                ("launch us", "alpha us", "occupancy us", "1 / efficiency"), found, low, high, strict=True
            ):
                print(f"  {name}: {value:.3f} ({least:.3f} to {most:.3f})")
            median, ninth_decile = np.quantile(left_out, (0.5, 0.9))
            print(f"  sizes left out: median {median:.1%}, 90th percentile {ninth_decile:.1%}")


if __name__ == "__main__":
    main()
