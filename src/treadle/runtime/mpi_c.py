"""Runs programs with the compiled interpreter: no Python between the messages, for timing."""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

from treadle.errors import ScheduleError
from treadle.program.group_lists import ProgramGroups, as_groups
from treadle.program.passes import merge_levels
from treadle.program.program import Program
from treadle.program.program_format import format_groups
from treadle.runtime.data import ElementType, Reduction
from treadle.runtime.measured_sizes import SweepRow, row_of
from treadle.runtime.mpi_build import MpiInstallation, build_interpreter, find_mpi
from treadle.runtime.order import check_executable
from treadle.runtime.run_options import RunKeywords, RunOptions
from treadle.runtime.signals import signals_interrupt, signals_wait

SLICE_BYTES = 2**19
"""Default largest message: in slices of 128 KB, 64 MB take a quarter more time, because each message costs 2
to 3 us of processor time; longer ones no longer stay in a core's cache between arrival and addition."""

PIECE_BYTES = 2**14
"""Default longest message that is packed with others: copying more costs as much as a message."""

BUNDLE_BYTES = 2**16
"""Default longest message packed of several."""

WINDOW = 4
"""Default number of slices in flight."""

_STOP_S = 5.0
_LOCAL_FLAGS = ("--oversubscribe", "--mca", "mpi_yield_when_idle", "1")
_ELEMENTS = (ElementType.FLOAT32, ElementType.INT32)
_TIMES = ("times_s", "reference_times_s", "rounds_times_s")


@dataclass(frozen=True)
class InterpreterTimes:
    """Output of the interpreter for one size.

    Parameters
    ----------
    size_bytes : int
        Rounded down to whole elements.
    wrong : int
        Elements of all ranks that differ from the collective's definition.
    times_s : tuple of float
        Slowest rank's seconds of every timed run.
    reference_times_s : tuple of float
        The same of MPI's own collective; empty if not requested.
    rounds_times_s : tuple of float
        The same of bare rounds; empty if not requested.
    messages : int
        Most that a rank sends in a run.
    worst_group : int, optional
        Of several groups, the one with the most wrong elements; None where all are right.
    """

    size_bytes: int
    wrong: int
    times_s: tuple[float, ...]
    reference_times_s: tuple[float, ...] = ()
    rounds_times_s: tuple[float, ...] = ()
    messages: int = 0
    worst_group: int | None = None


@dataclass(frozen=True)
class Launch:
    """Start of the interpreter's processes.

    Parameters
    ----------
    carrier : str
        What carries their messages, for errors.
    words : tuple of str
        Of the command line, before the interpreter's arguments.
    """

    carrier: str
    words: tuple[str, ...]
    environment: Mapping[str, str]


def launch_environment() -> dict[str, str]:
    """This process's environment; Open MPI rejects root unless these two variables allow it."""
    environment = dict(os.environ)
    if os.geteuid() == 0:
        environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return environment


def measure_mpi_c(
    program: Program | ProgramGroups,
    sizes: Sequence[int],
    *,
    on_row: Callable[[SweepRow], None] | None = None,
    **keywords: Unpack[RunKeywords],
) -> list[SweepRow]:
    """Start one process for each rank on this host, run a program in them at every size, check and time it.

    Parameters
    ----------
    program : Program or ProgramGroups
        The ranks of each group have a communicator of their own, and all groups start together.
    sizes : sequence of int
        Bytes of the larger per-rank buffer.
    on_row : callable, optional
        Called with every row as it is ready. A time is the median of the slowest process's.
    **keywords
        The fields of `RunOptions`: float32 or int32, sums only.

    Raises
    ------
    ScheduleError
        If the program cannot be executed, or the interpreter fails.
    MissingDependencyError
        Without MPI or a C compiler.
    """

    def launch(n_ranks: int) -> Launch:
        mpi = find_mpi()
        interpreter = build_interpreter(mpi)
        return Launch("MPI", (*local_launch(mpi, n_ranks), str(interpreter)), launch_environment())

    return measure_interpreted(program, sizes, launch, RunOptions(**keywords), on_row)


def measure_interpreted(
    program: Program | ProgramGroups,
    sizes: Sequence[int],
    launch: Callable[[int], Launch],
    options: RunOptions,
    on_row: Callable[[SweepRow], None] | None,
) -> list[SweepRow]:
    """Run a program in the compiled interpreter, whatever carries its messages; see `measure_mpi_c`.

    Parameters
    ----------
    launch : callable
        Return the command that starts the ranks; called after the program was found to be executable.
    """
    groups = as_groups(program)
    for one in groups.programs:
        check_interpretable(one, options.element, options.reduction)
    start = launch(groups.n_ranks)
    rows: list[SweepRow] = []
    merged = ProgramGroups(tuple(map(merge_levels, groups.programs)), groups.groups)
    with written_program(merged) as path:
        arguments = interpreter_arguments(
            path,
            sizes,
            element=options.element,
            iterations=options.iterations,
            warmup=options.warmup,
            budget_s=options.budget_s,
            slice_bytes=options.slices_of(SLICE_BYTES),
            with_reference=options.with_reference,
        )
        command = [*start.words, *arguments]
        found = run_interpreter(
            command, environment=start.environment, n_sizes=len(sizes), carrier=start.carrier
        )
        for times in found:
            count = times.size_bytes // options.element.n_bytes
            wrong = [0] * len(groups.programs)
            wrong[times.worst_group or 0] = times.wrong
            row = row_of(options, groups.programs[0], count, times.times_s, wrong, times.reference_times_s)
            rows.append(row)
            if on_row is not None:
                on_row(row)
    return rows


def check_interpretable(program: Program, element: ElementType, reduction: Reduction) -> None:
    """Raise ScheduleError if the interpreter cannot run this, or the program would not end."""
    if element not in _ELEMENTS or reduction is not Reduction.SUM:
        raise ScheduleError(
            f"the compiled interpreter adds float32 or int32, found {reduction} of {element}; "
            f"use --runtime mpi or in-process"
        )
    check_executable(program)


def local_launch(mpi: MpiInstallation, n_ranks: int) -> list[str]:
    """The launcher's words for processes on this host, which may have fewer cores; they end with it."""
    return [str(mpi.mpirun), "-n", str(n_ranks), *_LOCAL_FLAGS, *_ending_with_parent()]


@contextlib.contextmanager
def written_program(program: Program | ProgramGroups) -> Iterator[Path]:
    """A file with the program's text, or that of all groups' programs; removed at the end."""
    with signals_interrupt(), tempfile.TemporaryDirectory(prefix="treadle-program-") as folder:
        path = Path(folder) / "program.txt"
        path.write_text(format_groups(as_groups(program)), encoding="ascii")
        yield path


def interpreter_arguments(
    program: Path,
    sizes: Sequence[int],
    *,
    element: ElementType = ElementType.FLOAT32,
    iterations: int = 20,
    warmup: int = 2,
    budget_s: float = 1.0,
    slice_bytes: int = SLICE_BYTES,
    piece_bytes: int = PIECE_BYTES,
    bundle_bytes: int = BUNDLE_BYTES,
    with_reference: bool = False,
    with_rounds: bool = False,
    start_s: float = 0.0,
) -> list[str]:
    """The interpreter's command line after its name; ``interpreter.c`` documents it.

    Parameters
    ----------
    sizes : sequence of int
        Bytes of the larger per-rank buffer.
    element, iterations, warmup, budget_s, with_reference
        As `RunOptions`.
    slice_bytes, piece_bytes, bundle_bytes : int
        Largest message, more or less; longest that is packed with others; longest packed of several.
    with_rounds : bool
        Also time the same bytes between the same ranks in bare rounds.
    start_s : float
        All ranks are on one host: each run starts at one time for all, so long after they have met; 0: when
        each leaves a barrier.
    """
    return [
        str(program),
        *("--sizes", ",".join(map(str, sizes))),
        *("--type", element.value),
        *("--iterations", str(iterations)),
        *("--warmup", str(warmup)),
        *("--budget", repr(budget_s)),
        *("--start", repr(start_s)),
        *("--slice", str(slice_bytes)),
        *("--window", str(WINDOW)),
        *("--piece", str(piece_bytes)),
        *("--bundle", str(bundle_bytes)),
        *(["--reference"] if with_reference else []),
        *(["--rounds"] if with_rounds else []),
    ]


def run_interpreter(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    n_sizes: int,
    limit_s: float | None = None,
    carrier: str = "MPI",
) -> list[InterpreterTimes]:
    """Run a launcher with the interpreter; its processes never outlive this call.

    Parameters
    ----------
    command : sequence of str
        Launcher, interpreter and arguments.
    n_sizes : int
        Rows to expect.
    limit_s : float, optional
        Wall-clock seconds after which it is stopped.
    carrier : str
        What carries the messages, for errors.

    Raises
    ------
    ScheduleError
        If it fails, takes too long or prints something else than `n_sizes` rows.
    """
    # a killed launcher leaves files named by its process number, and the next of that number does not start
    with (
        signals_interrupt(),
        tempfile.TemporaryDirectory(
            prefix="treadle-mpi-", dir=environment.get("TMPDIR"), ignore_cleanup_errors=True
        ) as folder,
    ):
        process = subprocess.Popen(
            [*_ending_with_parent(), *command],
            env={**environment, "TMPDIR": folder},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            output, problems = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            raise ScheduleError(f"{carrier}: not finished after {limit_s:.0f} s; stopped") from None
        finally:
            with signals_wait():
                stop(process)
    rows = [_parse_row(line, carrier) for line in output.splitlines() if line.startswith("{")]
    is_complete = len(rows) == n_sizes and (process.returncode == 0 or any(row.wrong for row in rows))
    if not is_complete:
        raise ScheduleError(f"{carrier}: {_reason(problems) or f'exit status {process.returncode}'}")
    return rows


def _ending_with_parent() -> list[str]:
    """Words before a command that end it when its parent is killed; none where the tool is absent.

    Kill by SIGKILL: a launcher that receives SIGTERM while it starts its processes may leave them.
    """
    tool = shutil.which("setpriv")
    return [] if tool is None else [tool, "--pdeathsig", "KILL"]


def stop(process: subprocess.Popen[str]) -> None:
    """End a launcher and all that it started, gently at first; it leads a session of its own."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            break
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_S)
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()


def _parse_row(line: str, carrier: str) -> InterpreterTimes:
    try:
        row = json.loads(line)
        result = InterpreterTimes(
            size_bytes=int(row["size_bytes"]),
            wrong=int(row["wrong"]),
            messages=int(row["messages"]),
            worst_group=None if row.get("worst_group") is None else int(row["worst_group"]),
            **{key: tuple(map(float, row.get(key, []))) for key in _TIMES},
        )
    except (ValueError, KeyError, TypeError) as error:
        raise ScheduleError(f"{carrier}: the interpreter printed {line[:80]!r} ({error})") from None
    times = (time for key in _TIMES for time in getattr(result, key))
    if not result.times_s or not all(map(math.isfinite, times)):
        raise ScheduleError(f"{carrier}: the interpreter printed no usable times: {line[:80]!r}")
    return result


def _reason(text: str) -> str:
    """The interpreter's own line in what the launcher said, else the first line that says something."""
    lines = [line.strip() for line in text.splitlines() if line.strip(" -")]
    own = [line for line in lines if line.startswith("treadle: interpreter: ")]
    return own[0].removeprefix("treadle: interpreter: ") if own else " ".join(lines[:3])[:300]
