"""One rank of six on a mesh of 2 x 3: collectives of both groups at once; writes what it found as JSON."""

import json
import logging
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh

from treadle.torch import Options

# names that they have since 2.13
all_gather_single = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
reduce_scatter_single = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor

RANK, SIZE, FOLDER = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
COUNTS = (1, 501, 20_011)


class Messages(logging.Handler):
    """Keeps what the backend logs."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.levelname}: {record.getMessage()}")


def data(rank: int, count: int) -> Tensor:
    """Whole numbers that differ from rank to rank."""
    generator = torch.Generator().manual_seed(1000 * rank + count)
    return torch.randint(-20, 21, (count,), generator=generator).to(torch.float32)


def right(group: Any, members: list[int], count: int) -> dict[str, bool]:
    """Each collective in a group against its definition, by the data of its members alone."""
    own, place, n = data(RANK, count), members.index(RANK), len(members)
    whole, total = torch.empty(n * count), own.clone()
    wide = torch.cat([data(RANK, count) * (part + 1) for part in range(n)])
    part = torch.empty(count)
    works = [
        all_gather_single(whole, own, group=group, async_op=True),
        dist.all_reduce(total, group=group, async_op=True),
        reduce_scatter_single(part, wide, group=group, async_op=True),
    ]
    for work in works:
        work.wait()
    summed = torch.stack([data(rank, count) for rank in members]).sum(dim=0)
    return {
        f"allgather {n} {count}": torch.equal(whole, torch.cat([data(rank, count) for rank in members])),
        f"allreduce {n} {count}": torch.equal(total, summed),
        f"reduce-scatter {n} {count}": torch.equal(part, summed * (place + 1)),
    }


def main() -> None:
    log, messages = logging.getLogger("treadle.torch"), Messages()
    log.setLevel(logging.INFO)
    log.addHandler(messages)
    dist.init_process_group(
        "treadle",
        store=dist.FileStore(str(FOLDER / "store"), SIZE),
        rank=RANK,
        world_size=SIZE,
        timeout=timedelta(seconds=120),
        pg_options=Options(fabric="torus:2,3", plans=FOLDER / "plans"),
    )
    mesh = init_device_mesh("cpu", (2, 3), mesh_dim_names=("dp", "tp"))
    rows = mesh.mesh.tolist()
    row = next(row for row in rows if RANK in row)
    column = [other[row.index(RANK)] for other in rows]
    found: dict[str, Any] = {"backends": [dist.get_backend(mesh.get_group(axis)) for axis in ("dp", "tp")]}
    checks: dict[str, bool] = {}
    for count in COUNTS:
        checks |= right(mesh.get_group("tp"), row, count)
        checks |= right(mesh.get_group("dp"), column, count)
    # both axes under way at once
    parts = [data(RANK, 5000), data(RANK, 7000)]
    axes = ("tp", "dp")
    works = [
        dist.all_reduce(part, group=mesh.get_group(axis), async_op=True)
        for part, axis in zip(parts, axes, strict=True)
    ]
    for work in works:
        work.wait()
    for part, members, axis in zip(parts, (row, column), axes, strict=True):
        summed = torch.stack([data(rank, len(part)) for rank in members]).sum(dim=0)
        checks[f"both at once, {axis}"] = torch.equal(part, summed)
    dist.barrier()
    dist.destroy_process_group()
    found |= {"checks": checks, "log": messages.lines}
    (FOLDER / f"found-{RANK}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
