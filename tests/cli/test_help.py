"""Help that fits the screen, and the options that it leaves to ``treadle algorithms``."""

from __future__ import annotations

import json

import pytest

from treadle.cli.main import main
from treadle.options.solving import Solve
from treadle.options.verbs import VERBS
from treadle.planning import schedulers
from treadle.synthesis.scheduler_options import flag_of

TWO_SCREENS = 2 * 24


def help_of(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *command: str) -> list[str]:
    monkeypatch.setenv("COLUMNS", "80")
    assert main([*command, "--help"]) == 0
    return capsys.readouterr().out.splitlines()


def test_solve_takes_two_screens(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Less a dozen lines for the names of algorithms, however many there are."""
    lines = help_of(capsys, monkeypatch, "solve")
    names = next(place for place, line in enumerate(lines) if line.startswith("Algorithms ("))
    assert names <= TWO_SCREENS - 12
    assert all(len(line) <= 80 for line in lines)


def test_summaries_of_commands_are_whole(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = help_of(capsys, monkeypatch)
    text = " ".join(" ".join(lines).split())
    assert all(f"{name} {verb.summary}" in text for name, verb in VERBS.items() if " " not in name)
    assert all(len(line) <= 80 for line in lines)


@pytest.mark.parametrize("name", VERBS)
def test_no_line_is_wider_than_a_terminal(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = help_of(capsys, monkeypatch, *name.split())
    assert all(len(line) <= 80 for line in lines), lines
    assert not [line for line in lines if "<str>" in line or "[required]" in line]


@pytest.mark.parametrize("name", ["solve", "compare"])
def test_algorithms_are_grouped_by_form(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = " ".join(help_of(capsys, monkeypatch, name))
    names = text.split("Algorithms (")[1].replace(",", " ").split()
    place = {form: names.index(form) for form in ("trees", "steps", "alltoall-steps")}
    for one in schedulers(plug_ins=False):
        assert one.name in names
        if one.form.value in place:
            assert names.index(one.name) > place[one.form.value]


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
