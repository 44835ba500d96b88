"""Time of `treadle.price`: warm calls, each of another size, the first price of a group, the import.

Run from the repository root: ``python -m benchmarks.price`` (half a minute). Times are of this machine, with
whatever else runs on it; that of the import is the quickest of ten processes, less an empty one.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

from treadle import price

ROWS = (
    *(("dgx_h100:1", "*"), ("dgx_h100:16", "16,8:0"), ("dgx_h100:16", "0-127"), ("mi300x:2", "2,8:0")),
    ("torus(4, 4, bandwidth='25GB/s')", "4,4:1"),
)
CALLS = 3000


def process_s(code: str) -> float:
    """Return seconds of a Python process, the quickest of ten."""
    times = []
    for _ in range(10):
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        times.append(time.perf_counter() - begin)
    return min(times)


def main() -> None:
    """Print a row for each group."""
    for fabric, group in ROWS:
        begin = time.perf_counter()
        found = price(fabric, group, "allreduce", 2**20)
        first_s = time.perf_counter() - begin
        times = []
        for more in range(CALLS):
            begin = time.perf_counter()
            price(fabric, group, "allreduce", 2**20 + more)
            times.append(time.perf_counter() - begin)
        p50, p99 = statistics.median(times) * 1e6, sorted(times)[CALLS * 99 // 100] * 1e6
        print(
            f"{fabric} {group}: {found.kind}, first {first_s * 1e3:.0f} ms, p50 {p50:.1f} us, "
            f"p99 {p99:.1f} us"
        )
    for code in ("from treadle import price", "import numpy"):
        print(f"{code}: {(process_s(code) - process_s('pass')) * 1e3:.0f} ms")


if __name__ == "__main__":
    main()
