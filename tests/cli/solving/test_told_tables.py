"""Tables and lines of jobs, comparisons and groups, of results by hand."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import treadle
from treadle.cli.main import main
from treadle.cli.output import Output
from treadle.cli.solving import comparison_report, group_report, jobs_report
from treadle.errors import FormatError
from treadle.options.solving import Solve
from treadle.planning.together.solve_jobs import MODEL
from treadle.render.quantities import Rates
from treadle.verification.violations import Violation, ViolationKind

GB = 10**9
FABRIC = treadle.parse("ring:4")


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str]) -> Any:
    """Lines that a call prints, without blanks at their ends."""

    def told(function: Any, output: Output, *arguments: Any) -> list[str]:
        capsys.readouterr()
        function(output, *arguments)
        return [line.rstrip() for line in capsys.readouterr().out.splitlines()]

    return told


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


def test_jobs_in_a_table(lines: Any) -> None:
    links = [FABRIC.link_name(link) for link in range(8)]
    told = lines(jobs_report.report_jobs, Output(), jobs_result())
    assert told == [
        "fabric      ring:4: 4 compute nodes, 0 switches, 8 links".replace("ring:4", FABRIC.name),
        f"jobs        2 at once; {MODEL}",
        *told[2:4],
        *told[4:-4],
        "common      5 GB/s for the largest weight, exact",
        f"limits      one: by {links[1]}, {links[2]}, {links[4]} and 1 more",
        f"            two, one, two and 2 more: by {links[3]}",
        "CPU s       total 1.50",
    ]
    cells = [line.split() for line in told[2:-4]]
    assert ["job", "collective", "ranks", "weight", "alone", "together", "share"] in cells
    assert ["one", "allgather", "3", "2.5", "8", "GB/s", "5", "GB/s", "0.625"] in cells
    assert ["two", "reduce", "3", "1", "6", "GB/s", "1.33", "GB/s", "0.222"] in cells


def test_many_jobs_are_cut_short(lines: Any) -> None:
    for count, more in ((20, []), (21, ["            and 1 job more; --json has all"])):
        rates = (Fraction(GB),) * count
        many = jobs_result(
            jobs=tuple(job(f"j{number}") for number in range(count)), alone=rates, together=rates, levels=()
        )
        told = lines(jobs_report.report_jobs, Output(), many)
        assert any(line.startswith("j19 ") for line in told)
        assert not any(line.startswith("j20 ") for line in told)
        assert [line for line in told if "more" in line] == more


def test_jobs_that_were_planned(lines: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    planned = jobs_result(
        loss=Fraction(1, 8),
        plans=("p", "q", "r"),
        reached=(Fraction(4 * GB), Fraction(GB)),
        grids=(Fraction(7, 2), Fraction(3)),
        exact_grids=(Fraction(5), Fraction(10**9)),
        report=SimpleNamespace(is_max_min=False, report=SimpleNamespace(is_ok=True)),
    )
    monkeypatch.setattr(jobs_report, "save_jobs", lambda folder, result: [Path("x"), Path("last.toml")])
    told = lines(jobs_report.report_jobs, Output(), planned, Path("out"))
    assert (
        "rounded     12.50% below the optimum: up to 4 trees per root or chunks per unit of demand, the "
        "optimum takes 1e+09"
    ) in told
    assert "verified    yes: every plan, and the loads of all together" in told
    assert told[-1] == "plans       out: 3 plans and last.toml"
    planned.report.is_max_min = True
    told = lines(jobs_report.report_jobs, Output(as_json=True), planned, Path("out"))
    found = json.loads(told[0])
    assert found.pop("schema").endswith("-jobs/1")
    assert found["plan"] == "out"
    assert (found["verified"], found["optimal"], found["gap"]) == (True, True, 0.125)
    assert found["common_rate_exact"] == "2000000000/1"
    assert found["jobs"][1] == {
        "name": "two",
        "collective": "reduce",
        "ranks": 3,
        "weight_exact": "1/1",
        "alone_bytes_per_s": 6e9,
        "alone_exact": "6000000000/1",
        "together_bytes_per_s": 4e9 / 3,
        "together_exact": "4000000000/3",
        "reached_bytes_per_s": 1e9,
        "reached_exact": "1000000000/1",
        "trees_per_root_exact": "3/1",
    }
    assert found["levels"][1] == {
        "rate_exact": "3/2",
        "limited": ["two", "one", "two", "one", "two"],
        "links": [FABRIC.link_name(3)],
    }
    bare = jobs_report.jobs_summary(jobs_result())
    assert "verified" not in bare
    assert set(bare["jobs"][0]) == set(found["jobs"][0]) - {  # type: ignore[index]
        *("reached_bytes_per_s", "reached_exact", "trees_per_root_exact")
    }


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("allgather", "COLLECTIVE"),
        ("--size 1K", "--size"),
        ("allgather --root 2 --gap 0.1", "COLLECTIVE and --root and --gap"),
    ],
)
def test_what_the_file_of_jobs_says(words: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bound", "ring:4", *words.split(), "--jobs", "jobs.toml"]) == 2
    assert capsys.readouterr().err == f"treadle: {said}: beside --jobs the file says that of each job\n"


def test_weights_and_counts_of_trees() -> None:
    assert [jobs_report._weight(Fraction(one)) for one in ("3", "5/2", "1/3", "999999", "1000000")] == [
        *("3", "2.5", "0.3333", "999999", "1e+06")
    ]
    assert [jobs_report._count(Fraction(one)) for one in ("7/2", "3", "999999999", "1000000000")] == [
        *("4", "3", "999999999", "1e+09")
    ]


def row(name: str = "mine", **fields: Any) -> Any:
    values = {"algorithm": name, "form": "", "is_peer": False, "report": None, "notes": (), "measured": None}
    return SimpleNamespace(**(values | fields))


def measured(*times: Fraction, congestion: Any = "some", bounds: Any = (), refusal: str = "") -> Any:
    found = SimpleNamespace(links=("a->b", "c->d"), n_links=2, times_optimum=Fraction(4, 3))
    sizes = [
        SimpleNamespace(
            time=time,
            algbw_bytes_per_s=2.5 * GB,
            efficiency=None if not number else 0.25,
            bound=SimpleNamespace(time=bounds[number]) if bounds else None,
        )
        for number, time in enumerate(times)
    ]
    return SimpleNamespace(congestion=found if congestion else None, sizes=sizes, refusal=refusal)


def compared(*rows: Any, sizes: tuple[int, ...] = (), in_network: Any = None) -> Any:
    collective = SimpleNamespace(kind=treadle.CollectiveKind.ALLREDUCE, group_size=4)
    model = SimpleNamespace(name="mine")
    return SimpleNamespace(
        rows=rows, sizes=sizes, in_network=in_network, collective=collective, cost_model=model
    )


def test_names_of_rows() -> None:
    assert comparison_report.row_name(row()) == "mine"
    assert comparison_report.row_name(row(is_peer=True)) == "mine (peer)"
    assert comparison_report.row_name(row(is_peer=True, form="taccl")) == "mine (taccl)"
    bound = SimpleNamespace(algbw=Fraction(25 * GB))
    found = SimpleNamespace(bound=bound, row=SimpleNamespace(algbw=Fraction(20 * GB)))
    assert comparison_report.in_network_line(found, Rates("Gbit/s")).endswith(  # type: ignore[arg-type]
        "; 80.0% of their optimum, 200 Gbit/s; 'dgx_h100(1, nvls=True)' has such"
    )


def test_what_is_wrong_with_files_that_were_brought(lines: Any) -> None:
    kind = next(iter(ViolationKind))
    wrong = tuple(Violation(kind, f"m{number}") for number in range(21))
    report = SimpleNamespace(violations=wrong, n_violations=21)
    brought = row("file", form="msccl", report=report, notes=("first", "second"))
    own = row("own", report=report, notes=("unsaid",))
    late = row("late", measured=SimpleNamespace(congestion=None, refusal="too many", sizes=()))
    assert lines(comparison_report.print_measures, Output(), compared(brought, own, late)) == [
        *(f"file: {treadle.planning.violation_text(one)}" for one in wrong[:20]),
        "file: and 1 more violation (see --json)",
        "file: first",
        "file: second",
        "late: not simulated: too many",
    ]


def test_links_that_are_busy(lines: Any) -> None:
    more = measured()
    more.congestion.n_links = 3
    switches = SimpleNamespace(row=row("nvls", measured=measured()))
    told = lines(
        comparison_report.print_measures,
        Output(),
        compared(row("mine", measured=more), row("none"), row("x", measured=measured(congestion=None))),
    )
    assert [line.split() for line in told if "->" in line] == [
        ["mine", "a->b,", "c->d,", "...", "3", "1.333"],
    ]
    told = lines(comparison_report.print_measures, Output(), compared(in_network=switches))
    assert [line.split() for line in told if "->" in line] == [
        ["nvls", "(in-network)", "a->b,", "c->d", "2", "1.333"],
    ]
    assert lines(comparison_report.print_measures, Output(), compared(row())) == []


def test_times_at_few_sizes(lines: Any) -> None:
    times = (Fraction(1, 10**6), Fraction(25, 10**7), Fraction(3, 10**6))
    one = row("mine", measured=measured(*times))
    told = lines(comparison_report.print_measures, Output(), compared(one, sizes=(1024, 2048, 3 * 2**20)))
    assert (
        "simulated   costs mine; GB/s of algbw, busbw is 3/2 of it; "
        "%opt is the bound of the size over the time"
    ) in told
    heads = next(line for line in told if "1KB us" in line)
    assert " ".join(heads.split()) == (
        "algorithm 1KB us 1KB GB/s 1KB %opt 2KB us 2KB GB/s 2KB %opt 3MB us 3MB GB/s 3MB %opt"
    )
    assert told[-1].split() == [
        "mine",
        "1.00",
        "2.500",
        "-",
        "2.50",
        "2.500",
        "25.0%",
        "3.00",
        "2.500",
        "25.0%",
    ]


def test_times_at_many_sizes(lines: Any) -> None:
    sizes = tuple(1024 * (number + 1) for number in range(7))
    quick = [Fraction(number + 1, 10**6) for number in range(7)]
    slow = [2 * time if number % 2 else time for number, time in enumerate(quick)]
    least = [time / 4 for time in quick]
    rows = (
        row("a", measured=measured(*slow, bounds=least)),
        row("b", measured=measured(*quick, bounds=least)),
    )
    told = lines(comparison_report.print_measures, Output(), compared(*rows, sizes=sizes))
    assert "simulated   costs mine" in told
    assert [line.split() for line in told if line.startswith(("us", "a ", "b ", "bound"))][2:] == [
        ["us", "1KB", "2KB", "3KB", "4KB", "5KB", "6KB"],
        ["a", "1*", "4", "3*", "8", "5*", "12"],
        ["b", "1*", "2*", "3*", "4*", "5*", "6*"],
        ["bound", "0.25", "0.5", "0.75", "1", "1.25", "1.5"],
        ["us", "7KB"],
        ["a", "7*"],
        ["b", "7*"],
        ["bound", "1.75"],
    ]
    assert told[-1] == "*           the quickest of its size"
    four = (row("a", measured=measured(*quick[:4])),)
    told = lines(comparison_report.print_measures, Output(), compared(*four, sizes=sizes[:4]))
    assert [line.split() for line in told if line.startswith(("us", "a ", "bound"))][1:] == [
        ["us", "1KB", "2KB", "3KB", "4KB"],
        ["a", "1*", "2*", "3*", "4*"],
    ]


def alone(rate: Fraction, groups: int, *, is_exact: bool = True) -> Any:
    return SimpleNamespace(algbw=rate, groups=tuple(range(groups)), is_exact=is_exact)


def test_rates_of_groups_by_themselves() -> None:
    rates = [Fraction(number * GB) for number in (1, 2, 3, 4, 5)]
    said = group_report.alone_text
    assert said(Output(), (alone(Fraction(10 * GB, 3), 4),)) == "3.33 GB/s (10/3) algbw, each group by itself"
    assert said(Output(), (alone(rates[0], 1, is_exact=False), alone(rates[1], 2))) == (
        "at most 1 GB/s for 1 group, 2 GB/s for 2 groups, each by itself"
    )
    three = tuple(alone(rate, 2) for rate in rates[:3])
    assert said(Output(), three) == (
        "1 GB/s for 2 groups, 2 GB/s for 2 groups, 3 GB/s for 2 groups, each by itself"
    )
    four = tuple(alone(rate, 1) for rate in rates[:4])
    assert said(Output(), four) == (
        "1 GB/s for 1 group, 2 GB/s for 1 group, 3 GB/s for 1 group, 1 more up to 4 GB/s, each by itself"
    )


def shared(lower: Fraction, upper: Fraction, rs_ag: Fraction | None = None) -> Any:
    return SimpleNamespace(
        lower=lower,
        upper=upper,
        alone=(alone(Fraction(9 * GB), 2),),
        bottleneck=(0, 3),
        rs_ag=rs_ag,
        is_exact=lower == upper,
    )


def test_rates_of_groups_together(lines: Any) -> None:
    posed = treadle.Collective(treadle.CollectiveKind.ALLREDUCE, (0, 1, 2, 3), groups=((0, 1), (2, 3)))
    first = "alone       9 GB/s algbw, each group by itself"
    names = group_report.describe_links(FABRIC, (0, 3))

    def told(found: Any, model: str = "") -> list[str]:
        return lines(group_report.print_groups, Output(), FABRIC, posed, found, model)

    rate = Fraction(10 * GB, 3)
    assert told(shared(rate, rate), "hosts") == [
        first,
        "together    3.33 GB/s (10/3) algbw of each group, 3.33 GB/s busbw, exact",
        f"bottleneck  {names}",
        "model       hosts",
    ]
    near = shared(rate * 99999 / 10**5, rate)
    assert " ".join(" ".join(told(near)[1:3]).split()) == (
        "together 3.33 GB/s algbw of each group, 3.33 GB/s busbw, at most 1.0e-05 below the optimum"
    )
    far = shared(rate * 9999 / 10**4, rate, rs_ag=Fraction(3 * GB))
    assert " ".join(" ".join(told(far)).split()) == " ".join(
        (
            f"{first} together at least 3.33 GB/s (3333/1000) and at most 3.33 GB/s (10/3) algbw of each "
            f"group: the optimum is between RS + AG 3 GB/s; joint at least 3.33 GB/s (3333/1000), 1.111x "
            f"bottleneck {names}"
        ).split()
    )
    assert group_report.phases_text(Output(), shared(rate, rate, rs_ag=rate)) == (
        "reduce-scatter + allgather is optimal"
    )
    assert group_report.phases_text(Output(), shared(rate, rate, rs_ag=rate / 2)) == (
        "1.67 GB/s (5/3); joint 3.33 GB/s (10/3), 2x"
    )


def test_meshes_and_the_groups_that_they_make(lines: Any) -> None:
    assert group_report.mesh_values("dp=3,tp=2", None) == group_report.mesh_values(None, "dp") == {}
    assert group_report.mesh_values("dp=3,tp=2", "tp") == {
        "mesh": "dp=3,tp=2",
        "axes": ["tp"],
        "groups": 3,
        "group_size": 2,
    }
    assert lines(group_report.print_mesh, Output(), "dp=3,tp=2", "tp") == [
        "mesh        dp=3,tp=2, over tp: 3 groups of 2 ranks at once"
    ]
    assert lines(group_report.print_mesh, Output(), "dp=3,tp=2", "dp,tp") == [
        "mesh        dp=3,tp=2, over dp, tp: 1 group of 6 ranks"
    ]
    assert lines(group_report.print_mesh, Output(), None, "tp") == []


def test_plans_of_jobs_are_written_into_folders(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    asked = Solve({"topology": FABRIC, "jobs": tmp_path / "jobs.toml", "output": tmp_path / "file"})
    with pytest.raises(FormatError) as caught:
        jobs_report.solve_jobs(Output(), asked)
    assert str(caught.value) == f"-o {tmp_path / 'file'}: is a file; plans of jobs are written into a folder"
