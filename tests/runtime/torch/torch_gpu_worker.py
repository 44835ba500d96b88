"""One rank of four whose tensors in host memory stand for a GPU's, on a CUDA runtime of threads."""

import ctypes
import json
import logging
import os
import sys
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import ReduceOp

from treadle.runtime.device.block_program import DeviceProtocol
from treadle.torch import Options
from treadle.torch.gpu import gpu_streams as streams
from treadle.torch.gpu import opening
from treadle.torch.gpu.gpu_calls import run_steps
from treadle.torch.gpu.gpu_settings import GpuMemory, GpuMethod, GpuSettings

RANK, SIZE, FOLDER = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
FAKE = ctypes.CDLL(os.environ["TREADLE_GPU_LIBRARY"])
LINES: list[str] = []
TYPES = (torch.float32, torch.bfloat16, torch.int64, torch.float64)


class Messages(logging.Handler):
    """Keeps what the backend logs."""

    def emit(self, record: logging.LogRecord) -> None:
        LINES.append(f"{record.levelname}: {record.getMessage()}")


def stand_in() -> None:
    """Take every tensor for a GPU's."""
    capturing = [False]
    streams.is_on_gpu = lambda _: True
    streams.device_of = lambda _: 0
    streams.stream_of = lambda _: 0
    streams.is_capturing = lambda: capturing[0]
    streams.tensor_at = lambda address, size, _: torch.frombuffer(
        (ctypes.c_char * size).from_address(address), dtype=torch.uint8
    )
    globals()["CAPTURING"] = capturing


def data(count: int, dtype: torch.dtype) -> Tensor:
    generator = torch.Generator().manual_seed(1000 * RANK + count)
    return torch.randint(-9, 10, (count,), generator=generator).to(dtype)


def both(ours: Any, gloo: Any, run: Callable[[Any], list[Tensor]]) -> bool:
    return all(torch.equal(one, other) for one, other in zip(run(ours), run(gloo), strict=True))


def collectives(
    ours: Any, gloo: Any, types: tuple[torch.dtype, ...] = TYPES, counts: tuple[int, ...] = (4, 1001, 40_000)
) -> dict[str, bool]:
    found = {}
    for dtype in types:
        for count in counts:
            name = f"{dtype} {count}"

            def all_reduce(
                group: Any, op: Any = ReduceOp.SUM, n: int = count, kind: Any = dtype
            ) -> list[Tensor]:
                tensor = data(n, kind)
                dist.all_reduce(tensor, op, group=group)
                return [tensor]

            def all_gather(group: Any, n: int = count, kind: Any = dtype) -> list[Tensor]:
                outputs = [torch.empty(n, dtype=kind) for _ in range(SIZE)]
                dist.all_gather(outputs, data(n, kind), group=group)
                return outputs

            def scatter(group: Any, n: int = count, kind: Any = dtype) -> list[Tensor]:
                output = torch.empty(n, dtype=kind)
                dist.reduce_scatter_tensor(output, data(SIZE * n, kind), ReduceOp.MAX, group=group)
                return [output]

            def broadcast(group: Any, n: int = count, kind: Any = dtype) -> list[Tensor]:
                tensor = data(n, kind)
                dist.broadcast(tensor, 2, group=group, async_op=True).wait()
                return [tensor]

            def exchange(group: Any, n: int = count, kind: Any = dtype) -> list[Tensor]:
                output = torch.empty(SIZE * n, dtype=kind)
                work = dist.all_to_all_single(output, data(SIZE * n, kind), group=group, async_op=True)
                return list(work.get_future().wait()) if group is ours else [work.wait() and output]

            for run in (all_reduce, all_gather, scatter, broadcast, exchange):
                found[f"{run.__name__} {name}"] = both(ours, gloo, run)
    return found


def averages(ours: Any) -> dict[str, bool]:
    """Averages whose sums are beyond the type: 30000 of float16, 2^127 of bfloat16."""
    found = {}
    for dtype, value in ((torch.float16, 30000.0), (torch.bfloat16, 2.0**127)):
        tensor, part = torch.full((33,), value, dtype=dtype), torch.empty(9, dtype=dtype)
        whole = torch.full((9 * SIZE,), value, dtype=dtype)
        dist.all_reduce(tensor, ReduceOp.AVG, group=ours)
        dist.reduce_scatter_tensor(part, whole, ReduceOp.AVG, group=ours)
        found[f"averages {dtype}"] = bool(torch.cat([tensor, part, whole]).eq(value).all())
    return found


def on_peers_memory(ours: Any, gloo: Any, types: Sequence[tuple[torch.dtype, int]]) -> dict[str, bool]:
    """Collectives on tensors that peers reach, and on parts of them; others between."""
    found: dict[str, bool] = {}
    for dtype, count in types:
        found |= placed(ours, gloo, dtype, count)
    return found


def placed(ours: Any, gloo: Any, dtype: torch.dtype, count: int) -> dict[str, bool]:
    found: dict[str, bool] = {}
    whole = ours._gpu.empty(2 * SIZE * count * dtype.itemsize, RANK).view(dtype)
    name = f"{dtype} {count}"

    def all_reduce(group: Any) -> list[Tensor]:
        tensor = whole[3 : 3 + count] if group is ours else torch.empty(count, dtype=dtype)
        tensor.copy_(data(count, dtype))
        dist.all_reduce(tensor, group=group)
        return [tensor.clone()]

    def all_gather(group: Any) -> list[Tensor]:
        output = whole[: SIZE * count] if group is ours else torch.empty(SIZE * count, dtype=dtype)
        dist.all_gather_single(output, data(count, dtype), group=group)
        return [output.clone()]

    def scatter(group: Any, op: Any = ReduceOp.SUM) -> list[Tensor]:
        given, output = torch.empty(SIZE * count, dtype=dtype), torch.empty(count, dtype=dtype)
        if group is ours:
            given, output = whole[: SIZE * count], whole[SIZE * count : (SIZE + 1) * count]
        given.copy_(data(SIZE * count, dtype))
        dist.reduce_scatter_tensor(output, given, op, group=group)
        return [output.clone(), given.clone()]

    def exchange(group: Any) -> list[Tensor]:
        given, output = torch.empty(SIZE * count, dtype=dtype), torch.empty(SIZE * count, dtype=dtype)
        if group is ours:
            given, output = whole[: SIZE * count], whole[SIZE * count :]
        given.copy_(data(SIZE * count, dtype))
        dist.all_to_all_single(output, given, group=group)
        return [output.clone()]

    def broadcast(group: Any) -> list[Tensor]:
        tensor = whole[:count] if group is ours else torch.empty(count, dtype=dtype)
        tensor.copy_(data(count, dtype))
        dist.broadcast(tensor, 2, group=group)
        return [tensor.clone()]

    def reduce(group: Any) -> list[Tensor]:
        tensor = whole[:count] if group is ours else torch.empty(count, dtype=dtype)
        tensor.copy_(data(count, dtype))
        dist.reduce(tensor, 1, group=group)
        return [tensor.clone()] if RANK == 1 else []

    for run in (all_reduce, all_gather, scatter, exchange, broadcast, reduce):
        found[f"{run.__name__} {name}"] = both(ours, gloo, run)
        found[f"{run.__name__} again {name}"] = both(ours, gloo, run)
    return found


def replayed(ours: Any, turns: int = 100) -> bool:
    """A captured allreduce, replayed some times, with a call of its own between."""
    tensor, well = torch.zeros(5000), True
    CAPTURING[0] = True  # noqa: F821
    FAKE.fake_cuda_capture()
    dist.all_reduce(tensor, group=ours)
    dist.all_reduce(tensor[:16], group=ours)
    FAKE.fake_cuda_end_capture()
    CAPTURING[0] = False  # noqa: F821
    for turn in range(turns):
        tensor.fill_(float(RANK + turn))
        assert FAKE.fake_cuda_replay() == 0
        expected = 6.0 + 4 * turn
        well &= bool((tensor[16:] == expected).all()) and bool((tensor[:16] == 4 * expected).all())
        if turn == turns // 2:
            dist.all_reduce(tensor, group=ours)
            well &= bool((tensor[16:] == 4 * expected).all())
    return well


def failure(call: Callable[[], object]) -> str:
    try:
        call()
    except RuntimeError as error:
        return f"{type(error).__name__}: {error}"
    return ""


def start(
    name: str,
    settings: GpuSettings,
    timeout_s: float = 60,
    fabric: str = "ring:4",
    algorithm: str | None = None,
) -> tuple[Any, Any]:
    dist.init_process_group(
        "treadle",
        init_method=f"file://{FOLDER / name}",
        rank=RANK,
        world_size=SIZE,
        timeout=timedelta(seconds=timeout_s),
        pg_options=Options(fabric=fabric, algorithm=algorithm, gpu=settings),
    )
    LINES.clear()
    return dist.group.WORLD, dist.new_group(backend="gloo")


def main() -> None:
    torch.set_num_threads(1)
    logger = logging.getLogger("treadle.torch")
    logger.addHandler(Messages())
    logger.setLevel(logging.INFO)
    stand_in()
    found: dict[str, Any] = {}

    ours, gloo = start("lanes", GpuSettings(lanes=2, threads=1))
    CAPTURING[0] = True  # noqa: F821
    found["first in a graph"] = failure(lambda: dist.all_reduce(torch.ones(4), group=ours))
    CAPTURING[0] = False  # noqa: F821
    found["lanes"] = collectives(ours, gloo) | averages(ours)
    found["lanes"]["large"] = both(ours, gloo, lambda group: _sum(group, 2**20 + 3))
    found["lanes"]["replayed"] = replayed(ours)
    found["lanes log"] = list(LINES)
    dist.destroy_process_group()
    found["live"] = int(FAKE.fake_cuda_live())

    nvls = ",".join(f"{kind}=nvls" for kind in ("allreduce", "allgather", "reduce-scatter"))
    asks = GpuSettings(memory=GpuMemory.CUMEM, threads=1, protocol=DeviceProtocol.SIMPLE, window_bytes=2**17)
    few, placing = (TYPES[:2], (4, 40_000)), [(torch.float32, 1003), (torch.bfloat16, 40_000)]
    for name, devices in (("switches", "4"), ("no switches", "1")):
        os.environ["FAKE_CUDA_DEVICES"] = devices
        streams.device_of = lambda _, devices=devices: RANK % int(devices)
        ours, gloo = start(name, asks, fabric="dgx_h100(1, 4, nvls=True)", algorithm=nvls)
        found[name] = collectives(ours, gloo, *few) | averages(ours)
        found[name]["replayed"] = replayed(ours, 10)
        found[f"{name} log"] = list(LINES)
        LINES.clear()
        found[name] |= on_peers_memory(ours, gloo, placing)
        found[f"{name}, placed, log"] = list(LINES)
        dist.destroy_process_group()
        found["live"] += int(FAKE.fake_cuda_live())
        few, placing = (TYPES[:1], (4,)), placing[:1]
    streams.device_of = lambda _: 0

    opening.host_name = lambda: f"host {RANK // 2}"
    ours, gloo = start("steps", GpuSettings())
    ours._gpu._run_steps = partial(run_steps, ours._gloo)
    found["steps"] = collectives(ours, gloo) | averages(ours)
    found["steps log"] = list(LINES)
    dist.destroy_process_group()

    os.environ["FAKE_CUDA_BLOCKS"] = "0"
    opening.host_name = lambda: "host"
    ours, gloo = start("refused", GpuSettings())
    found["refused"] = {"allreduce": both(ours, gloo, _sum)}
    found["refused log"] = list(LINES)
    dist.destroy_process_group()
    ours, gloo = start("asked", GpuSettings(way=GpuMethod.LANES))
    found["asked"] = failure(lambda: dist.all_reduce(torch.ones(4), group=ours))
    dist.destroy_process_group()
    del os.environ["FAKE_CUDA_BLOCKS"]

    ours, gloo = start("unlike", GpuSettings(lanes=1 + RANK % 2))
    found["unlike"] = {"allreduce": both(ours, gloo, _sum)}
    found["unlike log"] = list(LINES)
    dist.destroy_process_group()

    ours, gloo = start("elsewhere", GpuSettings(threads=1, protocol=DeviceProtocol.SIMPLE), 5)
    tensor = ours._gpu.empty(4096, 0).view(torch.float32)
    tensor.fill_(7)
    dist.barrier(group=gloo)
    found["elsewhere"] = failure(lambda: dist.all_reduce(tensor[RANK // 3 * 4 :][:512], group=ours))
    dist.barrier(group=gloo)
    found["untouched"] = bool((tensor[516:] == 7).all()) and bool(
        (tensor[:4] if RANK == 3 else tensor[512:516]).eq(7).all()  # where peers would have put it
    )
    dist.destroy_process_group()

    ours, gloo = start("late", GpuSettings(threads=1), 2)
    dist.all_reduce(torch.ones(4), group=ours)
    if RANK != 3:
        work = dist.all_reduce(torch.ones(4), group=ours, async_op=True)
        found["late"] = failure(work.wait)
        found["after"] = failure(lambda: dist.all_reduce(torch.ones(4), group=ours))
    dist.barrier(group=gloo)
    dist.destroy_process_group()
    (FOLDER / f"found-{RANK}.json").write_text(json.dumps(found))


def _sum(group: Any, count: int = 33) -> list[Tensor]:
    tensor = data(count, torch.float64).to(torch.float32)
    dist.all_reduce(tensor, group=group)
    return [tensor]


if __name__ == "__main__":
    main()
