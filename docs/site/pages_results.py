"""Pages of results: measured tables from docs/records, and the papers' tables with their commands."""

from __future__ import annotations

import sys
from pathlib import Path

from treadle.reproduction.paper_figures import EXHIBITS

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks import gallery  # noqa: E402
from tools.records import RECORDS, Table, page  # noqa: E402

_REPRODUCE = """# The papers' tables and figures

`treadle reproduce NAME` computes and prints an item, `--full` leaves nothing out.
[All of them](reproduced.md) are in a record that `python -m benchmarks.reproduce_page` makes.

- *computed*: exact, certified from both sides, or CPU time of one thread of a shared 2-core virtual machine;
- *simulated*: by the model that is named, where the papers measured on machines that are not here;
- *fitted*: by constants of measured rows, next to such rows and limits of the errors;
- *no figures*: an illustration, a notation, a comparison in words.
"""


def result_pages() -> dict[str, str]:
    """Text by name: a page for each record, the list of exhibits, and their record."""
    records = (path.stem for path in RECORDS.glob("*.json") if not path.name.endswith(".data.json"))
    return {
        **{name: page(name) for name in sorted(records)},
        "gallery": gallery.page(),
        "reproduce": "\n".join((_REPRODUCE, *_exhibits().lines())),
        "reproduced": (ROOT / "tests" / "golden" / "reproduced.md").read_text(encoding="utf-8"),
    }


def _exhibits() -> Table:
    rows = []
    for one in EXHIBITS:
        cost = f"{one.quick_s:g}" + (f", full {one.full_s:g}" if one.full_s else "") if one.is_here else ""
        rows.append((f"`{one.name}`", one.what, one.basis, cost, one.reason))
    return Table("All of them", ("name", "what", "Treadle", "CPU s", "why not, or where"), rows)
