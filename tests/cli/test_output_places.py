"""A file that a command is to write into a folder that is not there: refused before there is any work."""

from __future__ import annotations

from pathlib import Path

import pytest

from treadle.cli.command import Command
from treadle.cli.main import main
from treadle.options.rows import REQUIRED, Row
from treadle.options.verbs import VERBS, table

READ = {
    "--demands",
    "--jobs",
    "--floor",
    "--costs",
    "--layer-times",
    "--diff",
    "--plan",
    "--retune",
    "design --workload",
}
"""Path options that a command reads."""

MADE = {"train --chakra"}
"""Folders, which are made."""


OPTIONS = [
    (verb, row)
    for verb in VERBS
    for row in table(verb).rows.values()
    if not row.is_argument and not row.in_python and "Path" in row.type
]


def test_every_path_is_read_or_written() -> None:
    known = {(verb, row.flag) for verb, row in OPTIONS if row.writes}
    other = {(verb, row.flag) for verb, row in OPTIONS if not row.writes}
    assert all(flag in READ or f"{name} {flag}" in READ | MADE for name, flag in other)
    assert not [flag for name, flag in known if flag in READ or f"{name} {flag}" in READ | MADE]
    assert len(known) >= 25


def test_lower_refuses_it_before_the_text_is_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = str(tmp_path / "ring.plan")
    assert main(["solve", "ring:4", "allgather", "-q", "-o", plan]) == 0
    assert main(["lower", plan, "--to", "msccl-xml", "-o", str(tmp_path / "gone" / "x.xml")]) == 2
    assert f"folder {tmp_path / 'gone'} does not exist; create it first" in capsys.readouterr().err


@pytest.mark.parametrize(("verb", "row"), [(verb, row) for verb, row in OPTIONS if row.writes])
def test_no_work_is_done_for_a_file_without_a_folder(
    verb: str,
    row: Row,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Command, "invoke", lambda *_: pytest.fail("the command was begun"))
    words, rows = verb.split(), table(verb).rows.values()
    needed = ["allgather" if one.name == "collective" else "ring:4" for one in rows if one.is_argument]
    options = [one for one in rows if not one.is_argument and one.default is REQUIRED]
    needed += [word for one in options for word in (one.flag, "8")]
    place = tmp_path / "gone" / "x"
    assert main([*words, *needed, row.flag, str(place)]) == 2
    error = capsys.readouterr().err
    assert error == f"treadle: {place}: folder {place.parent} does not exist; create it first\n"
