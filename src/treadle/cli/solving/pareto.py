"""``treadle pareto``: height and trees for throughput; of a small fabric steps for bandwidth, exactly."""

from __future__ import annotations

from treadle import planning
from treadle.atomic import write_bytes
from treadle.cli.output import Output, ProgressLine, late
from treadle.context import Context
from treadle.options.rows import keywords, reject
from treadle.options.shared import TimeLimit
from treadle.options.solving import Pareto
from treadle.render.quantities import counted
from treadle.render.rows import file_row
from treadle.render.solving import front_rows, tree_front_rows


def command(o: Pareto) -> int:
    """Show the throughput for each height and number of trees, or (--max-steps) of steps."""
    output = Output.of(o)
    problem = planning.make_problem(o.topology, o.collective, root=o.root)
    if o.max_steps is None:
        return _of_trees(output, problem, o)
    reject(o, ("trees", "max_height", "picture"), "valid only for fronts of trees; leave out --max-steps")
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
    output.show(front_rows(problem.topology, problem.collective, front))
    undecided = sum(entry.reason == "time limit" for entry in front.excluded)
    return late(f"undecided: {counted(undecided, 'candidate')}") if undecided else 0


def _of_trees(output: Output, problem: planning.Problem, o: Pareto) -> int:
    """Print the front of trees."""
    picture = o.picture
    if picture is not None:
        planning.check_plot_name(picture)
    with ProgressLine(quiet=output.is_silent) as progress:
        front = planning.tree_front(
            problem,
            trees=o.trees or planning.TREES_PER_ROOT,
            max_height=o.max_height,
            progress=progress,
            **keywords(o, TimeLimit),
        )
    rows = [*tree_front_rows(problem.topology, problem.collective, front)]
    if picture is not None:
        title = f"{problem.collective.kind} on {problem.topology.name}"
        kind = picture.suffix[1:].lower()
        write_bytes(picture, planning.plot_front(front, title=title, file_format=kind))
        rows.append(file_row("plot", picture, "picture"))
    output.show(rows)
    return 0
