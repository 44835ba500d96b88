"""One rank of four, of three, of two, of which one is killed, falls silent, is killed in training."""

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from treadle.torch import Options
from treadle.torch.transport import Transport

RANK, FOLDER = int(sys.argv[1]), Path(sys.argv[3])


def start(size: int, timeout_s: float) -> None:
    dist.init_process_group(
        "treadle",
        init_method=f"file://{FOLDER / str(size)}",
        rank=RANK,
        world_size=size,
        timeout=timedelta(seconds=timeout_s),
        pg_options=Options(slice_bytes=2**20),
    )


def die_after(sums: int) -> None:
    """Kill this process when it has added up so many messages from now on."""
    original, left = Transport.run, [sums]

    def run(self: Transport, script: Any, areas: Any, combine: Any, *rest: Any) -> None:
        def deadly(*arguments: Any) -> None:
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            combine(*arguments)

        original(self, script, areas, deadly, *rest)

    Transport.run = run


def failure(call: Callable[[], object]) -> dict[str, Any]:
    """What a call fails with, and after how many seconds."""
    start = time.monotonic()
    try:
        call()
    except RuntimeError as error:
        return {"type": type(error).__name__, "text": str(error), "seconds": time.monotonic() - start}
    return {"type": "", "text": "", "seconds": time.monotonic() - start}


def waiting(tensor: torch.Tensor) -> Callable[[], object]:
    return lambda: dist.all_reduce(tensor, async_op=True).get_future().wait()


def step(module: nn.Module) -> None:
    module(torch.ones(4, 50)).sum().backward()


def main() -> None:
    torch.set_num_threads(1)
    found: dict[str, Any] = {}
    tensor = torch.ones(4 * 2**20)
    start(4, 60)
    dist.all_reduce(tensor[:1000])
    if RANK == 3:
        die_after(4)
    found["killed"] = failure(lambda: dist.all_reduce(tensor))
    found["after"] = failure(lambda: dist.all_reduce(tensor))
    found["after, in a future"] = failure(waiting(tensor))
    dist.destroy_process_group()
    # those that are left start again
    start(3, 4)
    whole = torch.ones(1000)
    dist.all_reduce(whole)
    found["again"] = bool((whole == 3).all())
    if RANK == 2:
        time.sleep(6)
    else:
        found["silent"] = failure(waiting(tensor))
    dist.destroy_process_group()
    if RANK < 2:
        start(2, 60)
        module = DistributedDataParallel(nn.Linear(50, 50))
        step(module)
        if RANK == 1:
            die_after(0)
        found["killed in training"] = failure(lambda: step(module))
        dist.destroy_process_group()
    (FOLDER / f"found-{RANK}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
