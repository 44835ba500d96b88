"""``treadle compare``."""

from __future__ import annotations

from pathlib import Path

from treadle import planning
from treadle.atomic import write_bytes
from treadle.cli.output import Output, ProgressLine, late, warn
from treadle.cli.solving.bound import cut_off
from treadle.cli.status import FAILED
from treadle.errors import FormatError
from treadle.options.rows import keywords
from treadle.options.shared import Balance, Costs, Problem, Seed, TimeLimit, Workers
from treadle.options.solving import Compare
from treadle.planning import parse_sizes
from treadle.render.comparing import compare_rows
from treadle.workers import workers


def command(o: Compare) -> int:
    """Show schedulers side by side, each schedule verified, beside the optimum."""
    output = Output.of(o)
    if o.cost_model is not None and o.size is None:
        raise FormatError("--cost-model: valid only for times at sizes; give --size too")
    if o.picture is not None:
        if o.size is None or len(parse_sizes(o.size)) < 2:
            raise FormatError("--picture: of times by size; expected --size A..B beside it")
        planning.check_plot_name(o.picture)
    try:
        with ProgressLine(quiet=output.is_silent) as progress, workers(**keywords(o, Workers)):
            result = planning.compare(
                o.topology,
                o.collective,
                algorithms=o.algorithms,
                beside=[Path(name) for name in o.beside or ()],
                sizes=[] if o.size is None else parse_sizes(o.size),
                progress=progress,
                **keywords(o, Costs, Balance, Seed, TimeLimit, Problem),
            )
    except planning.CutOffGroupError as error:
        return cut_off(output, error, o, schedules=[])
    except planning.TimeLimitError:
        return late("the optimum of the groups is not known; allow more time (--time-limit)")
    for fault in planning.plug_in_faults():
        warn(fault)
    if o.picture is not None:
        title = f"{result.topology.name}, {result.collective.kind}"
        kind = o.picture.suffix[1:].lower()
        write_bytes(o.picture, planning.plot_comparison(result, title=title, file_format=kind))
    rows = compare_rows(
        result, output.rates, mesh=o.mesh, axes=o.axes, picture=o.picture, shows_all=o.shows_all
    )
    output.show(rows)
    if any(row.report is not None and not row.report.is_ok for row in result.rows):
        return FAILED
    unfinished = ", ".join(row.algorithm for row in result.rows if row.is_late)
    return late(f"without a schedule: {unfinished}") if unfinished else 0
