"""``treadle calibrate``."""

from __future__ import annotations

import json as json_text
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from treadle.atomic import write_bytes
from treadle.cli.output import Output, ProgressLine
from treadle.context import Context, under
from treadle.errors import FormatError
from treadle.inputs.fabrics_and_plans import as_plan
from treadle.inputs.problem import make_problem, resolve_kind
from treadle.options.measuring import Calibrate
from treadle.render.fitting import calibration_rows, cost_fit_rows
from treadle.render.rows import values
from treadle.schedules.collective import CollectiveKind
from treadle.simulation.calibration.calibration import Calibration, calibrate
from treadle.simulation.calibration.cost_fit import Sweep, fit_cost_model
from treadle.simulation.calibration.measurements import read_measurements
from treadle.simulation.cost_models import save_cost_model
from treadle.topologies.files import save_topology
from treadle.topologies.topology import MAX_BANDWIDTH


def command(o: Calibrate) -> int:
    """Fit latency and bandwidth to measured times, or a cost model to those of plans."""
    output = Output.of(o)
    kind = None if o.collective is None else resolve_kind(o.collective)
    if o.plans is not None:
        if o.steps is not None or o.fabric is not None or o.fabric_output is not None:
            raise FormatError(
                "--plan: fits a cost model; --steps and --fabric are of the alpha-beta fit without"
            )
        return _cost_model(output, o, o.plans)
    if o.protocols is not None or o.held_out:
        raise FormatError("--protocols and --held-out need plans; add --plan PLAN,...")
    if len(o.measured) != 1:
        raise FormatError(f"{len(o.measured)} files: expected one, or --plan PLAN,... for each")
    if (o.fabric is None) != (o.fabric_output is None):
        raise FormatError("--fabric and --fabric-output go together")
    result = calibrate(o.measured[0], collective=kind, n_ranks=o.ranks, steps=o.steps)
    view = list(calibration_rows(result, o.degree, output.rates))
    if o.fabric is not None and o.fabric_output is not None:
        _write_fabric(o.fabric, o.fabric_output, result)
    if o.output is not None:
        write_bytes(o.output, (json_text.dumps(values(view), indent=1, allow_nan=False) + "\n").encode())
    output.show(view)
    return 0


def _cost_model(output: Output, o: Calibrate, plans: Sequence[str]) -> int:
    """Fit a cost model to sweeps of several plans."""
    measured, held_out, result_file = o.measured, o.held_out, o.output
    if len(plans) != len(measured):
        raise FormatError(f"--plan: {len(plans)} plans for {len(measured)} files; expected one for each")
    if held_out >= len(measured):
        raise FormatError(f"--held-out {held_out}: expected less than the {len(measured)} files")
    sweeps = [
        Sweep(path.name, as_plan(plan, "--plan"), read_measurements(path))
        for path, plan in zip(measured, plans, strict=True)
    ]
    fitted = len(sweeps) - held_out
    with ProgressLine(quiet=output.is_silent) as progress, under(Context(progress)):
        fit = fit_cost_model(
            sweeps[:fitted],
            protocols=o.protocols or ("simple",),
            held_out=sweeps[fitted:],
            name="fitted" if result_file is None else result_file.stem or "fitted",
            source=f"fitted by treadle calibrate to {', '.join(path.name for path in measured[:fitted])}",
        )
    if result_file is not None:
        save_cost_model(result_file, fit.model)
    output.show(cost_fit_rows(fit))
    return 0


def _write_fabric(expression: str, path: Path, result: Calibration) -> None:
    """The fabric with alpha as every link's latency and B shared by the links of a node.

    FormatError if alpha is not of a step: a simulation would count it once for each.
    """
    if not result.has_steps:
        raise FormatError(
            "--fabric: takes the latency of a step, and the file does not say how many its times have; "
            "say it by --steps, such as 2(N-1) of a ring's allreduce"
        )
    topology = make_problem(expression, CollectiveKind.ALLGATHER).topology
    degrees = np.bincount(topology.tails[topology.tails != topology.heads], minlength=topology.n_nodes)
    if topology.switches.size or len(set(topology.bandwidths.tolist())) != 1 or len(set(degrees)) != 1:
        raise FormatError(f"{topology.name}: --fabric takes direct links, all equal, as many at each node")
    latencies = np.full(topology.n_links, result.latency_ns, dtype=np.int64)
    bandwidths = topology.bandwidths
    if result.bandwidth_bytes_per_s is not None:
        link = min(max(1, result.bandwidth_bytes_per_s // int(degrees[0])), MAX_BANDWIDTH)
        bandwidths = np.full(topology.n_links, link, dtype=np.int64)
    save_topology(path, replace(topology, latencies_ns=latencies, bandwidths=bandwidths))
