"""The solver's process: limits, Ctrl-C, orphans, failures, and the missing dependency."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from child_processes import finished, first_line, started
from treadle.cli.main import main
from treadle.errors import MissingDependencyError, TreadleError
from treadle.schedules.collective import CollectiveKind
from treadle.synthesis.steps.exact import ExactStatus, FreeRounds, SolverProcess, process, synthesise_exact
from treadle.topologies import parse

needs_ortools = pytest.mark.skipif(
    importlib.util.find_spec("ortools") is None, reason="ortools is not installed (extra exact)"
)
WORKER = "treadle.synthesis.steps.exact.worker"

ENDLESS = """
import sys
from treadle.schedules.collective import CollectiveKind
from treadle.synthesis.steps.exact import FreeRounds, SolverProcess, synthesise_exact
from treadle.topologies import parse
with SolverProcess() as solver:
    synthesise_exact(parse("ring(4)"), CollectiveKind.ALLGATHER, chunks=1, rounds=[1, 1], solver=solver)
    sys.stdout.write(str(solver.pid) + "\\n")
    sys.stdout.flush()
    synthesise_exact(parse("hypercube(5)"), CollectiveKind.ALLGATHER, chunks=5, rounds=FreeRounds(5, 31),
                     time_limit_s=600, solver=solver)
"""


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def wait_for_end(pid: int) -> bool:
    deadline = time.monotonic() + 20
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not is_running(pid)


@needs_ortools
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_the_search_ends_with_its_caller(sent: signal.Signals) -> None:
    with started([sys.executable, "-c", ENDLESS]) as caller:
        worker = int(first_line(caller))
        time.sleep(0.5)
        assert is_running(worker)
        os.kill(caller.pid, sent)
        caller.communicate(timeout=20)
        assert caller.returncode in (-sent, 130)
        assert wait_for_end(worker)


@needs_ortools
def test_time_limit_is_a_status() -> None:
    result = synthesise_exact(
        parse("hypercube(4)"), CollectiveKind.ALLGATHER, chunks=4, rounds=FreeRounds(4, 15), time_limit_s=0.3
    )
    assert result.status is ExactStatus.UNKNOWN
    assert result.schedule is None
    assert result.phases[0].reason == "time limit"


@needs_ortools
def test_failures_are_one_line_and_the_process_can_go_on() -> None:
    with SolverProcess() as solver:
        with pytest.raises(TreadleError, match="process failed: KeyError") as caught:
            solver.solve({}, time_limit_s=5)
        assert "\n" not in str(caught.value)
        assert solver.pid is None
        found = synthesise_exact(
            parse("ring(4)"), CollectiveKind.ALLGATHER, chunks=1, rounds=[1, 1], solver=solver
        )
        assert found.status is ExactStatus.FOUND
        assert solver.pid is not None
        os.kill(solver.pid, signal.SIGKILL)
        with pytest.raises(TreadleError, match="process failed"):
            solver.solve({}, time_limit_s=5)


@needs_ortools
def test_the_process_never_loads_highs_beside_ortools() -> None:
    done = finished(
        [sys.executable, "-c", f"import {WORKER}, {WORKER[:-6]}model, sys; print('highspy' in sys.modules)"]
    )
    assert done.stdout == "False\n"


@needs_ortools
def test_the_worker_speaks_lines_of_json() -> None:
    done = finished([sys.executable, "-m", WORKER])
    assert (done.returncode, done.stdout) == (0, "")
    problem = {
        "n_nodes": 2, "tails": [0, 1], "heads": [1, 0], "capacity": [1, 1], "distances": [[0, 1], [1, 0]],
        "homes": [0, 1], "chunks": 1, "steps": 1, "rounds": [1], "total_rounds": 1, "copies": [[0, 1]],
        "seed": 0, "workers": 1, "time_limit_s": 5,
    }  # fmt: skip
    with started([sys.executable, "-m", WORKER], stdin=subprocess.PIPE) as worker:
        assert worker.stdin is not None
        for line in (json.dumps(problem), "{", json.dumps(problem)):
            worker.stdin.write(line + "\n")
        worker.stdin.flush()
        answers = [json.loads(first_line(worker)) for _ in range(3)]
    assert [answer["status"] for answer in answers] == ["found", "error", "found"]
    assert answers[0]["sends"] == [[0, 0, 0, 0], [1, 0, 1, 0]]


def test_a_missing_ortools_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'treadle\[exact\]'"):
        SolverProcess()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("raise ImportError('libortools.so.9: cannot open shared object file')", "ImportError: libortools"),
        ("", "ModuleNotFoundError: No module named 'ortools.sat'"),
        ("def broken(", "SyntaxError"),
    ],
)
def test_a_damaged_ortools_is_a_missing_dependency(
    content: str,
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Status 5 and one line, as if it were absent; the package is found here, and fails in the process."""
    package = tmp_path / "ortools"
    package.mkdir()
    (package / "__init__.py").write_text(content)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    with SolverProcess() as solver:
        with pytest.raises(MissingDependencyError, match="cannot be loaded") as caught:
            solver.solve({}, time_limit_s=20)
        assert reason in str(caught.value)
        assert solver.pid is None
    assert main(["solve", "hypercube(2)", "allgather", "--algorithm", "exact"]) == 5
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert "pip install --force-reinstall 'treadle[exact]'" in said[0]


@needs_ortools
@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (b'{"status":"error","message":"KeyError: 3"}\n', TreadleError,
         "exact synthesis: the solver's process failed: KeyError: 3"),
        (b'{"status":"found"}', TreadleError,
         f"exact synthesis: the solver's process failed: no answer of at most {2**28} bytes"),
        (b"3\n", TreadleError, "exact synthesis: the solver's process failed: Killed"),
        (b"", TreadleError, "exact synthesis: the solver's process failed: Killed"),
        (b'{"status":"unusable","message":"OSError: x"}\n', MissingDependencyError,
         "exact synthesis: ortools is installed but cannot be loaded (OSError: x); reinstall it: pip "
         "install --force-reinstall 'treadle[exact]'"),
    ],
)  # fmt: skip
def test_answers_that_are_none_are_told_by_what_the_process_said_last(
    answer: bytes, kind: type[Exception], words: str
) -> None:
    solver = SolverProcess()
    if "Killed" in words:
        for line in (b"Started\n", b" Killed \n", b" \n", b""):
            solver._remember(line)
    with pytest.raises(kind) as caught:
        solver._parsed(answer)
    assert str(caught.value) == words
    assert solver._parsed(b'{"status":"infeasible","cpu_s":1}\n') == {"status": "infeasible", "cpu_s": 1}


@needs_ortools
def test_no_answer_in_time_is_unknown_after_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    solver = SolverProcess()
    monkeypatch.setattr(process, "_GRACE_S", -2.5)
    assert solver.solve({}, time_limit_s=2.5) == {"status": "unknown", "wall_s": 2.5, "cpu_s": 2.5}
    assert solver.pid is None
