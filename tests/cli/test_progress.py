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
from treadle.planning import solve

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


def test_nothing_is_shown_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    with ProgressLine(quiet=True) as progress:
        progress("packing", 1, 2)
        assert not redrawing()
    assert not terminal.getvalue()
    file = io.StringIO()
    monkeypatch.setattr("sys.stderr", file)
    with ProgressLine(quiet=False) as progress:
        progress("packing", 1, 2)
        assert not redrawing()
    assert not file.getvalue()


def test_errors_and_lost_terminals_end_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)

    def lost(text: str) -> int:
        raise OSError(5, "Input/output error")

    def interrupted() -> None:
        with ProgressLine(quiet=False) as progress:
            progress("packing", 1, 2)
            monkeypatch.setattr(terminal, "write", lost)
            progress("packing", 2, 2)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not redrawing()
    assert "packing 50%" in terminal.getvalue()


def test_commands_name_their_stages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    terminal = on_terminal(monkeypatch)
    plan, text = str(tmp_path / "plan"), str(tmp_path / "text.xml")
    for argv, stages in (
        (["solve", "ring:4", "allgather", "-o", plan], ("fabric", "tight cuts", "verify", "writing")),
        (["bound", "ring:4", "allgather"], ("fabric", "optimum")),
        (["verify", plan], ("reading", "verifying")),
        (["lower", plan, "--to", "msccl-xml", "-o", text], ("reading", "lowering")),
        (["verify", text], ("verifying",)),
        (["run", plan, "--size", "1K"], ("running",)),
        (["simulate", plan, "--size", "1M"], ("reading", "messages")),
        (["repair", plan, "--link", "n0--n1", "-o", plan], ("reading", "failures", "writing")),
    ):
        terminal.truncate(0)
        assert main(argv) == 0, (argv, terminal.getvalue())
        shown = [line.partition(" ")[0] for line in terminal.getvalue().strip("\0").split(CLEAR)]
        assert {word.partition(" ")[0] for word in stages} <= set(shown), (argv, shown)
        assert shown[-1] == ""


def test_long_searches_are_announced_before_they_are_counted() -> None:
    told: list[tuple[str, int, int]] = []
    solve("hypercube:4", "allreduce", progress=lambda *words: told.append(words))
    stages = [stage for stage, done, total in told if not done and not total]
    for stage in ("fabric", "tight cuts", "paths", "verify"):
        assert stage in stages
    assert (
        stages.index("fabric") < stages.index("tight cuts") < stages.index("paths") < stages.index("verify")
    )
    assert ("cuts of ranks", 0, 16) in told


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
