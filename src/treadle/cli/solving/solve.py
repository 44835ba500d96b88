"""``treadle solve``: one schedule, a set by size, concurrent jobs, or routes."""

from __future__ import annotations

from pathlib import Path

from treadle import planning
from treadle.atomic import write_bytes
from treadle.cli.output import COMMAND, STOPGAP, Output, ProgressLine, late, warn
from treadle.cli.status import FAILED
from treadle.context import Context
from treadle.errors import FormatError
from treadle.inputs.problem import resolve_kind
from treadle.options.rows import keywords, reject
from treadle.options.shared import Costs, Problem, Seed, TimeLimit, Workers
from treadle.options.solving import RouteLimits, Scheduler, Solve
from treadle.render.rows import file_row, row
from treadle.render.solving import jobs_rows, route_rows, size_set_rows, solve_rows
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.plan import Plan
from treadle.topologies.topology import Topology
from treadle.workers import workers

_OF_ONE_SCHEDULE = (*Scheduler.rows, "explain", "mesh")
"""Options of a single schedule, of which a plan by size has several."""
OF_JOBS = ("collective", *Problem.rows)
"""Options that a file of jobs has for each."""
WITH_JOBS = "not supported with --jobs, whose file states that for each job"


def command(o: Solve) -> int:
    """Synthesise a schedule, verify it, report, and write a plan."""
    output = Output.of(o)
    if o.jobs is not None:
        return _solve_jobs(output, o)
    if o.routes:
        return _solve_routes(output, o)
    if o.retune is not None:
        return _retune(output, o)
    if o.size is not None:
        return _solve_sizes(output, o)
    reject(o, ("max_schedules", "cost_model"), "valid only for plans by size; give --size too")
    with ProgressLine(quiet=output.is_silent) as progress, workers(**keywords(o, Workers)):
        result = planning.solve(
            o.topology,
            o.collective,
            algorithm=o.algorithm,
            progress=progress,
            **keywords(o, Scheduler, Seed, TimeLimit, Problem),
        )
        _save(o, result.plan, progress)
    rows = solve_rows(result, output.rates, mesh=o.mesh, axes=o.axes, path=o.output, explain=o.explain)
    output.show(rows)
    return late(STOPGAP) if result.is_late else 0


def _save(o: Solve, plan: Plan, progress: ProgressLine) -> None:
    if o.output is not None:
        Context(progress).announce("writing")
        # here and below: few calls write plans, read them or solve for jobs
        from treadle.schedules.plan_files.archive import save_plan

        save_plan(o.output, plan)


def _solve_sizes(output: Output, o: Solve) -> int:
    reason = "with --size candidates are tried with options of their own; leave out one or the other"
    reject(o, _OF_ONE_SCHEDULE, reason)
    assert o.size is not None
    try:
        with ProgressLine(quiet=output.is_silent) as progress:
            result = planning.solve_sizes(
                o.topology,
                o.collective,
                planning.parse_sizes(o.size),
                max_schedules=o.max_schedules,
                algorithms=None if o.algorithm is None else o.algorithm.split(","),
                progress=progress,
                **keywords(o, Costs, TimeLimit, Problem),
            )
            _save(o, result.plan, progress)
    except planning.TimeLimitError:
        return late("no candidate is there yet; allow more time (--time-limit)")
    return _show_sizes(output, o, result, "sizes")


def _retune(output: Output, o: Solve) -> int:
    assert o.retune is not None
    if o.cost_model is None:
        raise FormatError("--cost-model is missing: the costs of messages now, as a file or a name")
    COMMAND.set("retune")
    with ProgressLine(quiet=output.is_silent) as progress:
        result = planning.retune(
            o.retune,
            o.cost_model,
            planning.parse_sizes(o.size or "1K..1G"),
            max_schedules=o.max_schedules,
            progress=progress,
        )
        _save(o, result.plan, progress)
    return _show_sizes(output, o, result)


def _show_sizes(output: Output, o: Solve, result: planning.SizeSet, variant: str = "") -> int:
    output.show(size_set_rows(result, output.rates, path=o.output), variant=variant)
    return late("sizes that were not reached are left to their neighbours") if result.is_late else 0


def _solve_jobs(output: Output, o: Solve) -> int:
    reject(o, (*OF_JOBS, "algorithm", "trees", "multicast", "trim"), WITH_JOBS)
    folder = o.output
    assert o.jobs is not None
    if folder is not None and folder.exists() and not folder.is_dir():
        raise FormatError(f"-o {folder}: is a file; plans of jobs are written into a folder")
    try:
        with ProgressLine(quiet=output.is_silent) as progress:
            result = planning.solve_jobs(
                o.topology,
                o.jobs,
                max_trees=o.max_trees,
                exact=o.exact,
                progress=progress,
                **keywords(o, TimeLimit),
            )
    except planning.TimeLimitError:
        return late("no plan was found in time; allow more (--time-limit)")
    if folder is not None:
        planning.save_jobs(folder, result)
    output.show(jobs_rows(result, output.rates, folder=folder), variant="jobs")
    return 0


def _solve_routes(output: Output, o: Solve) -> int:
    """Compute deadlock-free routes of an all-to-all near the optimal rate, or write those of a plan."""
    COMMAND.set("routes")
    of_routes = {*RouteLimits.rows, "chunks"}
    reject(o, set(Scheduler.rows) - of_routes, "not supported with --routes; leave it out")
    if resolve_kind(o.collective) is not CollectiveKind.ALLTOALL:
        raise FormatError(f"--routes: {o.collective} has no routes; expected alltoall")
    form = None if o.output is None else _route_format(o.output)
    with ProgressLine(quiet=output.is_silent) as progress:
        if isinstance(o.topology, Topology):
            result = planning.routes(
                o.topology,
                chunks=o.chunks,
                progress=progress,
                **keywords(o, RouteLimits, Seed, TimeLimit, Problem),
            )
        else:
            reason = f"{o.topology}: a plan has its routes; leave out the options that choose them"
            reject(o, (*of_routes, *Problem.rows, "file_format", "time_limit_s"), reason)
            Context(progress).announce("reading")
            from treadle.cli.plan_file import read_plan

            result = planning.routes_of(read_plan(o.topology, o.max_memory))
    rows = [*route_rows(result, output.rates)]
    if o.output is not None and form is not None:
        lowered = planning.routes_lowered(result, form, path=str(o.output))
        for fault in lowered.faults[:20]:
            warn(str(fault))
        if lowered.faults:
            return FAILED
        write_bytes(o.output, lowered.text.encode())
        rows.append(file_row("written", o.output, "routes_file", more="; no runtime adapter loads it"))
        rows.append(row("checked", lowered.checked, judged=lowered.verdict.check.value))
    output.show(rows)
    return late("these are quick routes instead of the requested ones") if result.is_late else 0


def _route_format(path: Path) -> planning.RouteFormat:
    ending = path.suffix.removeprefix(".").lower()
    if ending not in set(planning.RouteFormat):
        raise FormatError(
            f"-o {path}: the extension {path.suffix!r} is not a format of routes; "
            "expected .json, .csv or .xml"
        )
    return planning.RouteFormat(ending)
