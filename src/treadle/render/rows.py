"""A result as rows: what people read and what JSON holds, said once.

A view of a result is a sequence of rows, each with a label, a string for people and keys for JSON. Terminal
text, ``--json``, repr and the HTML of notebooks are made from the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, partial
from html import escape
from typing import Any, TypeVar

from treadle.notebook import html_table
from treadle.render.table import Table as Table
from treadle.render.table import wrapped

WIDTH = 96
"""Longest line; a narrower terminal gets shorter ones."""
_LABEL, _GAP = 11, 2
_LONGEST_REPR = 200


@dataclass(frozen=True)
class Row:
    """One fact.

    Parameters
    ----------
    label : str or None
        A noun; "" continues the row above; None prints the string without a column for labels.
    text : str or None
        None: only for JSON.
    facts : mapping
        Keys and values of JSON.
    is_key : bool
        Whether a repr of one line has it.
    """

    label: str | None
    text: str | None
    facts: Mapping[str, object] = field(default_factory=dict)
    is_key: bool = False


class Later(Mapping[str, object]):
    """Facts that are made when they are read: lists of links of large fabrics, if only text is wanted."""

    def __init__(self, make: Callable[..., Mapping[str, object]], *arguments: object) -> None:
        self._make = partial(make, *arguments)

    @cached_property
    def _found(self) -> Mapping[str, object]:
        return self._make()

    def __getitem__(self, key: str) -> object:
        return self._found[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


View = Iterable[Row | Table]
"""Rows and tables in the order in which they are read."""
Rows = Iterator[Row | Table]
Item = TypeVar("Item")
Column = tuple[str, Callable[[Item], object]]
"""Heading of a column, and its cell for an item; None is shown as ``-``."""


def given(**values: Any) -> dict[str, object]:
    """The keywords that are not None."""
    return {name: value for name, value in values.items() if value is not None}


def fields_of(value: object, *names: str) -> dict[str, object]:
    """Attributes of a value by their names, for JSON keys of the same names."""
    return {name: getattr(value, name) for name in names}


def row(label: str | None, text: str | None = None, *, key: bool = False, **facts: Any) -> Row:
    """A row whose facts are those that are not None."""
    return Row(label, text, given(**facts), key)


def labelled(label: str, texts: Iterable[object]) -> Iterator[Row]:
    """A row with this label for each string."""
    return (row(label, str(text)) for text in texts)


def file_row(label: str, path: object, name: str, *, more: str = "") -> Row:
    """The row of a file that was written, with its path under the JSON key `name`; without a path no row."""
    if path is None:
        return facts()
    return Row(label, f"{path}{more}", {name: str(path)})


def table_of(
    items: Iterable[Item], columns: Sequence[Column[Item]], left: int = 1, least: Sequence[str] = ()
) -> Table:
    """The table with a row for each item; for `left` and `least` see `Table`."""
    cells = [["-" if (cell := of(one)) is None else str(cell) for _, of in columns] for one in items]
    return Table([heading for heading, _ in columns], cells, left, least)


def framed(table: Table) -> Iterator[Row | Table]:
    """A table between two empty lines."""
    yield from (row(None, ""), table, row(None, ""))


def facts(*groups: Mapping[str, object], **more: Any) -> Row:
    """A row only for JSON; of the keywords those that are not None."""
    found: dict[str, object] = {}
    for group in groups:
        found |= group
    return Row(None, None, found | given(**more))


def rate_values(key: str, value: Fraction | None) -> dict[str, object]:
    """A throughput under two keys that begin with `key`; nothing for None."""
    if value is None:
        return {}
    return {f"{key}_bytes_per_s": float(value), f"{key}_exact": f"{value.numerator}/{value.denominator}"}


def values(view: View) -> dict[str, object]:
    """The JSON object of a view."""
    found: dict[str, object] = {}
    for one in view:
        if isinstance(one, Row):
            found |= one.facts
    return found


def lines(view: Sequence[Row | Table], width: int = WIDTH) -> list[str]:
    """Format a view: labels in a column, long strings continued next to it.

    Parameters
    ----------
    view : sequence
    width : int
        Cells of a line.
    """
    labels = [len(one.label) for one in view if isinstance(one, Row) and one.label and one.text is not None]
    indent = max([_LABEL, *labels]) + _GAP
    found: list[str] = []
    for one in view:
        if isinstance(one, Table):
            found += one.lines(width)
        elif one.text is not None:
            for number, part in enumerate(one.text.split("\n")):
                label = "" if one.label is None else f"{'' if number else one.label:<{indent}}"
                found += wrapped(f"{label}{part}".rstrip(), width, indent=indent if label else None)
    return found


def one_line(name: str, view: View) -> str:
    """The repr of a result: its name and its key rows."""
    texts = [one.text for one in view if isinstance(one, Row) and one.is_key and one.text]
    line = f"<{name} {'; '.join(texts)}>"
    return line if len(line) <= _LONGEST_REPR else f"{line[: _LONGEST_REPR - 4]}...>"


def html_tables(view: View) -> str:
    """A view as HTML: a table of its labelled rows, and its tables."""
    cells, tables = [], []
    for one in view:
        if isinstance(one, Row):
            text = "<br/>".join(map(escape, (one.text or "").split("\n")))
            cells += [f"<tr><th>{escape(one.label)}</th><td>{text}</td></tr>"] if one.label and text else []
        else:
            tables.append(html_table(one.headings, one.rows, len(one.rows)))
    return f"<table>{''.join(cells)}</table>{''.join(tables)}"
