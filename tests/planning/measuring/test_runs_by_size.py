"""Runs of a plan with several ranges of sizes: which schedule moves the data of a size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from samples.plan_sets import plan_set
from treadle.api import run as execution
from treadle.planning import RuntimeName, run
from treadle.program.any_schedule import lower_groups


def test_every_size_runs_by_the_schedule_of_its_range(monkeypatch: pytest.MonkeyPatch) -> None:
    """At both edges of every range and between; what moves the data is handed that schedule's program."""
    plan = plan_set("hypercube:3", "allgather", ("one-shot", "ring", "bfb"), (1000, 65536), end=2**19)
    measure = execution._MEASURES[RuntimeName.IN_PROCESS]
    moved: dict[int, Any] = {}

    def watched(programs: Any, sizes: Sequence[int], **options: Any) -> Any:
        moved.update(dict.fromkeys(sizes, programs))
        return measure(programs, sizes, **options)

    monkeypatch.setattr(execution, "_MEASURES", {RuntimeName.IN_PROCESS: watched})
    sizes = [
        size
        for entry in plan.entries
        for size in (entry.min_bytes, (entry.min_bytes + (entry.max_bytes or 0)) // 2, entry.max_bytes or 0)
    ]
    for in_place in (False, True):
        found = run(plan, sizes, in_place=in_place, iterations=1, warmup=0)
        assert found.wrong == 0
        assert [row.size_bytes // 32 for row in found.rows] == [size // 32 for size in sizes]
        for entry in plan.entries:
            meant = lower_groups(plan.topology, plan.collective, entry.schedule, in_place=in_place)
            for size in sizes:
                assert (moved[size] == meant) == entry.supports(size)
