"""What repair and harden say, line by line, of results by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import treadle
from treadle import planning
from treadle.cli.main import main
from treadle.cli.solving import repair
from treadle.planning.repairing.repair_candidates import Contender, Contest
from treadle.schedules.plan import Plan
from treadle.schedules.plan_files.archive import load_plan

RING = treadle.solve('ring(4, bandwidth="3GB/s")', "allgather").plan
SMALL = treadle.solve('ring(3, bandwidth="2GB/s")', "allgather").plan


def repaired(**changes: Any) -> Any:
    values: dict[str, Any] = {
        "links": (),
        "nodes": (),
        "lost_links": 2,
        "lost_ranks": (),
        "old": RING,
        "new": SMALL,
        "optimum_loss": Fraction(1, 8),
        "throughput_loss": Fraction(1, 8),
        "lone_bottleneck": None,
        "piece_kinds": (None, None),
    }
    return SimpleNamespace(**(values | changes))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"links": ("a--b",)}, "a--b: 2 directed links gone"),
        ({"links": ("a->b",), "lost_links": 1}, "a->b: 1 directed link gone"),
        ({"links": ("a--b", "c--d"), "nodes": ("e", "f")}, "a--b, c--d, e, f: 2 directed links gone"),
        (
            {"links": ("a--b", "c--d"), "nodes": ("e", "f", "g"), "lost_ranks": ("e", "g")},
            "a--b, c--d, e, f and 1 more: 2 directed links, 2 ranks gone",
        ),
        ({"nodes": ("e",), "lost_links": 0, "lost_ranks": ("e",)}, "e: 0 directed links, 1 rank gone"),
    ],
)
def test_what_failed(changes: dict[str, Any], said: str, lines: Any) -> None:
    assert lines(repair._print_failure, repaired(**changes)) == [f"failed      {said}"]


def test_what_a_failure_costs(lines: Any) -> None:
    """Of four shards three enter a rank by two links of 3 GB/s, of three two by two of 2 GB/s."""
    before = "before      optimum 8 GB/s, 6 GB/s busbw"
    after = "after       optimum 6 GB/s, 4 GB/s busbw"
    told = lines(repair._print_cost, repaired())
    assert (told[0], told[2], told[4:]) == (before, after, ["loss        12.50% of the optimum"])
    assert told[1].startswith("            cut: 3 of 4 shards must enter n")
    assert told[3].startswith("            cut: 2 of 3 shards must enter n")
    less = repaired(
        old=replace(RING, algbw=Fraction(6 * 10**9)),
        new=replace(SMALL, optimal_algbw=None, algbw=Fraction(3 * 10**9)),
        throughput_loss=Fraction(1, 4),
        lone_bottleneck="n2",
        piece_kinds=(3, 5),
    )
    told = lines(repair._print_cost, less)
    assert told[0] == f"{before}, the plan 25.00% below it"
    assert told[2:] == [
        "after       3 GB/s asymptotic algbw, 2 GB/s busbw, no bound known",
        "loss        12.50% of the optimum, 25.00% of the plan's throughput",
        "            n2 alone holds the others back; compare --node n2, without it",
        "kinds       of pieces: 3 before, 5 after",
    ]
    assert lines(repair._print_cost, repaired(piece_kinds=(3, None)))[-1].startswith("loss")
    bare = lines(repair._print_cost, repaired(old=replace(RING, optimal_algbw=None, witness=None)))
    assert bare[0] == "before      8 GB/s asymptotic algbw, 6 GB/s busbw, no bound known"
    nothing = lines(repair._print_cost, repaired(optimum_loss=None, throughput_loss=Fraction(1, 3)))
    assert nothing[-1] == "loss        33.33% of the plan's throughput"


@pytest.mark.parametrize(
    ("loss", "said"),
    [
        (Fraction(0), "nothing"),
        (Fraction(1, 10**4), "0.01%"),
        (Fraction(1, 10**4 + 1), "less than 0.01%"),
        (Fraction(-1, 10**5), "less than 0.01% more instead of less"),
        (Fraction(-1, 10**4), "0.01% more instead of less"),
        (Fraction(-1, 4), "25.00% more instead of less"),
    ],
)
def test_shares_are_never_rounded_to_nothing(loss: Fraction, said: str) -> None:
    assert repair._share(loss) == said


def test_algorithms_that_were_compared(lines: Any) -> None:
    contest = Contest(
        2**20,
        1.25e-3,
        (
            Contender("bfb", seconds=None, reason="does not serve"),
            Contender("ring", seconds=2.5e-4, reason=""),
        ),
    )
    assert lines(repair._print_contest, contest) == [
        "compared    simulated at 1MB: 1250.0 us before",
        "            bfb: does not serve",
        "            ring: 250.0 us",
    ]


def hardened(name: str, new: Plan | None = None, loss: Fraction | None = None, **changes: Any) -> Any:
    """A failure, with the plan for it if there is one."""
    result = new and SimpleNamespace(
        new=new,
        solved=SimpleNamespace(is_optimal=True, report=SimpleNamespace(is_ok=True)),
        lost_ranks=("n3",),
        throughput_loss=loss,
        seconds={"total": 1.256},
    )
    values = {"failure": SimpleNamespace(name=name, is_node=False), "refusal": "", "is_late": False}
    losses = {"loss": loss, "optimum_loss": loss, "throughput_loss": loss}
    return SimpleNamespace(**(values | {"result": result} | losses | changes))


ROWS = [
    hardened("n0--n1", SMALL, Fraction(1, 8)),
    hardened("a b/c" + "d" * 90, replace(SMALL, optimal_algbw=None), Fraction(1, 2), optimum_loss=None),
    hardened("n2", refusal="n3 is cut off"),
]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """A command on rows by hand: its status, what it printed and what it asked for."""
    plan = tmp_path / "ring.plan"
    assert main(["solve", RING.topology.name, "allgather", "-q", "-o", str(plan)]) == 0

    def called(rows: list[Any], *words: str) -> tuple[int, str, str, dict[str, Any]]:
        asked: dict[str, Any] = {}

        def answer(old: Plan, **options: Any) -> Any:
            asked.update(options, algbw=old.algbw)
            return iter(rows)

        monkeypatch.setattr(planning, "harden", answer)
        status = main(["harden", str(plan), *words])
        return status, *capsys.readouterr(), asked

    return called


def test_failures_in_a_table(run: Any) -> None:
    status, out, err, asked = run(ROWS)
    assert (status, err) == (0, "")
    told = [" ".join(line.split()) for line in out.splitlines()]
    long = "a b/c" + "d" * 90
    assert told[2:] == [
        "",
        "failure algbw busbw optimum optimum loses plan loses CPU s plan",
        "n0--n1 6 GB/s 4 GB/s 6 GB/s 12.5% 12.5% 1.26 -",
        f"{long} 6 GB/s 4 GB/s - - 50.0% 1.26 -",
        "n2 - - - - - - -",
        "",
        "n2: n3 is cut off",
        "loss 12.5% of the optimum on average over 1 failure, 12.5% at worst (n0--n1)",
        "31.2% of the plan's throughput on average over 2 failures, 50.0% at worst (" + long + ")",
        "unserved 1 failure, for which there is no plan",
    ]
    asked.pop("progress")
    assert asked == {
        "algbw": 8 * 10**9,
        "which": planning.Failures.CABLES,
        "forward": False,
    }
    _, out, _, asked = run(
        ROWS[:1], "--failures", "nodes", "--trim", "--time-limit", "2min", "--unit", "Gbit/s"
    )
    assert (asked["which"], asked["trim"], asked["time_limit_s"]) == (planning.Failures.NODES, True, 120)
    assert "n0--n1   48 Gbit/s  32 Gbit/s" in out
    assert "unserved" not in out
    both = "12.5% of the optimum and of the plan's throughput on average over 1 failure"
    assert f"loss        {both}, 12.5% at worst (n0--n1)" in out


def test_plans_for_failures_are_named_after_them(run: Any, tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "spare"
    status, out, _, _ = run(ROWS, "-o", str(folder), "--json")
    assert status == 0
    names = ["0000-n0--n1.plan", f"0001-a-b-c{'d' * 75}.plan"]
    assert sorted(path.name for path in folder.iterdir()) == [*names, "failures.json"]
    assert load_plan(folder / names[0]) == SMALL
    values = json.loads(out)
    assert [one.get("plan") for one in values["failures"]] == [*names, None]
    assert values["failures"][2] == {"failure": "n2", "kind": "cable", "refusal": "n3 is cut off"}
    assert (values["topology"], values["algorithm"]) == (RING.topology.name, RING.algorithm)
    index = json.loads((folder / "failures.json").read_text())
    assert index == {"topology": RING.topology.name, "failures": values["failures"]}
    _, out, _, _ = run(ROWS, "-o", str(folder))
    assert out.splitlines()[-1] == f"plans       {folder}, failures.json says which is for what"
    assert " ".join(out.splitlines()[4].split()).endswith(names[0])


def test_the_status_tells_of_failures_without_plans(run: Any) -> None:
    late = hardened("n1", refusal="no time", is_late=True)
    assert run(ROWS[2:])[0] == 3
    assert run([])[0] == 0
    status, _, err, _ = run([ROWS[0], late])
    assert (status, err) == (4, "treadle: the time limit was reached; some failures did not get their turn\n")
    assert run([late])[0] == 4
