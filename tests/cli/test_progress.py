"""What a terminal shows while a command works, and that nothing of it is left."""

from __future__ import annotations

import io
import threading
from pathlib import Path

import pytest

from child_processes import wait_until
from treadle.cli import output
from treadle.cli.main import main
from treadle.cli.output import ProgressLine
from treadle.errors import ScheduleError

CLEAR = "\r\x1b[2K"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def on_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """What stderr is from now on; a fixture would be too early, pytest's own comes after it."""
    shown = Terminal()
    monkeypatch.setattr("sys.stderr", shown)
    monkeypatch.setattr(output, "_REFRESH_S", 0)  # every report is drawn
    return shown


def redrawing() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "treadle-progress"]


def test_shows_stage_and_share_and_clears_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    with ProgressLine(quiet=False) as progress:
        progress("packing", 0, 0)
        progress("packing", 3, 0)
        progress("matching", 1, 4)
        progress("matching", 9, 4)
    lines = terminal.getvalue().split(CLEAR)
    assert lines == ["", "packing", "packing 3", "matching 25%", "matching 100%", ""]
    assert not redrawing()


def test_counts_seconds_while_nobody_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    now = [100.0]
    monkeypatch.setattr(output, "monotonic", lambda: now[0])
    monkeypatch.setattr(output, "_TICK_S", 0.001)
    with ProgressLine(quiet=False) as progress:
        progress("verify", 0, 0)
        now[0] += 12.9
        wait_until(lambda: f"{CLEAR}verify 12 s" in terminal.getvalue())
        progress("writing", 0, 0)
    assert f"{CLEAR}writing{CLEAR}" in terminal.getvalue(), "its seconds are counted from its start"


COMMANDS = """
lower x.plan -o x.xml
lower sizes.plan -o x.xml --size 1MB
verify x.plan
verify x.xml
train gpt2 --fabric ring:4 --mesh fsdp=4 --gpu a100 --schedule bound --sequence 64
diagnose x.log
simulate x.plan
run x.plan --size 1K
testbed ring:4
report x.plan -o x.html
draw ring:4 -o x.svg
resilience ring:4 --cables 1
cabling list ring:4
execute x.json x.py:make
capture gpt2 --tokens 8K
parallelize gpt2 --fabric ring:4 --gpu a100 --tokens 8K
design --nodes 4 --degree 2
compare ring:4 allgather
solve ring:4 allgather
solve ring:4 allgather --size 1K
retune x.plan --cost-model reference
routes ring:4
pareto ring:4 allgather
pareto ring:4 allgather --max-steps 2
bound ring:4 allgather
bound ring:4 --jobs jobs.toml
solve ring:4 --jobs jobs.toml
repair x.plan --node n0
harden x.plan
""".strip().splitlines()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("files")
    plan = str(path / "x.plan")
    assert main(["solve", "ring:4", "allgather", "-q", "-o", plan]) == 0
    assert main(["lower", plan, "-q", "-o", str(path / "x.xml")]) == 0
    return path


@pytest.mark.parametrize("words", COMMANDS)
@pytest.mark.parametrize(("option", "is_quiet"), [("", False), ("--quiet", True), ("--json", True)])
def test_only_plain_commands_show_how_far_they_are(
    words: str, option: str, is_quiet: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands are stopped where they begin to show it."""
    asked: list[bool] = []

    def stop(_: ProgressLine, *, quiet: bool) -> None:
        asked.append(quiet)
        raise ScheduleError("enough")

    monkeypatch.chdir(folder)
    monkeypatch.setattr(ProgressLine, "__init__", stop)
    assert main([*words.split(), *option.split()]) == 2
    assert asked == [is_quiet]
