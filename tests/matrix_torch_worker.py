"""One rank of four: collectives of torch.distributed by the plans of a directory for each row."""

from __future__ import annotations

import json
import logging
import sys
import warnings
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from treadle.torch import Options

# names that they have since 2.13
all_gather_single = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
reduce_scatter_single = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor

RANK, SIZE = int(sys.argv[1]), 4
JOB = Path(sys.argv[2])
COUNTS = (1, 13, 4099)


class Lines(logging.Handler):
    """Keeps what the backend logs."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def values(rank: int, count: int) -> torch.Tensor:
    """What a rank contributes: numbers that differ from rank to rank and place to place."""
    return torch.arange(count) * (2 * rank + 1) + 1_000_003 * (rank + 1)


def allgather(group: Any, count: int) -> bool:
    whole = torch.empty(SIZE * count, dtype=torch.int64)
    all_gather_single(whole, values(RANK, count), group=group)
    return torch.equal(whole, torch.cat([values(rank, count) for rank in range(SIZE)]))


def total(count: int) -> torch.Tensor:
    return torch.stack([values(rank, count) for rank in range(SIZE)]).sum(0)


def reduce_scatter(group: Any, count: int) -> bool:
    part = torch.empty(count, dtype=torch.int64)
    reduce_scatter_single(part, values(RANK, SIZE * count), group=group)
    return torch.equal(part, total(SIZE * count)[RANK * count : (RANK + 1) * count])


def allreduce(group: Any, count: int) -> bool:
    tensor = values(RANK, count)
    dist.all_reduce(tensor, group=group)
    return torch.equal(tensor, total(count))


def broadcast(group: Any, count: int) -> bool:
    tensor = values(RANK, count)
    dist.broadcast(tensor, 0, group=group)
    return torch.equal(tensor, values(0, count))


def reduce(group: Any, count: int) -> bool:
    tensor = values(RANK, count)
    dist.reduce(tensor, 0, group=group)
    return RANK != 0 or torch.equal(tensor, total(count))


def alltoall(group: Any, count: int) -> bool:
    got = torch.empty(SIZE * count, dtype=torch.int64)
    dist.all_to_all_single(got, values(RANK, SIZE * count), group=group)
    parts = [values(rank, SIZE * count)[RANK * count : (RANK + 1) * count] for rank in range(SIZE)]
    return torch.equal(got, torch.cat(parts))


CALLS: Mapping[str, Callable[[Any, int], bool]] = {
    "allgather": allgather,
    "reduce-scatter": reduce_scatter,
    "allreduce": allreduce,
    "broadcast": broadcast,
    "reduce": reduce,
    "alltoall": alltoall,
}


def main() -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", FutureWarning)
    lines = Lines()
    logging.getLogger("treadle.torch").addHandler(lines)
    logging.getLogger("treadle.torch").setLevel(logging.INFO)
    method = f"file://{JOB.parent / 'store'}"
    dist.init_process_group(
        "treadle", init_method=method, rank=RANK, world_size=SIZE, timeout=timedelta(seconds=60)
    )
    groups: dict[str, Any] = {}
    found = []
    for row, kind, fabric, home in json.loads(JOB.read_text()):
        if row not in groups:
            groups[row] = dist.new_group(backend="treadle", pg_options=Options(fabric=fabric, plans=home))
        lines.lines.clear()
        for count in COUNTS:
            assert CALLS[kind](groups[row], count), (row, kind, count)
        own = [line for line in lines.lines if home in line and f"-{kind}.plan" in line]
        refusals = [line for line in lines.lines if "left to gloo" in line]
        assert RANK or own or refusals, (row, kind, lines.lines)
        found.append([row, kind, refusals[0] if refusals else "", own])
    dist.destroy_process_group()
    reports = [[row, kind, why if RANK == 0 else "", own] for row, kind, why, own in found]
    (JOB.parent / f"found-{RANK}.json").write_text(json.dumps(reports))


if __name__ == "__main__":
    main()
