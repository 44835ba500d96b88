"""The compiled interpreter over libfabric: every byte on three to eight ranks, and no process left over."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from child_processes import finished, search_path
from engines import missing_engines
from samples import text_mutants
from samples.program_mutants import mutants, size_in_elements
from samples.runtime_programs import random_program
from shortcuts.group_plans import random_groups
from treadle import planning
from treadle.cli.main import main
from treadle.errors import MissingDependencyError, ScheduleError
from treadle.program.any_schedule import lower_groups
from treadle.runtime.data import ElementType
from treadle.runtime.libfabric import libfabric_launch, measure_libfabric
from treadle.runtime.mpi_build import build_libfabric_interpreter
from treadle.runtime.mpi_c import interpreter_arguments, run_interpreter, written_program
from treadle.schedules.collective import CollectiveKind

pytestmark = pytest.mark.skipif(
    "libfabric" in missing_engines(), reason=missing_engines().get("libfabric", "")
)


@pytest.mark.parametrize(
    ("kind", "n_ranks"),
    [
        (CollectiveKind.REDUCE_SCATTER, 3),
        (CollectiveKind.ALLGATHER, 5),
        (CollectiveKind.ALLREDUCE, 8),
    ],
)
def test_every_element_is_right_at_every_size(kind: CollectiveKind, n_ranks: int) -> None:
    program = random_program(kind, n_ranks, seed=n_ranks, trees_per_root=2, in_place=n_ranks == 5)
    sizes = [0, 4, 20, 4096, 100_004]
    rows = measure_libfabric(program, sizes, element=ElementType.INT32, iterations=2, slice_bytes=1024)
    assert [(row.size_bytes, row.wrong) for row in rows] == [(size, 0) for size in sizes]


def test_messages_longer_than_what_the_provider_buffers() -> None:
    plan = planning.solve("ring(4)", "alltoall").plan
    (row,) = measure_libfabric(planning.program_of(plan, 2**22), [2**22], iterations=1, warmup=0)
    assert row.wrong == 0


def test_all_groups_run_at_once() -> None:
    groups = lower_groups(*random_groups(2, CollectiveKind.ALLREDUCE, 2))
    rows = measure_libfabric(groups, [36, 4096], iterations=1)
    assert [(row.wrong, row.worst_group) for row in rows] == [(0, None)] * 2


def test_wrong_data_are_counted_and_a_deadlock_ends_in_time() -> None:
    program = planning.program_of(planning.solve("ring(4)", "allreduce", algorithm="ring").plan, 0)
    size, wrong = 4 * size_in_elements(program), mutants(program)
    launch = libfabric_launch(4)
    for fault, limit_s in (("swapped sends", 60.0), ("dropped send", 2.0)):
        with written_program(wrong[fault]) as path:
            command = [*launch.words, *interpreter_arguments(path, [size], iterations=1)]

            def run(command: list[str] = command, limit_s: float = limit_s) -> int:
                rows = run_interpreter(
                    command, environment=launch.environment, n_sizes=1, limit_s=limit_s, carrier="libfabric"
                )
                return rows[0].wrong

            if fault == "dropped send":
                with pytest.raises(ScheduleError, match=r"^libfabric: not finished after 2 s"):
                    run()
            else:
                assert run() > 0


def children(process: int) -> list[int]:
    text = Path(f"/proc/{process}/task/{process}/children").read_text(encoding="ascii")
    return [int(word) for word in text.split()]


def test_one_that_dies_takes_the_others_with_it() -> None:
    program = planning.program_of(planning.solve("ring(4)", "allgather").plan, 0)
    launch = libfabric_launch(4)
    with written_program(program) as path:
        arguments = interpreter_arguments(path, [2**20], iterations=1_000_000, budget_s=600.0)
        with subprocess.Popen([*launch.words, *arguments], env=launch.environment) as process:
            while len(children(process.pid)) < 4:
                time.sleep(0.01)
            ranks = children(process.pid)
            os.kill(ranks[2], signal.SIGKILL)
            try:
                assert process.wait(30) == 128 + signal.SIGKILL
            finally:
                process.kill()  # its ranks die with it
        assert not any(Path(f"/proc/{rank}").exists() for rank in ranks)


def test_the_command_says_where_it_ran_and_refuses_a_reference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "ring:3", "allreduce", "--runtime", "libfabric", "--size", "4K", "--json"]) == 0
    assert '"runtime": "libfabric", "measured_on": "this host"' in capsys.readouterr().out
    assert main(["run", "ring:3", "allreduce", "--runtime", "libfabric", "--reference"]) == 2
    assert "runtime mpi-c has MPI's" in capsys.readouterr().err


def test_without_the_headers_the_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho 'fatal error: rdma/fabric.h: No such file' >&2\nexit 1\n")
    compiler.chmod(compiler.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("CC", str(compiler))
    with pytest.raises(MissingDependencyError, match="libfabric-dev"):
        build_libfabric_interpreter(directory=tmp_path)
    monkeypatch.setenv("CC", str(tmp_path / "no-such-compiler"))
    with pytest.raises(MissingDependencyError, match="C compiler"):
        build_libfabric_interpreter(directory=tmp_path)


def execute_texts(n: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "treadle.runtime.libfabric_run", "--ranks", str(n), *arguments]
    return finished(command, environment={**os.environ, "PYTHONPATH": search_path()})


def test_texts_move_data_step_by_step_and_wrong_ones_do_not_pass(tmp_path: Path) -> None:
    files = {}
    for target, kind, fabric in (
        ("cpu-xml", "allreduce", "ring(4)"),
        ("cpu-xml", "alltoall", "hypercube(2)"),
        ("msccl-xml", "allgather", "hypercube(2)"),
    ):
        asked = {} if target == "cpu-xml" else {"chunks": "plan"}
        text = planning.lower(planning.solve(fabric, kind).plan, to=target, **asked).text
        files[f"{target}-{kind}"] = text
    files["swapped"] = text_mutants.mutant(files["cpu-xml-allreduce"], "cpu-xml", "swapped sends")
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    done = execute_texts(4, *(str(tmp_path / name) for name in files))
    report = json.loads(done.stdout)
    assert done.returncode == 1, done.stderr
    assert [name for name in files if report[name] == [0]] == [name for name in files if name != "swapped"]
    assert report["swapped"][0] > 0


def test_a_text_with_a_message_that_nobody_receives_or_sends(tmp_path: Path) -> None:
    right = planning.lower(planning.solve("ring(3)", "allgather").plan, to="cpu-xml").text
    path = tmp_path / "text.xml"
    for fault, word in (("duplicated send", "no rank receives"), ("dropped send", "still waits after 1 s")):
        path.write_text(text_mutants.mutant(right, "cpu-xml", fault), encoding="utf-8")
        done = execute_texts(3, str(path), "--elements", "240", "--limit", "1")
        assert done.returncode > 1
        assert word in done.stderr, fault
    path.write_text(right, encoding="utf-8")
    done = execute_texts(2, str(path))
    assert (done.returncode, done.stderr.count("is for 3 ranks, found 2 processes")) in ((2, 1), (2, 2))
