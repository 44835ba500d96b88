"""``treadle verify``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from treadle import planning
from treadle.cli.output import JsonOption, Output, QuietOption
from treadle.cli.quantities import counted, exact_bandwidth
from treadle.cli.report import print_problem, print_verification
from treadle.planning.summary import verify_summary
from treadle.schedules.files import load_plan

PlanArgument = Annotated[Path, typer.Argument(metavar="PLAN", help="A plan that solve wrote.")]

FAILED = 1


def verify_command(
    plan: PlanArgument,
    topology: Annotated[
        str | None,
        typer.Option(help="The fabric that you trust; default the one inside the plan.", metavar="TOPOLOGY"),
    ] = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Recompute every claim of a plan; list every violation, or none."""
    output = Output(json, quiet)
    loaded = load_plan(plan)
    result = planning.verify(loaded, topology)
    print_problem(output, result.topology, loaded.collective)
    if result.is_embedded:
        output.line(f"assumed     the fabric inside the plan, {result.topology_hash[:16]}; see --topology")
    else:
        output.line(f"against     {topology}, {result.topology_hash[:16]}")
    if result.n_absent:
        absent = counted(result.n_absent, "compute node")
        output.line(
            f"absent      {absent} of that fabric, unknown to the plan: its claims are about the rest"
        )
    output.line(f"claimed     {exact_bandwidth(loaded.algbw)} asymptotic algbw ({loaded.algorithm})")
    if loaded.optimal_algbw is not None:
        model = planning.model_of(result.topology, loaded.collective)
        output.line(
            f"optimum     {exact_bandwidth(loaded.optimal_algbw)} claimed{f'; {model}' if model else ''}"
        )
    for report in result.reports:
        print_verification(output, report)
    if result.report.is_optimal:
        output.line("optimal     yes: the schedule attains the bound that its witness proves")
    output.result(
        {
            **verify_summary(loaded, result.topology, result.report),
            "verified": result.is_ok,
            "topology_hash": result.topology_hash,
            "topology_embedded": result.is_embedded,
            **({"absent_compute_nodes": result.n_absent} if result.n_absent else {}),
            "plan": str(plan),
        }
    )
    return 0 if result.is_ok else FAILED
