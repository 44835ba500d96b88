"""``treadle calibrate``."""

from __future__ import annotations

import json as json_text
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from treadle.atomic import write_bytes
from treadle.cli.output import JsonOption, Output, QuietOption, UnitOption
from treadle.cli.quantities import Rates
from treadle.errors import FormatError
from treadle.planning.measuring.calibration import (
    Calibration,
    calibrate,
    calibration_lines,
    calibration_summary,
)
from treadle.planning.problem import pose, resolve_kind
from treadle.schedules.collective import CollectiveKind
from treadle.topologies.files import save_topology
from treadle.topologies.topology import MAX_BANDWIDTH


def command(
    measured: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="nccl-tests output (text or -J), or JSON of run or testbed."),
    ],
    result_file: Annotated[
        Path | None, typer.Option("-o", "--output", help="JSON file to write the fit to.")
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(min=1, help="Communication steps of what was measured, as 2(N-1).", metavar="X"),
    ] = None,
    degree: Annotated[
        int, typer.Option(min=1, help="Links that share the bandwidth of a node.", metavar="D")
    ] = 1,
    collective: Annotated[
        str | None, typer.Option(help="Where the file does not say.", metavar="COLLECTIVE")
    ] = None,
    ranks: Annotated[int | None, typer.Option(min=2, max=2**20, help="Where the file does not say.")] = None,
    fabric: Annotated[
        str | None,
        typer.Option(help="A fabric of equal links to write with the fitted values.", metavar="TOPOLOGY"),
    ] = None,
    fabric_file: Annotated[
        Path | None, typer.Option("--fabric-output", help="Where to; a topology file.", metavar="FILE")
    ] = None,
    unit: UnitOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Fit latency and bandwidth of the alpha-beta model to measured times."""
    output = Output(json, quiet, Rates(unit or ""))
    if (fabric is None) != (fabric_file is None):
        raise FormatError("--fabric and --fabric-output go together")
    kind = None if collective is None else resolve_kind(collective)
    result = calibrate(measured, collective=kind, n_ranks=ranks, steps=steps)
    summary = calibration_summary(result, degree)
    if fabric is not None and fabric_file is not None:
        _write_fabric(fabric, fabric_file, result)
    if result_file is not None:
        write_bytes(result_file, (json_text.dumps(summary, indent=1, allow_nan=False) + "\n").encode())
    for line in calibration_lines(result, degree, show=output.rates):
        output.line(line)
    output.result(summary)
    return 0


def _write_fabric(expression: str, path: Path, result: Calibration) -> None:
    """The fabric with alpha as every link's latency and B shared by the links of a node."""
    topology = pose(expression, CollectiveKind.ALLGATHER).topology
    degrees = np.bincount(topology.tails[topology.tails != topology.heads], minlength=topology.n_nodes)
    if topology.switches.size or len(set(topology.bandwidths.tolist())) != 1 or len(set(degrees)) != 1:
        raise FormatError(f"{topology.name}: --fabric takes direct links, all equal, as many at each node")
    latencies = np.full(topology.n_links, result.latency_ns, dtype=np.int64)
    bandwidths = topology.bandwidths
    if result.bandwidth_bytes_per_s is not None:
        link = min(max(1, result.bandwidth_bytes_per_s // int(degrees[0])), MAX_BANDWIDTH)
        bandwidths = np.full(topology.n_links, link, dtype=np.int64)
    save_topology(path, replace(topology, latencies_ns=latencies, bandwidths=bandwidths))
