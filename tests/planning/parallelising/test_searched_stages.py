"""Stages as users ask for them: limits that nothing keeps to, and fabrics whose micro-batches differ."""

from __future__ import annotations

import pytest

import treadle
from treadle.api.report import report
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


def test_a_page_has_plans_of_as_many_micro_batches_as_each_fabric_takes() -> None:
    fabrics = ["dgx_h100:1", "ring(8, bandwidth='25GB/s')"]
    found = treadle.parallelize("gpt2", fabrics, gpu="h100", mesh="pp=2,dp=4", tokens=2**16, **GPT2)
    batches = {
        search.best.plan.pipeline.micro_batches for search in found.searches if search.best.plan.pipeline
    }
    assert len(batches) == 2, "else this shows nothing"
    report(found)
