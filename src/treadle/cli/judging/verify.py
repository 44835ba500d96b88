"""``treadle verify``."""

from __future__ import annotations

from pathlib import Path

from treadle import planning
from treadle.cli.memory_fence import memory_fence
from treadle.cli.output import Output, ProgressLine, warn
from treadle.cli.plan_file import refuse_what_is_no_plan
from treadle.cli.quantities import counted
from treadle.cli.solving.report import (
    SHOWN_VIOLATIONS,
    describe_witness,
    height_text,
    print_pieces,
    print_problem,
    print_verification,
)
from treadle.cli.status import FAILED
from treadle.context import Context
from treadle.errors import ScheduleError
from treadle.options.judging import Verify
from treadle.planning import Check
from treadle.planning.comparison_summary import placed_summary
from treadle.planning.judging.texts import TextVerification, read_text, verify_text
from treadle.planning.summary import exact_text, verify_summary
from treadle.schedules.factored import FactoredSchedule
from treadle.schedules.plan import Plan
from treadle.schedules.plan_files.archive import load_plan
from treadle.schedules.plan_files.budget import MAX_MEMORY
from treadle.topologies.files import topology_hash
from treadle.topologies.topology import Topology
from treadle.units import format_share, format_size
from treadle.verification.violations import Report

_EXPECTED = "a plan that solve wrote (-o), or a text for a runtime"


def command(o: Verify) -> int:
    """Recompute every claim of a plan, or execute a text; list every violation, or none."""
    output = Output.of(o)
    if o.plan.is_dir():
        _refuse_of_texts(o, "this is a folder of plans")
        return _verify_jobs(output, o.plan, o.topology)
    text = read_text(o.plan)
    if text is not None:
        if o.topology is not None:
            return _place_text(output, o.plan, o.topology, o.root or 0)
        with ProgressLine(quiet=output.is_silent) as progress:
            Context(progress).announce("judging")
            found = verify_text(text, source=str(o.plan), profile=o.profile, root=o.root or 0)
        return _print_text(output, o.plan, found)
    _refuse_of_texts(o, "a plan says both itself")
    with ProgressLine(quiet=output.is_silent) as progress:
        Context(progress).announce("reading")
        refuse_what_is_no_plan(o.plan, _EXPECTED)
        granted = o.max_memory or MAX_MEMORY
        with memory_fence(granted, str(o.plan)):
            loaded = load_plan(o.plan, max_memory_bytes=granted)
            Context(progress).announce("verifying")
            result = planning.verify(loaded, o.topology)
    for note in () if o.quiet else result.notes:
        warn(f"warning: {note}")
    print_problem(output, result.topology, loaded.collective)
    if result.is_embedded:
        output.line(f"assumed     the fabric inside the plan, {result.topology_hash[:16]}; see --topology")
    else:
        output.line(f"against     {result.topology.name}, {result.topology_hash[:16]}")
    if result.n_absent:
        absent = counted(result.n_absent, "compute node")
        output.line(
            f"absent      {absent} of that fabric, unknown to the plan: its claims are about the rest"
        )
    output.line(f"claimed     {output.rates.both(loaded.algbw, loaded.collective)} ({loaded.algorithm})")
    if loaded.optimal_algbw is not None:
        model = planning.model_of(result.topology, loaded.collective)
        output.line(
            f"optimum     {output.rates.both(loaded.optimal_algbw, loaded.collective)}, claimed"
            f"{f'; {model}' if model else ''}"
        )
    schedule = loaded.entries[-1].schedule
    if isinstance(schedule, FactoredSchedule):
        _print_factored(output, loaded, schedule, result.report)
        output.line(f"file        {format_size(o.plan.stat().st_size)}")
    for report in result.reports:
        print_verification(output, report)
    if result.is_sound and not result.is_ok:
        _print_sound(output, result, loaded)
    if result.report.is_optimal:
        output.line("optimal     yes: the schedule attains the bound that its witness proves")
    output.result(
        {
            **verify_summary(loaded, result.topology, result.whole_report),
            "verified": result.is_ok,
            **({} if result.is_ok else {"sound": result.is_sound}),
            "topology_hash": result.topology_hash,
            "topology_embedded": result.is_embedded,
            **({"absent_compute_nodes": result.n_absent} if result.n_absent else {}),
            **({"notes": list(result.notes)} if result.notes else {}),
            "plan": str(o.plan),
        }
    )
    return 0 if result.is_ok else FAILED


def _refuse_of_texts(o: Verify, reason: str) -> None:
    if o.profile is not None or o.root is not None:
        raise ScheduleError(f"{o.plan}: --profile and --root are for texts; {reason}")


def _print_sound(output: Output, result: planning.VerifyResult, plan: Plan) -> None:
    """What is wrong are claims alone: the schedules may be used."""
    reached = result.report.algbw
    rate = "" if reached is None else f", {output.rates.both(reached, plan.collective)}"
    output.line(f"sound       yes: the schedule does its collective here{rate}; only claims do not hold")


def _verify_jobs(output: Output, folder: Path, topology: Topology | None) -> int:
    """Judge the plans of jobs that run at once."""
    with ProgressLine(quiet=output.is_silent) as progress:
        Context(progress).announce("reading")
        stored = planning.load_jobs(folder)
        Context(progress).announce("verifying")
        found = stored.verified(topology)
    fabric = stored.topology if topology is None else topology
    if topology is None:
        output.line(f"assumed     the fabric inside the folder, {topology_hash(fabric)[:16]}; see --topology")
    else:
        output.line(f"against     {fabric.name}, {topology_hash(fabric)[:16]}")
    output.line(f"jobs        {counted(len(stored.jobs), 'job')} at once")
    print_verification(output, found.report)
    if found.is_max_min:
        output.line("optimal     yes: links carry all at these rates, and no rates are fairer")
    elif found.proved is not None:
        output.line(
            f"optimal     no: {format_share(found.loss)} below the max-min rates, which the levels prove"
        )
    output.result(
        {
            "topology": fabric.name,
            "topology_hash": topology_hash(fabric),
            "topology_embedded": topology is None,
            "jobs": [
                {"name": job.name, "reached_exact": exact_text(rate)}
                for job, rate in zip(stored.jobs, stored.rates, strict=True)
            ],
            "verified": found.report.is_ok,
            **({} if found.proved is None else {"optimal": found.is_max_min, "gap": float(found.loss)}),
            "violations": [str(violation) for violation in found.report.violations],
            "n_violations": found.report.n_violations,
            "plan": str(folder),
        },
        variant="jobs",
    )
    return 0 if found.report.is_ok else FAILED


def _print_factored(output: Output, plan: Plan, schedule: FactoredSchedule, report: Report) -> None:
    """What a factored plan holds, and the cut that proves its optimum."""
    height = "" if report.height_max is None else f", {height_text(report)}"
    output.line(f"trees       {counted(schedule.total_units, 'unit tree')} in all{height}")
    print_pieces(output, schedule)
    if report.is_ok and plan.witness is not None and plan.optimal_algbw is not None:
        cut = describe_witness(plan.topology, plan.collective, plan.witness, plan.optimal_algbw, output.rates)
        output.line(f"witness     {cut}")


def _place_text(output: Output, path: Path, topology: Topology, root: int) -> int:
    """Put a text on a fabric, and tell what is wrong with it or how good it is."""
    placed = planning.place_file(path, topology, root=root)
    print_problem(output, placed.topology, placed.collective)
    output.line(f"schedule    {path}: {placed.form}; its ranks are the fabric's by number")
    for note in placed.notes:
        output.line(f"note        {note}")
    if placed.report.is_ok and placed.optimal_algbw is not None:
        share = float(placed.algbw / placed.optimal_algbw)
        output.line(f"algbw       {output.rates.exact(placed.algbw)} asymptotic, {share:.1%} of the optimum")
        output.line(f"optimum     {output.rates.exact(placed.optimal_algbw)}")
        worst = planning.congestion(placed.topology, placed.program, placed.optimal_algbw)
        more = f" and {worst.n_links - len(worst.links)} more" if worst.n_links > len(worst.links) else ""
        output.line(f"busiest     {', '.join(worst.links)}{more}")
    if placed.report.is_ok and placed.messages is not None:
        output.line("verified    yes: executed on integer contributions, and every message has a way")
    else:
        print_verification(output, placed.report)
    output.result({**placed_summary(placed), "path": str(path)})
    return 0 if placed.report.is_ok else FAILED


def _print_text(output: Output, path: Path, found: TextVerification) -> int:
    """Tell what executing a text showed."""
    contents = ", ".join(counted(count, noun) for noun, count in found.counts)
    executed = found.check is Check.EXECUTED
    output.line(f"text        {path}: {found.format}, {counted(found.n_ranks, 'rank')}, {contents}")
    if not executed:
        output.line("parsed      as its runtime would; it holds no program, and nothing was executed")
    elif found.is_part:
        output.line(f"played      {found.collective}, this rank alone, as if the others did their parts")
    else:
        output.line(f"executed    {found.collective}, on integer contributions; never by the runtime itself")
    if not found.violations and executed:
        output.line("verified    yes: no violations")
    elif not found.violations:
        output.line("verified    yes, as far as a text alone shows: nothing is wrong with it")
    else:
        output.line(f"verified    NO: {counted(len(found.violations), 'violation')}")
    for violation in found.violations[:SHOWN_VIOLATIONS]:
        output.line(f"            {violation}")
    if len(found.violations) > SHOWN_VIOLATIONS:
        output.line(f"            and {len(found.violations) - SHOWN_VIOLATIONS} more (see --json)")
    for note in found.notes:
        output.line(f"note        {note}")
    output.result(
        {
            "format": found.format,
            "judged": found.check.value,
            **({"collective": found.collective} if found.collective else {}),
            "ranks": found.n_ranks,
            **{f"{noun.replace(' ', '_')}s": count for noun, count in found.counts},
            **({"verified": not found.violations} if found.violations or executed else {}),
            "violations": list(found.violations),
            "n_violations": len(found.violations),
            **({"notes": list(found.notes)} if found.notes else {}),
            "path": str(path),
        }
    )
    return FAILED if found.violations else 0
