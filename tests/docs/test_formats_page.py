"""The commands of the page on formats run, in the order in which they stand, and its figures hold."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from samples.plan_sets import plan_set
from treadle.cli.main import main
from treadle.schedules.plan_files.archive import save_plan


def page(repository: Path) -> str:
    return (repository / "docs" / "reference" / "formats.md").read_text(encoding="utf-8")


def test_commands_run(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("google.protobuf", reason="Chakra: protobuf is not installed")
    monkeypatch.chdir(tmp_path)
    block = re.findall(r"^```\n(.*?)^```$", page(repository), flags=re.MULTILINE | re.DOTALL)[0]
    shown = []
    for line in block.splitlines():
        assert main(shlex.split(line)[1:]) == 0, line
        shown.append(capsys.readouterr().out)
    assert "335 messages, 719 steps" in shown[1]
    assert "256 messages, 815 steps" in shown[2]
    assert "335 messages become 256" in page(repository)
    assert "815 steps instead of 719" in page(repository)


def test_commands_for_several_ranges_run(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    block = re.findall(r"^```\n(.*?)^```$", page(repository), flags=re.MULTILINE | re.DOTALL)[1]
    save_plan("set.plan", plan_set("dgx_a100:1", "allreduce", ("one-shot", "ring"), (8192,)))
    *commands, last = block.splitlines()
    for line in commands:
        assert main(shlex.split(line)[1:]) == 0, line
        capsys.readouterr()
    done = subprocess.run(shlex.split(last), capture_output=True, text=True, check=True)
    assert f"MSCCL_ALGO_DIR={tmp_path}/texts/texts" in done.stdout
    assert {path.name for path in Path("texts").iterdir()} == {"texts", "set.json", "load.sh"}
    # in and out of place: a file for each range, and one of fewer chunks that fills in
    assert len([*Path("texts/texts").iterdir()]) == 6
    assert {path.name for path in Path("plans").iterdir()} == {
        "texts",
        "set.json",
        "load.sh",
        "treadle_set.py",
    }
