"""What a GPU must show of the device runtime, in one run of less than 10 minutes; tables as markdown.

`make gpu-check`, or ``python -m tools.gpu_check [--out FILE] [--quick]``. Without a GPU and nvcc it says
SKIPPED and ends well. It checks every element of:

- eight ranks on one GPU in one cooperative launch, 4 B to 256 MB, both protocols;
- the same with few sizes under compute-sanitizer's memcheck and synccheck, where that tool is;
- a sweep against the bandwidth of a copy, measured in the same run;
- two and eight processes that open each other's memory (CUDA IPC, virtual memory): right, not fast, since
  they take turns;
- PyTorch with two processes: an allreduce, and one in a graph that is replayed 100 times.

Passes where nothing is wrong, no sanitizer reports, an allgather of 64 MB among 8 ranks reaches 70% of the
copy, and an LL allreduce of 1 KB takes at most 15 us a launch.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import monotonic

from tools.rank_check import CheckedRank, FolderExchange
from treadle.errors import TreadleError
from treadle.planning import program_of, run, solve
from treadle.runtime.data import Reduction
from treadle.runtime.device.block_lowering import lower_to_blocks
from treadle.runtime.device.block_program import DeviceProtocol
from treadle.runtime.device.memory.cumem import CuMemMemory
from treadle.runtime.device.memory.peer_memory import Exchange, IpcMemory, PeerMemory
from treadle.runtime.device.on_gpu import copy_bandwidth, gpu_name
from treadle.runtime.device.rank_blocks import RankBlocks
from treadle.runtime.run_options import RunKeywords, RunOptions
from treadle.simulation.block_costs import block_costs
from treadle.units import format_size

BOX = "dgx_h100:1"
KINDS = ("allreduce", "allgather", "reduce-scatter", "alltoall", "broadcast", "reduce")
LEAST_SHARE, MOST_LL_S = 0.7, 15e-6
_LL_BYTES = 2**20
FEW: RunKeywords = {"lanes": 1, "threads": 1} if os.environ.get("GPU_CHECK_FEW") else {}
"""Where threads stand in for a GPU, and times say nothing."""
_LIMIT_S = 540.0


@dataclass
class Report:
    """Tables, and what is wrong.

    Parameters
    ----------
    out : Path, optional
        Written again after each part, so that what is cut short is told too.
    """

    out: Path | None
    lines: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    begun: float = field(default_factory=monotonic)

    def say(self, *lines: str) -> None:
        """Print and keep."""
        for line in lines:
            print(line, flush=True)
        self.lines += lines
        if self.out is not None:
            self.out.write_text("\n".join(self.lines) + "\n", encoding="utf-8")

    def table(self, title: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """A table of markdown."""
        self.say("", f"## {title}", "", f"| {' | '.join(head)} |", f"|{'---|' * len(head)}")
        for row in rows:
            self.say(f"| {' | '.join(map(str, row))} |")

    def fault(self, words: str) -> None:
        """Something that fails the check."""
        self.faults.append(words)
        self.say("", f"**Failed: {words}**")

    def part(self, title: str, work: Callable[[], None]) -> None:
        """Do a part, unless the time is up; what it raises is a fault."""
        if monotonic() - self.begun > _LIMIT_S:
            self.say("", f"SKIPPED: {title}: the time is up")
            return
        try:
            work()
        except (TreadleError, OSError, subprocess.SubprocessError) as error:
            self.fault(f"{title}: {error}")


def sweep(report: Report, sizes: Sequence[int], kinds: Sequence[str]) -> None:
    """Eight ranks in one launch, at every size, by both protocols."""
    rows = []
    for kind in kinds:
        plan = solve(BOX, kind)
        for protocol in DeviceProtocol:
            served = [size for size in sizes if protocol is DeviceProtocol.SIMPLE or size <= _LL_BYTES]
            if not served:
                continue
            given: RunKeywords = {**FEW, "device_protocols": (protocol,)}
            found = run(plan, served, runtime="device-gpu", **given)
            for row in found.rows:
                took = f"{row.time_s * 1e6:.1f}"
                rows.append((kind, row.protocol, format_size(row.size_bytes), took, row.wrong))
                what = f"{kind} by {protocol} of {format_size(row.size_bytes)}"
                if row.wrong:
                    report.fault(f"{what}: {row.wrong} elements wrong")
                if what == "allreduce by LL of 1KB" and row.time_s > MOST_LL_S and not FEW:
                    report.fault(f"{what}: {took} us a launch, expected at most {MOST_LL_S * 1e6:g}")
    report.table(
        "Eight ranks on one GPU, one launch", ("collective", "protocol", "size", "us a launch", "wrong"), rows
    )


def against_copies(report: Report, sizes: Sequence[int]) -> None:
    """What eight ranks write in an allgather, beside what a copy writes in the same time."""
    rows, plan = [], solve(BOX, "allgather")
    for size in sizes:
        copied = copy_bandwidth(size)
        row = run(plan, [size], runtime="device-gpu", **FEW).rows[0]
        moved = 8 * size * 7 / 8  # each rank stores its shard at seven others
        share = moved / row.time_s / copied
        took, rate = f"{row.time_s * 1e6:.1f}", f"{copied / 1e9:.4g}"
        rows.append((format_size(size), row.protocol, took, rate, f"{share:.0%}"))
        if size == 2**26 and share < LEAST_SHARE:
            report.fault(f"allgather of 64 MB: {share:.0%} of a copy's bandwidth, at least {LEAST_SHARE:.0%}")
    report.table(
        "Allgather beside a copy on the same GPU",
        ("size", "protocol", "us a launch", "copy, GB/s", "share"),
        rows,
    )


MEMORIES: dict[str, Callable[[int, Exchange], PeerMemory]] = {"CUDA IPC": IpcMemory, "cuMem": CuMemMemory}


def processes(report: Report, counts: Sequence[int], n: int, memory: str) -> None:
    """Processes of this GPU that open each other's memory."""
    with tempfile.TemporaryDirectory(prefix="treadle-gpu-check-") as folder:
        words = [sys.executable, "-m", "tools.gpu_check", "--rank"]
        running = [
            subprocess.Popen(
                [*words, memory, str(rank), str(n), folder, *map(str, counts)],
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank in range(n)
        ]
        try:
            said = [one.communicate(timeout=120)[0].split() for one in running]
        finally:
            for one in running:
                one.kill()
    wrong = [int(words[-1]) if words else -1 for words in said]
    report.table(
        f"{n} processes by {memory}",
        ("rank", "launches", "wrong"),
        [(rank, 4 * len(counts), one if one >= 0 else "no answer") for rank, one in enumerate(wrong)],
    )
    if any(wrong):
        report.fault(f"{n} processes by {memory}: wrong elements of ranks {wrong}")


def one_rank(memory: str, rank: int, n: int, folder: Path, counts: Sequence[int]) -> int:
    """Of `processes`: wrong elements at a rank, over both protocols, twice."""
    fabric = BOX if n == 8 else f"complete:{n}"
    program = program_of(solve(fabric, "allreduce").plan, 1024, in_place=True)
    with RankBlocks(MEMORIES[memory](rank, FolderExchange(folder, rank, n)), limit_s=30.0) as lanes:
        check = CheckedRank(lanes, RunOptions(reduction=Reduction.SUM))
        admitted = [lanes.admit(lower_to_blocks(program, one, lanes=2, reached=())) for one in DeviceProtocol]
        ready = [(check.prepared(one, count, 2**16), count) for one in admitted for count in counts]
        found = check.wrong([*ready, *ready], threads=FEW.get("threads", 256))
        lanes.memory.barrier()
    print(found)
    return 0


def sanitizers(report: Report) -> None:
    """The whole in few sizes under memcheck and synccheck."""
    tool = shutil.which("compute-sanitizer")
    if tool is None:
        report.say("", "SKIPPED: compute-sanitizer is not on the PATH")
        return
    rows = []
    for name in ("memcheck", "synccheck"):
        words = [tool, "--tool", name, "--error-exitcode", "9"]
        words += [sys.executable, "-m", "tools.gpu_check", "--subset"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=150, check=False)
        rows.append((name, "nothing" if done.returncode == 0 else "REPORTS"))
        if done.returncode:
            report.fault(f"compute-sanitizer {name}: {done.stdout[-500:]} {done.stderr[-300:]}")
    report.table("compute-sanitizer, sizes 4 B, 1 KB and 64 KB", ("tool", "reports"), rows)


_TORCH = """
import os, sys, torch, torch.distributed as dist
from datetime import timedelta
from treadle.torch import Options
rank, folder = int(sys.argv[1]), sys.argv[2]
torch.cuda.set_device(0)
dist.init_process_group("treadle", init_method="file://" + folder + "/meet", rank=rank, world_size=2,
                        timeout=timedelta(seconds=60))
tensor = torch.full((100_003,), float(rank + 1), device="cuda")
dist.all_reduce(tensor)
well = bool((tensor == 3).all())
graph, kept = torch.cuda.CUDAGraph(), torch.zeros(5000, device="cuda")
dist.all_reduce(kept)
torch.cuda.synchronize()
with torch.cuda.graph(graph):
    dist.all_reduce(kept)
for turn in range(100):
    kept.fill_(float(turn + rank))
    graph.replay()
    well = well and bool((kept == 2 * turn + 1).all())
print("well" if well else "wrong")
dist.destroy_process_group()
"""


def under_torch(report: Report) -> None:
    """Two processes of PyTorch on this GPU."""
    asked = "import torch; print(torch.cuda.is_available())"
    found = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=False)
    if found.stdout.strip() != "True":
        report.say("", "SKIPPED: PyTorch with CUDA is not installed")
        return
    environment = {**os.environ, "TORCH_SYMM_MEM_ALLOW_OVERLAPPING_DEVICES": "1", "TREADLE_GPU": "lanes"}
    rows = []
    for memory in ("ipc", "symmetric", "cumem"):
        with tempfile.TemporaryDirectory(prefix="treadle-gpu-check-") as folder:
            running = [
                subprocess.Popen(
                    [sys.executable, "-c", _TORCH, str(rank), folder],
                    env={**environment, "TREADLE_GPU_MEMORY": memory},
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
                for rank in range(2)
            ]
            try:
                said = [one.communicate(timeout=120) for one in running]
            finally:
                for one in running:
                    one.kill()
        is_well = all(out.strip() == "well" for out, _ in said)
        rows.append((memory, "right" if is_well else "WRONG"))
        if not is_well:
            report.fault(f"PyTorch, memory {memory}: {said[0][1][-500:]}")
    report.table("PyTorch, two processes, allreduce and 100 replays of a graph", ("memory", ""), rows)


def check(report: Report, *, quick: bool) -> int:
    """All parts; 1 where something is wrong."""
    try:
        name = gpu_name()
    except TreadleError as error:
        report.say(f"SKIPPED: {error}")
        return 0
    report.say(f"# Device runtime on {name}", "")
    report.say(f"Sizes choose by cost model {block_costs().model}; one GPU, so no links between ranks.")
    sizes = [4, 1024, 65536] if quick else [4, 1024, 65536, 2**20, 2**22]
    report.part("one launch", lambda: sweep(report, sizes, KINDS[:2] if quick else KINDS))
    copies = [2**16] if quick else [2**20, 2**24, 2**26]
    report.part("beside copies", lambda: against_copies(report, copies))
    for memory in MEMORIES:
        two = partial(processes, report, [1001, 40_000], 2, memory)
        report.part(f"two processes, {memory}", two)
    report.part("eight processes", lambda: processes(report, [1001, 40_000], 8, "CUDA IPC"))
    report.part("PyTorch", lambda: under_torch(report))
    report.part("sanitizers", lambda: sanitizers(report))
    if not quick:
        report.part("large", lambda: sweep(report, [2**26, 2**28], KINDS[:2]))
    report.say("", "Passed." if not report.faults else f"{len(report.faults)} failed.")
    return 1 if report.faults else 0


def main(arguments: Sequence[str]) -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--subset", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--rank", nargs="+", help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.rank:
        memory, rank, n, folder, *counts = asked.rank
        return one_rank(memory, int(rank), int(n), Path(folder), list(map(int, counts)))
    report = Report(asked.out)
    if asked.subset:
        sweep(report, [4, 1024, 65536], KINDS[:1])
        return 1 if report.faults else 0
    return check(report, quick=asked.quick)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
