"""Torch's collectives on tensors of any shape as calls of the engine on flat ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Protocol

import torch
from torch import Tensor
from torch._C._distributed_c10d import Work
from torch.distributed import ReduceOp

from treadle.schedules.collective import CollectiveKind
from treadle.torch.gpu import gpu_streams as streams
from treadle.torch.group_engine import TensorCall
from treadle.torch.reductions import TensorReduction, reduction_of

Fallback = Callable[[Any], Work]
"""Starts the own collective of a group of gloo or NCCL."""


class RunsCalls(Protocol):
    """What runs a collective on flat tensors: `Engine`, or `GpuCalls` for those of GPUs."""

    def run(self, call: TensorCall) -> None:
        """See `Engine.run`."""


def are_plain(*tensors: Tensor) -> bool:
    """Whether all tensors are dense, and all in this process's own memory or all on one GPU."""
    places = {tensor.device for tensor in tensors}
    return len(places) <= 1 and all(
        tensor.layout is torch.strided and (tensor.device.type == "cpu" or streams.is_on_gpu(tensor))
        for tensor in tensors
    )


def are_equal_sizes(*tensors: Tensor) -> bool:
    """Whether all tensors have as many elements, of one type."""
    return len({(tensor.numel(), tensor.dtype) for tensor in tensors}) <= 1


def allreduce(engine: RunsCalls, tensor: Tensor, how: TensorReduction, timeout: timedelta | None) -> None:
    """Combine the tensors of all ranks, in place."""
    _in_place(engine, CollectiveKind.ALLREDUCE, tensor, reduction=how, timeout=timeout)


def broadcast(engine: RunsCalls, tensor: Tensor, root: int, timeout: timedelta | None) -> None:
    """Put the root's tensor into all others."""
    _in_place(engine, CollectiveKind.BROADCAST, tensor, root=root, timeout=timeout)


def _in_place(engine: RunsCalls, kind: CollectiveKind, tensor: Tensor, **options: Any) -> None:
    flat = _flat(tensor)
    engine.run(TensorCall(kind, flat.numel(), flat, flat, True, **options))
    _put_back(flat, tensor)


def allgather(engine: RunsCalls, output: Tensor, own: Tensor, rank: int, timeout: timedelta | None) -> None:
    """Put the tensors of all ranks into `output`, one after another; `own` may lie in it already."""
    flat = _flat(output)
    shard = flat[rank * own.numel() : (rank + 1) * own.numel()]
    if shard.data_ptr() != own.data_ptr():
        shard.copy_(own.reshape(-1))
    engine.run(TensorCall(CollectiveKind.ALLGATHER, flat.numel(), shard, flat, True, timeout=timeout))
    _put_back(flat, output)


def allgather_list(
    engine: RunsCalls, outputs: Sequence[Tensor], own: Tensor, rank: int, timeout: timedelta | None
) -> None:
    """Put the tensor of each rank into its tensor of `outputs`."""
    whole = own.new_empty(len(outputs) * own.numel())
    allgather(engine, whole, own, rank, timeout)
    _spread(whole, outputs)


def reduce_scatter(
    engine: RunsCalls, output: Tensor, whole: Tensor, how: TensorReduction, timeout: timedelta | None
) -> None:
    """Leave this rank's part of the combined tensors in `output`; `whole` stays as it is."""
    _between(engine, CollectiveKind.REDUCE_SCATTER, output, whole, reduction=how, timeout=timeout)


def alltoall(engine: RunsCalls, output: Tensor, whole: Tensor, timeout: timedelta | None) -> None:
    """Exchange equal parts: part v goes to rank v, part u of the result comes from rank u."""
    _between(engine, CollectiveKind.ALLTOALL, output, whole, timeout=timeout)


def _between(engine: RunsCalls, kind: CollectiveKind, output: Tensor, whole: Tensor, **options: Any) -> None:
    source, target = _flat(whole), _flat(output)
    if _overlap(source, target):
        target = torch.empty_like(target)
    engine.run(TensorCall(kind, source.numel(), source, target, False, **options))
    _put_back(target, output)


def alltoall_list(
    engine: RunsCalls, outputs: Sequence[Tensor], inputs: Sequence[Tensor], timeout: timedelta | None
) -> None:
    """Send `inputs` [v] to rank v and receive `outputs` [u] from rank u, all of one size."""
    target = outputs[0].new_empty(sum(tensor.numel() for tensor in outputs))
    alltoall(engine, target, joined(inputs), timeout)
    _spread(target, outputs)


def reduce(
    engine: RunsCalls, tensor: Tensor, root: int, rank: int, how: TensorReduction, timeout: timedelta | None
) -> None:
    """Leave the combined tensors in the root's; those of the other ranks stay as they are."""
    flat = _flat(tensor)
    result = torch.empty_like(flat) if rank == root else flat
    kind = CollectiveKind.REDUCE
    engine.run(TensorCall(kind, flat.numel(), flat, result, False, root=root, reduction=how, timeout=timeout))
    if rank == root:
        tensor.copy_(result.view_as(tensor))


def joined(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors one after another, flat."""
    return torch.cat([tensor.reshape(-1) for tensor in tensors])


def _flat(tensor: Tensor) -> Tensor:
    """A view of one dimension where that is possible, else a copy."""
    return tensor.detach().reshape(-1)


def _put_back(flat: Tensor, tensor: Tensor) -> None:
    """Copy what `_flat` made, unless it was a view."""
    if flat.data_ptr() != tensor.data_ptr() or not tensor.is_contiguous():
        tensor.detach().copy_(flat.view(tensor.shape))


def _spread(flat: Tensor, tensors: Sequence[Tensor]) -> None:
    for tensor, part in zip(tensors, flat.split([one.numel() for one in tensors]), strict=True):
        tensor.detach().copy_(part.view(tensor.shape))


def _overlap(one: Tensor, other: Tensor) -> bool:
    (start, end), (low, high) = (
        (int(tensor.data_ptr()), int(tensor.data_ptr() + tensor.numel() * tensor.element_size()))
        for tensor in (one, other)
    )
    return start < high and low < end


def reductions_of(operation: ReduceOp, tensors: Sequence[Tensor]) -> list[TensorReduction]:
    """How to combine each tensor; nothing if one cannot be served."""
    found = [reduction_of(operation, tensor.dtype) for tensor in tensors]
    return [how for how in found if how is not None] if are_plain(*tensors) and None not in found else []


def as_list(tensors: Any) -> list[Tensor]:
    """One tensor, or several, as a list."""
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def call_options(default: Any, key: str, given: Any, timeout: timedelta | None = None) -> Any:
    """Torch's options: those that were given, or the default with the value of `key` in their place."""
    if isinstance(given, type(default)):
        return given
    if given is not None and key:
        setattr(default, key, given)
    if timeout is not None:
        default.timeout = timeout
    return default


def own_timeout(options: Any) -> timedelta | None:
    """The timeout of one call, where there is one of its own."""
    value: timedelta = options.timeout
    return value if value > timedelta(0) else None


def one_by_one(start: Callable[[Tensor, Tensor], Work], pairs: Sequence[tuple[Tensor, Tensor]]) -> Work:
    """Start a collective for each pair of tensors; wait for all but the last."""
    works = [start(*pair) for pair in pairs]
    for work in works[:-1]:
        work.wait()
    return works[-1]
