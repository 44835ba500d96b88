"""Display of values: HTML in notebooks, lines under rich, and the repr of results.

Values show their key facts, their first rows and a drawing; results show the rows of their view. What draws
and renders is far above the values and loads when one is displayed.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from html import escape
from importlib import import_module
from itertools import islice
from typing import Any, TypeVar

MOST_BYTES = 20_000
"""Largest number of bytes in the HTML of a value."""
_MOST_ROWS, _MOST_COLUMNS, _MOST_CELL = 12, 10, 60
_DRAWING = "treadle.drawing.notebook_drawing:draw_inline"
_Value = TypeVar("_Value", bound=type)


def displayed(key_facts: Callable[[Any], Sequence[str]]) -> Callable[[_Value], _Value]:
    """Decorator of a class: notebooks show its values as HTML, rich as lines.

    Parameters
    ----------
    key_facts : callable
        Function from a value to its key facts, each a string.
    """

    def html(value: Any) -> str:
        head = f"<p><b>{escape(type(value).__name__)}</b> {', '.join(map(escape, key_facts(value)))}</p>"
        rows = records() if callable(records := getattr(value, "records", None)) else ()
        return head + (_records_table(rows) if rows else "")

    def lines(value: Any) -> str:
        words = (word.replace("[", r"\[") for word in key_facts(value))
        return "\n  ".join([f"[bold]{type(value).__name__}[/bold]", *words])

    return lambda kind: _with_display(kind, html, lines)


def displayed_by(view: str) -> Callable[[_Value], _Value]:
    """Decorator of a result: its repr, and what notebooks and rich show, are made from the rows of its view.

    Parameters
    ----------
    view : str
        ``module:function`` of `treadle.render`.
    """

    def html(value: Any) -> str:
        tables = _loaded("treadle.render.rows:html_tables")(list(_loaded(view)(value)))
        return f"<p><b>{escape(type(value).__name__)}</b></p>{tables}"

    def lines(value: Any) -> str:
        text = "\n".join(_loaded("treadle.render.rows:lines")(list(_loaded(view)(value)))).replace("[", r"\[")
        return f"[bold]{type(value).__name__}[/bold]\n{text}"

    def one_line(value: Any) -> str:
        return str(_loaded("treadle.render.rows:one_line")(type(value).__name__, _loaded(view)(value)))

    def decorate(kind: _Value) -> _Value:
        type.__setattr__(kind, "__repr__", one_line)
        return _with_display(kind, html, lines)

    return decorate


def _with_display(kind: _Value, html: Callable[[Any], str], lines: Callable[[Any], str]) -> _Value:
    def _repr_html_(self: Any) -> str:
        text = html(self)
        return f"<div>{text}{_image(bytes(_loaded(_DRAWING)(self)), len(text.encode()))}</div>"

    type.__setattr__(kind, "_repr_html_", _repr_html_)
    type.__setattr__(kind, "__rich__", lines)
    return kind


def _loaded(path: str) -> Any:
    """Return the function that ``module:function`` names."""
    module, _, function = path.partition(":")
    return getattr(import_module(module), function)


def own_repr(value: object) -> list[str]:
    """Return the key facts of a value from its repr: ``<Name words>`` or ``<Name: words>``."""
    return [repr(value).strip("<>").removeprefix(type(value).__name__).lstrip(": ")]


def own_fields(value: Any) -> list[str]:
    """Return the fields of a dataclass that has few and short ones: ``seed=3``."""
    given = ((field.name, getattr(value, field.name)) for field in fields(value))
    return [f"{name}={_cell(one)}" for name, one in given if one is not None]


def _image(svg: bytes, used: int) -> str:
    """Return a drawing as an image, so that its style does not affect the notebook."""
    data = b64encode(svg).decode()
    if used + len(data) > MOST_BYTES - 200:
        return "<p>The drawing is too large for a notebook; treadle.draw writes it to a file.</p>"
    return f'<img alt="" src="data:image/svg+xml;base64,{data}"/>' if svg else ""


def _records_table(rows: Sequence[Mapping[str, Any]]) -> str:
    columns = list(rows[0])
    cells = ([_cell(row[name]) for name in columns[:_MOST_COLUMNS]] for row in rows)
    return html_table(columns[:_MOST_COLUMNS], cells, len(rows), len(columns) - _MOST_COLUMNS)


def html_table(
    headings: Iterable[str], rows: Iterable[Iterable[str]], n_rows: int, hidden_columns: int = 0
) -> str:
    """Return the first rows as an HTML table, and how many rows and columns are missing."""
    lines = ["".join(f"<th>{escape(heading)}</th>" for heading in headings)]
    lines += ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in islice(rows, _MOST_ROWS)]
    counts = ((n_rows - _MOST_ROWS, "rows"), (hidden_columns, "columns"))
    hidden = ", ".join(f"{count} more {noun}" for count, noun in counts if count > 0)
    more = f"<p>{hidden}: .records() has all</p>" if hidden else ""
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>{more}"


def _cell(value: Any) -> str:
    text = "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _MOST_CELL else f"{text[:_MOST_CELL]}..."
