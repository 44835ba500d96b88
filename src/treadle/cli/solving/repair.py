"""``treadle repair``."""

from __future__ import annotations

import json as json_text
import re
from collections.abc import Iterator
from pathlib import Path

from treadle import planning
from treadle.atomic import write_bytes
from treadle.cli.output import COMMAND, STOPGAP, Output, ProgressLine, late
from treadle.cli.plan_file import read_plan
from treadle.cli.status import INFEASIBLE
from treadle.context import Context
from treadle.options.rows import keywords, reject
from treadle.options.shared import Balance, TimeLimit, Workers
from treadle.options.solving import Repair
from treadle.planning import HardenedRow
from treadle.render.solving import hardened_cells, hardened_rows, hardened_values, repair_rows
from treadle.schedules.plan_files.archive import save_plan
from treadle.workers import workers


def command(o: Repair) -> int:
    """Compute a new plan without failed links and nodes, and report the loss."""
    output = Output.of(o)
    if o.every_failure:
        of_one_failure = ("links", "nodes", "algorithm", "form", "size_bytes")
        reject(o, of_one_failure, "not supported with --every-failure; leave it out")
        return _repair_every_failure(output, o)
    reject(o, ("failures", "threads", "cluster"), "valid only with --every-failure; leave it out")
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
            **keywords(o, Balance, TimeLimit),
        )
        if o.output is not None:
            Context(progress).announce("writing")
            save_plan(o.output, result.new)
    output.show(repair_rows(result, output.rates, path=o.output))
    return late(STOPGAP) if result.solved.is_late else 0


INDEX = "failures.json"
"""The file that lists which plan is for which failure."""


def _repair_every_failure(output: Output, o: Repair) -> int:
    """Compute a plan for each failure in advance."""
    COMMAND.set("harden")
    summaries, cells = [], []
    with ProgressLine(quiet=output.is_silent) as progress, workers(**keywords(o, Workers)):
        old = read_plan(o.plan, o.max_memory)
        rows = planning.harden(
            old, which=o.failures, forward=o.forward, progress=progress, **keywords(o, Balance, TimeLimit)
        )
        for row, path in _written(rows, o.output):
            summaries.append(hardened_values(row, None if path is None else path.name))
            cells.append(hardened_cells(row, "" if path is None else path.name, output.rates))
    if o.output is not None:
        text = json_text.dumps({"topology": old.topology.name, "failures": summaries}, indent=1)
        write_bytes(o.output / INDEX, text.encode())
    output.show(hardened_rows(old, summaries, cells, o.output))
    if any(summary.get("late") for summary in summaries):
        return late("some failures did not get their turn")
    return INFEASIBLE if summaries and all("refusal" in summary for summary in summaries) else 0


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
