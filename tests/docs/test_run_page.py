"""The page on running plans: what it starts by mpirun and its program for torchrun run as they stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from places import ROOT
from treadle.planning import solve
from treadle.schedules.plan_files.archive import save_plan

PAGE = (ROOT / "docs/how-to/run.md").read_text(encoding="utf-8")


@pytest.fixture
def plans(tmp_path: Path) -> Path:
    """The folder with the page's plan."""
    save_plan(tmp_path / "ring.plan", solve("ring(4)", "allreduce").plan)
    return tmp_path
