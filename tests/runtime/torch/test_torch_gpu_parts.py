"""Parts of the way of a GPU's tensors by themselves: opening, choices, tables, buffers; with stand-ins."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from treadle.runtime.data import Reduction
from treadle.schedules.collective import CollectiveKind

pytest.importorskip("torch", reason="torch: not installed; pip install 'treadle[torch]'")

import torch
from torch.distributed import ReduceOp

from treadle.torch.gpu import gpu_engine
from treadle.torch.gpu.peer_buffers import BlockKernel
from treadle.torch.group_engine import NoPlanError, TensorCall
from treadle.torch.reductions import reduction_of


def call_of(count: int, dtype: torch.dtype = torch.bfloat16, operation: Any = ReduceOp.MIN) -> TensorCall:
    flat = torch.zeros(count, dtype=dtype)
    how = reduction_of(operation, dtype)
    return TensorCall(CollectiveKind.ALLREDUCE, count, flat, flat, True, reduction=how)


def test_kernels_of_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Switches combine all but the least and greatest of float32; what is not combined goes as bytes."""
    for dtype, code, n_bytes in (
        (torch.float32, 0, 4),
        (torch.float16, 1, 2),
        (torch.bfloat16, 2, 2),
        (torch.int32, 3, 4),
        (torch.int64, 4, 8),
    ):
        average = Reduction.SUM if n_bytes == 2 else Reduction.AVG  # those of 2 bytes are scaled before
        for operation, how in ((ReduceOp.SUM, Reduction.SUM), (ReduceOp.AVG, average)):
            found = gpu_engine._kernel_of(call_of(7, dtype, operation))
            assert found == BlockKernel(code, n_bytes, 7, how, can_switch_sum=True)
        found = gpu_engine._kernel_of(call_of(7, dtype, ReduceOp.MAX))
        assert found.can_switch_sum is (dtype is not torch.float32)
    plain = replace(call_of(7, torch.float64), reduction=None)
    assert gpu_engine._kernel_of(plain) == BlockKernel(5, 1, 56, Reduction.MAX, can_switch_sum=False)
    for call, words in (
        (call_of(7, torch.float64), "no kernel combines torch.float64 this way"),
        (call_of(7, torch.int32, ReduceOp.BOR), "no kernel combines torch.int32 this way"),
    ):
        with pytest.raises(NoPlanError, match=f"^{words}$"):
            gpu_engine._kernel_of(call)
