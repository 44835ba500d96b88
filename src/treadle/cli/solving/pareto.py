"""``treadle pareto``: height and trees for throughput; of a small fabric steps for bandwidth, exactly."""

from __future__ import annotations

from treadle import planning
from treadle.atomic import write_bytes
from treadle.cli.output import Output, ProgressLine, late
from treadle.cli.quantities import AS_THEY_COME, counted
from treadle.cli.solving.report import print_problem
from treadle.context import Context
from treadle.options.rows import keywords, refuse
from treadle.options.shared import TimeLimit
from treadle.options.solving import Pareto
from treadle.planning.summary import front_summary, problem_summary


def command(o: Pareto) -> int:
    """Show what lower and fewer trees cost in throughput, or (--max-steps) all steps that are worth it."""
    output = Output.of(o)
    problem = planning.pose(o.topology, o.collective, root=o.root)
    if o.max_steps is None:
        return _of_trees(output, problem, o)
    refuse(o, ("trees", "max_height", "picture"), "valid only for fronts of trees; leave out --max-steps")
    with ProgressLine(quiet=output.is_silent) as progress:
        Context(progress).announce("schedules")
        front = planning.exact_front(
            problem,
            max_steps=o.max_steps,
            max_chunks=o.max_chunks,
            max_extra_rounds=o.extra_rounds,
            time_limit_s=o.time_limit_s or planning.DEFAULT_TIME_LIMIT_S,
            seed=o.seed,
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


def _of_trees(output: Output, problem: planning.Problem, o: Pareto) -> int:
    """Print the front of trees."""
    picture = o.picture
    if picture is not None:
        planning.check_figure_name(picture)
    with ProgressLine(quiet=output.is_silent) as progress:
        front = planning.tree_front(
            problem,
            trees=o.trees or planning.TREES_PER_ROOT,
            max_height=o.max_height,
            progress=progress,
            **keywords(o, TimeLimit),
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
