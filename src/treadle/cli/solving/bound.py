"""``treadle bound``."""

from __future__ import annotations

from typing import Annotated

import typer

from treadle import planning
from treadle.cli.cost_model_option import CostModelOption, asked_cost_model
from treadle.cli.measuring.worker_options import ClusterOption, ThreadsOption
from treadle.cli.output import JsonOption, Output, ProgressLine, QuietOption, SeedOption, UnitOption, late
from treadle.cli.quantities import Rates, parse_seconds
from treadle.cli.solving.group_report import cut_off, mesh_values, print_groups, print_mesh, say
from treadle.cli.solving.jobs_report import JobsFileOption, bound_jobs, refuse_beside_jobs
from treadle.cli.solving.problem_arguments import (
    AxesOption,
    DemandsOption,
    FormatOption,
    ForwardOption,
    LeftOutCollectiveArgument,
    MeshOption,
    RanksOption,
    RootOption,
    TopologyArgument,
    WeightsOption,
    problem_options,
)
from treadle.cli.solving.report import print_bound, print_pair_rate, print_problem, print_rate, print_seconds
from treadle.cli.solving.size_report import print_size_bounds
from treadle.errors import FormatError
from treadle.planning.group_summary import rate_values
from treadle.planning.summary import bound_summary
from treadle.planning.together.shared_rates import shared_rates
from treadle.planning.workers import workers


def command(
    topology: TopologyArgument,
    collective: LeftOutCollectiveArgument = None,
    ranks: RanksOption = None,
    forward: ForwardOption = False,
    root: RootOption = None,
    weights: WeightsOption = None,
    demands: DemandsOption = None,
    mesh: MeshOption = None,
    axes: AxesOption = None,
    method: Annotated[
        str | None,
        typer.Option(
            help="All-to-all by a published method, to compare: link-mcf, decomposed-mcf, fleischer, cut "
            "or bisection.",
            metavar="NAME",
        ),
    ] = None,
    gap: Annotated[
        float | None,
        typer.Option(
            help="How close to come to an all-to-all's optimum; default 0.001, of fleischer 0.05.",
            metavar="SHARE",
        ),
    ] = None,
    file_format: FormatOption = None,
    jobs: JobsFileOption = None,
    size: Annotated[
        str | None,
        typer.Option(
            help="Also the least time of any schedule at these sizes: 1M, 1K,64M or 1K..1G.", metavar="SIZES"
        ),
    ] = None,
    cost_model: CostModelOption = None,
    time_limit: Annotated[
        str | None,
        typer.Option(
            help="Give up an allreduce's bound, or stop an all-to-all's or that of groups, after this time "
            "(30s).",
            metavar="TIME",
        ),
    ] = None,
    threads: ThreadsOption = None,
    cluster: ClusterOption = None,
    seed: SeedOption = 0,
    unit: UnitOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Print the optimum and its witness, without building a schedule."""
    output = Output(json, quiet, Rates(unit or ""))
    posed = problem_options(ranks, forward, root, weights, file_format, demands, mesh, axes)
    if jobs is not None:
        sized: dict[str, object] = {"--size": size, "--cost-model": cost_model}
        refuse_beside_jobs(collective, posed, {"--method": method, "--gap": gap} | sized)
        return bound_jobs(output, topology, jobs, time_limit)
    assert collective is not None  # the parser asks for it
    if cost_model is not None and size is None:
        raise FormatError("--cost-model: prices times of sizes; expected --size beside it")
    costs = asked_cost_model(cost_model, None)
    try:
        with ProgressLine(quiet=output.is_silent) as progress, workers(threads=threads, cluster=cluster):
            result = planning.bound(
                topology,
                collective,
                method=method,
                gap=gap,
                seed=seed,
                time_limit_s=None if time_limit is None else parse_seconds(time_limit),
                progress=progress,
                sizes=() if size is None else size,
                cost_model=costs,
                **posed,
            )
    except planning.CutOffGroupError as error:
        seconds = {} if error.forwarding is None else dict(error.forwarding.seconds)
        return cut_off(output, error, mesh, axes, {"seconds": seconds})
    except planning.TimeLimitError:
        return late("the bound is not known; allow more time (--time-limit)")
    print_problem(output, result.topology, result.collective)
    print_mesh(output, mesh, axes)
    shared = shared_rates(result)
    if shared is not None:
        model = result.bound.model or planning.model_of(result.topology, result.collective)
        print_groups(output, result.topology, result.collective, shared, model)
        for note in result.notes:
            say(output, "note", note)
        if result.rate is not None:
            print_pair_rate(output, result.rate)
    elif result.rate is None:
        print_bound(output, result.topology, result.collective, result.bound)
    else:
        print_rate(output, result.rate)
    print_size_bounds(output, result)
    print_seconds(output, result.seconds)
    output.result(_values(result, mesh, axes))
    if time_limit is not None and result.groups is not None and not result.groups.is_exact:
        share = float(1 - result.groups.lower / result.groups.upper)
        return late(f"the optimum is known but for a gap of {share:.3g}")
    if result.rate is not None and result.rate.is_late:
        return late(f"the optimum is known but for a gap of {result.rate.gap:.3g}")
    return 0


def _values(result: planning.BoundResult, mesh: str | None, axes: str | None) -> dict[str, object]:
    """What JSON says; axes over all ranks make one group, which is alone and together at once."""
    values = {**bound_summary(result), **mesh_values(mesh, axes)}
    if mesh is not None and result.groups is None and result.rate is None:
        values |= {**rate_values("alone", result.algbw), **rate_values("together", result.algbw)}
    return values
