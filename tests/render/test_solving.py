"""What jobs, comparisons and repairs report, of results by hand."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import treadle
from harness.snapshots import check
from treadle.cli.output import Output
from treadle.cli.solving import solve
from treadle.errors import FormatError
from treadle.options.solving import Solve
from treadle.render.comparing import compare_rows
from treadle.render.quantities import Rates
from treadle.render.rows import lines
from treadle.render.solving import _count, _share, jobs_rows, repair_rows, size_set_rows
from treadle.schedulers.repairing.repair_candidates import Candidate, CandidateSet
from treadle.verification.violations import Violation, ViolationKind

GB = 10**9
FABRIC = treadle.parse("ring:4")


def job(name: str, weight: Fraction = Fraction(1), kind: str = "allgather") -> Any:
    collective = SimpleNamespace(kind=treadle.CollectiveKind(kind), n_ranks=3)
    return SimpleNamespace(name=name, weight=weight, collective=collective)


def jobs_result(**fields: Any) -> Any:
    """Two jobs of unequal weight; links 1, 2, 4 and 6 limit the first."""
    values: dict[str, Any] = {
        "topology": FABRIC,
        "jobs": (job("one", Fraction(5, 2)), job("two", kind="reduce")),
        "alone": (Fraction(8 * GB), Fraction(6 * GB)),
        "together": (Fraction(5 * GB), Fraction(4 * GB, 3)),
        "common_rate": Fraction(2 * GB),
        "loss": Fraction(0),
        "levels": (
            SimpleNamespace(rate=Fraction(2), limited=(0,), lengths=(0, 1, 2, 0, 3, 0, 1, 0)),
            SimpleNamespace(rate=Fraction(3, 2), limited=(1, 0, 1, 0, 1), lengths=(0, 0, 0, 1, 0, 0, 0, 0)),
        ),
        "plans": (),
        "reached": (),
        "grids": (),
        "exact_grids": (),
        "report": None,
        "seconds": {"total": 1.5},
    }
    return SimpleNamespace(**(values | fields))


def test_jobs() -> None:
    """Rates, limits, plans that are rounded or exact, and more jobs than are shown."""
    planned = {
        "loss": Fraction(1, 8),
        "plans": ("p", "q", "r"),
        "reached": (Fraction(4 * GB), Fraction(GB)),
        "grids": (Fraction(7, 2), Fraction(3)),
        "exact_grids": (Fraction(5), Fraction(10**9)),
        "report": SimpleNamespace(is_max_min=False, report=SimpleNamespace(is_ok=True)),
    }
    best = planned | {"report": SimpleNamespace(is_max_min=True, report=SimpleNamespace(is_ok=True))}
    rates = (Fraction(GB),) * 21
    jobs = tuple(job(f"j{number}", Fraction(10**number, 3)) for number in range(21))
    results = [
        jobs_result(),
        jobs_result(**planned),
        jobs_result(**best),
        jobs_result(jobs=jobs, alone=rates, together=rates, levels=()),
    ]
    check("jobs", *(jobs_rows(one, Rates(), folder="out" if one.plans else None) for one in results))


def test_counts_of_trees_and_shares_are_never_rounded_to_nothing() -> None:
    assert [_count(Fraction(one)) for one in ("7/2", "3", "999999999", "1000000000")] == [
        *("4", "3", "999999999", "1e+09")
    ]
    losses = ("0", "1/10000", "1/10001", "-1/100000", "-1/10000", "-1/4")
    assert [_share(Fraction(one)) for one in losses] == [
        *("nothing", "0.01%", "less than 0.01%", "less than 0.01% more instead of less"),
        *("0.01% more instead of less", "25.00% more instead of less"),
    ]


def changed(value: Any, **changes: Any) -> Any:
    """A stand-in with the attributes of a value, but for those that are given."""
    names = [name for name in dir(value) if not name.startswith("_")]
    return SimpleNamespace(**({name: getattr(value, name) for name in names} | changes))


def compared(fabric: str = "ring:4", kind: str = "allreduce", **options: Any) -> Any:
    found = treadle.compare(fabric, kind, **options)
    return replace(found, rows=tuple(replace(one, seconds=0.5) for one in found.rows))


def test_comparisons() -> None:
    """Equal rows, files with violations, refusals, times at few and many sizes, and NVLS."""
    found = compared(algorithms=["ring", "rs-ag", "forestcoll", "double-binary-tree", "tto", "bfb"])
    kind = next(iter(ViolationKind))
    wrong = tuple(Violation(kind, f"m{number}") for number in range(21))
    first = found.rows[0]
    faulty = changed(
        first,
        algorithm="file",
        form="msccl",
        algbw=None,
        rate=None,
        report=replace(first.report, violations=wrong, n_violations=22),
        notes=("one", "two"),
    )
    few = compared("dgx_a100:1", algorithms=["ring", "blink", "bfb"], sizes=[1024, 2**20])
    many = compared(algorithms=["ring", "bfb"], sizes=[2**number for number in range(10, 17)])
    views = [found, replace(found, rows=(faulty, first)), few, many]
    views += [compared("dgx_h100:1", algorithms=["ring"], sizes=[2**20]), compared(kind="alltoall")]
    check("comparisons", *map(compare_rows, views))


@pytest.mark.parametrize(
    ("fabric", "options", "preset"),
    [
        ("dgx_h100:1", {}, "nccl-hopper"),
        ("dgx_h100:1", {"cost_model": "nccl-hopper"}, ""),
        ("dgx_h100:2", {"cost_model": "nccl-hopper"}, ""),
        ("dgx_h100:2", {"mesh": "dp=2,tp=8", "axes": "tp"}, "nccl-hopper"),
        ("dgx_h100:2", {"mesh": "dp=2,tp=8", "axes": "tp", "cost_model": "nccl-hopper"}, ""),
        ("mi300x:1", {}, ""),
    ],
)
def test_comparisons_name_the_cost_model_of_the_library(
    fabric: str, options: dict[str, Any], preset: str
) -> None:
    found = compared(fabric, algorithms=["ring"], sizes=[2**20], **options)
    text = " ".join(" ".join(lines([*compare_rows(found)])).split())
    assert "simulation of the schedule that" in text
    assert text.partition("; --cost-model ")[2].partition(" has NCCL's latencies")[0] == preset


def test_repairs() -> None:
    plan = treadle.solve("dgx_a100:2", "allgather").plan
    found = treadle.repair(plan, links=["box0.gpu0--box0.nic0"])
    solved = replace(found.solved, seconds={"total": 1.0})
    found = replace(found, seconds={"total": 1.0}, solved=solved, candidates=None)
    contest = CandidateSet(
        2**20,
        1.25e-3,
        (
            Candidate("bfb", seconds=None, reason="not supported"),
            Candidate("ring", seconds=2.5e-4, reason=""),
        ),
    )
    odd = changed(
        found,
        links=("a--b", "c--d"),
        nodes=("e", "f", "g"),
        lost_ranks=("e", "g"),
        lost_links=1,
        lone_bottleneck="n2",
        subproblem_classes=(3, 5),
        candidates=contest,
        old=replace(plan, algbw=plan.algbw * 3 / 4),
        new=replace(found.new, optimal_algbw=None, certificate=None),
    )
    check("repairs", repair_rows(found), repair_rows(odd))


def test_sets_by_size() -> None:
    found = treadle.planning.solve_sizes("ring:3", "allgather", [1024, 2**20], algorithms=["ring", "bfb"])
    found = replace(found, seconds={"total": 1.0})
    doubt: Any = SimpleNamespace(
        size_bytes=2048, other="ring", gain=0.125, chosen="mine", corner="at twice alpha"
    )
    sure = replace(found.cost_model, bands={"x": (1.0, 2.0)})
    odd = [
        replace(found, cost_model=sure, doubts=()),
        changed(found, cost_model=sure, doubts=(doubt,) * 10, worst_ratio=1.0625, mean_ratio=1.03125),
        replace(found, left_out=("x", "y"), bound=None),
    ]
    check("size_sets", *(size_set_rows(one, Rates(), path="x.plan") for one in (found, *odd)))


def test_plans_of_jobs_are_written_into_folders(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    asked = Solve({"topology": FABRIC, "jobs": tmp_path / "jobs.toml", "output": tmp_path / "file"})
    with pytest.raises(FormatError) as caught:
        solve._solve_jobs(Output(), asked)
    assert str(caught.value) == f"-o {tmp_path / 'file'}: is a file; plans of jobs are written into a folder"
