"""View of ``reproduce``: the papers' tables and figures next to Treadle's."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from treadle.render.rows import Rows, Table, facts, fields_of, row
from treadle.reproduction.printed import rounded

if TYPE_CHECKING:
    from collections.abc import Iterable

    from treadle.reproduction.paper_figure import PaperFigure
    from treadle.reproduction.reproduce import Reproduced, ReproducedRow

_KEYS = ("name", "source", "what", "basis", "model", "command", "quick_s", "full_s", "left_out", "reason")


def paper_figure_rows(exhibits: Iterable[PaperFigure]) -> Rows:
    """The list of tables and figures."""
    exhibits = tuple(exhibits)
    cells = [[one.name, one.basis.value, _cost(one), _line(one)] for one in exhibits]
    yield Table(["name", "Treadle", "CPU s", "what"], cells, 4)
    yield facts(exhibits=[_exhibit(one) for one in exhibits])


def _exhibit(exhibit: PaperFigure) -> dict[str, object]:
    """A record for JSON; keys that do not apply are absent."""
    values = fields_of(exhibit, *_KEYS)
    return {key: value for key, value in values.items() if value} | {"basis": exhibit.basis.value}


def _cost(exhibit: PaperFigure) -> str:
    if not exhibit.is_here:
        return ""
    return f"{exhibit.quick_s:g}" + (f", --full {exhibit.full_s:g}" if exhibit.full_s else "")


def _line(exhibit: PaperFigure) -> str:
    """Rows of its subject and model, or why it is not reproduced."""
    if not exhibit.is_here:
        return f"{exhibit.what}: {exhibit.reason}"
    return f"{exhibit.what}: {exhibit.model.partition(' (')[0]}" if exhibit.model else exhibit.what


def reproduced_rows(found: Reproduced) -> Rows:
    """One table or figure; in JSON exact values are ``p/q``."""
    exhibit = found.exhibit
    yield facts(_exhibit(exhibit))
    yield row(None, f"{exhibit.name}: {exhibit.what} ({exhibit.basis.value})")
    yield row(None, f"printed in: {found.printed.citation}", citation=found.printed.citation)
    if exhibit.model:
        yield row(None, f"Treadle: {exhibit.model}")
    yield facts(full=found.is_full, rows=[_values(one) for one in found.rows])
    cells = [
        [
            one.ours.label,
            one.ours.unit,
            (one.ours.value or "-") if isinstance(one.ours.value, str | None) else rounded(one.ours.value),
            "" if one.printed is None else one.printed.text,
            one.difference,
        ]
        for one in found.rows
    ]
    yield Table(["", "unit", "Treadle", "printed", "Treadle / printed"], cells, 2)
    for why in dict.fromkeys(one.why for one in found.rows if one.why):
        names = [one.ours.label for one in found.rows if one.why == why]
        more = f" and {len(names) - 2} more" if len(names) > 2 else ""
        yield row(None, f"{'; '.join(names[:2])}{more}: {why}")
    yield facts(remarks=list(found.printed.remarks), seconds=found.seconds)
    for remark in found.printed.remarks:
        yield row(None, remark)
    if not found.is_full:
        yield row(None, f"left out: {exhibit.left_out} (--full, about {exhibit.full_s:g} CPU s)")
    if exhibit.command:
        yield row(None, f"see also: {exhibit.command}")
    yield row(None, f"computed in {found.seconds:.1f} CPU s")


def _values(one: ReproducedRow) -> dict[str, object]:
    value, printed = one.ours.value, one.printed
    return {
        "label": one.ours.label,
        "unit": one.ours.unit,
        "ours": float(value) if isinstance(value, Fraction) else value,
        **({"ours_exact": str(value)} if isinstance(value, Fraction) else {}),
        "printed": None if printed is None else printed.text,
        "ratio": one.ratio,
        "agrees": one.agrees,
        "tolerance": None if one.agrees is None or printed is None else float(printed.tolerance),
        "erratum": printed is not None and printed.is_erratum,
        "why": one.why,
    }
