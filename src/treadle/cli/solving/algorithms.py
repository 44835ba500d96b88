"""``treadle algorithms``."""

from __future__ import annotations

from treadle import planning
from treadle.cli.output import JsonOption, Output, QuietOption, warn
from treadle.planning.solving.schedulers import schedulers_summary


def command(json: JsonOption = False, quiet: QuietOption = False) -> int:
    """List all schedulers, those of plug-ins too: form, collectives, needs, options, source."""
    output = Output(json, quiet)
    for fault in planning.plug_in_faults():
        warn(fault)
    values = schedulers_summary()
    for one in values["schedulers"]:
        output.line(f"{one['name']} ({one['form']})")
        for heading, key in (("serves", "collectives"), ("needs", "needs"), ("options", "flags")):
            if one[key]:
                output.line(f"  {heading:8}{', '.join(one[key])}")
        if one["comparing"] != "always":
            output.line(f"  compared {one['comparing']}")
        for heading in ("source", "origin"):
            if one[heading]:
                output.line(f"  {heading:8}{one[heading]}")
    output.result(values)
    return 0
