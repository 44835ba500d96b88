"""``treadle pareto``: every trade of steps for bandwidth on a small fabric, by exact synthesis."""

from __future__ import annotations

from typing import Annotated

import typer

from treadle import planning
from treadle.cli.output import JsonOption, Output, ProgressLine, QuietOption, SeedOption, late
from treadle.cli.quantities import counted, parse_seconds
from treadle.cli.solving.problem_arguments import (
    CollectiveArgument,
    FormatOption,
    RootOption,
    TopologyArgument,
    problem_options,
)
from treadle.cli.solving.report import print_problem
from treadle.planning.summary import front_summary, problem_summary
from treadle.watch import Watch


def command(
    topology: TopologyArgument,
    collective: CollectiveArgument,
    max_steps: Annotated[int, typer.Option(help="Most steps to try.", metavar="S")],
    max_chunks: Annotated[int, typer.Option(help="Most chunks per shard.", metavar="C")] = 2,
    extra_rounds: Annotated[
        int | None, typer.Option(help="Only schedules of at most steps + K rounds (SCCL's k).", metavar="K")
    ] = None,
    root: RootOption = None,
    file_format: FormatOption = None,
    time_limit: Annotated[
        str | None, typer.Option(help="For each candidate, such as 30s; default 60s.", metavar="TIME")
    ] = None,
    seed: SeedOption = 0,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Show all Pareto-optimal schedules of a small fabric in steps and rounds per chunk (extra: exact)."""
    output = Output(json, quiet)
    problem = planning.pose(topology, collective, **problem_options(None, False, root, None, file_format))
    with ProgressLine(quiet=quiet or json) as progress:
        Watch(progress).announce("schedules")
        front = planning.exact_front(
            problem,
            max_steps=max_steps,
            max_chunks=max_chunks,
            max_extra_rounds=extra_rounds,
            time_limit_s=planning.DEFAULT_TIME_LIMIT_S if time_limit is None else parse_seconds(time_limit),
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
