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
from treadle.schedules.plan import Plan
from treadle.schedules.plan_files.archive import load_plan

RING = treadle.solve('ring(4, bandwidth="3GB/s")', "allgather").plan
SMALL = treadle.solve('ring(3, bandwidth="2GB/s")', "allgather").plan


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
    said = " ".join(told)
    for words in (
        "failure n0--n1 busbw 4 GB/s",
        f"failure {long} busbw 4 GB/s",
        "loss 12.5% of the optimum on average over 1 failure, 12.5% at worst (n0--n1)",
        "31.2% of the plan's throughput on average over 2 failures, 50.0% at worst",
        "no plan for 1 failure n2: n3 is cut off",
    ):
        assert words in said
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
    assert "no plan" not in out
    both = "12.5% of the optimum and of the plan's throughput on average over 1 failure"
    assert f"loss {both}, 12.5% at worst (n0--n1)" in " ".join(out.split())


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
    assert f"plans {folder}; failures.json lists which is for what" in " ".join(out.split())


def test_the_status_tells_of_failures_without_plans(run: Any) -> None:
    late = hardened("n1", refusal="no time", is_late=True)
    assert run(ROWS[2:])[0] == 3
    assert run([])[0] == 0
    status, _, err, _ = run([ROWS[0], late])
    assert (status, err) == (4, "treadle: the time limit was reached; some failures did not get their turn\n")
    assert run([late])[0] == 4
