"""Options of the commands about cables and failures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from treadle.options.rows import Options, arg, names, opt, written
from treadle.options.shared import Fabric, Named, Rated, Reporting, Seed, TimeLimit


class Racks(Options):
    """Placement of nodes and prices of cables."""

    rack_size: int | None = opt("Place the nodes in racks of at most N.")
    floor: Path | None = opt("Positions and sizes of racks (TOML).")
    objective: Any = opt(
        "Minimize metres (default) or bundles of cables.", choices="treadle.planning:Objective"
    )
    ocs: str | None = opt(
        "Cable through optical switches with PORTS ports each.", metavar="PORTS[,PRICE[,COUNT]]"
    )
    costs: Path | None = opt("Prices of ports, cables and transceivers (TOML).")


class Resilience(Named, TimeLimit, Seed, Fabric, Rated):
    """Options of ``resilience``."""

    cables: str = opt("Numbers or shares of cables that fail together.", "1%,5%", metavar="N|SHARE%,...")
    nodes: str | None = opt("Numbers or shares of compute nodes that fail.", metavar="N|SHARE%,...")
    samples: int = opt("Samples per number of failures.", 20)
    collectives: Any = opt(
        "Collectives.", ("allreduce", "alltoall"), flag="--collective", metavar="NAME,...", parse=names
    )


class CablingList(Named, Racks, Seed, Fabric, Reporting):
    """Options of ``cabling list``."""

    output: Path | None = written("Cabling list to write (CSV).", short="-o")


class CablingCheck(Reporting):
    """Options of ``cabling check``."""

    planned: Path = arg("PLANNED", "Cabling list (CSV).")
    observed: Path = arg("OBSERVED", "Installed cables: CSV, lldpctl -f keyvalue or ibnetdiscover.")
    host: str | None = opt("Host of the lldpctl output; default the file's name.", metavar="NODE")
