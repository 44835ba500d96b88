"""The page of schedulers, from their records."""

from __future__ import annotations

from treadle.schedulers.schedulers import schedulers
from treadle.schedules.collective import SPANNING_KINDS
from treadle.synthesis.scheduler import Comparing, Scheduler
from treadle.synthesis.scheduler_options import COMMON_OPTIONS, flag_of

_OPENING = """# Algorithms

What `solve --algorithm` takes and `compare` runs; `treadle algorithms` lists those of plug-ins too.
In brackets: third-party is another project's algorithm; the rest says when `compare` runs it unasked. Besides
the options listed, `--multicast` is for all trees and steps, `--layers`, `--max-routes`, `--max-hops` and
`--max-flows` for all routes.

| `--algorithm` | form | collectives | needs | options | source |
|---|---|---|---|---|---|
"""


def algorithms_page() -> str:
    """A row for each scheduler."""
    return _OPENING + "".join(f"{_row(one)}\n" for one in schedulers(plug_ins=False))


def _row(one: Scheduler) -> str:
    collectives = "all but alltoall" if one.collectives == SPANNING_KINDS else ", ".join(one.collectives)
    collectives += "; several groups" if one.in_groups else ""
    words = ["third-party"] * one.is_peer + [str(one.comparing)] * (one.comparing is not Comparing.ALWAYS)
    name = f"`{one.name}`" + (f" ({', '.join(words)})" if words else "")
    own = ", ".join(f"`{flag_of(key)}`" for key in one.options if key not in COMMON_OPTIONS[one.form])
    cells = name, one.form, collectives, ", ".join(one.format_requirements), own, one.source
    return f"| {' | '.join(cell or '-' for cell in cells)} |"
