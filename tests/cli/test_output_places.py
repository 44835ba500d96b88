"""A file that a command is to write into a folder that is not there: refused before there is any work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from treadle.cli.application import SUMMARIES, load_command
from treadle.cli.command import is_written
from treadle.cli.fabric_arguments import FabricCommand
from treadle.cli.main import main

READ = {"--demands", "--jobs", "--floor", "--costs", "--layer-times", "--diff", "--plan", "design --workload"}
"""Path options that a command reads."""

MADE = {"harden -o", "train --chakra"}
"""Folders, which are made."""


def _commands(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield name, command
    else:
        for word, one in inner.items():
            yield from _commands(f"{name} {word}", one)


OPTIONS = [
    (name, option, is_written(option))
    for top in SUMMARIES
    for name, command in _commands(top, load_command(top))
    for option in command.params
    if option.param_type_name == "option" and "Path" in str(option.type_descriptor.annotation)
]


def test_every_path_is_read_or_written() -> None:
    known = {(name, option.opts[0]) for name, option, written in OPTIONS if written}
    other = {(name, option.opts[0]) for name, option, written in OPTIONS if not written}
    assert all(flag in READ or f"{name} {flag}" in READ | MADE for name, flag in other)
    assert not [flag for name, flag in known if flag in READ or f"{name} {flag}" in READ | MADE]
    assert len(known) > 25


def test_lower_refuses_it_before_the_text_is_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = str(tmp_path / "ring.plan")
    assert main(["solve", "ring:4", "allgather", "-q", "-o", plan]) == 0
    assert main(["lower", plan, "--to", "msccl-xml", "-o", str(tmp_path / "gone" / "x.xml")]) == 2
    assert f"there is no folder {tmp_path / 'gone'}; make it first" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "option"), [(name, option) for name, option, written in OPTIONS if written])
def test_no_work_is_done_for_a_file_without_a_folder(
    name: str,
    option: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(FabricCommand, "invoke", lambda *_: pytest.fail("the command was begun"))
    words = name.split()
    command = load_command(words[0])
    for word in words[1:]:
        command = command.commands[word]
    arguments = [one.name for one in command.params if one.param_type_name == "argument"]
    needed = ["allgather" if argument == "collective" else "ring:4" for argument in arguments]
    options = [one for one in command.params if one.param_type_name == "option" and one.required]
    needed += [word for one in options for word in (one.opts[0], "8")]
    place = tmp_path / "gone" / "x"
    assert main([*words, *needed, option.opts[-1], str(place)]) == 2
    error = capsys.readouterr().err
    assert error == f"treadle: {place}: there is no folder {place.parent}; make it first\n"
