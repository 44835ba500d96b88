"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from treadle.options.rows import Options, arg, integers, opt, positive, quantity, rare, seconds, written

COLLECTIVES = ("allgather", "reduce-scatter", "allreduce", "broadcast", "reduce", "alltoall")
_named_rate = quantity("parse_bandwidth", named=True)


def _unit(text: str, label: str) -> str:
    from treadle.units import bandwidth_unit

    del label
    bandwidth_unit(text)
    return text


class Reporting(Options):
    """How a command reports."""

    json: bool = opt("Print one JSON object and nothing else.", False)
    quiet: bool = opt("Print no report; errors still appear.", False, short="-q")


class Rated(Reporting):
    """Also of reports with rates."""

    unit: str | None = opt(
        "Unit of rates, e.g. Gbit/s; JSON keeps bytes/s.", metavar="UNIT", parse=_unit, config="unit"
    )
    json, quiet = Reporting.json, Reporting.quiet


class TimeLimit(Options):
    """A limit on the time of a search."""

    time_limit_s: float | None = opt(
        "Stop after this time, e.g. 30s, and keep the best.", parse=seconds, config="time-limit"
    )


class Seed(Options):
    """Where chance comes from."""

    seed: int = opt("Random seed.", 0)


class Workers(Options):
    """Where independent work runs."""

    threads: int | None = opt("Threads; default all cores, in compiled code only.", least=1, config="threads")
    cluster: str | None = rare(
        "Dask scheduler that distributes the work.", metavar="TCP://...", config="cluster"
    )


class Memory(Options):
    """A limit on plans that are read."""

    max_memory: int | None = rare(
        "Reject plans that may need more memory; default 4GB.",
        metavar="SIZE",
        parse=positive,
        config="max-memory",
    )


class Costs(Options):
    """What messages cost."""

    cost_model: str | None = opt(
        "Cost model: a JSON file, or a name, e.g. nccl-hopper.",
        metavar="FILE|NAME",
        takes="CostModelLike | None",
    )


class NcclLog(Options):
    """What the library says of itself."""

    nccl_log: str | None = rare("Use NCCL's tuner table and choices in a log.", metavar="LOG")


class Groups(Options):
    """Ranks, and groups of them."""

    ranks: str | None = opt(
        "Compute nodes in rank order, e.g. 0-7 or box0.*.",
        metavar="RANKS",
        takes="Sequence[int] | str | None",
    )
    forward: bool = rare("Let nodes outside --ranks, and other groups, forward.", False)
    root: str | None = opt(
        "Root of broadcast and reduce: a rank or a node name.", metavar="RANK", takes="int | str | None"
    )
    mesh: str | None = opt(
        "Mesh of the ranks, e.g. dp=16,tp=8 or 16,8.", metavar="MESH", takes="Mesh | str | None"
    )
    axes: str | None = opt(
        "Axes whose groups run concurrently, e.g. dp or 0,1.", metavar="AXES", takes="AxesLike | None"
    )


class Problem(Groups):
    """How a collective is placed on a fabric."""

    weights: tuple[int, ...] | None = rare(
        "Relative shard size of each rank, e.g. 2,1,1,1.",
        metavar="W,W,...",
        parse=integers,
        takes="Sequence[int] | None",
    )
    demands: Path | None = rare(
        "All-to-all demand matrix (CSV or JSON).", takes="Demands | Path | str | None"
    )


class Imports(Options):
    """What a file of another tool does not say of its fabric."""

    boxes: int | None = rare("Number of boxes; default 1.", least=1)
    network: str | None = rare(
        "Inter-box network: one-switch, rail, rails:K or leaf-spine:L,S[,R].", metavar="SHAPE"
    )
    nic_bandwidth: float | str | None = rare(
        "Bandwidth of each NIC per direction, e.g. 50GB/s.", metavar="RATE", parse=_named_rate
    )
    gpu: str | None = rare("GPU model, e.g. h100; pcie for GPUs without links.", metavar="GPU")
    links: str | None = rare(
        "Link speeds: nominal (default) or library.", metavar="WHICH", takes="LinkSpeeds | str | None"
    )
    pcie: str | None = rare(
        "PCIe detail: near (GPU, lowest common switch, NIC; default) or full.",
        metavar="PART",
        takes="PcieDetail | str | None",
    )
    pcie_bandwidth: float | str | None = rare(
        "PCIe bandwidth of each GPU, e.g. gen4x16 or 31.5GB/s.", metavar="RATE"
    )
    cpu_link: float | str | None = rare(
        "Bandwidth between two CPUs of a box, per direction.", metavar="RATE", parse=_named_rate
    )
    trays: int | None = rare("Number of trays that NVSwitches join.", least=1)
    nics: str | None = rare(
        "NICs in use: names or all; default those on a switch with a GPU.", metavar="NAMES"
    )
    bandwidth: float | str | None = rare(
        "Bandwidth of links for which the file has none.", metavar="RATE", parse=_named_rate
    )
    undirected: bool | None = rare("Read edges of a directed graph as bidirectional links.", False)
    oversubscription: str | None = rare("Oversubscription of the switch tree, e.g. 8:1.", metavar="R:1")
    chunk_size: int | str | None = rare(
        "Size to which costs in the file apply, e.g. 1MB (10**6 bytes).",
        metavar="SIZE",
        parse=quantity("parse_decimal_size", named=True),
    )


class Fabric(Imports):
    """How the fabric of a command is read."""

    without: list[str] = opt(
        "Remove failed links (A--B, A->B) and nodes; patterns allowed.",
        (),
        metavar="NAME,...",
        words="parts",
        takes="Sequence[str] | str | None",
    )
    file_format: str | None = rare(
        "Input format, if it cannot be detected.", metavar="FORMAT", flag="--format", words="topology_formats"
    )


class ProblemKeywords(Problem):
    """Keyword arguments of `pose`, which every function that takes a fabric and a collective accepts."""

    without = Fabric.without
    file_format = Fabric.file_format


class Named(Fabric):
    """A fabric by itself."""

    topology: Any = arg("TOPOLOGY", "A catalogue expression, e.g. dgx_a100:2, or a file.")


class ProblemOptions(Named):
    """A fabric and a collective."""

    topology = Named.topology
    collective: Any = arg("COLLECTIVE", ", ".join(COLLECTIVES))


class Read(Memory):
    """A plan by itself."""

    plan: Path = arg("PLAN", "A plan that solve wrote.")


class ReadOrSolved(Groups, Seed, Memory, Fabric):
    """A plan, or a fabric and a collective to solve for."""

    plan: Any = arg("PLAN|TOPOLOGY", "A plan that solve wrote, or a fabric to solve for.")
    collective: str | None = arg("[COLLECTIVE]", "Collective to solve for, with a fabric.", None)
    algorithm: str | None = opt("Scheduler, with a fabric.", words="algorithms")


class Balance(Options):
    """What to do with nodes that are not Eulerian."""

    trim: bool = rare("Leave surplus bandwidth unused at unbalanced nodes.", False)


class Output(Options):
    """The plan that is written."""

    output: Path | None = written("Plan file to write.", short="-o")
