"""Open MPI in the namespaces of an emulated network: a process for each rank on its own node."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log2
from pathlib import Path

from treadle.program.program import Program
from treadle.program.program_format import format_program
from treadle.runtime.data import ElementType, Reduction
from treadle.runtime.mpi_build import MpiInstallation
from treadle.runtime.mpi_c import (
    InterpreterTimes,
    check_interpretable,
    interpreter_arguments,
    launch_environment,
    run_interpreter,
)
from treadle.testbed.layout import ADDRESS_BLOCK, EmulatedLayout

EAGER_BYTES = 16_000_000
"""Messages up to this size are sent eagerly: waiting for the receiver halves the bandwidth of a link."""


@dataclass(frozen=True)
class Timing:
    """Duration and number of runs.

    Parameters
    ----------
    iterations, warmup : int
        Timed runs of a size at most, and runs before them.
    budget_s : float
        Seconds after which no more runs of a size are added.
    limit_s : float
        Wall-clock seconds for one program at all sizes; then it is stopped.
    rounds : int
        How often all programs are gone through: what loads the host for a while then meets all of them.
    """

    iterations: int = 200
    warmup: int = 2
    budget_s: float = 2.0
    limit_s: float = 300.0
    rounds: int = 1


def run_program(
    program: Program,
    sizes: Sequence[int],
    *,
    layout: EmulatedLayout,
    folder: Path,
    mpi: MpiInstallation,
    interpreter: Path,
    slice_bytes: int,
    timing: Timing,
) -> list[InterpreterTimes]:
    """Run a program on the emulated network at every size.

    Parameters
    ----------
    sizes : sequence of int
        Bytes of the larger per-rank buffer; elements are float32.
    layout : EmulatedLayout
        Of a network that is up.
    folder : Path
        For temporary files.
    slice_bytes : int
        Largest message, more or less.

    Raises
    ------
    ScheduleError
        If the program cannot be executed, fails or takes too long.
    """
    check_interpretable(program, ElementType.FLOAT32, Reduction.SUM)
    path, agent = folder / "program.txt", folder / "agent"
    path.write_text(format_program(program), encoding="ascii")
    agent.write_text(agent_script(layout, folder), encoding="ascii")
    agent.chmod(0o700)
    arguments = interpreter_arguments(
        path,
        sizes,
        iterations=timing.iterations,
        warmup=timing.warmup,
        budget_s=timing.budget_s,
        start_s=meeting_s(layout),
        slice_bytes=slice_bytes,
        piece_bytes=0,  # the model that this is compared with has a message for every one of the program
    )
    command = [str(agent), layout.host_name(0), *mpi_command(layout, agent, program, mpi)]
    quoted = [*command[:2], shlex.join([*command[2:], str(interpreter), *arguments])]
    environment = {**launch_environment(), "TMPDIR": str(folder)}
    return run_interpreter(quoted, environment=environment, n_sizes=len(sizes), limit_s=timing.limit_s)


def meeting_s(layout: EmulatedLayout) -> float:
    """Time after which all ranks know that the last is ready, with a margin; 0 without delays.

    In a round of an allreduce, of which there are as many as the binary digits of the ranks' number, a
    message may have to cross the network.
    """
    if layout.delay_ns is None:
        return 0.0
    rounds = ceil(log2(len(layout.namespaces))) + 1
    return (rounds * layout.diameter * layout.delay_ns) / 1e9 + 5e-3


def agent_script(layout: EmulatedLayout, folder: Path) -> str:
    """Replacement of ssh: runs a shell line in the namespace of a node, under its name."""
    cases = "\n".join(
        f"  {layout.host_name(node)}) space={name};;" for node, name in enumerate(layout.namespaces)
    )
    return (
        "#!/bin/sh\n"
        "host=$1\n"
        "shift\n"
        f"TMPDIR={shlex.quote(str(folder))}\n"
        "export TMPDIR\n"
        f'case $host in\n{cases}\n  *) echo "no node $host" >&2; exit 1;;\nesac\n'
        'exec ip netns exec "$space" unshare --uts sh -c '
        '\'echo "$0" > /proc/sys/kernel/hostname; eval "$*"\' "$host" "$@"\n'
    )


def mpi_command(layout: EmulatedLayout, agent: Path, program: Program, mpi: MpiInstallation) -> list[str]:
    """The launcher's words; it runs on node 0 itself.

    Notes
    -----
    Between nodes only TCP over the emulated links; no shared memory, although it is one host.
    """
    hosts = [layout.host_name(node) for node in program.nodes.tolist()]
    return [
        *(str(mpi.mpirun), "-n", str(program.n_ranks), "--host", ",".join(f"{host}:1" for host in hosts)),
        *("--map-by", "node:oversubscribe", "--bind-to", "none"),
        *("--prtemca", "plm_ssh_agent", str(agent)),
        *("--prtemca", "plm_ssh_no_tree_spawn", "1"),
        *("--mca", "pml", "ob1", "--mca", "btl", "tcp,self"),
        *("--mca", "btl_tcp_if_include", f"{ADDRESS_BLOCK}.0/24"),
        *("--mca", "btl_tcp_eager_limit", str(EAGER_BYTES)),
        *("--mca", "btl_tcp_max_send_size", str(EAGER_BYTES)),
        *("--mca", "mpi_yield_when_idle", "1"),
    ]
