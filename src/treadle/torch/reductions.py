"""Torch's reduce operations as combinations of two tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.distributed import ReduceOp

from treadle.runtime.data import Reduction
from treadle.torch.transport import Combine


@dataclass(frozen=True)
class TensorReduction:
    """How two contributions are combined, and what is done to the result.

    Parameters
    ----------
    combine : callable
        combine(own, arrived, target); associative and commutative but for rounding.
    is_average : bool
        The sum is divided by the number of ranks at the end.
    kernel : Reduction, optional
        As kernels on GPUs know it; None: they do not.
    """

    combine: Combine
    is_average: bool = False
    kernel: Reduction | None = None

    def finish(self, result: Tensor, n_ranks: int) -> None:
        """Turn sums into averages: integers towards minus infinity."""
        if self.is_average:
            torch.div(
                result, n_ranks, rounding_mode=None if result.is_floating_point() else "floor", out=result
            )


_TYPES = (
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
)


def _into(function: Callable[..., Tensor]) -> Combine:
    def combine(own: Tensor, arrived: Tensor, target: Tensor) -> None:
        function(own, arrived, out=target)

    return combine


def reduction_of(operation: ReduceOp, dtype: torch.dtype) -> TensorReduction | None:
    """The reduction that torch's operation asks for, or None where Treadle has none for the type.

    Bits are combined in integers only; logical values, floats of 8 bits and scaled sums are left to gloo.
    """
    if dtype not in _TYPES:
        return None
    functions = {
        ReduceOp.SUM: torch.add,
        ReduceOp.AVG: torch.add,
        ReduceOp.MAX: torch.maximum,
        ReduceOp.MIN: torch.minimum,
        ReduceOp.PRODUCT: torch.mul,
    }
    if not dtype.is_floating_point:
        functions |= {
            ReduceOp.BAND: torch.bitwise_and,
            ReduceOp.BOR: torch.bitwise_or,
            ReduceOp.BXOR: torch.bitwise_xor,
        }
    for known, function in functions.items():
        if operation == known:
            return TensorReduction(
                _into(function), is_average=known == ReduceOp.AVG, kernel=_kernel_of(operation)
            )
    return None


def _kernel_of(operation: ReduceOp) -> Reduction | None:
    kernels = {
        ReduceOp.SUM: Reduction.SUM,
        ReduceOp.AVG: Reduction.AVG,
        ReduceOp.MAX: Reduction.MAX,
        ReduceOp.MIN: Reduction.MIN,
    }
    return next((kernel for known, kernel in kernels.items() if operation == known), None)
