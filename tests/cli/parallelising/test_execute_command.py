"""``treadle execute``: a plan of the search on ranks of this machine, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch: not installed; pip install 'treadle[torch]'")

from harness.json_schema_judge import faults
from treadle.api import execute_plan as executing
from treadle.cli.main import main
from treadle.cli.settings.json_schema import json_schema
from treadle.errors import MemoryLimitError
from treadle.parallelism.execution.execute import RankExecutions
from treadle.parallelism.plan.plan_json import format_plan_json, read_plan

MODULE = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(16, 64), nn.Linear(64, 16)

    def forward(self, x):
        return self.down(torch.relu(self.up(x))).square().mean()

def make():
    return Net(), (torch.randn(8, 16),)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A module, its graph, and the plan that the search finds for it."""
    path = tmp_path_factory.mktemp("execute")
    (path / "net.py").write_text(MODULE)
    graph, plan = str(path / "graph.json"), str(path / "plan.json")
    assert main(["capture", str(path / "net.py:make"), "-o", graph, "-q"]) == 0
    words = ["parallelize", graph, "--fabric", 'complete(2, bandwidth="900GB/s")', "--gpu", "a100"]
    assert main([*words, "--mesh", "2", "--alpha", "0us", "--memory", "26KB", "-o", plan, "-q"]) == 0
    return path


@pytest.fixture(autouse=True)
def _there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def test_a_searched_plan_runs_as_it_was_predicted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["execute", "plan.json", "net.py:make", "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    schema = json_schema("execute")
    assert faults(value, schema, schema) == []
    assert (value["ranks"], value["backend"], value["faults"]) == (2, "gloo", [])
    assert value["largest_error"] < value["tolerance"] < 2e-6
    assert len(value["errors"]) == 5
    assert value["collectives"]
    assert all(one["called"] == one["predicted"] for one in value["collectives"])
    assert abs(value["memory_error"]) < 0.05


def fake(monkeypatch: pytest.MonkeyPatch, **changed: object) -> None:
    """Ranks that do what was predicted, but for this."""

    def run(tasks, **_):
        (task,) = tasks
        foreseen = executing.predicted(task)
        errors = {"0 net: output 0": 1e-9, "0 net: up.weight": 1e-8}
        right = RankExecutions(
            "gloo", 2, errors, foreseen.collectives, foreseen.peak_bytes, "backward net mm", 9, 1e-7
        )
        return [replace(right, **changed)]

    monkeypatch.setattr(executing, "execute", run)


def test_the_report_stands_in_80_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake(monkeypatch)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert main(["execute", "plan.json", "net.py:make"]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    for words in (
        "plan         plan.json: net, mesh 0=2",
        "executed     one step on 2 processes of this machine, over gloo",
        "outputs      1, at most 1.0e-09 off those of one process",
        "gradients    1, at most 1.0e-08 off",
        "as predicted",
        "(+0.0%)",
        "result       as on one process",
    ):
        assert words in out


def test_faults_are_named_and_end_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake(monkeypatch, errors={"0 net: output 0": 0.0, "0 net: up.weight": float("nan")}, collectives={})
    assert main(["execute", "plan.json", "net.py:make"]) == 1
    out, err = capsys.readouterr()
    assert "WRONG        0 net: up.weight: off by nan of its largest number" in out
    assert "called 0 times; predicted" in out
    assert "result" not in out
    assert err.startswith("treadle: plan.json: ")
    assert err.count("\n") == 1
    assert main(["execute", "plan.json", "net.py:make", "--json"]) == 1
    value = json.loads(capsys.readouterr().out)
    schema = json_schema("execute")
    assert faults(value, schema, schema) == []
    assert value["largest_error"] is None
    assert len(value["faults"]) >= 2


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["plan.json", "gpt2"], 2, "gpt2: cannot be run; expected the module"),
        (["plan.json", "graph.json"], 2, "graph.json: cannot be run"),
        (["graph.json", "net.py:make"], 2, 'expected "parallel plan", found "model graph"'),
        (["plan.json", "net.py:other"], 2, "no function 'other'"),
        (["plan.json", "net.py:make", "--backend", "nccl"], 2, "nccl"),
        (["plan.json", "net.py:make", "--timeout", "soon"], 2, "soon"),
        (["plan.json", "net.py:make", "--repeats", "3"], 2, "a block that is repeated"),
        (["other.json", "net.py:make"], 2, "another size, batch or version of the model"),
    ],
)
def test_what_cannot_run_is_refused_in_a_line(
    words: list[str], status: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("other.json").write_text(format_plan_json(replace(read_plan("plan.json"), digest="0" * 64)))
    assert main(["execute", *words]) == status
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


def test_what_is_too_large_for_the_machine_is_refused_before_it_is_made(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(executing, "available_bytes", lambda: 10 * 1024)
    with pytest.raises(MemoryLimitError, match="this machine has 10KB"):
        executing.execute_plan("plan.json", "net.py:make")
    assert main(["execute", "plan.json", "net.py:make"]) == 6
    assert "make the module smaller" in capsys.readouterr().err
