"""``treadle bound``."""

from __future__ import annotations

from typing import Any

from treadle import planning
from treadle.cli.output import Output, ProgressLine, late
from treadle.cli.status import INFEASIBLE, fail
from treadle.errors import FormatError
from treadle.options.rows import keywords, reject
from treadle.options.shared import Costs, Problem, Seed, TimeLimit, Workers
from treadle.options.solving import Bound, Compare
from treadle.render.solving import bound_result_rows, cut_off_rows, jobs_rows
from treadle.workers import workers


def command(o: Bound) -> int:
    """Print the optimum and its bottleneck, without building a schedule."""
    output = Output.of(o)
    if o.jobs is not None:
        return _bound_jobs(output, o)
    if o.cost_model is not None and o.size is None:
        raise FormatError("--cost-model: valid only for times at sizes; give --size too")
    try:
        with ProgressLine(quiet=output.is_silent) as progress, workers(**keywords(o, Workers)):
            result = planning.bound(
                o.topology,
                o.collective,
                method=o.method,
                gap=o.gap,
                progress=progress,
                sizes=o.size or (),
                **keywords(o, Costs, Seed, TimeLimit, Problem),
            )
    except planning.CutOffGroupError as error:
        seconds = {} if error.forwarding is None else dict(error.forwarding.seconds)
        return cut_off(output, error, o, seconds=seconds)
    except planning.TimeLimitError:
        return late("the bound is not known; allow more time (--time-limit)")
    output.show(bound_result_rows(result, output.rates, mesh=o.mesh, axes=o.axes))
    if o.time_limit_s is not None and result.groups is not None and not result.groups.is_exact:
        share = float(1 - result.groups.lower / result.groups.upper)
        return late(f"the optimum is known but for a gap of {share:.3g}")
    if result.rate is not None and result.rate.is_late:
        return late(f"the optimum is known but for a gap of {result.rate.gap:.3g}")
    return 0


def cut_off(output: Output, error: planning.CutOffGroupError, o: Bound | Compare, **more: Any) -> int:
    """Report a group that is cut off; the exit status."""
    output.show(cut_off_rows(error, output.rates, mesh=o.mesh, axes=o.axes), **more)
    return fail(str(error), INFEASIBLE)


def _bound_jobs(output: Output, o: Bound) -> int:
    from treadle.cli.solving.solve import OF_JOBS, WITH_JOBS

    reject(o, (*OF_JOBS, "method", "gap", "size", "cost_model"), WITH_JOBS)
    assert o.jobs is not None
    try:
        with ProgressLine(quiet=output.is_silent) as progress:
            result = planning.bound_jobs(o.topology, o.jobs, progress=progress, **keywords(o, TimeLimit))
    except planning.TimeLimitError:
        return late("the rates are not known; allow more time (--time-limit)")
    output.show(jobs_rows(result, output.rates), variant="jobs")
    return 0
