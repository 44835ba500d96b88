"""Torch's collectives on tensors of any shape as calls of the engine on flat ones."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol

import torch
from torch import Tensor

from treadle.schedules.collective import CollectiveKind
from treadle.torch.gpu import gpu_streams as streams
from treadle.torch.group_engine import TensorCall
from treadle.torch.reductions import TensorReduction


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


def are_alike(*tensors: Tensor) -> bool:
    """Whether all tensors have as many elements, of one type."""
    return len({(tensor.numel(), tensor.dtype) for tensor in tensors}) <= 1


def allreduce(engine: RunsCalls, tensor: Tensor, how: TensorReduction, timeout: timedelta | None) -> None:
    """Combine the tensors of all ranks, in place."""
    flat = _flat(tensor)
    call = TensorCall(
        CollectiveKind.ALLREDUCE, flat.numel(), flat, flat, True, reduction=how, timeout=timeout
    )
    engine.run(call)
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
    whole = torch.empty(len(outputs) * own.numel(), dtype=own.dtype, device=own.device)
    allgather(engine, whole, own, rank, timeout)
    _spread(whole, outputs)


def reduce_scatter(
    engine: RunsCalls, output: Tensor, whole: Tensor, how: TensorReduction, timeout: timedelta | None
) -> None:
    """Leave this rank's part of the combined tensors in `output`; `whole` stays as it is."""
    source, target = _flat(whole), _flat(output)
    if _overlap(source, target):
        target = torch.empty_like(target)
    kind = CollectiveKind.REDUCE_SCATTER
    engine.run(TensorCall(kind, source.numel(), source, target, False, reduction=how, timeout=timeout))
    _put_back(target, output)


def alltoall(engine: RunsCalls, output: Tensor, whole: Tensor, timeout: timedelta | None) -> None:
    """Exchange equal parts: part v goes to rank v, part u of the result comes from rank u."""
    source, target = _flat(whole), _flat(output)
    engine.run(TensorCall(CollectiveKind.ALLTOALL, source.numel(), source, target, False, timeout=timeout))
    _put_back(target, output)


def alltoall_list(
    engine: RunsCalls, outputs: Sequence[Tensor], inputs: Sequence[Tensor], timeout: timedelta | None
) -> None:
    """Send `inputs` [v] to rank v and receive `outputs` [u] from rank u, all of one size."""
    first = outputs[0]
    target = torch.empty(sum(tensor.numel() for tensor in outputs), dtype=first.dtype, device=first.device)
    alltoall(engine, target, joined(inputs), timeout)
    _spread(target, outputs)


def broadcast(engine: RunsCalls, tensor: Tensor, root: int, timeout: timedelta | None) -> None:
    """Put the root's tensor into all others."""
    flat = _flat(tensor)
    engine.run(
        TensorCall(CollectiveKind.BROADCAST, flat.numel(), flat, flat, True, root=root, timeout=timeout)
    )
    _put_back(flat, tensor)


def reduce(
    engine: RunsCalls,
    tensor: Tensor,
    root: int,
    how: TensorReduction,
    timeout: timedelta | None,
    *,
    is_root: bool,
) -> None:
    """Leave the combined tensors in the root's; the others stay as they are."""
    flat = _flat(tensor)
    result = torch.empty_like(flat) if is_root else flat
    kind = CollectiveKind.REDUCE
    engine.run(TensorCall(kind, flat.numel(), flat, result, False, root=root, reduction=how, timeout=timeout))
    if is_root:
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
