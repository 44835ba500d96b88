"""How rank 0 provides plans, and what all ranks know of them: origins in words, refusals, limits."""

from __future__ import annotations

import logging
import re
from datetime import timedelta
from typing import Any

import pytest

from treadle.errors import ScheduleError
from treadle.planning import solve
from treadle.schedules.collective import CollectiveKind
from treadle.topologies import parse

pytest.importorskip("torch", reason="torch: not installed; pip install 'treadle[torch]'")

from torch.distributed import HashStore

from treadle.torch import plans
from treadle.torch.plans import Membership, PlanSource, SharedPlan
from treadle.torch.settings import Options, settings_of

RING = parse("ring:3")
GATHER = CollectiveKind.ALLGATHER
PLAN = solve(RING, GATHER).plan
LIMIT = timedelta(seconds=4)


def source_of(rank: int, store: Any, **options: Any) -> PlanSource:
    group = Membership("g", rank, (0, 1, 2), RING, LIMIT)
    return PlanSource(store, group, settings_of(Options(fabric=RING, **options), {}))


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ScheduleError("no such plan"), "no such plan"),
        (ZeroDivisionError("odd"), "ZeroDivisionError while making a plan: odd"),
        (None, "the plan file is larger than 9B"),
    ],
)
def test_all_ranks_hear_why_there_is_none(
    error: Exception | None, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def provided(*_: Any) -> list[SharedPlan]:
        if error is not None:
            raise error
        return [SharedPlan(PLAN, "made")]

    monkeypatch.setattr(plans, "provide", provided)
    monkeypatch.setattr(plans, "MAX_SHARED_BYTES", 9)
    store = HashStore()
    for rank in (0, 1):
        with pytest.raises(ScheduleError) as caught:
            source_of(rank, store).program(GATHER, -1, 8, in_place=False)
        assert str(caught.value) == said


def test_roots_are_told_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    assert plans.MAX_SHARED_BYTES == 268435456
    source = source_of(0, HashStore(), algorithm="broadcast=forestcoll")
    with caplog.at_level(logging.INFO, "treadle.torch"):
        source.program(CollectiveKind.BROADCAST, 2, 4096, in_place=True)
    (line,) = [one.getMessage() for one in caplog.records]
    words = "group g: broadcast (root 2) of 3 ranks, first of 4KB: plan synthesised by "
    assert re.fullmatch(re.escape(f"{words}forestcoll on ring(3) in ") + r"\d+\.\d\d s", line)
