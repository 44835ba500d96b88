"""One rank of four: every collective of the backend treadle beside gloo's; writes what it found as JSON."""

import json
import logging
import os
import sys
import warnings
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import Tensor, nn
from torch.distributed import ReduceOp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

from treadle.torch import Options

# names that they have since 2.13
all_gather_single = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
reduce_scatter_single = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor

RANK, SIZE, FOLDER = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
TIMEOUT = timedelta(seconds=60)
COUNTS = (0, 7, 501)
LARGE = 20_011  # sent from where it lies, not from copies
Run = Callable[[Any, Tensor], list[Tensor]]


class Messages(logging.Handler):
    """Keeps what the backend logs."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.levelname}: {record.getMessage()}")


def data(count: int, dtype: torch.dtype, *, small: bool = False) -> Tensor:
    """Random values of this rank: small ones have products and sums that every type holds."""
    generator = torch.Generator().manual_seed(1000 * RANK + count)
    values = torch.randint(1 if small else -20, 4 if small else 21, (count,), generator=generator)
    return values.abs().to(dtype) if dtype is torch.uint8 else values.to(dtype)


def allreduce(group: Any, tensor: Tensor, operation: Any) -> list[Tensor]:
    dist.all_reduce(tensor, operation, group=group)
    return [tensor]


def reduce(group: Any, tensor: Tensor, operation: Any) -> list[Tensor]:
    dist.reduce(tensor, 1, operation, group=group)
    return [tensor] if RANK == 1 else []


def reduce_scatter(group: Any, tensor: Tensor, operation: Any) -> list[Tensor]:
    whole = torch.cat([tensor * (peer + 1) for peer in range(SIZE)])
    kept, part = whole.clone(), torch.empty_like(tensor)
    reduce_scatter_single(part, whole, operation, group=group)
    assert torch.equal(whole, kept), "the input has changed"
    listed = torch.empty_like(tensor)
    dist.reduce_scatter(
        listed, list(whole.chunk(SIZE)) if len(tensor) else [tensor] * SIZE, operation, group=group
    )
    return [part, listed]


def allgather(group: Any, tensor: Tensor) -> list[Tensor]:
    whole, listed = torch.empty(SIZE * len(tensor), dtype=tensor.dtype), [tensor.clone() for _ in range(SIZE)]
    all_gather_single(whole, tensor, group=group)
    dist.all_gather(listed, tensor, group=group)
    return [whole, *listed]


def alltoall(group: Any, tensor: Tensor) -> list[Tensor]:
    whole = torch.cat([tensor + peer for peer in range(SIZE)])
    result = torch.empty_like(whole)
    dist.all_to_all_single(result, whole, group=group)
    equal = torch.empty_like(whole)
    sizes = [len(tensor)] * SIZE
    dist.all_to_all_single(equal, whole, sizes, sizes, group=group)
    # rank 0 has equal parts and the others have not
    sent = [2 if 0 in (RANK, peer) else 2 + RANK for peer in range(SIZE)]
    got = [2 if 0 in (RANK, peer) else 2 + peer for peer in range(SIZE)]
    uneven = torch.empty(sum(got), dtype=tensor.dtype)
    dist.all_to_all_single(uneven, torch.full((sum(sent),), RANK).to(tensor.dtype), got, sent, group=group)
    return [result, equal, uneven]


def broadcast(group: Any, tensor: Tensor) -> list[Tensor]:
    dist.broadcast(tensor, 2, group=group)
    return [tensor]


def others(group: Any, tensor: Tensor) -> list[Tensor]:
    """What gloo does in either case."""
    gathered = [torch.empty_like(tensor) for _ in range(SIZE)] if RANK == 0 else None
    dist.gather(tensor, gathered, 0, group=group)
    part = torch.empty_like(tensor)
    dist.scatter(part, [tensor + peer for peer in range(SIZE)] if RANK == 3 else None, 3, group=group)
    dist.barrier(group=group)
    return [*(gathered or []), part]


def strided(group: Any, tensor: Tensor) -> list[Tensor]:
    """Tensors whose elements do not follow one another, which gloo gets as copies."""
    square = tensor.repeat(6).reshape(6, -1)
    for part in (square[:, ::2], square[:3].t(), square[::2]):
        given = part.contiguous() if dist.get_backend(group) == "gloo" else part
        dist.all_reduce(given, group=group)
        dist.broadcast(given, 1, group=group)
        part.copy_(given)
    return [square]


def coalesced(group: Any, tensor: Tensor) -> list[Tensor]:
    tensors = [tensor.clone(), tensor[:3].clone(), tensor * 2]
    with dist._coalescing_manager(group=group, async_ops=True) as all_reduces:
        for one in tensors:
            dist.all_reduce(one, group=group)
    all_reduces.wait()
    wholes = [torch.empty(SIZE * len(one), dtype=one.dtype) for one in tensors]
    with dist._coalescing_manager(group=group):
        for whole, one in zip(wholes, tensors, strict=True):
            all_gather_single(whole, one, group=group)
    parts = [torch.empty_like(one) for one in tensors]
    with dist._coalescing_manager(group=group):
        for whole, one in zip(wholes, parts, strict=True):
            reduce_scatter_single(one, whole, group=group)
    return [*tensors, *wholes, *parts]


def concurrent(group: Any, tensor: Tensor) -> list[Tensor]:
    """Many collectives under way at once, waited for from the last to the first."""
    tensors = [tensor + number for number in range(8)]
    works = [dist.all_reduce(one, group=group, async_op=True) for one in tensors]
    works[-1].get_future().wait()
    for work in reversed(works):
        work.wait()
    assert all(work.is_completed() for work in works)
    return tensors


def same(run: Run, dtype: torch.dtype, gloo: Any, *, small: bool = False) -> bool:
    """Whether both backends give the same bits for all counts."""
    counts = (*COUNTS, LARGE) if dtype is torch.int64 else COUNTS
    pairs = (
        zip(run(None, data(n, dtype, small=small)), run(gloo, data(n, dtype, small=small)), strict=True)
        for n in counts
    )
    return all(torch.equal(ours, theirs) for pair in pairs for ours, theirs in pair)


def check_collectives(found: dict[str, Any], gloo: Any) -> None:
    operations = {"sum": ReduceOp.SUM, "max": ReduceOp.MAX, "min": ReduceOp.MIN, "product": ReduceOp.PRODUCT}
    bits = {"band": ReduceOp.BAND, "bor": ReduceOp.BOR, "bxor": ReduceOp.BXOR}
    for function in (allreduce, reduce, reduce_scatter):
        cases = [(torch.int32, operations | bits)]
        cases += [(torch.float32, operations)] if function is allreduce else []
        cases += [(dtype, {"sum": ReduceOp.SUM}) for dtype in (torch.uint8, torch.int64, torch.float64)]
        for dtype, chosen in cases:
            for name, operation in chosen.items():
                run: Run = lambda group, tensor, f=function, o=operation: f(group, tensor, o)  # noqa: E731
                found[f"{function.__name__} {name} {dtype}"] = same(run, dtype, gloo, small=True)
    for dtype in (torch.float16, torch.bfloat16):
        # sums of these are exact whatever the order
        found[f"allreduce sum {dtype}"] = same(
            lambda g, t: allreduce(g, t, ReduceOp.SUM), dtype, gloo, small=True
        )
    for function in (allgather, alltoall, broadcast, strided, coalesced, concurrent, others):
        for dtype in (torch.int64, torch.float32):
            found[f"{function.__name__} {dtype}"] = same(function, dtype, gloo)
    for dtype in (torch.bfloat16, torch.bool):
        found[f"allgather {dtype}"] = same(lambda g, t, d=dtype: allgather(g, t.to(d)), torch.int64, gloo)


def check_averages_and_rounding(found: dict[str, Any], gloo: Any) -> None:
    values = torch.randn(10_007, generator=torch.Generator().manual_seed(RANK))
    ours, theirs = values.clone(), values.clone()
    dist.all_reduce(ours)
    dist.all_reduce(theirs, group=gloo)
    found["rounding of sums"] = torch.allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    everyone = [torch.empty_like(ours) for _ in range(SIZE)]
    dist.all_gather(everyone, ours, group=gloo)
    found["all ranks have the same bits"] = all(torch.equal(ours, other) for other in everyone)
    mean = values.clone()
    dist.all_reduce(mean, ReduceOp.AVG)
    found["average"] = torch.allclose(mean, theirs / SIZE, rtol=1e-5, atol=1e-6)
    floor = torch.tensor([-RANK, RANK])
    dist.all_reduce(floor, ReduceOp.AVG)
    found["average of integers"] = floor.tolist() == [-2, 1]


def check_functional_and_objects(found: dict[str, Any], gloo: Any) -> None:
    results = []
    for group in (dist.group.WORLD, gloo):
        tensor = torch.arange(8.0) + 10 * RANK
        listed: list[Any] = [None] * SIZE
        dist.all_gather_object(listed, {"rank": RANK}, group=group)
        shared = [RANK, "text"] if RANK == 1 else [None, None]
        dist.broadcast_object_list(shared, 1, group=group)
        tensors = [
            functional.all_reduce(tensor, "sum", group),
            functional.all_gather_tensor(tensor, 0, group),
            functional.reduce_scatter_tensor(tensor, "sum", 0, group),
            functional.all_to_all_single(tensor, None, None, group),
            functional.broadcast(tensor, 2, group),
        ]
        results.append(([one.tolist() for one in tensors], listed, shared))
    found["functional collectives and objects"] = results[0] == results[1]
    tensor = torch.arange(4)
    if RANK < 2:
        peer = 1 - RANK
        sent, got = dist.isend(tensor * RANK, peer, tag=5), torch.empty_like(tensor)
        dist.recv(got, peer, tag=5)
        sent.wait()
        found["point to point"] = torch.equal(got, tensor * peer)


def check_groups(found: dict[str, Any], handler: Messages) -> None:
    """Groups of some ranks, on a fabric where they are no neighbours, and one with plans from a directory."""
    pair = dist.new_group([1, 3], backend="treadle", pg_options=Options(fabric="ring:4"))
    if RANK in (1, 3):
        tensor = torch.full((1000,), float(RANK))
        dist.all_reduce(tensor, group=pair)
        found["two of four"] = bool((tensor == 4).all())
    planned = dist.new_group(
        backend="treadle",
        pg_options=Options(fabric="ring:4", plans=FOLDER / "plans", algorithm="alltoall=ring"),
    )
    tensor = torch.ones(1000)
    dist.all_reduce(tensor, group=planned)
    large = torch.ones(100_000)
    dist.all_reduce(large, group=planned)
    parts = torch.arange(8.0) + 8 * RANK
    whole = torch.empty_like(parts)
    for _ in range(2):
        dist.all_to_all_single(whole, parts, group=planned)
    found["plans of a directory"] = bool((tensor == 4).all() and (large == 4).all())
    found["no plan"] = whole.tolist() == [
        8.0 * peer + 2 * RANK + place for peer in range(4) for place in (0, 1)
    ]
    found["log"] = list(handler.lines)


def model() -> nn.Module:
    torch.manual_seed(7)
    return nn.Sequential(nn.Linear(33, 51), nn.ReLU(), nn.Linear(51, 50), nn.ReLU(), nn.Linear(50, 7))


def train(module: nn.Module, steps: int = 5) -> list[float]:
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    generator = torch.Generator().manual_seed(RANK)
    losses = []
    for _ in range(steps):
        inputs, targets = (torch.randn(16, width, generator=generator) for width in (33, 7))
        optimizer.zero_grad()
        loss = ((module(inputs) - targets) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    return losses


def train_everything() -> dict[str, list[float]]:
    """Losses over the world as it is; the numbers of a DTensor besides."""
    wide, grid = (
        init_device_mesh("cpu", (SIZE,)),
        init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "shard")),
    )
    sharded, hybrid = model(), model()
    for layer in sharded:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=wide)
    fully_shard(sharded, mesh=wide)
    fully_shard(hybrid, mesh=grid)
    rows = distribute_tensor(torch.arange(64.0).reshape(8, 8), grid["shard"], [Shard(0)])
    columns = rows.redistribute(placements=[Shard(1)])
    product = rows @ columns.redistribute(placements=[Replicate()])
    return {
        "DDP": train(DistributedDataParallel(model(), bucket_cap_mb=0.01)),
        "FSDP2": train(sharded),
        "FSDP2 on a mesh of 2 x 2": train(hybrid),
        "DTensor": product.full_tensor().flatten().tolist() + columns.to_local().flatten().tolist(),
    }


def start(backend: str, **options: Any) -> None:
    number = sum(1 for _ in FOLDER.glob(f"{backend}-*-{RANK}"))
    (FOLDER / f"{backend}-{number}-{RANK}").touch()
    method = f"file://{FOLDER / backend}-{number}"
    dist.init_process_group(
        backend, init_method=method, rank=RANK, world_size=SIZE, timeout=TIMEOUT, **options
    )


def main() -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", FutureWarning)
    handler = Messages()
    logging.getLogger("treadle.torch").addHandler(handler)
    logging.getLogger("treadle.torch").setLevel(logging.INFO)
    found: dict[str, Any] = {}
    losses = []
    for backend in ("treadle", "gloo"):
        start(backend)
        losses.append(train_everything())
        dist.destroy_process_group()
    for name, values in losses[0].items():
        found[f"losses {name}"] = max(abs(a - b) for a, b in zip(values, losses[1][name], strict=True))
    handler.lines.clear()
    # small slices, so that pipelining and the ring of spare memory are used
    start("treadle", pg_options=Options(slice_bytes=2**12))
    gloo = dist.new_group(backend="gloo")
    check_collectives(found, gloo)
    check_averages_and_rounding(found, gloo)
    check_functional_and_objects(found, gloo)
    check_groups(found, handler)
    found["backend"] = dist.get_backend()
    dist.destroy_process_group()
    (FOLDER / f"found-{RANK}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    assert os.environ["GLOO_SOCKET_IFNAME"] == "lo"
    main()
