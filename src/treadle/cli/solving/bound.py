"""``treadle bound``."""

from __future__ import annotations

from treadle import planning
from treadle.cli.output import Output, ProgressLine, late
from treadle.cli.solving.group_report import cut_off, mesh_values, print_groups, print_mesh, say
from treadle.cli.solving.jobs_report import BESIDE_JOBS, OF_JOBS, bound_jobs
from treadle.cli.solving.report import print_bound, print_pair_rate, print_problem, print_rate, print_seconds
from treadle.cli.solving.size_report import print_size_bounds
from treadle.errors import FormatError
from treadle.options.rows import keywords, refuse
from treadle.options.shared import Costs, Problem, Seed, TimeLimit, Workers
from treadle.options.solving import Bound
from treadle.planning.group_summary import rate_values
from treadle.planning.summary import bound_summary
from treadle.planning.together.shared_rates import shared_rates
from treadle.planning.workers import workers


def command(o: Bound) -> int:
    """Print the optimum and its witness, without building a schedule."""
    output = Output.of(o)
    if o.jobs is not None:
        refuse(o, (*OF_JOBS, "method", "gap", "size", "cost_model"), BESIDE_JOBS)
        return bound_jobs(output, o)
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
        return cut_off(output, error, o.mesh, o.axes, {"seconds": seconds})
    except planning.TimeLimitError:
        return late("the bound is not known; allow more time (--time-limit)")
    print_problem(output, result.topology, result.collective)
    print_mesh(output, o.mesh, o.axes)
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
    output.result(_values(result, o.mesh, o.axes))
    if o.time_limit_s is not None and result.groups is not None and not result.groups.is_exact:
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
