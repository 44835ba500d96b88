"""What commands return: out of memory, time limits, interrupts, standard streams that are full or closed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import pytest

from child_processes import finished, search_path, started
from treadle import planning
from treadle.cli import status
from treadle.cli.main import main
from treadle.errors import FormatError, InfeasibleError, MemoryLimitError, MissingDependencyError
from treadle.schedules.plan_files.archive import load_plan, save_plan
from treadle.verification.violations import Report

ENVIRONMENT = {**os.environ, "PYTHONPATH": search_path()}
FULL = "/dev/full"


def treadle(
    words: str, redirect: str, *, cwd: Path, environment: Mapping[str, str] = ENVIRONMENT
) -> subprocess.CompletedProcess[str]:
    """A command as a shell starts it."""
    line = f"exec '{sys.executable}' -m treadle {words} {redirect}"
    return finished(["sh", "-c", line], environment=environment, cwd=cwd)


@pytest.mark.parametrize("failure", [MemoryError, MemoryError("Unable to allocate 3 TiB")])
def test_out_of_memory_is_not_bad_input(
    failure: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def exhausted(*_: object, **__: object) -> None:
        raise failure

    monkeypatch.setattr(planning, "solve", exhausted)
    assert main(["solve", "ring:4", "allgather", "-o", str(tmp_path / "plan")]) == 6
    assert capsys.readouterr().err.startswith("treadle: out of memory; ")
    assert not list(tmp_path.iterdir())


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


@pytest.mark.parametrize(
    "words",
    [
        "--version",
        "topology list",
        "solve ring:4 allgather --json",
        "topology export dgx_a100:64",  # more than a buffer: the write fails, not the last flush
    ],
)
def test_a_full_stdout_is_one_line(
    words: str, full: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    full("stdout")
    assert main(words.split()) == 2
    assert capsys.readouterr().err == "treadle: standard output: No space left on device\n"


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


def test_a_failed_check_stays_one_with_a_full_stdout(tmp_path: Path, full: Callable[[str], None]) -> None:
    assert main(["solve", "ring:4", "allgather", "-o", str(tmp_path / "ring.plan"), "-q"]) == 0
    full("stdout")
    assert main(["verify", str(tmp_path / "ring.plan"), "--topology", "ring:4", "--json"]) == 2
    save_plan(tmp_path / "ring.plan", replace(load_plan(tmp_path / "ring.plan"), algbw=Fraction(3)))
    full("stdout")
    assert main(["verify", str(tmp_path / "ring.plan")]) == 1


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


def test_files_never_take_the_place_of_a_closed_stream(tmp_path: Path) -> None:
    code = """
import os
for number in (0, 2):
    os.close(number)
from treadle.cli.status import open_standard_streams
open_standard_streams()
print(os.open("file", os.O_CREAT | os.O_WRONLY), os.get_inheritable(2))
os.write(2, b"what a library says")
"""
    done = finished([sys.executable, "-c", code], environment=ENVIRONMENT, cwd=tmp_path)
    assert done.stdout == "3 True\n", done.stderr
    assert (tmp_path / "file").read_bytes() == b""


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


def test_nothing_else_is_loaded_before_main() -> None:
    """Ctrl-C has no answer from us before: only the interpreter's own traceback."""
    code = "import sys; before = set(sys.modules); import treadle.cli.main; print(*set(sys.modules) - before)"
    done = finished([sys.executable, "-c", code], environment=ENVIRONMENT)
    assert set(done.stdout.split()) <= {
        "__future__", "copyreg", "types", "treadle", "treadle.lazy", "treadle.cli", "treadle.cli.main",
    }  # fmt: skip


def test_a_late_interrupt_ends_it_without_a_word() -> None:
    """After the command there is only the interpreter's end."""
    code = """
import atexit, os, signal, sys
atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))
from treadle.cli.main import entry_point
sys.argv = ["treadle", "--version"]
entry_point()
"""
    done = finished([sys.executable, "-c", code], environment=ENVIRONMENT)
    assert done.returncode == -signal.SIGINT
    assert done.stderr == ""


def test_the_statuses_are_documented(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known = {value for name, value in vars(status).items() if name.isupper() and isinstance(value, int)} | {0}
    page = (repository / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
    assert {int(number) for number in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)} == known
    assert {int(number) for number in re.findall(r"(?:^|; )(\d+) ", status.EXIT_STATUS)} == known
    assert main(["--help"]) == 0
    assert status.EXIT_STATUS.replace(" ", "") in re.sub(r"\s", "", capsys.readouterr().out)
    main_doc = re.sub(r"\s+", " ", main.__doc__ or "")
    readme = (repository / "README.md").read_text(encoding="utf-8")
    for number in known - {0}:
        assert re.search(rf"\b{number} ", main_doc)
        assert re.search(rf"\b{number} \w", readme[readme.index("takes `--json`") :][:400])


REJECTED = planning.RejectedError("magic", Report((), 3, None, None, None))
UNVERIFIED = planning.UnverifiedPlanError(SimpleNamespace(reports=[REJECTED.report]))
LATE = planning.TimeLimitError("late")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plans")
    assert main(["solve", "ring:4", "allgather", "-q", "-o", str(path / "x.plan")]) == 0
    (path / "jobs.toml").write_text('[[job]]\nname = "a"\ncollective = "allgather"\nranks = "0-1"\n')
    return path


@pytest.mark.parametrize(
    ("words", "function", "failure", "said"),
    [
        ("harden x.plan", "harden", REJECTED, "{}"),
        ("repair x.plan --node n0", "repair", REJECTED, "{}"),
        ("simulate ring:4 allgather", "solve", REJECTED, "{}"),
        ("report x.plan -o x.html", "report", UNVERIFIED, "x.plan: {}"),
        ("simulate x.plan", "simulate", UNVERIFIED, "x.plan: {}"),
        ("lower x.plan", "lower_groups", UNVERIFIED, "x.plan: {}"),
        ("routes ring:4", "routes", REJECTED, "{}"),
        ("solve ring:4 allgather --size 1K,1M", "solve_sizes", REJECTED, "{}"),
        ("solve ring:4 --jobs jobs.toml", "solve_jobs", REJECTED, "{}"),
        ("design --nodes 4 --degree 2 --alltoall bound --no-cache -o y.plan", "design_plan", REJECTED, "{}"),
        (
            "solve ring:4 allgather --size 1K,1M",
            "solve_sizes",
            LATE,
            "no candidate is there yet; allow more time (--time-limit)",
        ),
        (
            "solve ring:4 --jobs jobs.toml",
            "solve_jobs",
            LATE,
            "no plan was found in time; allow more (--time-limit)",
        ),
        (
            "bound ring:4 --jobs jobs.toml",
            "bound_jobs",
            LATE,
            "the rates are not known; allow more time (--time-limit)",
        ),
        (
            "resilience ring:4 --cables 1",
            "resilience",
            LATE,
            "no result yet; take fewer --samples, or allow more time (--time-limit)",
        ),
    ],
)
def test_failures_of_planning_end_a_command(
    words: str,
    function: str,
    failure: Exception,
    said: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Status 1 where the verifier refuses what was made or read, 4 where time runs out; nothing written."""

    def failing(*_: object, **__: object) -> None:
        raise failure

    monkeypatch.chdir(folder)
    monkeypatch.setattr(planning, function, failing)
    before = sorted(folder.iterdir())
    assert main(words.split()) == (4 if failure is LATE else 1)
    text = f"the time limit was reached; {said}" if failure is LATE else said.format(failure)
    assert capsys.readouterr().err == f"treadle: {text}\n"
    assert sorted(folder.iterdir()) == before


def noted() -> FormatError:
    error = FormatError("wrong")
    error.add_note("one")
    error.add_note("two")
    return error


@pytest.mark.parametrize(
    ("failure", "code", "said"),
    [
        (OSError(5, "Input/output error"), 2, "Input/output error"),
        (OSError(2, "No such thing", "x"), 2, "x: No such thing"),
        (OSError("odd"), 2, "odd"),
        (noted(), 2, "wrong (one) (two)"),
        (InfeasibleError("apart"), 3, "apart"),
        (MissingDependencyError("absent"), 5, "absent"),
        (MemoryLimitError("large"), 6, "large"),
    ],
)
def test_every_failure_has_its_status_and_line(
    failure: Exception,
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def failing(*_: object, **__: object) -> None:
        raise failure

    monkeypatch.setattr(planning, "solve", failing)
    assert main(["solve", "ring:4", "allgather"]) == code
    assert capsys.readouterr() == ("", f"treadle: {said}\n")


def test_what_is_diverted_leaves_no_file_open() -> None:
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as stream:
        before = len(os.listdir("/proc/self/fd"))
        status.divert(stream)
        assert len(os.listdir("/proc/self/fd")) == before
        stream.write("gone")
    assert os.read(reader, 1) == b""
    os.close(reader)
