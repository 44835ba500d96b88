"""The same programs under SimGrid: MPI processes of the C interpreter on a simulated platform (SMPI).

An outside referee: SimGrid shares no code with Treadle, and runs the messages that MPI runs.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np

from treadle.errors import InfeasibleError, MissingDependencyError, ScheduleError
from treadle.program.group_lists import ProgramGroups, as_groups
from treadle.program.operation_lists import OperationKind, OperationLists
from treadle.program.program import Program
from treadle.program.program_format import format_groups
from treadle.runtime.mpi_build import MpiInstallation, build_interpreter
from treadle.topologies.topology import Topology

MODEL = (
    "--cfg=network/model:CM02",
    "--cfg=network/TCP-gamma:0",
    "--cfg=network/crosstraffic:no",
    # version 3.32's default, lazy updates, gives wrong rates where messages with latencies share a wide link
    "--cfg=network/optim:Full",
    "--cfg=surf/precision:1e-12",
    "--cfg=smpi/simulate-computation:no",
    "--cfg=smpi/test:0",
    "--cfg=smpi/wtime:0",
    # messages leave when they are sent, whether or not the receiver waits: a Program's sends are buffered
    "--cfg=smpi/async-small-thresh:2000000000",
    "--cfg=smpi/send-is-detached-thresh:2000000000",
)
"""Latency + bytes / bandwidth, and max-min fair sharing; no costs of a protocol or of computing."""

_WIDER = 16
"""Links that stand for none are so much faster than the fastest; much more costs SimGrid precision."""

_STOP_S = 10.0
"""Time in which killed processes have to let go of their pipes."""


@dataclass(frozen=True)
class SimGridTime:
    """What SimGrid says of a size.

    Parameters
    ----------
    size_bytes : int
        Rounded down to whole elements of 4 bytes.
    time_s : float
        Simulated, of the slowest rank.
    wrong : int
        Elements of all ranks that differ from the collective's definition: SMPI moves real data.
    """

    size_bytes: int
    time_s: float
    wrong: int


def find_simgrid() -> MpiInstallation:
    """SMPI's compiler wrapper and launcher on the PATH; MissingDependencyError if there is none."""
    found = [shutil.which(name) for name in ("smpicc", "smpirun")]
    if found[0] is None or found[1] is None:
        raise MissingDependencyError(
            "SimGrid's smpicc and smpirun are not on the PATH; on Debian: apt-get install "
            "--no-install-recommends libsimgrid-dev"
        )
    return MpiInstallation(Path(found[0]), Path(found[1]))


def platform_xml(topology: Topology, program: OperationLists, *, alpha_ns: int = 0) -> str:
    """The fabric as a SimGrid platform: a host for each rank, and the program's paths as routes.

    Parameters
    ----------
    topology : Topology
    program : OperationLists
        Its sends name their paths.
    alpha_ns : int
        Latency of every message on top of the links'.

    Returns
    -------
    str
        XML. Pairs of ranks that the program never uses are joined by a link of their own, for MPI's
        housekeeping.

    Raises
    ------
    InfeasibleError
        If two messages between the same ranks take different paths, of which SimGrid has one, or a path
        begins or ends at a switch.
    """
    routes = _routes(topology, program)
    n = program.n_ranks
    lines = [
        "<?xml version='1.0'?>",
        '<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">',
        '<platform version="4.1">',
        '<zone id="fabric" routing="Full">',
        *(f'<host id="rank{rank}" speed="1Gf"/>' for rank in range(n)),
    ]
    links = zip(topology.bandwidths.tolist(), topology.latencies_ns.tolist(), strict=True)
    lines += [_link(f"link{number}", *ends) for number, ends in enumerate(links)]
    for node in np.flatnonzero(topology.injection_bytes_per_s).tolist():
        cap = int(topology.injection_bytes_per_s[node])
        lines += [_link(f"out{node}", cap, 0), _link(f"into{node}", cap, 0)]
    wide = _WIDER * int(topology.bandwidths.max(initial=1))
    lines += [_link("alpha", wide, alpha_ns, policy="FATPIPE"), _link("control", wide, 0, policy="FATPIPE")]
    for pair in product(range(n), repeat=2):
        names = ["alpha", *_names(topology, routes[pair])] if pair in routes else ["control"]
        crossed = "".join(f'<link_ctn id="{name}"/>' for name in names)
        lines.append(f'<route src="rank{pair[0]}" dst="rank{pair[1]}" symmetrical="NO">{crossed}</route>')
    return "\n".join([*lines, "</zone>", "</platform>", ""])


def _link(name: str, bandwidth: int, latency_ns: int, *, policy: str = "SHARED") -> str:
    return (
        f'<link id="{name}" bandwidth="{bandwidth}Bps" latency="{latency_ns}ns" sharing_policy="{policy}"/>'
    )


def _names(topology: Topology, links: tuple[int, ...]) -> Iterator[str]:
    for link in links:
        tail, head = int(topology.tails[link]), int(topology.heads[link])
        if topology.injection_bytes_per_s[tail]:
            yield f"out{tail}"
        yield f"link{link}"
        if topology.injection_bytes_per_s[head]:
            yield f"into{head}"


def _routes(topology: Topology, program: OperationLists) -> dict[tuple[int, int], tuple[int, ...]]:
    routes: dict[tuple[int, int], tuple[int, ...]] = {}
    rank = program.operation_rank
    for send in np.flatnonzero(program.operation_kind == OperationKind.SEND).tolist():
        pair = int(rank[send]), int(program.peer[send])
        links = tuple(program.links(int(program.path[send])).tolist()) if program.path[send] >= 0 else ()
        ends = [int(program.nodes[side]) for side in pair]
        if not links or [int(topology.tails[links[0]]), int(topology.heads[links[-1]])] != ends:
            raise InfeasibleError(
                f"SimGrid: a message from rank {pair[0]} to rank {pair[1]} has no path between the two; "
                f"in-network copies and sums cannot be expressed"
            )
        if routes.setdefault(pair, links) != links:
            raise InfeasibleError(
                f"SimGrid: messages from rank {pair[0]} to rank {pair[1]} take different paths, and SimGrid "
                f"has one route for a pair of hosts"
            )
    return routes


def simulate_with_simgrid(
    topology: Topology,
    program: Program | ProgramGroups,
    sizes: Sequence[int],
    *,
    alpha_ns: int = 0,
    limit_s: float = 120.0,
    text: str | None = None,
) -> list[SimGridTime]:
    """Run a program's messages in SimGrid, with real data, and read the simulated time.

    Parameters
    ----------
    topology : Topology
    program : Program or ProgramGroups
    sizes : sequence of int
        Bytes of the larger per-rank buffer.
    alpha_ns : int
        Latency of every message, nanoseconds.
    limit_s : float
        Wall-clock seconds after which it is stopped.
    text : str, optional
        What the processes run; default the text of the program or of all groups'.

    Raises
    ------
    ScheduleError
        If SimGrid finds a deadlock (it says so in its log and exits with 0), or fails.
    MissingDependencyError
        Without SimGrid or a C compiler.
    """
    simgrid = find_simgrid()
    groups = as_groups(program)
    interpreter = build_interpreter(simgrid)
    with tempfile.TemporaryDirectory(prefix="treadle-simgrid-") as folder:
        files = {name: Path(folder) / name for name in ("platform.xml", "hosts", "program.txt")}
        files["platform.xml"].write_text(
            platform_xml(topology, groups.lists, alpha_ns=alpha_ns), encoding="ascii"
        )
        files["hosts"].write_text(
            "".join(f"rank{rank}\n" for rank in range(groups.n_ranks)), encoding="ascii"
        )
        files["program.txt"].write_text(format_groups(groups) if text is None else text, encoding="ascii")
        command = [
            *(str(simgrid.mpirun), "-np", str(groups.n_ranks)),
            *("-platform", str(files["platform.xml"]), "-hostfile", str(files["hosts"])),
            *MODEL,
            *(str(interpreter), str(files["program.txt"]), "--sizes", ",".join(map(str, sizes))),
            *("--align", "--iterations", "1", "--warmup", "0"),
            *("--slice", str(2**40), "--piece", "0"),  # a message for every one of the program
        ]
        out, log = _run(command, {**os.environ, "TMPDIR": folder}, limit_s)
    return _times(out, log, len(sizes))


def _run(command: list[str], environment: dict[str, str], limit_s: float) -> tuple[str, str]:
    """Standard output and error; whatever was started is gone afterwards."""
    process = subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        return process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        raise ScheduleError(f"SimGrid: not finished after {limit_s:g} s; use a smaller size") from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=_STOP_S)


def _times(out: str, log: str, n_sizes: int) -> list[SimGridTime]:
    lines = [line.strip() for line in f"{log}\n{out}".splitlines() if line.strip()]
    own = [line for line in lines if line.startswith("treadle: interpreter")]
    if own:  # it ends all ranks, which SimGrid then calls a deadlock, too
        raise ScheduleError(f"SimGrid: {own[0][:300]}")
    if any("deadlock" in line.lower() for line in lines):
        raise ScheduleError("SimGrid: deadlock: some ranks wait for messages that never come")
    rows = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    if len(rows) != n_sizes:
        telling = [line for line in lines if "rror" in line] or lines or ["it said nothing"]
        raise ScheduleError(f"SimGrid: {len(rows)} of {n_sizes} sizes were simulated: {telling[0][:300]}")
    return [SimGridTime(row["size_bytes"], min(row["times_s"]), row["wrong"]) for row in rows]
