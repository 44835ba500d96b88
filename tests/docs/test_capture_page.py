"""The page on captured models: its commands run on its module, and print what it says."""

from __future__ import annotations

import re
import shlex
import sys
import tomllib
from pathlib import Path

import pytest

from treadle import capture
from treadle.cli.main import main
from treadle.parallelism.capture import added_rules
from treadle.parallelism.capture.rules import RULES
from treadle.parallelism.graph.compute_graph import OperatorKind


@pytest.fixture
def page(repository: Path) -> str:
    return (repository / "docs" / "how-to" / "capture.md").read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    return [text for name, text in found if name == language]


def needs_torch() -> None:
    pytest.importorskip("torch", reason="torch: not installed; pip install 'treadle[torch]'")


def test_known_models_are_captured_without_torch(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "torch", None)
    for line in blocks(page, "")[0].splitlines():
        assert main(shlex.split(line)[1:]) == 0
    assert (tmp_path / "deepseek.json").is_file()


def test_the_module_is_captured_and_prints_as_shown(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    needs_torch()
    monkeypatch.chdir(tmp_path)
    module = blocks(page, "python")[0].replace("11008, 32)", "11008, 4)")  # folded all the same
    (tmp_path / "model.py").write_text(module)
    shown = []
    for line in blocks(page, "")[1].splitlines():
        assert main(shlex.split(line)[1:]) == 0
        shown.append(capsys.readouterr().out)
    told = blocks(page, "text")[0].replace("4.46B", "672M").replace("block         32", "block          4")
    assert shown[0].startswith(told)
    assert shown[1].startswith(shown[0].rpartition("graph ")[0])
    assert re.search(r"^block +32 +135M", shown[2], flags=re.MULTILINE)


def test_the_kinds_are_those_of_the_page_of_graphs(repository: Path) -> None:
    page = (repository / "docs" / "reference" / "graphs.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    told = set(re.findall(r"`([A-Z]+)`", "".join(rows)))
    assert told == {kind.value for kind in OperatorKind} - {"PLACEHOLDER", "OUTPUT"}


def test_python_and_rules_are_as_told(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(added_rules, "ADDED", {})
    known, rule = blocks(page, "python")[1:]
    exec(known)
    assert capture("llama-3-8b", tokens="128K").layers == 34
    exec(rule)
    (operator,) = added_rules.ADDED
    assert operator not in {own.operator for own in RULES}
    (group,) = tomllib.loads(blocks(page, "toml")[0])["project"]["entry-points"]
    assert group == added_rules.ENTRY_POINTS
