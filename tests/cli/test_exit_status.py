"""What commands return: out of memory, time limits, interrupts, standard streams that are full or closed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from pathlib import Path

import pytest

from child_processes import finished, search_path, started
from treadle.cli.main import main

ENVIRONMENT = {**os.environ, "PYTHONPATH": search_path()}
FULL = "/dev/full"


def treadle(
    words: str, redirect: str, *, cwd: Path, environment: Mapping[str, str] = ENVIRONMENT
) -> subprocess.CompletedProcess[str]:
    """A command as a shell starts it."""
    line = f"exec '{sys.executable}' -m treadle {words} {redirect}"
    return finished(["sh", "-c", line], environment=environment, cwd=cwd)


def test_sizes_beyond_the_memory_are_out_of_memory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = tmp_path / "plan"
    assert main(["solve", "ring:4", "allgather", "-o", str(plan), "-q"]) == 0
    assert main(["run", str(plan), "--size", "1K,1024G"]) == 6
    assert "choose smaller sizes" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "report"),
    [
        ("solve mi250:1 allgather --exact --time-limit 1us", "-q"),
        *product(
            (
                "solve mi250:1 allgather --exact --time-limit 1us",
                "bound dgx_a100:2 allreduce --time-limit 1ns",
                "bound jellyfish:24,4 alltoall --gap 1e-8 --time-limit 1ns",
                "compare torus:3,3 alltoall --algorithms tsmcf --time-limit 1ns",
                "routes jellyfish:16,4 --time-limit 1us",
            ),
            ("", "--json"),
        ),
    ],
)
def test_a_time_limit_is_said_on_stderr(words: str, report: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words.split(), *report.split()]) == 4
    out, err = capsys.readouterr()
    assert err.startswith("treadle: the time limit was reached; ")
    assert err.count("\n") == 1
    assert "time limit  reached" not in out
    if report == "--json" and out:
        json.loads(out)


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Give this process a standard stream whose device is full."""
    opened = []

    def give(name: str) -> None:
        stream = Path(FULL).open("w", encoding="utf-8")  # noqa: SIM115
        opened.append(stream)
        monkeypatch.setattr(sys, name, stream)

    yield give
    for stream in opened:
        stream.close()  # its text has been diverted, or this fails


STATUSES = (
    ("solve ring:4 allgather -o {}/ring.plan -q", 0),
    ("verify {}/ring.plan --topology ring:5 -q", 1),
    ("verify {}/absent.plan", 2),
    ("solve", 2),
    ("topology", 2),  # the help text
    ("bound dgx_a100:2 allreduce --time-limit 1ns", 4),
)


@pytest.mark.parametrize("is_closed", [False, True])
def test_stderr_does_not_change_the_status(
    is_closed: bool, tmp_path: Path, full: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    for words, wanted in STATUSES:
        if is_closed:
            monkeypatch.setattr(sys, "stderr", None)
        else:
            full("stderr")
        assert main(words.replace("{}", str(tmp_path)).split()) == wanted, words


@pytest.mark.parametrize(("redirect", "place"), [("2>&-", 0), (f"2>{FULL}", 2)])
def test_stderr_does_not_change_the_status_of_a_process(redirect: str, place: int, tmp_path: Path) -> None:
    words, wanted = STATUSES[place]
    assert treadle(words.replace("{}", "."), redirect, cwd=tmp_path).returncode == wanted


@pytest.mark.parametrize("words", ["--help", "solve --help"])
def test_help_on_a_full_stdout_is_one_line(
    words: str, full: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    full("stdout")
    assert main(words.split()) == 2
    assert re.fullmatch(r"treadle: (standard output: )?No space left on device\n", capsys.readouterr().err)


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_process_with_a_full_stdout_says_one_line(unbuffered: str, tmp_path: Path) -> None:
    environment = {**ENVIRONMENT, "PYTHONUNBUFFERED": unbuffered}
    done = treadle("topology list", f">{FULL}", cwd=tmp_path, environment=environment)
    assert (done.returncode, done.stderr) == (2, "treadle: standard output: No space left on device\n")


def test_a_closed_stdout_is_one_line(tmp_path: Path) -> None:
    done = treadle("topology list", ">&-", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "treadle: standard output is closed; expected a terminal, a file or a pipe\n"


@pytest.mark.parametrize("words", ["topology export dgx_a100:64", "--help"])
def test_a_reader_that_goes_away_ends_it_as_a_signal_would(words: str, tmp_path: Path) -> None:
    with started([sys.executable, "-m", "treadle", *words.split()], env=ENVIRONMENT) as process:
        assert process.stdout is not None
        process.stdout.close()
        process.stdout = None  # communicate would read it
        assert process.communicate(timeout=60)[1] == ""
    assert process.returncode == 141


INTERRUPTED = """
import sys
class Interrupted:
    left = {times}
    def find_spec(self, name, path=None, target=None):
        if name == {module!r} and self.left:
            self.left -= 1
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupted())
from treadle.cli.main import entry_point
sys.argv = ["treadle", "bound", "ring:4", "allgather"]
entry_point()
"""


@pytest.mark.parametrize(
    ("module", "times"),
    [
        *product(("signal", "treadle.cli.status", "treadle.cli.application", "click"), (1, 2)),
        ("numpy", 1),
        ("treadle.planning", 1),
    ],
)
def test_interrupts_while_modules_load(module: str, times: int) -> None:
    code = INTERRUPTED.format(module=module, times=times)
    done = finished([sys.executable, "-S", "-c", code], environment=ENVIRONMENT)
    assert done.returncode == 130
    libraries = ("click", "numpy", "treadle.planning")
    said = "treadle: interrupted; nothing was written\n"
    assert done.stderr in ([said] if module in libraries and times == 1 else ["", said])
