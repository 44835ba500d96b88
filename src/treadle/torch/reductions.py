"""Torch's reduce operations as combinations of two tensors."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.distributed import ReduceOp

from treadle.runtime.data import Reduction
from treadle.torch.transport import Combine


@dataclass(frozen=True)
class TensorReduction:
    """Combination of two contributions, and scaling of the result.

    Parameters
    ----------
    name : str
        Torch's name of the operation.
    combine : callable
        combine(own, arrived, target); associative and commutative but for rounding.
    is_average : bool
        The sum is divided by the number of ranks at the end.
    is_scaled : bool
        Every contribution is divided by the number of ranks at the start, since a sum may be too large for
        the type where the average is not.
    kernel : Reduction, optional
        The way in which kernels on GPUs combine contributions that `begin` has returned; None: they do not.
    """

    name: str
    combine: Combine
    is_average: bool = False
    is_scaled: bool = False
    kernel: Reduction | None = None

    def begin(self, contribution: Tensor, n_ranks: int, *, in_place: bool) -> Tensor:
        """Scale a contribution, in its place where that may be written."""
        return contribution.div_(n_ranks) if in_place else contribution.div(n_ranks)

    def finish(self, result: Tensor, n_ranks: int) -> None:
        """Turn sums into averages: integers towards minus infinity."""
        if self.is_average:
            torch.div(
                result, n_ranks, rounding_mode=None if result.is_floating_point() else "floor", out=result
            )


_TYPES = {
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
    *(torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
}

_SCALED = (torch.float16, torch.bfloat16)
"""Averages of these are scaled first."""

_FUNCTIONS = {
    "SUM": torch.add,
    "AVG": torch.add,
    "MAX": torch.maximum,
    "MIN": torch.minimum,
    "PRODUCT": torch.mul,
}
_BITWISE = {"BAND": torch.bitwise_and, "BOR": torch.bitwise_or, "BXOR": torch.bitwise_xor}
"""For integers only."""
_KERNELS = ("SUM", "AVG", "MAX", "MIN")
"""Operations that kernels have too."""


def operation_name(operation: ReduceOp) -> str:
    """Torch's name of an operation, with or without a factor."""
    return str((operation if isinstance(operation, ReduceOp.RedOpType) else operation.op).name)


def reduction_of(operation: ReduceOp, dtype: torch.dtype) -> TensorReduction | None:
    """Return the reduction of torch's operation, or None if Treadle has none for the type.

    Bits are combined in integers only; logical values, floats of 8 bits and scaled sums are left to gloo.
    """
    name = operation_name(operation)
    function = _FUNCTIONS.get(name) or (None if dtype.is_floating_point else _BITWISE.get(name))
    if dtype not in _TYPES or function is None:
        return None

    def combine(own: Tensor, arrived: Tensor, target: Tensor) -> None:
        function(own, arrived, out=target)

    is_average, is_scaled = name == "AVG", name == "AVG" and dtype in _SCALED
    kernel = Reduction.SUM if is_scaled else Reduction[name] if name in _KERNELS else None
    return TensorReduction(name, combine, is_average and not is_scaled, is_scaled, kernel)
