"""``treadle algorithms``."""

from __future__ import annotations

from typing import Any

from treadle import planning
from treadle.cli.help import option_help
from treadle.cli.output import Output, warn
from treadle.options.solving import Algorithms, Solve
from treadle.schedulers.schedulers import find_scheduler, schedulers_summary


def command(o: Algorithms) -> int:
    """List all schedulers, those of plug-ins too: form, collectives, needs, options, source."""
    output = Output.of(o)
    for fault in planning.plug_in_faults():
        warn(fault)
    values = schedulers_summary()
    if o.name is not None:
        meant = find_scheduler(o.name).name
        values = {"schedulers": [one for one in values["schedulers"] if one["name"] == meant]}
    for one in values["schedulers"]:
        _tell(output, one, in_full=o.name is not None)
    output.result(values)
    return 0


def _tell(output: Output, one: dict[str, Any], *, in_full: bool) -> None:
    output.line(f"{one['name']} ({one['form']}{', peer' if one['peer'] else ''})")
    for heading, key in (("serves", "collectives"), ("needs", "needs")):
        if one[key]:
            output.line(f"  {heading:8}{', '.join(one[key])}")
    if one["groups"]:
        output.line("  groups  several at once, too")
    if one["flags"] and not in_full:
        output.line(f"  options {', '.join(one['flags'])}")
    if one["comparing"] != "always":
        output.line(f"  compared {one['comparing']}")
    for heading in ("source", "origin"):
        if one[heading]:
            output.line(f"  {heading:8}{one[heading]}")
    if one["flags"] and in_full:
        helps = {row.flag: option_help(row) for row in Solve.rows.values()}
        output.line("options of solve that it heeds")
        for flag in one["flags"]:
            output.line(f"  {helps.get(flag, flag)}")
