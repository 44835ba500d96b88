"""``treadle reproduce``."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from treadle.cli.output import Output
from treadle.options.measuring import Reproduce
from treadle.reproduction.exhibit import Exhibit
from treadle.reproduction.exhibits import EXHIBITS
from treadle.reproduction.printed import rounded
from treadle.reproduction.reproduce import (
    Reproduced,
    ReproducedRow,
    exhibit_summary,
    reproduce,
)


def command(o: Reproduce) -> int:
    """Compute a table or figure of the papers anew and set it beside what is printed."""
    output = Output.of(o)
    if o.name is None:
        _list(output)
        return 0
    found = reproduce(o.name, full=o.full)
    _report(output, found)
    output.result(found.to_json())
    return 0


def _list(output: Output) -> None:
    rows = [[one.name, one.basis.value, _cost(one), _line(one)] for one in EXHIBITS]
    output.table(["name", "ours", "CPU s", "what"], rows, left=4)
    output.result({"exhibits": [exhibit_summary(one) for one in EXHIBITS]})


def _cost(exhibit: Exhibit) -> str:
    if not exhibit.is_here:
        return ""
    return f"{exhibit.quick_s:g}" + (f", --full {exhibit.full_s:g}" if exhibit.full_s else "")


def _line(exhibit: Exhibit) -> str:
    """What it is, by which model, or why it is not here."""
    if not exhibit.is_here:
        return f"{exhibit.what}: {exhibit.reason}"
    return f"{exhibit.what}: {exhibit.model.partition(' (')[0]}" if exhibit.model else exhibit.what


def _report(output: Output, found: Reproduced) -> None:
    exhibit = found.exhibit
    output.line(f"{exhibit.name}: {exhibit.what} ({exhibit.basis.value})")
    output.line(f"printed in: {found.printed.citation}")
    if exhibit.model:
        output.line(f"ours: {exhibit.model}")
    headings = ["", "unit", "ours", "printed", "ours / printed"]
    output.table(headings, [_cells(row) for row in found.rows], left=2)
    for why, rows in _reasons(found.rows).items():
        output.line(f"{_labels(rows)}: {why}")
    for remark in found.printed.remarks:
        output.line(remark)
    if not found.is_full:
        output.line(f"left out: {exhibit.left_out} (--full, about {exhibit.full_s:g} CPU s)")
    if exhibit.command:
        output.line(f"see also: {exhibit.command}")
    output.line(f"computed in {found.seconds:.1f} CPU s")


def _cells(row: ReproducedRow) -> list[str]:
    printed = "" if row.printed is None else row.printed.text
    return [row.ours.label, row.ours.unit, _number(row.ours.value), printed, row.difference]


def _number(value: Fraction | float | str | None) -> str:
    if value is None or isinstance(value, str):
        return value or "-"
    return rounded(value)


def _reasons(rows: Iterable[ReproducedRow]) -> dict[str, list[ReproducedRow]]:
    """What there is to say, with the rows that it is said of."""
    found: dict[str, list[ReproducedRow]] = {}
    for row in rows:
        if row.why:
            found.setdefault(row.why, []).append(row)
    return found


def _labels(rows: list[ReproducedRow]) -> str:
    """Two of them by name, the others by their number."""
    names = [row.ours.label for row in rows]
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    return "; ".join(names[:2]) + more
