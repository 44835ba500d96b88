"""Options of the commands that run, simulate and measure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from treadle.errors import FormatError
from treadle.options.checking import RuntimeFileOptions
from treadle.options.rows import Options, arg, either, names, opt, rare, written
from treadle.options.shared import (
    Costs,
    Fabric,
    Memory,
    NcclLog,
    Rated,
    ReadOrSolved,
    Reporting,
    TimeLimit,
)


def _slices(text: str, label: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise FormatError(f"{label} {text[:40]!r}: expected a number or auto")
    return int(text)


class Runs(Options):
    """Options of runs on real data, as keywords of `run`."""

    element: Any = opt("Element type.", "float32", flag="--dtype", choices="treadle.planning:ElementType")
    reduction: Any = opt("Reduction operation.", "sum", flag="--redop", choices="treadle.planning:Reduction")
    iterations: int = opt("Maximum number of timed runs per size.", 20, least=1)
    seed = ReadOrSolved.seed
    with_reference: bool = opt("Also time MPI's own collective (mpi only).", False, flag="--reference")
    device_protocols: Any = opt(
        "Device: auto (by size), Simple, LL, or both; a row for each.", flag="--protocol", metavar="PROTOCOLS"
    )
    lanes: int | None = rare("Device: maximum number of thread blocks per rank.", least=1)
    threads: int | None = rare("Device: threads per block.", least=1)
    lane_costs: Any = rare(
        "Device: cost model that chooses protocol, blocks and slices.",
        flag="--cost-model",
        metavar="FILE|NAME",
    )


class Run(ReadOrSolved, Runs, Rated):
    """Options of ``run``."""

    size: str = opt("Per-rank buffer: 64M, or 1K..64M by factors of two.", "1K..64M", metavar="SIZES")
    runtime: Any = opt(
        "Executor; mpi runs under mpirun.", "in-process", choices="treadle.planning:RuntimeName"
    )
    element, reduction = Runs.element, Runs.reduction
    in_place = RuntimeFileOptions.in_place


class MessageModel(Options):
    """Model of how messages share links and switches."""

    least_slice_bytes: int = rare("Smallest slice for --slices auto; default 4KB.", 4096)
    latency_model: Any = rare(
        "Whether a latency delays its message or also holds the link.",
        "pipelined",
        choices="treadle.planning:LatencyModel",
        config="cost-model.latency-model",
    )
    forwarding: Any = rare(
        "How messages pass switches.",
        "cut-through",
        choices="treadle.planning:Forwarding",
        config="cost-model.forwarding",
    )
    sharing: Any = rare(
        "How messages share a link.",
        "slice-order",
        choices="treadle.planning:Sharing",
        config="cost-model.sharing",
    )
    reduction_bytes_per_s: int = rare(
        "Reduction speed of a rank; default no time.", 0, config="cost-model.reduction"
    )


class Simulate(ReadOrSolved, Costs, NcclLog, MessageModel, Rated):
    """Options of ``simulate``."""

    plan: Any = arg("PLAN|TOPOLOGY", "A plan, a third-party schedule, or a fabric to solve for.")
    collective, algorithm = ReadOrSolved.collective, ReadOrSolved.algorithm
    topology: Any = opt("Fabric of a third-party schedule.", metavar="TOPOLOGY")
    multicast: bool = rare("Use in-network multicast and aggregation.", False)
    size: str = opt("Per-rank buffer: 64M, or 1K..1G by factors of two.", "1K..1G", metavar="SIZES")
    slices: int | str = opt(
        "Slices per message.", "auto", metavar="N|auto", parse=either("auto", "auto", _slices)
    )
    alpha_ns: int | None = opt(
        "Latency of every message, in addition to the links'.", config="cost-model.alpha"
    )
    trace: Path | None = written("Timeline of the last size (.json, .pftrace, or .gz of them).")
    picture: Path | None = written("Plot of link utilization over time (.png, .svg or .pdf).")
    referee: Any = rare(
        "Cross-check with an independent simulator, on real data.", choices="treadle.planning:CrossCheck"
    )


class Testbed(Memory, Fabric, Rated):
    """Options of ``testbed``."""

    topology: Any = arg("TOPOLOGY", "A direct-connect fabric: an expression or a file.", None)
    plan: list[Path] = opt("Run this plan; repeatable.", (), metavar="PLAN", replaces="topology")
    collectives: Sequence[str] = opt(
        "Solve for these collectives and run them.",
        ("allgather", "allreduce"),
        metavar="NAME,...",
        parse=names,
    )
    algorithms: Sequence[str] = opt(
        "Schedulers; unsupported cases are skipped.",
        ("bfb", "ring-steps", "tsmcf"),
        metavar="NAME,...",
        parse=names,
        words="algorithms",
    )
    size: str = opt("Per-rank buffer sizes, as for run.", "1K,256K,1M,4M,8M", metavar="SIZES")
    rate: str = opt("Bandwidth of the slowest link; others in proportion.", "100Mbit/s", metavar="RATE")
    delay_ns: int | None = opt("Latency of every link; default the host's own.")
    iterations: int = opt("Maximum number of timed runs per size; the best counts.", 200, least=1)
    rounds: int = opt("Repetitions of all schedules; the best of all counts.", 1, least=1)
    crossovers: bool = opt("Report crossover sizes, measured and predicted.", False)
    dry_run: bool = opt("Only print the commands that would create the network.", False)
    clean: bool = opt("Remove what crashed testbeds left, and do nothing else.", False, replaces="topology")


class Diagnose(TimeLimit, Fabric, Rated):
    """Options of ``diagnose``."""

    log: Path = arg("LOG", "Output of nccl-tests, best with NCCL_DEBUG=INFO.")
    fabric: str | None = opt(
        "Fabric in rank order; default by the log's system tree or GPUs.",
        flag="--topology",
        metavar="TOPOLOGY",
    )
    collective: str | None = opt("Collective, if the log does not say.", metavar="COLLECTIVE")


class Calibrate(Rated):
    """Options of ``calibrate``."""

    measured: list[Path] = arg("FILE", "nccl-tests output (text or -J), or JSON of run or testbed.")
    output: Path | None = written("Cost model or fit to write (JSON).", short="-o")
    plans: Sequence[str] | None = opt(
        "Plans of the files, in their order; fits a cost model.",
        flag="--plan",
        metavar="PLAN,...",
        parse=names,
    )
    protocols: Sequence[str] | None = opt(
        "With --plan: protocols to fit, e.g. ll,ll128,simple; default simple.",
        metavar="NAME,...",
        parse=names,
    )
    held_out: int = opt("With --plan: only predict the last N files.", 0, least=0)
    steps: int | None = opt(
        "Communication steps of the measured collective, e.g. 2(N-1).", metavar="X", least=1
    )
    degree: int = opt("Links that share the bandwidth of a node.", 1, metavar="D", least=1)
    collective: str | None = opt("Collective, if the file does not say.", metavar="COLLECTIVE")
    ranks: int | None = opt("Number of ranks, if the file does not say.", least=2, most=2**20)
    fabric: str | None = opt("Fabric of equal links to write with the fitted values.", metavar="TOPOLOGY")
    fabric_output: Path | None = written("Topology file to write.")


class Reproduce(Reporting):
    """Options of ``reproduce``."""

    name: str | None = arg("[NAME]", "Table or figure, e.g. table-4.1; default list all.", None)
    full: bool = opt("Also compute what takes minutes.", False, off="--quick")
