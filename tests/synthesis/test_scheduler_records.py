"""Records of schedulers: what is handed on, defaults, groups, homes, and the texts of refusals."""

from __future__ import annotations

import pytest

from treadle.schedulers import schedulers
from treadle.schedulers.schedulers import algorithm_names, scheduler
from treadle.schedules.collective import Collective
from treadle.synthesis.scheduler import (
    SchedulerTable,
)
from treadle.topologies.topology import Topology


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> SchedulerTable:
    """An empty table in place of the one of all schedulers, which is filled before."""
    algorithm_names(plug_ins=False)
    empty = SchedulerTable()
    monkeypatch.setattr(schedulers, "TABLE", empty)
    return empty


@pytest.mark.parametrize(
    ("module", "origin"), [("treadle", ""), ("treadle.some.where", ""), ("treadle_more", "treadle_more")]
)
def test_own_schedulers_have_no_origin(module: str, origin: str, table: SchedulerTable) -> None:
    def own(topology: Topology, collective: Collective) -> None:
        return None

    own.__module__ = module
    scheduler("own", form="trees", collectives=["reduce"])(own)
    assert table["own"].origin == origin
