"""The page on groups: what it quotes is printed; every figure of the page of figures is what is found."""

from __future__ import annotations

import json
import re
import shlex
from fractions import Fraction

import pytest
from tools.records import read_rows

from places import ROOT
from treadle.cli.main import main

TEXT = (ROOT / "docs/how-to/groups.md").read_text(encoding="utf-8")
ROWS = [(name.strip("`"), *rates) for name, *rates in read_rows("groups-figures", "Alone and together")]


def rate(text: str) -> Fraction:
    """The first figure of a cell, in bytes/s."""
    number = Fraction(text.split()[0].rstrip(";"))
    return number if " link" in text else number * 10**9


def exact(value: Fraction) -> str:
    return f"{value.numerator}/{value.denominator}"


@pytest.mark.parametrize(("command", "alone", "together"), ROWS, ids=[row[0] for row in ROWS])
def test_figures(command: str, alone: str, together: str, capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["bound", *shlex.split(command), "--json"])
    values = json.loads(capsys.readouterr().out)
    assert values["alone_exact"] == exact(rate(alone))
    assert values["together_exact"] == exact(rate(together))
    assert "together_upper_exact" not in values
    others = re.fullmatch(r".*; (\d+) groups (\S+)", alone)
    if others:
        least, most = values["alone_rates"]
        assert most["algbw_exact"] == exact(Fraction(others[2]))
        assert least["groups"] + most["groups"] == values["groups"]
        assert most["groups"] == int(others[1])
    if "--forward` " in together:
        assert values["forwarding_exact"] == exact(Fraction(together.split()[-1]) * 10**9)
    assert status == (0 if rate(together) else 3)


def test_there_are_figures() -> None:
    assert len(ROWS) == 29


def test_quoted_reports_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    quoted = re.findall(r"^```text\n(.*?)^```$", TEXT, flags=re.MULTILINE | re.DOTALL)
    first = next(line for line in TEXT.splitlines() if line.startswith("treadle bound leaf_spine"))
    commands = [block.splitlines()[0].removeprefix("$ ") for block in quoted]
    assert "treadle compare" in commands[-1]  # of which the next test reads the figures
    for block, command in zip(quoted[:-1], (first, *commands[1:-1]), strict=True):
        assert main(shlex.split(command)[1:]) == (3 if "0: a group is cut off" in block else 0)
        printed = capsys.readouterr().out.splitlines()
        lines = [line for line in block.splitlines() if not line.startswith("$")]
        assert lines
        assert not [line for line in lines if line not in printed]


def test_schedulers_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    rows = re.findall(r"^\| ((?:`[a-z-]+`(?:, )?)+) \| (\S+) \| (\d+)% \|$", TEXT, flags=re.MULTILINE)
    command = next(line for line in TEXT.splitlines() if line.startswith("$ treadle compare"))
    assert main([*shlex.split(command)[2:], "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    found = {one["algorithm"]: Fraction(one["algbw_exact"]) for one in values["schedules"]}
    told = {
        name: (rate(cell), int(share)) for names, cell, share in rows for name in names[1:-1].split("`, `")
    }
    assert {name: algbw for name, (algbw, _) in told.items()} == found
    best = Fraction(values["optimal_algbw_exact"])
    assert {name: share for name, (_, share) in told.items()} == {
        name: round(100 * algbw / best) for name, algbw in found.items()
    }
