"""Every command in process: exit status, text, JSON, files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from treadle.cli.main import main


def run_json(capsys: pytest.CaptureFixture[str], *argv: str, status: int = 0) -> dict[str, Any]:
    """The one JSON object that a command prints; nothing else may appear."""
    assert main([*argv, "--json"]) == status
    out, err = capsys.readouterr()
    assert (err == "") == (status == 0)
    assert out.endswith("}\n")
    assert out.count("\n") == 1
    value = json.loads(out)
    assert isinstance(value, dict)
    return value


@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter", "allreduce", "broadcast", "reduce"])
def test_solve_verify_run_and_lower_every_collective(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, xml = tmp_path / "plan", tmp_path / "xml"
    assert main(["solve", "dgx_a100(1, gpus_per_box=4)", kind, "-o", str(plan), "-q"]) == 0
    values = run_json(capsys, "verify", str(plan), "--topology", "dgx_a100(1, gpus_per_box=4)")
    assert values["verified"] is True
    assert values["topology_embedded"] is False
    values = run_json(capsys, "run", str(plan), "--size", "12B..1K,1000B", "--iterations", "1")
    assert values["wrong"] == 0
    assert [row["size_bytes"] for row in values["rows"]][-1] == 1000
    any_root = ["--accept-any-root"] if kind in ("broadcast", "reduce") else []
    values = run_json(capsys, "lower", str(plan), "-o", str(xml), *any_root)
    assert values["loaded_by_runtime"] is False
    assert xml.read_text().startswith("<algo ")


def test_trim_balances_a_lopsided_fabric(capsys: pytest.CaptureFixture[str]) -> None:
    fabric = 'with_failed_links(dgx_a100(2), "box0.gpu0->box0.nvswitch")'
    assert main(["solve", fabric, "allgather"]) == 3
    assert "box0" in capsys.readouterr().err
    values = run_json(capsys, "solve", fabric, "allgather", "--trim")
    assert values["verified"] is True
    assert any("surplus" in note for note in values["notes"])


def test_topology_commands(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    values = run_json(capsys, "topology", "list")
    assert "dgx_a100" in {entry["name"] for entry in values["catalogue"]}
    path = tmp_path / "fabric.json"
    assert main(["topology", "export", "dgx_a100:2", "-o", str(path)]) == 0
    shown = run_json(capsys, "topology", "show", str(path))
    assert shown["hash"] == run_json(capsys, "topology", "show", "dgx_a100:2")["hash"]
    assert main(["topology", "export", "ring:3"]) == 0
    assert json.loads(capsys.readouterr().out)["version"] == 1


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "compare" in capsys.readouterr().out
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("treadle ")
    assert main([]) == 2
    assert capsys.readouterr().err.startswith("Usage:")
