"""Rates and plans on disk: what is believed of a file, and what makes room."""

from __future__ import annotations

from pathlib import Path

import pytest

from treadle.finder.designing import store
from treadle.planning import solve
from treadle.schedules.plan import Plan


@pytest.fixture(scope="module")
def plan() -> Plan:
    return solve("ring(3)", "allgather").plan


def test_a_folder_that_cannot_be_written_costs_time_only(plan: Plan, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    question = {"topology": plan.topology.name, "collective": "allgather"}
    for _ in range(2):
        assert store.cached_plan(question, lambda: plan, directory=file) == (plan, False)
    store.store_value(file / "x.rate", {"rate": 1})
    assert file.read_text() == "x"
