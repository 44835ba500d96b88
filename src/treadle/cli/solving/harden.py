"""``treadle harden``."""

from __future__ import annotations

import json as json_text
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from treadle import planning
from treadle.atomic import write_bytes
from treadle.cli.measuring.worker_options import ClusterOption, ThreadsOption
from treadle.cli.output import (
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
from treadle.cli.quantities import Rates, busbw, counted, parse_seconds
from treadle.cli.solving.problem_arguments import ForwardFromNowOption, TrimOption
from treadle.cli.solving.report import print_problem
from treadle.cli.status import FAILED, INFEASIBLE
from treadle.planning import Failures, HardenedRow
from treadle.planning.summary import hardened_summary
from treadle.planning.workers import workers
from treadle.schedules.plan_files.archive import save_plan

INDEX = "failures.json"
"""The file that says which plan is for which failure."""
_HEADINGS = ("failure", "algbw", "busbw", "optimum", "optimum loses", "plan loses", "CPU s", "plan")
_LOSSES = (("optimum_loss", "the optimum"), ("throughput_loss", "the plan's throughput"))
"""Keys of what is lost, and of what that is a share."""


def command(
    plan: PlanArgument,
    folder: Annotated[
        Path | None,
        typer.Option("-o", "--output", help=f"Folder for plans, and {INDEX} that says which is for what."),
    ] = None,
    which: Annotated[Failures, typer.Option("--failures", help="What may fail.")] = Failures.CABLES,
    trim: TrimOption = False,
    forward: ForwardFromNowOption = False,
    time_limit: TimeLimitOption = None,
    threads: ThreadsOption = None,
    cluster: ClusterOption = None,
    max_memory: MaxMemoryOption = None,
    unit: UnitOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Plan for every single failure before it comes, and say what each costs."""
    output, summaries = Output(json, quiet, Rates(unit or "")), []
    cells, unserved = [], 0
    with ProgressLine(quiet=output.is_silent) as progress, workers(threads=threads, cluster=cluster):
        try:
            old = read_plan(plan, max_memory)
            rows = planning.harden(
                old,
                which=which,
                trim=trim,
                forward=forward,
                time_limit_s=None if time_limit is None else parse_seconds(time_limit),
                progress=progress,
            )
            for row, path in _written(rows, folder):
                summaries.append(hardened_summary(row, None if path is None else path.name))
                cells.append(_cells(output, row, "" if path is None else path.name))
                unserved += row.result is None
        except planning.RejectedError as error:
            warn(str(error))
            return FAILED
    if folder is not None:
        text = json_text.dumps({"topology": old.topology.name, "failures": summaries}, indent=1)
        write_bytes(folder / INDEX, text.encode())
    print_problem(output, old.topology, old.collective)
    output.line()
    output.table(_HEADINGS, cells, least=("CPU s", "optimum"))
    output.line()
    for summary in summaries:
        if "refusal" in summary:
            output.line(f"{summary['failure']}: {summary['refusal']}")
    _print_worst(output, summaries, unserved)
    if folder is not None:
        output.line(f"plans       {folder}, {INDEX} says which is for what")
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


def _cells(output: Output, row: HardenedRow, path: str) -> tuple[str, ...]:
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
