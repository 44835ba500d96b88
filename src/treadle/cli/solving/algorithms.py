"""``treadle algorithms``."""

from __future__ import annotations

from treadle import planning
from treadle.cli.help import option_help
from treadle.cli.output import Output, warn
from treadle.options.solving import Algorithms, Solve
from treadle.render.comparing import schedulers_rows
from treadle.schedulers.schedulers import find_scheduler, schedulers


def command(o: Algorithms) -> int:
    """List all schedulers, plug-ins included: form, collectives, requirements, options, source."""
    for fault in planning.plug_in_faults():
        warn(fault)
    shown = schedulers() if o.name is None else [find_scheduler(o.name)]
    helps = None if o.name is None else {row.flag: option_help(row) for row in Solve.rows.values()}
    Output.of(o).show(schedulers_rows(shown, helps))
    return 0
