"""The rows of scale.py as tables of its record."""

from __future__ import annotations

from collections.abc import Sequence

from tools.records import Table

Row = dict[str, object]

TITLES = {
    "published": "1024 GPUs, next to the authors' ForestColl",
    "large": "Up to 65,536 GPUs: tight cuts",
    "damaged": "65,536 GPUs, 100 failures",
    "repair": "Repair",
    "generic": "Any fabric of 1024 and 4096 nodes: the default path",
}


def tables(rows: Sequence[Row]) -> list[Table]:
    """The tables that have rows."""
    found = []
    for name, title in TITLES.items():
        chosen = [row for row in rows if row["table"] == name]
        if chosen:
            columns = _COLUMNS[name]
            found.append(
                Table(title, [head for head, _, _ in columns], [_cells(columns, row) for row in chosen])
            )
    return found


def _cells(columns: Sequence[tuple[str, str, str]], row: Row) -> list[str]:
    """Text of a row; the reason why nothing was made fills the last column."""
    cells = [_cell(row.get(key), form) for _, key, form in columns]
    if not row.get("height_is_exact", True):
        place = [key for _, key, _ in columns].index("height")
        cells[place] = f"<= {cells[place]}"
    if not row.get("verified", True):
        cells[-1] = "NOT VERIFIED"
    if "refusal" in row:
        cells[-1] = str(row["refusal"])
    return cells


def _cell(value: object, form: str) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "NO"
    return format(value, form)


_MADE = ("made by", "packer", "")
_PUBLISHED_COLUMNS = (
    ("fabric", "name", ""),
    ("GPUs", "ranks", ",d"),
    ("optimal", "optimal", ""),
    ("k", "k", "d"),
    ("height", "height", "d"),
    ("CPU s", "cpu_s", ".3f"),
    ("verify s", "verify_s", ".3f"),
    ("MB", "peak_mb", ".0f"),
    ("authors", "published", ""),
)
_LARGE_COLUMNS = (
    ("fabric", "name", ""),
    ("GPUs", "ranks", ",d"),
    ("optimal", "optimal", ""),
    ("k", "k", "d"),
    ("trees", "distinct_trees", "d"),
    ("height", "height", "d"),
    ("CPU s", "cpu_s", ".3f"),
    ("verify s", "verify_s", ".2f"),
    ("MB", "peak_mb", ".0f"),
    _MADE,
)
_DAMAGED_COLUMNS = (_LARGE_COLUMNS[0], ("failed", "published", ""), *_LARGE_COLUMNS[1:])
_GENERIC_COLUMNS = (
    ("fabric", "name", ""),
    ("nodes", "ranks", ",d"),
    ("optimal", "optimal", ""),
    ("k", "k", "d"),
    ("height", "height", "d"),
    ("bound", "height_bound", "d"),
    ("CPU s", "cpu_s", ".2f"),
    ("verify s", "verify_s", ".2f"),
    ("MB", "peak_mb", ".0f"),
    _MADE,
)
_REPAIR_COLUMNS = (
    ("fabric", "name", ""),
    ("GPUs", "ranks", ",d"),
    ("failed", "published", ""),
    ("optimal", "optimal", ""),
    ("loss", "loss", ".2%"),
    ("kinds", "kinds", ""),
    ("k", "k", "d"),
    ("height", "height", "d"),
    ("CPU s", "cpu_s", ".3f"),
    ("verify s", "verify_s", ".2f"),
    ("MB", "peak_mb", ".0f"),
    _MADE,
)
_COLUMNS = {
    "published": _PUBLISHED_COLUMNS,
    "large": _LARGE_COLUMNS,
    "damaged": _DAMAGED_COLUMNS,
    "repair": _REPAIR_COLUMNS,
    "generic": _GENERIC_COLUMNS,
}
