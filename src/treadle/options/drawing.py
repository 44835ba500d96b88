"""Options of ``report`` and of drawings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from treadle.options.rows import arg, opt, written
from treadle.options.shared import Fabric, Memory, Reporting


class Report(Memory, Fabric, Reporting):
    """Options of ``report``."""

    plan: Any = arg("PLAN|TOPOLOGY", "A plan, or for a drawing also a fabric.")
    others: list[str] = arg("[OTHER]", "Plans to compare by size; COLLECTIVE of a drawing.", ())
    output: Path | None = written("HTML report (.html), or drawing (.svg, .png or .pdf).", short="-o")
    show: str = opt("Drawing of link loads, the bottleneck or a tree.", "", metavar="load|cut|tree:RANK")
    algorithm: str | None = opt("Scheduler, for a drawing of a fabric.", words="algorithms")
    size: str = opt("Size for the plots over time.", "64M", metavar="SIZE")
    fabric: str | None = opt("Parallelization plan: fabric; default its own.", metavar="FABRIC")
    gpu: str | None = opt("Parallelization plan: GPU; default its own.", metavar="GPU")
    model: str | None = opt("Parallelization plan: config.json or graph; default by name.", metavar="FILE")
    tokens: str | None = opt("Parallelization plan: tokens per step; default its own.", metavar="N")
    sequence: str | None = opt("Parallelization plan: tokens per sequence; default its own.", metavar="N")
