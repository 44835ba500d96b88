"""``treadle repair``."""

from __future__ import annotations

import json as json_text
import re
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

from treadle import planning
from treadle.atomic import write_bytes
from treadle.cli.output import COMMAND, STOPGAP, Output, ProgressLine, late, warn
from treadle.cli.plan_file import read_plan
from treadle.cli.quantities import busbw, counted, shortfall
from treadle.cli.solving.report import (
    describe_witness,
    print_problem,
    print_schedule,
    print_seconds,
    print_verification,
)
from treadle.cli.status import FAILED, INFEASIBLE
from treadle.context import Context
from treadle.options.rows import keywords, refuse
from treadle.options.shared import TimeLimit, Trim, Workers
from treadle.options.solving import Repair
from treadle.planning import HardenedRow, RepairResult
from treadle.planning.repairing.repair_candidates import Contest
from treadle.planning.summary import hardened_summary, repair_summary
from treadle.planning.workers import workers
from treadle.schedules.plan import Plan
from treadle.schedules.plan_files.archive import save_plan
from treadle.units import format_size

_SHOWN = 4


def command(o: Repair) -> int:
    """Plan anew without failed links and nodes, and say what the failure costs."""
    output = Output.of(o)
    if o.every_failure:
        refuse(
            o,
            ("links", "nodes", "algorithm", "form", "size_bytes"),
            "not supported with --every-failure; leave it out",
        )
        return harden(output, o)
    refuse(o, ("failures", "threads", "cluster"), "valid only with --every-failure; leave it out")
    try:
        with ProgressLine(quiet=output.is_silent) as progress:
            Context(progress).announce("reading")
            result = planning.repair(
                read_plan(o.plan, o.max_memory),
                links=o.links,
                nodes=o.nodes,
                algorithm=o.algorithm,
                form=o.form,
                forward=o.forward,
                size_bytes=o.size_bytes,
                progress=progress,
                **keywords(o, Trim, TimeLimit),
            )
            if o.output is not None:
                Context(progress).announce("writing")
                save_plan(o.output, result.new)
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
    if o.output is not None:
        output.line(f"plan        {o.output}")
    output.result({**repair_summary(result), **({} if o.output is None else {"plan": str(o.output)})})
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


INDEX = "failures.json"
"""The file that says which plan is for which failure."""
_HEADINGS = ("failure", "algbw", "busbw", "optimum", "optimum loses", "plan loses", "CPU s", "plan")
_LOSSES = (("optimum_loss", "the optimum"), ("throughput_loss", "the plan's throughput"))
"""Keys of what is lost, and of what that is a share."""


def harden(output: Output, o: Repair) -> int:
    """``repair --every-failure``: compute a plan for each failure in advance."""
    COMMAND.set("harden")
    summaries, cells, unserved = [], [], 0
    with ProgressLine(quiet=output.is_silent) as progress, workers(**keywords(o, Workers)):
        try:
            old = read_plan(o.plan, o.max_memory)
            rows = planning.harden(
                old,
                which=o.failures,
                forward=o.forward,
                progress=progress,
                **keywords(o, Trim, TimeLimit),
            )
            for row, path in _written(rows, o.output):
                summaries.append(hardened_summary(row, None if path is None else path.name))
                cells.append(_hardened_cells(output, row, "" if path is None else path.name))
                unserved += row.result is None
        except planning.RejectedError as error:
            warn(str(error))
            return FAILED
    if o.output is not None:
        text = json_text.dumps({"topology": old.topology.name, "failures": summaries}, indent=1)
        write_bytes(o.output / INDEX, text.encode())
    print_problem(output, old.topology, old.collective)
    output.line()
    output.table(_HEADINGS, cells, least=("CPU s", "optimum"))
    output.line()
    for summary in summaries:
        if "refusal" in summary:
            output.line(f"{summary['failure']}: {summary['refusal']}")
    _print_worst(output, summaries, unserved)
    if o.output is not None:
        output.line(f"plans       {o.output}, {INDEX} says which is for what")
    output.result({"topology": old.topology.name, "algorithm": old.algorithm, "failures": summaries})
    is_late = any(summary.get("late") for summary in summaries)
    if is_late:
        return late("some failures did not get their turn")
    return INFEASIBLE if summaries and unserved == len(summaries) else 0


def _written(rows: Iterator[HardenedRow], folder: Path | None) -> Iterator[tuple[HardenedRow, Path | None]]:
    """Each row with the file of its plan; none is kept longer than it takes to write it."""
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    for number, row in enumerate(rows):
        path = None
        if folder is not None and row.result is not None:
            name = re.sub(r"[^A-Za-z0-9._-]+", "-", row.failure.name)[:80]
            path = folder / f"{number:04}-{name}.plan"
            save_plan(path, row.result.new)
        yield row, path


def _hardened_cells(output: Output, row: HardenedRow, path: str) -> tuple[str, ...]:
    if row.result is None or row.loss is None:
        return row.failure.name, *("-" for _ in _HEADINGS[1:])
    new = row.result.new
    optimum = "-" if new.optimal_algbw is None else output.rates(new.optimal_algbw)
    seconds = f"{row.result.seconds['total']:.2f}"
    rates = (output.rates(new.algbw), output.rates(busbw(new.algbw, new.collective)))
    losses = ("-" if one is None else f"{float(one):.1%}" for one in (row.optimum_loss, row.throughput_loss))
    return row.failure.name, *rates, optimum, *losses, seconds, path or "-"


def _print_worst(output: Output, summaries: list[dict[str, object]], unserved: int) -> None:
    told: dict[tuple[float, ...], tuple[str, str]] = {}
    for key, whole in _LOSSES:
        served = [one for one in summaries if key in one]
        losses = tuple(float(str(one[key])) for one in served)
        if losses in told:  # of a plan that is best before and after both are the same
            told[losses] = f"{told[losses][0]} and of {whole}", told[losses][1]
        elif served:
            told[losses] = whole, str(served[losses.index(max(losses))]["failure"])
    for number, (losses, (whole, worst)) in enumerate(told.items()):
        output.line(
            f"{'' if number else 'loss':12}{sum(losses) / len(losses):.1%} of {whole} on average over "
            f"{counted(len(losses), 'failure')}, {max(losses):.1%} at worst ({worst})"
        )
    if unserved:
        output.line(f"unserved    {counted(unserved, 'failure')}, for which there is no plan")
