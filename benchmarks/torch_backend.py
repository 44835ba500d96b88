"""Allreduce over the torch backend and over gloo, side by side on this host: four processes on loopback.

    python -m benchmarks.torch_backend                     # 1 KB, 1 MB and 16 MB, half a minute
    python -m benchmarks.torch_backend --fabric ring:4     # over another fabric's schedule

Both run in turns in the same processes; a time is the slowest rank's, the table has the median and the least.
CPU seconds are those of all ranks in user and system mode: on a busy machine they say more than times.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from rich.console import Console
from rich.table import Table

from treadle.torch import Options
from treadle.units import format_size

SIZES = {2**10: 300, 2**20: 60, 2**24: 15}
"""Iterations by bytes."""


def measure(rank: int, n_ranks: int, folder: str, options: Options) -> None:
    """One rank; rank 0 prints."""
    torch.set_num_threads(1)
    dist.init_process_group(
        "treadle", init_method=f"file://{folder}/store", rank=rank, world_size=n_ranks, pg_options=options
    )
    groups = {"gloo": dist.new_group(backend="gloo"), "treadle": dist.group.WORLD}
    table = Table("size", "backend", "median ms", "least ms", "CPU ms of all ranks")
    for size, iterations in SIZES.items():
        tensor = torch.ones(size // 4)
        found = {name: times(tensor, group, groups["gloo"], iterations) for name, group in groups.items()}
        for name, (walls, cpu) in found.items():
            wall = [f"{value * 1e3:.2f}" for value in (statistics.median(walls), min(walls))]
            table.add_row(format_size(size), name, *wall, f"{cpu * 1e3:.2f}")
    if rank == 0:
        Console().print(table)
    dist.destroy_process_group()


def times(tensor: torch.Tensor, group: Any, gloo: Any, iterations: int) -> tuple[list[float], float]:
    """Seconds of the slowest rank in each of the iterations, and CPU seconds of all ranks in one."""
    dist.all_reduce(tensor, group=group)
    walls, cpu = [], 0.0
    for _ in range(iterations):
        tensor.fill_(1.0)
        dist.barrier(group=gloo)
        start, start_cpu = time.perf_counter(), time.process_time()
        dist.all_reduce(tensor, group=group)
        spent = torch.tensor([time.perf_counter() - start], dtype=torch.float64)
        used = torch.tensor([time.process_time() - start_cpu], dtype=torch.float64)
        assert float(tensor[0]) == float(tensor[-1]) == dist.get_world_size()
        dist.all_reduce(spent, dist.ReduceOp.MAX, group=gloo)
        dist.all_reduce(used, group=gloo)
        walls.append(float(spent))
        cpu += float(used)
    return walls, cpu / iterations


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--fabric", help="default: all ranks have links to all others")
    parser.add_argument("--algorithm", help="as treadle solve --algorithm")
    arguments = parser.parse_args()
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    options = Options(fabric=arguments.fabric, algorithm=arguments.algorithm)
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(measure, (arguments.ranks, folder, options), nprocs=arguments.ranks)


if __name__ == "__main__":
    main()
