"""How rank 0 provides plans, and what all ranks know of them: origins in words, refusals, limits."""

from __future__ import annotations

import logging
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from samples.plan_sets import plan_set
from treadle.errors import InfeasibleError, ScheduleError
from treadle.planning import solve
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.plan_files.archive import dump_plan
from treadle.topologies import parse

pytest.importorskip("torch", reason="torch: not installed; pip install 'treadle[torch]'")

from torch.distributed import HashStore

from treadle.torch import plans
from treadle.torch.plans import Membership, PlanSource, SharedPlan, problems_of, provide
from treadle.torch.settings import Options, settings_of

RING = parse("ring:3")
GATHER = CollectiveKind.ALLGATHER
PLAN = solve(RING, GATHER).plan
LIMIT = timedelta(seconds=4)


def source_of(rank: int, store: Any, **options: Any) -> PlanSource:
    group = Membership("g", rank, (0, 1, 2), RING, LIMIT)
    return PlanSource(store, group, settings_of(Options(fabric=RING, **options), {}))


def test_ranks_take_what_rank_0_says(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Two plans with a gap between the sizes that they serve; each is lowered once, and rank 0 says so."""
    sizes = ((0, 100), (200, None))
    shared = []
    for number, (least, most) in enumerate(sizes):
        entry = replace(PLAN.entries[0], min_bytes=least, max_bytes=most)
        shared.append(SharedPlan(replace(PLAN, entries=(entry,)), f"made {number}"))
    asked: list[Any] = []

    def provided(problems: Any, index: Any, settings: Any) -> list[SharedPlan]:
        asked.append((len(problems), index, settings.time_limit_s))
        return shared

    monkeypatch.setattr(plans, "provide", provided)
    monkeypatch.setattr(plans, "MAX_SHARED_BYTES", max(len(dump_plan(one.plan)) for one in shared))
    store = HashStore()
    first, other = source_of(0, store, time_limit_s=1.5), source_of(2, store)
    with caplog.at_level(logging.INFO, "treadle.torch"):
        programs = [
            [of.program(GATHER, -1, n, in_place=False) for n in (0, 100, 200)] for of in (first, other)
        ]
    assert [one.origin for one in programs[0]] == ["made 0", "made 0", "made 1"]
    assert [one.origin for one in programs[1]] == ["made 0", "made 0", "made 1"]
    assert programs[0][0] is programs[0][1]
    assert all(one.topology == RING for one in programs[1])
    assert [one.getMessage() for one in caplog.records] == [
        "group g: allgather of 3 ranks, first of 0B: made 0",
        "group g: allgather of 3 ranks, first of 200B: made 1",
    ]
    assert asked == [(1, None, 1.5)]
    for of in (first, other):
        with pytest.raises(ScheduleError, match=r"^$"):
            of.program(GATHER, -1, 101, in_place=False)
        part = of.part(GATHER, -1, 0, in_place=True)
        assert part is of.part(GATHER, -1, 99, in_place=True)
        assert part.program.in_place
        assert part.rank == (0 if of is first else 2)
    # the other ranks wait half of the group's timeout at most
    assert source_of(0, store, time_limit_s=99)._settings.time_limit_s == 2.0


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


def test_plans_of_a_directory_come_first_and_a_new_one_fills_gaps(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ends: list[int | None] = [None]
    several = plan_set("ring:3", "allgather", ("ring", "bfb"), (1024,), end=2**20)
    both = {"grouped": PLAN, "own": several}

    def found(index: Any, topology: Any, collective: Any, name: str) -> Any:
        plan = both[name]
        last = replace(plan.entries[-1], max_bytes=ends[0])
        plan = replace(plan, entries=(*plan.entries[:-1], last))
        return SimpleNamespace(problems=[f"{name} lost"], plans=[(Path(f"{name}.plan"), plan)])

    monkeypatch.setattr(plans, "find_group_plans", lambda *given: found(*given, "grouped"))
    monkeypatch.setattr(plans, "find_plans", lambda *given: found(*given, "own"))
    monkeypatch.setattr(plans, "_synthesised", lambda problems, settings: "new")
    settings, index = settings_of(Options(), {}), object()
    problems: Any = problems_of(RING, (0, 1, 2), GATHER, None)
    with caplog.at_level(logging.WARNING, "treadle.torch"):
        given: list[Any] = provide(problems, index, settings)  # type: ignore[arg-type]
    own = f"({several.algorithm}, sizes from 0B on)"
    assert [one.origin for one in given] == [
        f"one group of plan file grouped.plan ({PLAN.algorithm}, sizes from 0B on)",
        f"plan file own.plan {own}",
    ]
    assert [one.getMessage() for one in caplog.records] == [
        "a plan is left out: grouped lost",
        "a plan is left out: own lost",
    ]
    ends[0] = 2**20
    given = provide(problems, index, settings)  # type: ignore[arg-type]
    assert given[-1] == "new"
    assert given[1].origin.endswith("sizes from 0B to 1MB)")
    assert provide(problems, None, settings) == ["new"]  # type: ignore[comparison-overlap]


def test_other_nodes_forward_where_a_group_cannot_do_without() -> None:
    """Ranks 0 and 2 of a ring of four have no link."""
    part, whole = problems_of(parse("ring:4"), (2, 0), GATHER, None)
    settings = settings_of(Options(time_limit_s=9.0), {})
    found = plans._synthesised((part, whole), settings)
    assert found.plan.topology == whole.topology
    assert found.origin.startswith(f"plan synthesised by {found.plan.algorithm} on ring(4) in ")
    with pytest.raises(InfeasibleError):
        plans._synthesised((part,), settings)


def test_an_algorithm_for_all_kinds_gives_way_where_it_does_not_serve(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (problem,) = problems_of(RING, (0, 1, 2), GATHER, None)
    asked: list[Any] = []

    def solver(topology: Any, collective: Any, **named: Any) -> Any:
        asked.append(named)
        if named.get("algorithm") is not None:
            raise ScheduleError("no")
        return SimpleNamespace(plan="plan")

    monkeypatch.setattr(plans, "solve", solver)
    with caplog.at_level(logging.INFO, "treadle.torch"):
        found: Any = plans._solved(problem, settings_of(Options(algorithm="rail", time_limit_s=7), {}))
    assert found == "plan"
    assert asked == [{"algorithm": "rail", "time_limit_s": 7}, {"time_limit_s": 7}]
    assert [one.getMessage() for one in caplog.records] == ["rail does not serve allgather (no)"]
    with pytest.raises(ScheduleError, match=r"^no$"):
        plans._solved(problem, settings_of(Options(algorithm="bfb, allgather=rail"), {}))
    assert asked[-1]["algorithm"] == "rail"
