"""The compiled interpreter, in real processes: right data, wrong programs, hostile files, lost processes."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from child_processes import finished, search_path, started
from samples.runtime_programs import exchange, overwritten, random_program
from shortcuts.asking_switches import asked, asking_boxes
from treadle.cli.main import main
from treadle.errors import FormatError, MissingDependencyError, ScheduleError
from treadle.planning import program_of, solve
from treadle.program.any_schedule import lower
from treadle.program.message_levels import dataflow, requires_copy
from treadle.program.program import Buffer, Operation, OperationKind, Program, program_from_operations
from treadle.program.program_format import format_program
from treadle.runtime import mpi_build
from treadle.runtime.data import ElementType, Reduction
from treadle.runtime.mpi_build import MpiInstallation, build_interpreter, find_mpi
from treadle.runtime.mpi_c import (
    InterpreterTimes,
    interpreter_arguments,
    launch_environment,
    local_launch,
    measure_mpi_c,
    run_interpreter,
    written_program,
)
from treadle.schedules.collective import CollectiveKind, on_all_ranks

ONE_RANK = """\
treadle-program 2
collective allgather
ranks 1
root -1
chunks 4
in-place 0
shards 1 0 4
rank 0
input 1 0 4
output 1 0 4
scratch 0
operations 2
3 -1 -1 0 1 0 3 -1 0 0
3 -1 -1 0 1 3 1 -1 0 1 0
end
"""


@pytest.fixture(scope="module")
def mpi() -> MpiInstallation:
    try:
        found = find_mpi()
        build_interpreter(found)
    except MissingDependencyError as error:
        pytest.skip(f"MPI: {error}")
    version = finished([found.mpirun, "--version"])
    if "Open MPI" not in version.stdout:
        pytest.skip(f"MPI: {found.mpirun} is not Open MPI's, whose options are used")
    return found


@pytest.mark.parametrize(
    ("kind", "in_place", "element"),
    [
        (CollectiveKind.ALLREDUCE, False, ElementType.FLOAT32),
        (CollectiveKind.ALLREDUCE, True, ElementType.INT32),
        (CollectiveKind.ALLGATHER, True, ElementType.FLOAT32),
        (CollectiveKind.REDUCE_SCATTER, True, ElementType.FLOAT32),
        (CollectiveKind.BROADCAST, False, ElementType.INT32),
        (CollectiveKind.REDUCE, False, ElementType.FLOAT32),
    ],
)
@pytest.mark.usefixtures("mpi")
def test_every_element_is_right_at_every_size(
    kind: CollectiveKind, in_place: bool, element: ElementType
) -> None:
    program = random_program(kind, 4, seed=7, trees_per_root=2, in_place=in_place)
    rows = measure_mpi_c(
        program,
        [0, 4, 20, 4096, 100_004],
        element=element,
        iterations=2,
        slice_bytes=1024,
        with_reference=True,
    )
    assert [row.wrong for row in rows] == [0] * 5
    assert [row.size_bytes for row in rows] == [0, 4, 20, 4096, 100_004]
    assert all(row.reference_time_s is not None for row in rows)


@pytest.mark.usefixtures("mpi")
@pytest.mark.parametrize("exchanged", [(2,), (1, 2)])
def test_copies_and_sums_of_switches_move_the_same_data(exchanged: tuple[int, ...]) -> None:
    fabric = asking_boxes(2, 4)
    schedule = asked(fabric, factors=(4, 2), exchanged=exchanged, chunks=2)
    program = lower(fabric, on_all_ranks(fabric, CollectiveKind.ALLREDUCE), schedule)
    rows = measure_mpi_c(program, [0, 4, 28, 4 * 997], element=ElementType.INT32, iterations=1)
    assert [row.wrong for row in rows] == [0] * 4


def interpreted(mpi: MpiInstallation, program: Program, sizes: list[int], **options: int) -> list[Any]:
    """What the interpreter prints, with bare rounds."""
    with written_program(program) as path:
        arguments = interpreter_arguments(path, sizes, iterations=2, with_rounds=True, **options)
        command = [*local_launch(mpi, program.n_ranks), str(build_interpreter(mpi)), *arguments]
        return run_interpreter(command, environment=launch_environment(), n_sizes=len(sizes), limit_s=60)


@pytest.mark.parametrize(
    ("kind", "in_place", "piece", "bundle"),
    [
        (CollectiveKind.ALLREDUCE, True, 2**14, 2**16),
        (CollectiveKind.ALLREDUCE, False, 64, 2**16),
        (CollectiveKind.REDUCE_SCATTER, False, 2**14, 128),
        (CollectiveKind.ALLGATHER, False, 0, 4),
    ],
)
def test_messages_travel_together_and_every_element_is_right(
    kind: CollectiveKind, in_place: bool, piece: int, bundle: int, mpi: MpiInstallation
) -> None:
    """Bundles of all messages of a level, of short ones, bundles that fill up, and none."""
    program = random_program(kind, 4, seed=11, trees_per_root=5, in_place=in_place)
    sizes = [0, 4, 100, 4096, 20_000]
    rows = interpreted(mpi, program, sizes, piece_bytes=piece, bundle_bytes=bundle)
    assert [row.wrong for row in rows] == [0] * len(sizes)
    assert all(len(row.times_s) == len(row.rounds_times_s) for row in rows)


def test_a_rank_sends_one_small_message_to_a_peer_in_a_level(mpi: MpiInstallation) -> None:
    """A hypercube has three levels and three peers; its all-to-all has thirty operations a rank."""
    program = program_of(solve("hypercube(3)", "alltoall").plan, 0)
    sends = np.bincount(program.operation_rank[program.operation_kind == OperationKind.SEND])
    small, apart = interpreted(mpi, program, [4096, 2**20])
    (alone,) = interpreted(mpi, program, [4096], piece_bytes=0)
    assert (small.wrong, apart.wrong, alone.wrong) == (0, 0, 0)
    assert small.messages == 9
    (full,) = interpreted(mpi, program, [4096], bundle_bytes=256)  # three chunks of 85 bytes at most
    assert small.messages < full.messages < alone.messages
    assert alone.messages == apart.messages == sends.max()
    assert sends.max() > 2 * small.messages


def test_nothing_is_stored_over_a_message_before_it_has_left(mpi: MpiInstallation) -> None:
    program = overwritten(2)
    assert not requires_copy(program, dataflow(program)).any()
    (row,) = interpreted(mpi, program, [2**25], slice_bytes=2**30)
    assert row.wrong == 0


def test_sends_are_complete_before_anybody_receives(mpi: MpiInstallation) -> None:
    """Two ranks swap a memory's contents: each stores what comes only after its own send."""
    scratch = Buffer.SCRATCH
    swap = [
        Operation(OperationKind.SEND, 0, 1, peer=1, source=scratch, target=scratch, waits=(0,)),
        Operation(OperationKind.RECEIVE, 0, 1, peer=1, source=scratch, target=scratch, waits=(1,)),
    ]
    root = [
        Operation(OperationKind.COPY, 0, 1, target=scratch),
        *swap,
        Operation(OperationKind.COPY, 0, 1),
    ]
    other = [
        Operation(OperationKind.COPY, 0, 1, source=scratch, target=Buffer.OUTPUT),
        *(replace(operation, peer=0) for operation in swap),
        Operation(OperationKind.COPY, 0, 1, source=scratch, waits=(0, 2)),
    ]
    program = program_from_operations(
        CollectiveKind.BROADCAST, [root, other], n_chunks=1, shard_offset=[0, 1, 1], root=0
    )
    (row,) = interpreted(mpi, program, [2**20])
    assert row.wrong == 0


def test_the_runtime_joins_what_goes_the_same_way_in_several_steps(
    mpi: MpiInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No message is short enough to be packed; chunks of a pair take one way in several steps."""
    program = program_of(solve("de_bruijn(2, 3)", "alltoall", algorithm="pipelined").plan, 0)
    seen: list[InterpreterTimes] = []

    def watched(*arguments: Any, **options: Any) -> list[InterpreterTimes]:
        seen.extend(run_interpreter(*arguments, **options))
        return seen

    monkeypatch.setattr("treadle.runtime.mpi_c.run_interpreter", watched)
    (row,) = measure_mpi_c(program, [2**22], iterations=1)
    (apart,) = interpreted(mpi, program, [2**22])
    assert (row.wrong, apart.wrong) == (0, 0)
    assert 3 * seen[0].messages < 2 * apart.messages


def test_what_nothing_waits_for_is_not_cut(mpi: MpiInstallation) -> None:
    direct = program_of(solve("complete(4)", "alltoall").plan, 0)
    (row,) = interpreted(mpi, direct, [2**16], slice_bytes=1024)
    assert (row.wrong, row.messages) == (0, 3)
    ring = program_of(solve("ring(4)", "allgather").plan, 0)
    whole, cut = (interpreted(mpi, ring, [2**16], slice_bytes=size)[0] for size in (2**16, 1024))
    assert (whole.wrong, cut.wrong) == (0, 0)
    assert cut.messages > 4 * whole.messages


@pytest.mark.usefixtures("mpi")
def test_sends_are_buffered_and_all_to_alls_move_what_is_for_whom() -> None:
    """Each rank overwrites what it has just sent, and waits for nothing but its own send."""
    doubling = exchange(4, in_place=True)
    assert [row.wrong for row in measure_mpi_c(doubling, [2**20], iterations=3, slice_bytes=4096)] == [0]
    plan = solve("ring(3)", "alltoall").plan
    rows = measure_mpi_c(program_of(plan, 4000), [4, 4000, 40_000], iterations=2, slice_bytes=1024)
    assert [row.wrong for row in rows] == [0, 0, 0]


@pytest.mark.usefixtures("mpi")
def test_a_sum_that_is_left_out_is_seen() -> None:
    program = random_program(CollectiveKind.ALLREDUCE, 3, seed=1, trees_per_root=1)
    kinds = program.operation_kind.copy()
    victim = int(np.flatnonzero(kinds == OperationKind.RECEIVE_REDUCE)[0])
    kinds[victim] = OperationKind.RECEIVE
    (row,) = measure_mpi_c(replace(program, operation_kind=kinds), [4096], iterations=1)
    assert 0 < row.wrong < 3 * 1024


def test_what_it_cannot_run_is_refused_before_any_process_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    def never() -> MpiInstallation:
        raise AssertionError

    monkeypatch.setattr("treadle.runtime.mpi_c.find_mpi", never)
    program = random_program(CollectiveKind.ALLREDUCE, 3, seed=1, trees_per_root=1)
    with pytest.raises(ScheduleError, match="adds float32 or int32"):
        measure_mpi_c(program, [64], reduction=Reduction.MAX)
    with pytest.raises(ScheduleError, match="adds float32 or int32"):
        measure_mpi_c(program, [64], element=ElementType.FLOAT16)
    sends = np.flatnonzero(program.operation_kind == OperationKind.SEND)
    channel = program.channel.copy()
    channel[sends[0]] += 1
    with pytest.raises(ScheduleError, match="channel"):
        measure_mpi_c(replace(program, channel=channel), [64])


def spoiled(old: str, new: str) -> Callable[[str], str]:
    return lambda text: text.replace(old, new, 1)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda text: text[: len(text) // 2], "expected"),
        (lambda text: "", "treadle-program"),
        (spoiled("program 2", "program 1"), "version"),
        (spoiled("allgather", "allsorts"), "unknown collective"),
        (spoiled("operations 2", "operations 99999999999999"), "number of operations"),
        (spoiled("shards 1 0 4", "shards 1 0 3"), "cover all chunks"),
        (spoiled("chunks 4", "chunks 99999999999999999999999"), "chunks"),
        (spoiled("input 1 0 4", "input 1 2 4"), "not in its buffers"),
        (spoiled("0 1 0 3 -1", "0 1 0 5 -1"), "number of chunks"),
        (spoiled("-1 0 1 0\n", "-1 0 1 1\n"), "awaited operation"),
        (spoiled("3 -1 -1 0 1 0 3 -1", "0 0 0 0 1 0 3 0"), "own peer"),
        (spoiled("ranks 1", "ranks 3"), "expected 3 processes"),
    ],
)
def test_a_malformed_file_ends_in_one_line(
    spoil: Callable[[str], str], message: str, mpi: MpiInstallation, tmp_path: Path
) -> None:
    done = alone(mpi, spoil(ONE_RANK), tmp_path)
    assert done.returncode not in (0, 1)
    assert done.returncode > 0  # no signal
    lines = [line for line in done.stderr.splitlines() if line.startswith("treadle: interpreter: ")]
    assert len(lines) == 1
    assert message in lines[0]


def alone(mpi: MpiInstallation, text: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    """The interpreter as the only process of its world."""
    path = folder / "program.txt"
    path.write_text(text, encoding="ascii")
    return finished(
        [build_interpreter(mpi), *interpreter_arguments(path, [4096], iterations=1)],
        # without mpirun nobody removes Open MPI's shared memory: it goes with the folder
        environment={**launch_environment(), "OMPI_MCA_btl_sm_backing_directory": str(folder)},
        limit_s=60,
    )


def test_the_file_that_is_spoiled_is_right_by_itself(mpi: MpiInstallation, tmp_path: Path) -> None:
    done = alone(mpi, ONE_RANK, tmp_path)
    assert done.returncode == 0, done.stderr
    assert '"wrong": 0' in done.stdout


def test_a_killed_rank_ends_all_with_an_error(mpi: MpiInstallation) -> None:
    program = random_program(CollectiveKind.ALLREDUCE, 3, seed=1, trees_per_root=1)
    interpreter = build_interpreter(mpi)
    with written_program(program) as path:
        # a name of its own, so that only these processes are found
        link = path.with_name(f"treadle-victim-{os.getpid()}")
        link.symlink_to(interpreter)
        command = [
            *local_launch(mpi, 3),
            str(link),
            *interpreter_arguments(path, [2**16], iterations=10**6, budget_s=1e6),
        ]
        killer = threading.Thread(target=kill_one, args=(str(link),))
        killer.start()
        begin = time.monotonic()
        with pytest.raises(ScheduleError, match="MPI: "):
            run_interpreter(command, environment=launch_environment(), n_sizes=1, limit_s=60)
        killer.join()
        assert time.monotonic() - begin < 50
        assert not processes_of(str(link))


def test_what_a_killed_launcher_left_behind_does_not_stop_the_next(
    mpi: MpiInstallation, tmp_path: Path
) -> None:
    """Open MPI names files by the launcher's process number and does not start where such a file lies."""
    interpreter = build_interpreter(mpi)
    host = os.uname().nodename.split(".")[0]
    leave = f'mkdir -p "$0/ompi.$$"; touch "$0/ompi.$$/pmix.{host}.tool.$$"; exec "$@"'
    with written_program(random_program(CollectiveKind.ALLREDUCE, 2, seed=1)) as path:
        command = [
            *local_launch(mpi, 2),
            str(interpreter),
            *interpreter_arguments(path, [4096], iterations=1),
        ]
        shared = ["sh", "-c", f'TMPDIR="$0"; {leave}', str(tmp_path), *command]
        assert "listener thread failed to start" in finished(shared, environment=launch_environment()).stderr
        environment = {**launch_environment(), "TMPDIR": str(tmp_path)}
        (times,) = run_interpreter(
            ["sh", "-c", leave, str(tmp_path), *command], environment=environment, n_sizes=1, limit_s=60
        )
    assert times.wrong == 0
    assert all(path.name.startswith("ompi.") for path in tmp_path.iterdir())  # those of the shell, no others


def processes_of(program: str) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words and words[0].decode(errors="replace") == program:
            found.append(int(folder.name))
    return found


def kill_one(program: str) -> None:
    for _ in range(300):
        found = processes_of(program)
        if len(found) == 3:
            time.sleep(0.5)
            os.kill(found[0], signal.SIGKILL)
            return
        time.sleep(0.1)


def test_without_a_compiler_the_message_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "mpicc"
    broken.write_text("#!/bin/sh\necho 'cc: not found' >&2\nexit 1\n", encoding="ascii")
    broken.chmod(0o755)
    with pytest.raises(MissingDependencyError, match="cc: not found; is a C compiler installed"):
        build_interpreter(MpiInstallation(broken, broken), directory=tmp_path / "bin")
    assert list((tmp_path / "bin").iterdir()) == []
    broken.write_text("#!/bin/sh\necho 'error writing x.s: No space left on device' >&2\nexit 1\n")
    with pytest.raises(FormatError, match="No space left on device; free some space, or set TMPDIR"):
        build_interpreter(MpiInstallation(broken, broken), directory=tmp_path / "bin")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FormatError, match="cannot be built: Not a directory"):
        build_interpreter(MpiInstallation(broken, broken), directory=tmp_path / "file" / "bin")
    monkeypatch.setattr(mpi_build.sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    with pytest.raises(MissingDependencyError, match=r"pip install 'treadle\[mpi\]'"):
        find_mpi()


def test_it_is_built_once(mpi: MpiInstallation, tmp_path: Path) -> None:
    first = build_interpreter(mpi, directory=tmp_path)
    stamp = first.stat().st_mtime_ns
    assert build_interpreter(mpi, directory=tmp_path) == first
    assert first.stat().st_mtime_ns == stamp
    assert list(tmp_path.iterdir()) == [first]


def test_text_of_a_lowered_program_is_what_the_launcher_writes() -> None:
    program: Any = random_program(CollectiveKind.REDUCE, 3, seed=3, trees_per_root=1)
    with written_program(program) as path:
        assert path.read_text(encoding="ascii") == format_program(program)
    assert not path.parent.exists()


@pytest.mark.usefixtures("mpi")
def test_the_command_starts_the_processes_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = str(tmp_path / "ring.plan")
    assert main(["solve", "ring(3)", "allreduce", "-q", "-o", plan]) == 0
    capsys.readouterr()
    assert main(["run", plan, "--runtime", "mpi-c", "--size", "1K,4K", "--reference", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["runtime"], result["wrong"]) == ("mpi-c", 0)
    assert [row["size_bytes"] for row in result["rows"]] == [1024, 4096]
    assert all(row["reference_time_s"] > 0 for row in result["rows"])
    assert main(["run", plan, "--runtime", "mpi-c", "--dtype", "float16"]) == 2
    assert "adds float32 or int32" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_process_outlives_a_launcher_that_is_ended(
    number: signal.Signals, mpi: MpiInstallation, tmp_path: Path
) -> None:
    if number is signal.SIGKILL and shutil.which("setpriv") is None:
        pytest.skip("MPI: setpriv (util-linux) is not installed")
    program = tmp_path / "program.txt"
    program.write_text(format_program(random_program(CollectiveKind.ALLREDUCE, 2, seed=1)), encoding="ascii")
    link = tmp_path / "treadle-victim"
    link.symlink_to(build_interpreter(mpi))
    arguments = interpreter_arguments(program, [4096], iterations=10**6, budget_s=1e6)
    command = [*local_launch(mpi, 2), str(link), *arguments]
    script = (
        "import sys\n"
        "from treadle.runtime.mpi_c import launch_environment, run_interpreter\n"
        "run_interpreter(sys.argv[1:], environment=launch_environment(), n_sizes=1)\n"
    )
    environment = {**os.environ, "PYTHONPATH": search_path()}
    with started([sys.executable, "-c", script, *command], env=environment) as parent:
        assert settles(str(link), 2)
        parent.send_signal(number)
        parent.communicate(timeout=30)
        assert settles(str(link), 0)


def settles(program: str, n_processes: int) -> bool:
    """Whether so many processes of a program are there within half a minute."""
    for _ in range(300):
        if len(processes_of(program)) == n_processes:
            return True
        time.sleep(0.1)
    return False
