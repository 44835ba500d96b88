"""``treadle pareto``: height and trees for throughput; of a small fabric steps for bandwidth, exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from treadle import planning
from treadle.atomic import write_bytes
from treadle.cli.output import JsonOption, Output, ProgressLine, QuietOption, SeedOption, late
from treadle.cli.quantities import AS_THEY_COME, counted, parse_integers, parse_seconds
from treadle.cli.solving.problem_arguments import (
    CollectiveArgument,
    FormatOption,
    RootOption,
    TopologyArgument,
    problem_options,
)
from treadle.cli.solving.report import print_problem
from treadle.context import Context
from treadle.errors import FormatError
from treadle.planning.summary import front_summary, problem_summary


def command(
    topology: TopologyArgument,
    collective: CollectiveArgument,
    trees: Annotated[
        str | None, typer.Option(help="Trees per root to try; default 1,2,4,8,16.", metavar="K,K,...")
    ] = None,
    max_height: Annotated[
        int | None, typer.Option(help="Highest trees to try, in hops from rank to rank.", metavar="H")
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(help="Of trees: throughput by height, png, svg or pdf.", metavar="FILE", writable=True),
    ] = None,
    max_steps: Annotated[
        int | None,
        typer.Option(help="Steps in place of trees: all schedules of up to so many.", metavar="S"),
    ] = None,
    max_chunks: Annotated[int, typer.Option(help="Most chunks per shard.", metavar="C")] = 2,
    extra_rounds: Annotated[
        int | None, typer.Option(help="Only schedules of at most steps + K rounds (SCCL's k).", metavar="K")
    ] = None,
    root: RootOption = None,
    file_format: FormatOption = None,
    time_limit: Annotated[
        str | None, typer.Option(help="In all; of steps for each candidate, default 60s.", metavar="TIME")
    ] = None,
    seed: SeedOption = 0,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Show what lower and fewer trees cost in throughput, or (--max-steps) all steps that are worth it."""
    output = Output(json, quiet)
    problem = planning.pose(topology, collective, **problem_options(None, False, root, None, file_format))
    limit = None if time_limit is None else parse_seconds(time_limit)
    if max_steps is None:
        return _of_trees(output, problem, trees, max_height, picture, limit, hidden=quiet or json)
    for option, value in (("--trees", trees), ("--max-height", max_height), ("--picture", picture)):
        if value is not None:
            raise FormatError(f"{option} is for fronts of trees; leave out --max-steps")
    with ProgressLine(quiet=output.is_silent) as progress:
        Context(progress).announce("schedules")
        front = planning.exact_front(
            problem,
            max_steps=max_steps,
            max_chunks=max_chunks,
            max_extra_rounds=extra_rounds,
            time_limit_s=planning.DEFAULT_TIME_LIMIT_S if limit is None else limit,
            seed=seed,
        )
    print_problem(output, problem.topology, problem.collective)
    output.line(f"least       {front.least_steps} steps; {front.least_ratio} rounds per chunk")
    output.line()
    rows = [
        (
            str(point.steps),
            str(point.ratio),
            str(point.chunks),
            ",".join(map(str, point.rounds)),
            "yes" if point.is_proved else "no",
        )
        for point in front.points
    ]
    output.table(
        ("steps", "rounds / chunks", "chunks", "rounds", "proved optimal"), rows, left=0, least=("chunks",)
    )
    if not rows:
        output.line("no schedule within these limits")
    output.result({**problem_summary(problem.topology, problem.collective), **front_summary(front)})
    undecided = sum(entry.reason == "time limit" for entry in front.excluded)
    return late(f"undecided: {counted(undecided, 'candidate')}") if undecided else 0


def _of_trees(
    output: Output,
    problem: planning.Problem,
    trees: str | None,
    max_height: int | None,
    picture: Path | None,
    limit: float | None,
    *,
    hidden: bool,
) -> int:
    """Print the front of trees."""
    if picture is not None:
        planning.check_figure_name(picture)
    numbers = planning.TREES_PER_ROOT if trees is None else parse_integers(trees, "--trees")
    with ProgressLine(quiet=hidden) as progress:
        front = planning.tree_front(
            problem, trees=numbers, max_height=max_height, time_limit_s=limit, progress=progress
        )
    print_problem(output, problem.topology, problem.collective)
    output.line(f"optimum     {AS_THEY_COME.both(front.optimal_algbw, problem.collective)}")
    output.line()
    rows = [
        (
            str(point.height),
            str(point.trees_per_root),
            AS_THEY_COME(point.algbw),
            f"{float(point.algbw / front.optimal_algbw):.1%}",
            "-" if point.most is None else AS_THEY_COME(point.most),
            "yes" if front.certified(point) else "no",
        )
        for point in front.points
    ]
    heads = ("height", "trees", "algbw", "% optimum", "height's bound", "certified")
    output.table(heads, rows, left=0, least=("height's bound",))
    summary = planning.tree_front_summary(front)
    if picture is not None:
        title = f"{problem.collective.kind} on {problem.topology.name}"
        kind = picture.suffix[1:].lower()
        write_bytes(picture, planning.front_picture(front, title=title, file_format=kind))
        output.line(f"picture     {picture}")
        summary["picture"] = str(picture)
    output.result({**problem_summary(problem.topology, problem.collective), **summary})
    return 0
