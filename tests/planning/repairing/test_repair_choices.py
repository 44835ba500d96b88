"""What a repair compares and says: at which size, by which algorithms, in which words, at what loss."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.summaries import repair_summary
from treadle.api import repair as repair_module
from treadle.api.harden import Failure, HardenedRow
from treadle.api.repair import RepairResult, forwarding, repair
from treadle.api.solve import solve
from treadle.context import context
from treadle.errors import ScheduleError, TopologyError
from treadle.schedulers.repairing import repair_candidates
from treadle.schedulers.repairing.repair_candidates import JUDGED_AT, Candidate, best_for
from treadle.schedules.certificate import BottleneckCut
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.synthesis.scheduler_options import Form
from treadle.topologies import parse

GATHER, SUM, EXCHANGE = CollectiveKind.ALLGATHER, CollectiveKind.ALLREDUCE, CollectiveKind.ALLTOALL


def made(algorithm: str = "forestcoll", kind: CollectiveKind = GATHER, judged: object = None) -> Any:
    provenance = {} if judged is None else {JUDGED_AT: judged}
    return SimpleNamespace(
        algorithm=algorithm, provenance=provenance, collective=Collective(kind, (0, 1, 2, 3))
    )


@pytest.mark.parametrize(
    ("plan", "size", "judged"),
    [
        (made(), None, None),
        (made(), 1, 1),
        (made("finder: C5"), None, 2**20),
        (made("finder: C5"), 7, 7),
        (made("finder: C5", judged=5), None, 5),
        (made("finder: C5", judged=0), None, 2**20),
        (made("finder: C5", judged="5"), None, 2**20),
        (made(judged=5), None, 5),
        (made(judged=-5), None, 2**20),
    ],
)
def test_the_size_at_which_algorithms_are_compared(plan: Any, size: int | None, judged: int | None) -> None:
    assert repair_module._compared_at(plan, None, None, trim=False, size_bytes=size) == judged


@pytest.mark.parametrize("told", [{"algorithm": "ring"}, {"form": Form.EXPLICIT}, {"trim": True}])
def test_who_says_how_compares_nothing(told: dict[str, Any]) -> None:
    asked = {"algorithm": None, "form": None, "trim": False, **told}
    plan = made("finder: C5", judged=5)
    assert repair_module._compared_at(plan, **asked, size_bytes=None) is None
    with pytest.raises(ScheduleError, match="a size of at least 1 byte compares algorithms"):
        repair_module._compared_at(plan, **asked, size_bytes=5)


def test_sizes_that_compare_nothing() -> None:
    words = (
        "repair: a size of at least 1 byte compares algorithms of trees and steps; give none of --algorithm, "
        "--form and --trim with it, and no all-to-all"
    )
    for plan, size in ((made(), 0), (made(kind=EXCHANGE), 5)):
        with pytest.raises(ScheduleError, match=f"^{re.escape(words)}$"):
            repair_module._compared_at(plan, None, None, trim=False, size_bytes=size)
    groups = made()
    groups.collective = Collective(GATHER, (0, 1, 2, 3), groups=((0, 2), (1, 3)))
    words = "repair: algorithms are compared at a size for one group of ranks, found 2 "
    words += "concurrent groups; leave --size out"
    with pytest.raises(ScheduleError, match=f"^{re.escape(words)}$"):
        repair_module._compared_at(groups, None, None, trim=False, size_bytes=5)
    assert repair_module._compared_at(groups, None, None, trim=False, size_bytes=None) is None


def test_nothing_and_the_same_twice_do_not_fail() -> None:
    ring = parse("ring(4)")
    with pytest.raises(ScheduleError, match=r"^repair: nothing failed; name a link or a node \(--link A--B"):
        repair_module._check_named(ring, (), ())
    with pytest.raises(TopologyError, match=r"^ring\(4\): 'n1' is named 3 times as failed$"):
        repair_module._check_named(ring, ("n1",), ("n1", "n1"))


def test_one_group_has_nobody_to_forward_for_it() -> None:
    with pytest.raises(
        ScheduleError, match=r"^forward: ranks of other groups .* found one group; leave it out$"
    ):
        forwarding(Collective(GATHER, (0, 1)))
    groups = Collective(GATHER, (0, 1, 2, 3), groups=((0, 2), (1, 3)))
    assert forwarding(groups).ranks_forward


def side(algbw: int, optimum: int | None, ranks: int = 4, **fields: Any) -> Any:
    names = tuple(f"r{node}" for node in range(6))
    given = {"certificate": None, "topology": SimpleNamespace(node_names=names), **fields}
    best = None if optimum is None else Fraction(optimum)
    return SimpleNamespace(
        collective=Collective(GATHER, tuple(range(ranks))), algbw=Fraction(algbw), optimal_algbw=best, **given
    )


def repaired(old: Any, new: Any) -> RepairResult:
    return RepairResult(old, cast(Any, SimpleNamespace(plan=new)), (), (), 0, (), {})


def test_losses_are_of_what_ranks_receive() -> None:
    """Of four ranks three quarters of the algbw, of two a half."""
    found = repaired(side(16, 20), side(12, 10))
    assert (found.optimum_loss, found.throughput_loss) == (Fraction(1, 2), Fraction(1, 4))
    fewer = repaired(side(16, 20), side(12, 10, ranks=2))
    assert fewer.throughput_loss == 1 - Fraction(12 * 2, 16 * 3)
    assert fewer.optimum_loss == 1 - Fraction(10 * 2, 20 * 3)
    assert repaired(side(16, None), side(12, 10)).optimum_loss is None
    assert repaired(side(16, 20), side(12, None)).optimum_loss is None
    assert found.plan is found.new is found.solved.plan


@pytest.mark.parametrize(
    ("nodes", "optimum", "lone"),
    [
        ((0, 1, 2, 5), 15, "r3"),
        ((0, 1, 2, 5), 16, None),
        ((0, 1), 15, None),
        ((0, 1, 2, 3), 15, None),
        ((1, 2, 3, 4), 10, "r0"),
    ],
)
def test_the_lone_rank_beyond_a_dear_bottleneck(
    nodes: tuple[int, ...], optimum: int, lone: str | None
) -> None:
    """A quarter of 20 is dear."""
    found = repaired(side(16, 20), side(10, optimum, certificate=BottleneckCut(nodes)))
    assert found.lone_bottleneck == lone


def test_losses_of_a_failure_are_of_the_optimum_where_it_is_known() -> None:
    failure = Failure("a", is_node=True)
    assert HardenedRow(failure).loss is None
    known = repaired(side(16, 20), side(12, 10))
    assert HardenedRow(failure, known).loss == Fraction(1, 2)
    unknown = repaired(side(16, None), side(12, 10))
    assert HardenedRow(failure, unknown).loss == Fraction(1, 4)


def test_who_takes_part() -> None:
    def names(kind: CollectiveKind, n: int) -> list[tuple[str, dict[str, object]]]:
        found = repair_candidates._algorithms(Collective(kind, tuple(range(n))))
        return [(name, dict(options)) for name, options in found]

    trees: list[tuple[str, dict[str, object]]] = [("forestcoll", {"trees": 1}), ("forestcoll", {})]
    assert names(GATHER, 9) == [("bfb", {}), *trees]
    assert names(GATHER, 8) == [("bfb", {}), *trees, ("exact", {})]
    assert names(SUM, 9) == [("bfb", {}), ("rs-ag", {}), *trees]


@dataclass(frozen=True)
class Made:
    """A plan of an algorithm, and what came of it."""

    algorithm: str
    seconds: float = 0.0
    provenance: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Found:
    """As `solve` gives it."""

    plan: Made
    algbw: Fraction
    is_late: bool = False
    bound: None = None
    report: None = None


class Algorithms:
    """Times of algorithms by name and number of trees; those without one have no schedule."""

    def __init__(self, times: dict[str, float]) -> None:
        self.times, self.limits = times, dict[str, float]()

    def solve_problem(self, problem: Any, algorithm: str, *, keywords: dict[str, Any]) -> Found:
        name = algorithm + "".join(f" {value}" for value in keywords.values())
        self.limits[name] = context().seconds_left or 0
        if name not in self.times:
            raise ScheduleError(f"no {name}")
        made = Made(
            algorithm if name != "bfb" else "other" if self.times[name] < 0 else "bfb", self.times[name]
        )
        return Found(made, Fraction(len(name)), is_late=name == "exact")


def contest(
    monkeypatch: pytest.MonkeyPatch, times: dict[str, float], limit_s: float | None = None
) -> tuple[Any, Any, dict[str, float]]:
    algorithms = Algorithms(times)
    monkeypatch.setattr(repair_candidates, "solve_problem", algorithms.solve_problem)
    monkeypatch.setattr(repair_candidates, "simulated_s", lambda plan, size: plan.seconds * size)
    fabric, collective = cast(Any, SimpleNamespace(name="left")), Collective(GATHER, tuple(range(8)))
    found, told = best_for(fabric, collective, cast(Any, Made("old", 7.0)), 10, time_limit_s=limit_s)
    return found, told, algorithms.limits


def test_the_quickest_at_the_size_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    times = {"bfb": 3.0, "forestcoll 1": 2.0, "forestcoll": 4.0, "exact": 1.0}
    found, told, limits = contest(monkeypatch, times)
    assert found.plan == Made("forestcoll", 2.0, {JUDGED_AT: 10})
    assert (told.size_bytes, told.old_seconds) == (10, 70.0)
    assert told.outcomes == (
        Candidate("forestcoll --trees 1", 20.0, Fraction(12)),
        Candidate("bfb", 30.0, Fraction(3)),
        Candidate("forestcoll", 40.0, Fraction(10)),
        Candidate("exact", reason="not ready within 10 s"),
    )
    expected = {"bfb": 60.0, "forestcoll 1": 60.0, "forestcoll": 60.0, "exact": 10.0}
    assert limits == pytest.approx(expected, abs=1)


def test_plans_of_other_algorithms_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that falls back on another has lost; all share the time there is."""
    found, told, limits = contest(monkeypatch, {"bfb": -1.0, "forestcoll": 4.0}, 20.0)
    assert found.plan.algorithm == "forestcoll"
    reasons = {one.algorithm: one.reason for one in told.outcomes}
    assert reasons == {
        "forestcoll": "",
        "bfb": "not ready within 20 s",
        "forestcoll --trees 1": "no forestcoll 1",
        "exact": "no exact",
    }
    assert 19 < limits["forestcoll"] <= 20
    assert limits["exact"] == pytest.approx(10, abs=1)
    assert set(contest(monkeypatch, {"bfb": 1.0}, 0.0)[2].values()) == {0.0}


def test_where_no_algorithm_serves_all_say_why(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ScheduleError) as error:
        contest(monkeypatch, {})
    assert str(error.value) == (
        "left: no algorithm supports the remaining fabric: bfb: no bfb; forestcoll --trees 1: no forestcoll "
        "1; "
        "forestcoll: no forestcoll; exact: no exact"
    )


def test_a_plan_by_size_says_that_its_ranges_are_given_up() -> None:
    """One schedule takes the place of several; nobody is to find that out at another size."""
    whole = solve("complete:4", "allreduce").plan
    [only] = whole.entries
    entries = (replace(only, max_bytes=999), replace(only, min_bytes=1000))
    chosen = repair(replace(whole, entries=entries, algorithm="by-size"), links=["n0--n1"])
    assert chosen.candidates is not None
    assert chosen.solved.notes[-1] == (
        "the plan had 2 schedules by size; this is one for all sizes, chosen at 1MB; for size ranges: "
        "treadle solve 'complete(4)' allreduce --without n0--n1 --size SIZES, with the options of the plan"
    )
    assert chosen.solved.notes[-1] in cast("list[str]", repair_summary(chosen)["notes"])
    failed = ["n0--n1", "n1->n2"]
    told = repair(replace(whole, entries=entries), links=failed, algorithm="forestcoll", trim=True)
    assert "for all sizes; for size ranges" in told.solved.notes[-1]
    assert "--without 'n0--n1,n1->n2' --size" in told.solved.notes[-1]
    assert not any("by size" in note for note in repair(whole, links=["n0--n1"]).solved.notes)
