"""Options of the commands that design, show and import fabrics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from treadle.options.building import Racks
from treadle.options.rows import Options, arg, keyword, opt, positive, rate, written
from treadle.options.shared import Fabric, Named, Output, Rated, Reporting, Seed


class Finder(Options):
    """Keywords of `design`."""

    bidirectional: bool = opt("Only fabrics with bidirectional links.", False)
    reconfiguration_delay_s: float | None = opt(
        "Also consider a topology per collective, changed in this time."
    )
    alltoall: Any = opt(
        "Time of an all-to-all: by optimal flow, or its bound.",
        "flow",
        choices="treadle.finder.designing.design_flow:AlltoallRates",
        takes="AlltoallRates",
    )
    search: Any = opt(
        "Search for better graphs; 0: do not. [default: 3s from 65 nodes on]",
        metavar="TIME|SETS",
        takes="SearchLimit | None",
    )
    seed: int = Seed.seed
    topology: str | None = opt("Only this fabric: an expression, or L^2(Diamond^2).", metavar="EXPR")
    cache: Path | None = keyword()
    use_cache: bool = opt("Use and store cached plans and rates.", True, flag="--cache")


class Design(Finder, Racks, Output, Rated):
    """Options of ``design``."""

    nodes: int | None = opt("Number of compute nodes.")
    degree: int | None = opt("Links out of and into each node.", metavar="D")
    topology = Finder.topology
    alpha_s: float | None = opt("Latency of a hop; default 1.55us.")
    bandwidth: int | None = opt(
        "Bandwidth of a node, all links; default 100Gbit/s.", metavar="RATE", parse=rate
    )
    size: int | None = opt(
        "Choose for an allreduce of this size; default 1MB.", metavar="SIZE", parse=positive
    )
    workload: Path | None = opt("Choose for this workload (TOML).")
    pick: int | None = opt("Take this row of the frontier, not the best.", metavar="ROW")
    collective: str = opt("Collective of the plan.", "allreduce")
    output = Output.output
    cabling: Path | None = written("Cabling list to write (CSV).")
    placement: Path | None = written("Node of each rank to write (CSV).")
    report: Path | None = written("HTML report to write (.html).")
    against: bool = opt("Compare with torus, dragonfly, Slim Fly, fat tree and leaf-spine.", False)
    grow: int | None = opt("Plan how the fabric grows to N nodes, cable by cable.")
    reconfigure: str | None = opt("Plan the fewest cross-connects that create this fabric.", metavar="FABRIC")
    changes: Path | None = written("Moves of --grow or --reconfigure to write (CSV).")


class TopologyImport(Fabric, Reporting):
    """Options of ``topology import``."""

    path: str = arg("FILE", "File of NCCL, nvidia-smi, ibnetdiscover, ...; detected by content.")
    output: Path | None = written("Fabric to write (Treadle's JSON).", short="-o")


class TopologyList(Reporting):
    """Options of ``topology list``."""

    text: str | None = arg("[TEXT]", "Only entries with these words in name, group or summary.", None)


class TopologyShow(Named, Fabric, Rated):
    """Options of ``topology show``."""

    full: bool = opt("Compute every value, however long it takes.", False)


class TopologyExport(Named, Fabric):
    """Options of ``topology export``."""

    output: Path | None = written("File to write; default stdout.", short="-o")
    to: str | None = opt("json, graphml or edge-list; default by the file's name.", metavar="FORMAT")
