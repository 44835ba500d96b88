"""Which schedulers are worth a row: one of each kind of record, at the limit of ranks and beyond."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from treadle.inputs.problem import Problem, make_problem
from treadle.schedulers.sizes import fitting as module
from treadle.schedulers.sizes.fitting import fitting
from treadle.schedules.collective import CollectiveKind
from treadle.synthesis.scheduler import Comparing, no_switches

GATHER, EXCHANGE = CollectiveKind.ALLGATHER, CollectiveKind.ALLTOALL


def record(
    name: str,
    comparing: Comparing,
    *,
    kinds: tuple[CollectiveKind, ...] = (GATHER,),
    requirements: tuple[Any, ...] = (),
    in_groups: bool = False,
    unsupported: Callable[[Any, Any], str | None] = lambda topology, collective: None,
) -> SimpleNamespace:
    return SimpleNamespace(
        name=name,
        comparing=comparing,
        collectives=kinds,
        requirements=requirements,
        in_groups=in_groups,
        unsupported=unsupported,
    )


def chosen(
    monkeypatch: pytest.MonkeyPatch, records: list[SimpleNamespace], problem: Problem, *, sizes: bool
) -> list[str]:
    monkeypatch.setattr(module, "schedulers", lambda: records)
    return [one.name for one in fitting(problem, at_sizes=sizes)]


ALL = [record(one.name.lower(), one, in_groups=True) for one in Comparing]


@pytest.mark.parametrize(
    ("fabric", "options", "sizes", "names"),
    [
        ("ring:64", {}, False, {"always", "small", "able", "machines"}),
        ("ring:65", {}, False, {"always", "able", "machines"}),
        ("ring:64", {}, True, {"always", "small", "able", "sizes", "practice", "machines"}),
        ("dgx_a100:1", {}, False, {"always", "small", "able", "switched", "machines"}),
        ("ring:4", {"mesh": "2,2", "axes": "1"}, True, {"always", "small", "able", "groups"}),
    ],
)
def test_when_a_scheduler_is_compared(
    fabric: str, options: dict[str, Any], sizes: bool, names: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = make_problem(fabric, "allgather", **options)
    assert set(chosen(monkeypatch, ALL, problem, sizes=sizes)) == names


def test_exchanges_and_the_others_are_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    records = [
        record("gather", Comparing.ALWAYS),
        record("exchange", Comparing.ALWAYS, kinds=(EXCHANGE,)),
        record("both", Comparing.ALWAYS, kinds=(GATHER, EXCHANGE)),
    ]
    assert chosen(monkeypatch, records, make_problem("ring:4", "allgather"), sizes=False) == ["gather"]
    assert chosen(monkeypatch, records, make_problem("ring:4", "alltoall"), sizes=False) == [
        "exchange",
        "both",
    ]


def test_those_without_switches_are_left_out_where_there_are_some(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that refuse for another reason stay, but for those that need what switches do."""

    def refuses(topology: Any, collective: Any) -> str:
        return "no"

    records = [
        record("direct", Comparing.ALWAYS, requirements=(no_switches,)),
        record("refuses", Comparing.ALWAYS, unsupported=refuses),
        record("unable", Comparing.ABLE, unsupported=refuses),
        record("able", Comparing.ABLE),
    ]
    box, ring = make_problem("dgx_a100:1", "allgather"), make_problem("ring:4", "allgather")
    assert chosen(monkeypatch, records, box, sizes=False) == ["refuses", "able"]
    assert chosen(monkeypatch, records, ring, sizes=False) == ["direct", "refuses", "able"]


def test_groups_are_served_at_once_or_the_first_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def whole(topology: Any, collective: Any) -> str | None:
        return None if collective.groups is not None else "only whole fabrics"

    def never(topology: Any, collective: Any) -> str:
        return "no"

    records = [
        record("at once", Comparing.ALWAYS, in_groups=True, unsupported=whole),
        record("one by one", Comparing.ALWAYS),
        record("neither", Comparing.ALWAYS, unsupported=whole),
        record("never", Comparing.ALWAYS, in_groups=True, unsupported=never),
    ]
    problem = make_problem("ring:4", "allgather", mesh="2,2", axes="1")
    assert chosen(monkeypatch, records, problem, sizes=False) == ["at once", "one by one"]
