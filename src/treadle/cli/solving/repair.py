"""``treadle repair``."""

from __future__ import annotations

import json as json_text
import re
from collections.abc import Iterator
from pathlib import Path

from treadle import planning
from treadle.atomic import write_bytes
from treadle.cli.output import COMMAND, STOPGAP, Output, ProgressLine, late, warn
from treadle.cli.plan_file import read_plan
from treadle.cli.status import FAILED, INFEASIBLE
from treadle.context import Context
from treadle.options.rows import keywords, reject
from treadle.options.shared import Balance, TimeLimit, Workers
from treadle.options.solving import Repair
from treadle.planning import HardenedRow
from treadle.render.solving import hardened_cells, hardened_rows, hardened_values, repair_rows
from treadle.schedules.plan_files.archive import save_plan
from treadle.workers import workers


def command(o: Repair) -> int:
    """Plan anew without failed links and nodes, and say what the failure costs."""
    output = Output.of(o)
    if o.every_failure:
        reject(
            o,
            ("links", "nodes", "algorithm", "form", "size_bytes"),
            "not supported with --every-failure; leave it out",
        )
        return harden(output, o)
    reject(o, ("failures", "threads", "cluster"), "valid only with --every-failure; leave it out")
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
                **keywords(o, Balance, TimeLimit),
            )
            if o.output is not None:
                Context(progress).announce("writing")
                save_plan(o.output, result.new)
    except planning.RejectedError as error:
        warn(str(error))
        return FAILED
    output.show(repair_rows(result, output.rates, path=o.output))
    return late(STOPGAP) if result.solved.is_late else 0


INDEX = "failures.json"
"""The file that says which plan is for which failure."""


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
                **keywords(o, Balance, TimeLimit),
            )
            for row, path in _written(rows, o.output):
                summaries.append(hardened_values(row, None if path is None else path.name))
                cells.append(hardened_cells(row, "" if path is None else path.name, output.rates))
                unserved += row.result is None
        except planning.RejectedError as error:
            warn(str(error))
            return FAILED
    if o.output is not None:
        text = json_text.dumps({"topology": old.topology.name, "failures": summaries}, indent=1)
        write_bytes(o.output / INDEX, text.encode())
    output.show(hardened_rows(old, summaries, cells, o.output))
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
