"""The table of schedulers in docs/algorithms.md, written from the records.

``python -m tools.scheduler_table`` writes it anew; a test compares.
"""

from __future__ import annotations

from pathlib import Path

from treadle.schedulers.schedulers import schedulers
from treadle.schedules.collective import SPANNING_KINDS
from treadle.synthesis.scheduler import Comparing, Scheduler
from treadle.synthesis.scheduler_options import COMMON_OPTIONS, flag_of

PAGE = Path(__file__).parents[1] / "docs" / "algorithms.md"
BEGIN, END = "<!-- schedulers: written by tools/scheduler_table.py -->\n", "<!-- end of schedulers -->\n"


def table() -> str:
    """The lines of the table."""
    lines = ["| `--algorithm` | form | serves | needs | options | source |", "|---|---|---|---|---|---|"]
    for one in schedulers(plug_ins=False):
        serves = "all but alltoall" if one.collectives == SPANNING_KINDS else ", ".join(one.collectives)
        serves += "; several groups at once" if one.in_groups else ""
        cells = (_name(one), one.form, serves, ", ".join(one.format_requirements), _options(one), one.source)
        lines.append(f"| {' | '.join(cell or '-' for cell in cells)} |")
    return "\n".join(lines) + "\n"


def _name(one: Scheduler) -> str:
    """The name, whether it is a peer's, and when `compare` leaves it out."""
    said = ["peer"] if one.is_peer else []
    said += [] if one.comparing is Comparing.ALWAYS else [str(one.comparing)]
    return f"`{one.name}`" + (f" ({', '.join(said)})" if said else "")


def _options(one: Scheduler) -> str:
    """What it heeds besides what its form does."""
    own = [option for option in one.options if option not in COMMON_OPTIONS[one.form]]
    return ", ".join(f"`{flag_of(option)}`" for option in own)


def with_table(page: str) -> str:
    """The page with the table between its marks."""
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}{table()}{END}{tail}"


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
