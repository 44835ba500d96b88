"""Help that fits the screen, and the options that it leaves to ``treadle algorithms``."""

from __future__ import annotations

import json

import pytest

from treadle.cli.main import main
from treadle.options.solving import Solve
from treadle.options.verbs import VERBS
from treadle.planning import schedulers
from treadle.synthesis.scheduler_options import flag_of


def help_of(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *command: str) -> list[str]:
    monkeypatch.setenv("COLUMNS", "80")
    assert main([*command, "--help"]) == 0
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("name", VERBS)
def test_no_line_is_wider_than_a_terminal(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = help_of(capsys, monkeypatch, *name.split())
    assert all(len(line) <= 80 for line in lines), lines
    assert not [line for line in lines if "<str>" in line or "[required]" in line]


def test_what_only_some_heed_is_told_with_them(capsys: pytest.CaptureFixture[str]) -> None:
    """Hidden options of solve are options of algorithms, and each is told in full by one at least."""
    hidden = {row.flag for row in Solve.rows.values() if row.rare}
    heeded = {flag_of(option) for one in schedulers(plug_ins=False) for option in one.supported_options}
    assert {"--packer", "--rounds", "--max-flows", "--multicast"} <= hidden
    told = set()
    for one in schedulers(plug_ins=False):
        assert main(["algorithms", one.name]) == 0
        out = capsys.readouterr().out
        assert out.startswith(f"{one.name} ({one.form}")
        told |= {word.rstrip(":") for word in out.split() if word.startswith("--")}
        for option in one.supported_options:
            assert f"\n  {flag_of(option)}" in out
    assert hidden & heeded <= told


def test_one_algorithm_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["algorithms", "Double_Binary_Tree", "--json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["schedulers"]
    assert one["name"] == "double-binary-tree"
    assert main(["algorithms", "magic"]) == 2
    assert "unknown algorithm 'magic'" in capsys.readouterr().err
