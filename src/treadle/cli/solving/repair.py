"""``treadle repair``."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Annotated

import typer

from treadle import planning
from treadle.cli.output import (
    STOPGAP,
    JsonOption,
    Output,
    ProgressLine,
    QuietOption,
    TimeLimitOption,
    UnitOption,
    late,
    warn,
)
from treadle.cli.plan_file import MaxMemoryOption, PlanArgument, read_plan
from treadle.cli.quantities import Rates, busbw, counted, parse_seconds, shortfall
from treadle.cli.solving.problem_arguments import ForwardFromNowOption, TrimOption
from treadle.cli.solving.report import (
    describe_witness,
    print_problem,
    print_schedule,
    print_seconds,
    print_verification,
)
from treadle.cli.status import FAILED
from treadle.context import Context
from treadle.planning import RepairResult
from treadle.planning.repairing.repair_candidates import Contest
from treadle.planning.summary import repair_summary
from treadle.schedules.plan import Plan
from treadle.schedules.plan_files.archive import save_plan
from treadle.units import format_size, parse_size

_SHOWN = 4


def command(
    plan: PlanArgument,
    links: Annotated[
        list[str] | None,
        typer.Option(
            "--link",
            help="A failed link: A--B both ways, 'A->B' one way; patterns as of --without; again for more.",
            metavar="LINK",
        ),
    ] = None,
    nodes: Annotated[
        list[str] | None,
        typer.Option(
            "--node",
            help="A failed GPU, NIC or switch, or a pattern ('box0.*'); again for more.",
            metavar="NODE",
        ),
    ] = None,
    new: Annotated[
        Path | None, typer.Option("-o", "--output", help="Plan file to write.", writable=True)
    ] = None,
    algorithm: Annotated[
        str | None, typer.Option(help="Instead of the plan's own, with its defaults.", metavar="NAME")
    ] = None,
    form: Annotated[
        planning.Form | None, typer.Option(help="Of ForestColl's trees, instead of the plan's own.")
    ] = None,
    trim: TrimOption = False,
    forward: ForwardFromNowOption = False,
    size: Annotated[
        str | None,
        typer.Option(
            help="Compare algorithms and take the fastest at this size; plans of design: always, at the size "
            "that they were chosen for.",
            metavar="SIZE",
        ),
    ] = None,
    time_limit: TimeLimitOption = None,
    max_memory: MaxMemoryOption = None,
    unit: UnitOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Plan anew without failed links and nodes, and say what the failure costs."""
    output = Output(json, quiet, Rates(unit or ""))
    try:
        with ProgressLine(quiet=output.is_silent) as progress:
            Context(progress).announce("reading")
            result = planning.repair(
                read_plan(plan, max_memory),
                links=tuple(links or ()),
                nodes=tuple(nodes or ()),
                algorithm=algorithm,
                form=form,
                trim=trim,
                forward=forward,
                size_bytes=None if size is None else parse_size(size),
                time_limit_s=None if time_limit is None else parse_seconds(time_limit),
                progress=progress,
            )
            if new is not None:
                Context(progress).announce("writing")
                save_plan(new, result.new)
    except planning.RejectedError as error:
        warn(str(error))
        return FAILED
    print_problem(output, result.new.topology, result.new.collective)
    _print_failure(output, result)
    _print_cost(output, result)
    if result.contest is not None:
        _print_contest(output, result.contest)
    print_schedule(output, result.solved)
    print_verification(output, result.solved.report)
    print_seconds(output, result.seconds)
    if new is not None:
        output.line(f"plan        {new}")
    output.result({**repair_summary(result), **({} if new is None else {"plan": str(new)})})
    return late(STOPGAP) if result.solved.is_late else 0


def _print_failure(output: Output, result: RepairResult) -> None:
    """What failed, and what went with it."""
    names = [*result.links, *result.nodes]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    ranks = f", {counted(len(result.lost_ranks), 'rank')}" if result.lost_ranks else ""
    output.line(
        f"failed      {', '.join(names[:_SHOWN])}{more}: {counted(result.lost_links, 'directed link')}"
        f"{ranks} gone"
    )


def _print_cost(output: Output, result: RepairResult) -> None:
    """Optimum and bottleneck before and after."""
    for word, plan in (("before", result.old), ("after", result.new)):
        if plan.optimal_algbw is None or plan.witness is None:
            output.line(f"{word:<12}{output.rates.both(plan.algbw, plan.collective)}, no bound known")
            continue
        scaled = output.rates(busbw(plan.optimal_algbw, plan.collective))
        output.line(
            f"{word:<12}optimum {output.rates.exact(plan.optimal_algbw)}, {scaled} busbw{_reach(plan)}"
        )
        witness = describe_witness(
            plan.topology, plan.collective, plan.witness, plan.optimal_algbw, output.rates
        )
        output.line(f"            {witness}")
    output.line(f"loss        {_loss(result)}")
    if result.lone_bottleneck is not None:
        name = result.lone_bottleneck
        output.line(f"            {name} alone holds the others back; compare --node {name}, without it")
    old, new = result.piece_kinds
    if old is not None and new is not None:
        output.line(f"kinds       of pieces: {old} before, {new} after")


def _print_contest(output: Output, contest: Contest) -> None:
    """Simulated times of all algorithms, and why some have none."""
    size, before = format_size(contest.size_bytes), f"{contest.old_seconds * 1e6:.1f} us"
    output.line(f"compared    simulated at {size}: {before} before")
    for one in contest.contenders:
        word = one.reason if one.seconds is None else f"{one.seconds * 1e6:.1f} us"
        output.line(f"            {one.algorithm}: {word}")


def _reach(plan: Plan) -> str:
    """How much of its optimum a plan leaves, if any."""
    assert plan.optimal_algbw is not None
    if plan.algbw == plan.optimal_algbw:
        return ""
    return f", the plan {shortfall(plan.algbw, plan.optimal_algbw)} below it"


def _loss(result: RepairResult) -> str:
    """What the failure costs, of the optimum if both are known and of the plans' throughput."""
    if result.optimum_loss is None:
        return f"{_share(result.throughput_loss)} of the plan's throughput"
    text = f"{_share(result.optimum_loss)} of the optimum"
    if result.throughput_loss != result.optimum_loss:
        text += f", {_share(result.throughput_loss)} of the plan's throughput"
    return text


def _share(loss: Fraction) -> str:
    """A share of something, never rounded to nothing."""
    if loss == 0:
        return "nothing"
    small = 0 < abs(loss) < Fraction(1, 10**4)
    size = "less than 0.01%" if small else f"{float(abs(loss)):.2%}"
    return size if loss > 0 else f"{size} more instead of less"
