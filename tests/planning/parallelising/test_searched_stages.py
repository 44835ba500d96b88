"""Stages as users ask for them: limits that nothing keeps to, and fabrics whose micro-batches differ."""

from __future__ import annotations

import pytest

import treadle
from treadle.errors import InfeasibleError
from treadle.planning import ParallelizeKeywords

GPT2: ParallelizeKeywords = {"sequence": 1024, "time_limit_s": 20}


def test_stages_that_fit_nowhere_are_infeasible() -> None:
    with pytest.raises(InfeasibleError, match="no plan found that fits into 10MB a rank; the least is"):
        treadle.parallelize(
            "gpt2",
            "dgx_h100:1",
            gpu="h100",
            mesh="pp=2,dp=4",
            tokens=2**13,
            memory_bytes=10 * 2**20,
            **GPT2,
        )
