"""``treadle solve``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from treadle import planning
from treadle.cli.cost_model_option import asked_cost_model
from treadle.cli.measuring.worker_options import ClusterOption, ThreadsOption
from treadle.cli.output import (
    STOPGAP,
    JsonOption,
    Output,
    ProgressLine,
    QuietOption,
    SeedOption,
    TimeLimitOption,
    UnitOption,
    late,
    warn,
)
from treadle.cli.quantities import Rates, parse_integers, parse_seconds
from treadle.cli.solving.algorithm_help import algorithm_sections as help_sections  # noqa: F401
from treadle.cli.solving.group_report import mesh_values, print_groups, print_mesh
from treadle.cli.solving.jobs_report import JobsFileOption, refuse_beside_jobs, solve_jobs
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
from treadle.cli.solving.report import (
    print_bound,
    print_packing,
    print_problem,
    print_schedule,
    print_seconds,
    print_verification,
)
from treadle.cli.solving.size_set_report import refuse_options_of_one, solve_size_set
from treadle.cli.status import FAILED
from treadle.context import Context
from treadle.errors import FormatError
from treadle.planning.summary import solve_summary
from treadle.planning.together.shared_rates import shared_rates
from treadle.planning.workers import workers
from treadle.schedules.plan_files.archive import save_plan


def command(
    topology: TopologyArgument,
    collective: LeftOutCollectiveArgument = None,
    plan: Annotated[
        Path | None, typer.Option("-o", "--output", help="Plan file to write.", writable=True)
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(help="Of each size the fastest, in one plan: 1K..1G.", metavar="SIZES"),
    ] = None,
    max_schedules: Annotated[
        int | None, typer.Option(help="With --size: most ranges of sizes.", metavar="K", hidden=True)
    ] = None,
    cost_model: Annotated[
        str | None,
        typer.Option(help="With --size: what messages cost, or its name.", metavar="FILE", hidden=True),
    ] = None,
    algorithm: Annotated[
        str | None,
        typer.Option(help="One of those below; default the best there is.", metavar="NAME"),
    ] = None,
    trees: Annotated[int | None, typer.Option(help="Just so many trees per root.", metavar="K")] = None,
    max_trees: Annotated[
        int | None, typer.Option(help="The best number of trees per root up to K.", metavar="K")
    ] = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="The optimum, however many trees per root it takes.")
    ] = False,
    packer: Annotated[
        str | None,
        typer.Option(
            help=f"Of ForestColl's trees: {', '.join(planning.Packer)}.", metavar="NAME", hidden=True
        ),
    ] = None,
    form: Annotated[
        planning.Form,
        typer.Option(help="Of ForestColl's trees: written out, or in pieces solved once.", hidden=True),
    ] = planning.Form.AUTO,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print who packed the trees, and of which pieces.", hidden=True)
    ] = False,
    height: Annotated[
        int | None,
        typer.Option(help="few-trees: hops from rank to rank at most.", metavar="H", hidden=True),
    ] = None,
    factors: Annotated[
        str | None,
        typer.Option(
            help="mixed-radix, factor-...: digits, the last first; rail-bruck: its radix.",
            metavar="R,R,...",
            hidden=True,
        ),
    ] = None,
    exchanged: Annotated[
        str | None,
        typer.Option(
            help="factor-allreduce: factors, by place from 1, with whole sums exchanged.",
            metavar="I,I,...",
            hidden=True,
        ),
    ] = None,
    chunks: Annotated[
        int | None,
        typer.Option(
            help="Chunks per shard: at most (bfb), or so many (exact, double trees, tacos, te-ccl).",
            metavar="C",
            hidden=True,
        ),
    ] = None,
    parts: Annotated[
        int | None,
        typer.Option(
            help="bfb-pieces, box-trees: parts of a step, first what others wait for most.",
            metavar="P",
            hidden=True,
        ),
    ] = None,
    rounds: Annotated[
        str | None,
        typer.Option(
            help="Exact synthesis: chunks a link may carry in each step; two-round: links of its walks.",
            metavar="R,R,...",
            hidden=True,
        ),
    ] = None,
    steps: Annotated[
        int | None, typer.Option(help="Exact synthesis without --rounds: steps.", metavar="S", hidden=True)
    ] = None,
    symmetric: Annotated[
        bool,
        typer.Option(
            "--symmetric", help="Exact synthesis: only symmetric schedules; quick, no proof.", hidden=True
        ),
    ] = False,
    layers: Annotated[
        int | None,
        typer.Option(help="Routes: choose paths for at most so many layers.", metavar="L", hidden=True),
    ] = None,
    max_steps: Annotated[
        int | None, typer.Option(help="All-to-all: most steps.", metavar="T", hidden=True)
    ] = None,
    layer_changes: Annotated[
        bool, typer.Option("--layer-changes", help="Routes: the layer may rise along one.", hidden=True)
    ] = False,
    max_routes: Annotated[
        int | None, typer.Option(help="Routes: most from a rank to another.", metavar="R", hidden=True)
    ] = None,
    max_hops: Annotated[
        int | None, typer.Option(help="Routes: most links of one.", metavar="H", hidden=True)
    ] = None,
    max_flows: Annotated[
        int | None,
        typer.Option(help="Routes: set out in rounds, so many flows a host.", metavar="Q", hidden=True),
    ] = None,
    trim: Annotated[
        bool,
        typer.Option(
            "--trim", help="Leave surplus bandwidth unused where nodes are not Eulerian.", hidden=True
        ),
    ] = False,
    multicast: Annotated[
        bool,
        typer.Option("--multicast", help="Let switches copy and add up where they can.", hidden=True),
    ] = False,
    ranks: RanksOption = None,
    forward: ForwardOption = False,
    root: RootOption = None,
    weights: WeightsOption = None,
    demands: DemandsOption = None,
    mesh: MeshOption = None,
    axes: AxesOption = None,
    file_format: FormatOption = None,
    jobs: JobsFileOption = None,
    time_limit: TimeLimitOption = None,
    seed: SeedOption = 0,
    threads: ThreadsOption = None,
    cluster: ClusterOption = None,
    unit: UnitOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Synthesise a schedule, verify it, report, and write a plan."""
    output = Output(json, quiet, Rates(unit or ""))
    posed = problem_options(ranks, forward, root, weights, file_format, demands, mesh, axes)
    if jobs is not None:
        refuse_beside_jobs(
            collective,
            posed,
            {
                "--algorithm": algorithm,
                "--trees": trees,
                "--multicast": multicast,
                "--trim": trim,
            },
        )
        return solve_jobs(output, topology, jobs, plan, time_limit, max_trees=max_trees, exact=exact)
    assert collective is not None  # the parser asks for it
    if size is not None:
        refuse_options_of_one(
            {
                "--trees": trees,
                "--max-trees": max_trees,
                "--exact": exact,
                "--packer": packer,
                "--explain": explain,
                "--factors": factors,
                "--exchanged": exchanged,
                "--chunks": chunks,
                "--parts": parts,
                "--rounds": rounds,
                "--steps": steps,
                "--symmetric": symmetric,
                "--layers": layers,
                "--max-routes": max_routes,
                "--max-flows": max_flows,
                "--trim": trim,
                "--multicast": multicast,
                "--mesh": mesh,
            }
        )
        return solve_size_set(
            output,
            topology,
            collective,
            size,
            plan,
            max_schedules=max_schedules,
            algorithm=algorithm,
            cost_model=asked_cost_model(cost_model, None),
            time_limit=time_limit,
            posed=posed,
        )
    for given, name in ((max_schedules, "--max-schedules"), (cost_model, "--cost-model")):
        if given is not None:
            raise FormatError(f"{name}: is for a plan of sizes; expected --size beside it")
    try:
        with ProgressLine(quiet=output.is_silent) as progress, workers(threads=threads, cluster=cluster):
            result = planning.solve(
                topology,
                collective,
                algorithm=algorithm,
                trees=trees,
                max_trees=max_trees,
                exact=exact,
                packer=packer,
                form=form,
                trim=trim,
                multicast=multicast,
                height=height,
                factors=None if factors is None else parse_integers(factors, "--factors"),
                exchanged=None if exchanged is None else parse_integers(exchanged, "--exchanged"),
                chunks=chunks,
                parts=parts,
                rounds=None if rounds is None else parse_integers(rounds, "--rounds"),
                steps=steps,
                max_steps=max_steps,
                symmetric=symmetric,
                seed=seed,
                max_layers=layers,
                layer_changes=layer_changes,
                max_routes=max_routes,
                max_hops=max_hops,
                max_flows=max_flows,
                time_limit_s=None if time_limit is None else parse_seconds(time_limit),
                progress=progress,
                **posed,
            )
            if plan is not None:
                Context(progress).announce("writing")
                save_plan(plan, result.plan)
    except planning.RejectedError as error:
        warn(str(error))
        return FAILED
    print_problem(output, result.plan.topology, result.plan.collective)
    print_mesh(output, mesh, axes)
    shared = shared_rates(result)
    if shared is not None and result.bound is not None:
        model = result.bound.model or planning.model_of(result.topology, result.collective)
        print_groups(output, result.topology, result.collective, shared, model)
    elif result.bound is not None:
        print_bound(output, result.plan.topology, result.plan.collective, result.bound)
    print_schedule(output, result)
    if explain:
        print_packing(output, result)
    print_verification(output, result.report)
    print_seconds(output, result.seconds)
    if plan is not None:
        output.line(f"plan        {plan}")
    written = {} if plan is None else {"plan": str(plan)}
    output.result({**solve_summary(result), **mesh_values(mesh, axes), **written})
    return late(STOPGAP) if result.is_late else 0
