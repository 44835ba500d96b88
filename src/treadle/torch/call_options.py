"""What torch gives a call of a process group: tensors, options objects or single values in their place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from torch import Tensor
from torch._C._distributed_c10d import Work
from torch.distributed import ReduceOp

from treadle.torch.collectives import are_plain
from treadle.torch.reductions import TensorReduction, reduction_of

Fallback = Callable[[], Work]
"""Starts the own collective of gloo or NCCL."""


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


def one_by_one(
    start: Callable[[Tensor, Tensor], Work], outputs: Sequence[Tensor], inputs: Sequence[Tensor]
) -> Fallback:
    """Starts a collective for each pair of tensors, each after the one before."""

    def fallback() -> Work:
        works = [start(output, own) for output, own in zip(outputs, inputs, strict=True)]
        for work in works[:-1]:
            work.wait()
        return works[-1]

    return fallback
