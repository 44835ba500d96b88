"""``treadle solve``."""

from __future__ import annotations

from pathlib import Path

from treadle import planning
from treadle.atomic import write_bytes
from treadle.cli.output import COMMAND, STOPGAP, Output, ProgressLine, late, warn
from treadle.cli.quantities import shortfall
from treadle.cli.solving.group_report import mesh_values, print_groups, print_mesh
from treadle.cli.solving.report import (
    print_bound,
    print_packing,
    print_problem,
    print_routes,
    print_schedule,
    print_seconds,
    print_verification,
)
from treadle.cli.status import FAILED
from treadle.context import Context
from treadle.errors import FormatError
from treadle.options.rows import keywords, refuse
from treadle.options.shared import Problem, Seed, TimeLimit, Workers
from treadle.options.solving import RouteLimits, Scheduler, Solve
from treadle.planning.problem import resolve_kind
from treadle.planning.summary import solve_summary
from treadle.planning.workers import workers
from treadle.schedules.collective import CollectiveKind
from treadle.topologies.topology import Topology

_OF_ONE = (*Scheduler.rows, "explain", "mesh")
"""Options of a single schedule, which a range of sizes has several of."""


def command(o: Solve) -> int:
    """Synthesise a schedule, verify it, report, and write a plan."""
    output = Output.of(o)
    if o.jobs is not None:
        # here and below, because each form of the command has modules of its own
        from treadle.cli.solving.jobs_report import BESIDE_JOBS, OF_JOBS, solve_jobs

        refuse(o, (*OF_JOBS, "algorithm", "trees", "multicast", "trim"), BESIDE_JOBS)
        return solve_jobs(output, o)
    if o.routes:
        return solve_routes(output, o)
    if o.retune is not None:
        from treadle.cli.solving.size_set_report import retune

        return retune(output, o)
    if o.size is not None:
        refuse(
            o,
            _OF_ONE,
            "with --size candidates are tried with options of their own; leave out one or the other",
        )
        from treadle.cli.solving.size_set_report import solve_size_set

        return solve_size_set(output, o)
    refuse(o, ("max_schedules", "cost_model"), "valid only for plans by size; give --size too")
    try:
        with ProgressLine(quiet=output.is_silent) as progress, workers(**keywords(o, Workers)):
            result = planning.solve(
                o.topology,
                o.collective,
                algorithm=o.algorithm,
                progress=progress,
                **keywords(o, Scheduler, Seed, TimeLimit, Problem),
            )
            if o.output is not None:
                Context(progress).announce("writing")
                from treadle.schedules.plan_files.archive import save_plan

                save_plan(o.output, result.plan)
    except planning.RejectedError as error:
        warn(str(error))
        return FAILED
    print_problem(output, result.plan.topology, result.plan.collective)
    print_mesh(output, o.mesh, o.axes)
    shared = None
    if result.collective.blocks is not None:
        from treadle.planning.together.shared_rates import shared_rates

        shared = shared_rates(result)
    if shared is not None and result.bound is not None:
        model = result.bound.model or planning.model_of(result.topology, result.collective)
        print_groups(output, result.topology, result.collective, shared, model)
    elif result.bound is not None:
        print_bound(output, result.plan.topology, result.plan.collective, result.bound)
    print_schedule(output, result)
    if o.explain:
        print_packing(output, result)
    print_verification(output, result.report)
    print_seconds(output, result.seconds)
    if o.output is not None:
        output.line(f"plan        {o.output}")
    written = {} if o.output is None else {"plan": str(o.output)}
    output.result({**solve_summary(result), **mesh_values(o.mesh, o.axes), **written})
    return late(STOPGAP) if result.is_late else 0


def solve_routes(output: Output, o: Solve) -> int:
    """Compute deadlock-free routes of an all-to-all near the optimal rate, or write those of a plan."""
    COMMAND.set("routes")
    refuse(
        o, set(Scheduler.rows) - {*RouteLimits.rows, "chunks"}, "not supported with --routes; leave it out"
    )
    if resolve_kind(o.collective) is not CollectiveKind.ALLTOALL:
        raise FormatError(f"--routes: {o.collective} has no routes; expected alltoall")
    form = None if o.output is None else _route_format(o.output)
    try:
        with ProgressLine(quiet=output.is_silent) as progress:
            if not isinstance(o.topology, Topology):
                reason = f"{o.topology}: a plan has its routes; leave out the options that choose them"
                refuse(o, (*RouteLimits.rows, *Problem.rows, "chunks", "file_format", "time_limit_s"), reason)
                Context(progress).announce("reading")
                from treadle.cli.plan_file import read_plan

                result = planning.routes_of(read_plan(o.topology, o.max_memory))
            else:
                result = planning.routes(
                    o.topology,
                    chunks=o.chunks,
                    progress=progress,
                    **keywords(o, RouteLimits, Seed, TimeLimit, Problem),
                )
    except (planning.RejectedError, planning.UnverifiedPlanError) as error:
        warn(str(error))
        return FAILED
    values = planning.routes_summary(result)
    if o.output is not None and form is not None:
        lowered = planning.routes_lowered(result, form, path=str(o.output))
        for fault in lowered.faults[:20]:
            warn(str(fault))
        if lowered.faults:
            return FAILED
        write_bytes(o.output, lowered.text.encode())
        values |= {"routes_file": str(o.output), "judged": lowered.judgement.check.value}
    _print_routes(output, result)
    if o.output is not None:
        output.line(f"written     {o.output}; not loaded by any adapter")
        output.line(f"checked     {lowered.checked}")
    if result.seconds:
        print_seconds(output, result.seconds)
    output.result(values)
    return late("these are quick routes in place of the wanted ones") if result.is_late else 0


def _print_routes(output: Output, result: planning.RoutesResult) -> None:
    plan = result.plan
    print_problem(output, plan.topology, plan.collective)
    standing = ""
    if result.bound is not None:
        is_met = result.algbw == result.bound
        limit = "" if is_met else ", at most"
        output.line(f"optimum     {output.rates.both(result.bound, plan.collective)}{limit}")
        standing = ", optimal" if is_met else f", {shortfall(result.algbw, result.bound)} below the bound"
    output.line(f"schedule    {output.rates.both(result.algbw, plan.collective)}{standing}")
    print_routes(output, result.schedule, plan.algorithm)
    print_verification(output, result.report)
    for note in result.notes:
        output.line(f"note        {note}")


def _route_format(path: Path) -> planning.RouteFormat:
    ending = path.suffix.removeprefix(".").lower()
    if ending not in set(planning.RouteFormat):
        raise FormatError(
            f"-o {path}: the ending {path.suffix!r} is no format of routes; expected .json, .csv or .xml"
        )
    return planning.RouteFormat(ending)
