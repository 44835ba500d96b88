"""How values show themselves in notebooks and under rich: key figures, the first rows, a picture.

Only values of a few kinds have a picture; what draws it lies far above most of them and is loaded when a
notebook asks, as `treadle` loads its functions.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from html import escape
from importlib import import_module
from typing import Any, TypeVar

MOST_BYTES = 20_000
"""Of the HTML of a value."""
_MOST_ROWS, _MOST_COLUMNS, _MOST_CELL = 12, 10, 60
_PICTURES = "treadle.drawing.notebook_drawing:draw_inline"
_Value = TypeVar("_Value", bound=type)


def displayed(figures: Callable[[Any], Sequence[str]]) -> Callable[[_Value], _Value]:
    """Decorator of a class: notebooks show its values as HTML, rich as lines.

    Parameters
    ----------
    figures : callable
        Of a value its key figures, each in words.
    """

    def decorate(kind: _Value) -> _Value:
        def _repr_html_(self: Any) -> str:
            return _html(self, figures(self))

        def __rich__(self: Any) -> str:  # noqa: N807  (it becomes the class's)
            words = (word.replace("[", r"\[") for word in figures(self))
            return "\n  ".join([f"[bold]{type(self).__name__}[/bold]", *words])

        type.__setattr__(kind, "_repr_html_", _repr_html_)
        type.__setattr__(kind, "__rich__", __rich__)
        return kind

    return decorate


def own_repr(value: object) -> list[str]:
    """Key figures of a value whose repr says them: ``<Name words>`` or ``<Name: words>``."""
    return [repr(value).strip("<>").removeprefix(type(value).__name__).lstrip(": ")]


def own_fields(value: Any) -> list[str]:
    """Fields of a dataclass that has few and short ones, as they are given: ``seed=3``."""
    given = ((field.name, getattr(value, field.name)) for field in fields(value))
    return [f"{name}={_cell(one)}" for name, one in given if one is not None]


def _html(value: Any, figures: Sequence[str]) -> str:
    words = ", ".join(escape(word) for word in figures)
    parts = [f"<p><b>{escape(type(value).__name__)}</b> {words}</p>"]
    if callable(records := getattr(value, "records", None)) and (rows := records()):
        parts.append(_table(rows))
    parts.append(image_of(drawn(value), sum(len(part.encode()) for part in parts)))
    return f"<div>{''.join(parts)}</div>"


def drawn(value: Any) -> bytes:
    """SVG of what a value draws; empty for most."""
    return bytes(loaded(_PICTURES)(value))


def loaded(path: str) -> Any:
    """The function that ``module:function`` names."""
    module, _, function = path.partition(":")
    return getattr(import_module(module), function)


def image_of(picture: bytes, used: int) -> str:
    """SVG as an image, so that its style stays its own."""
    data = b64encode(picture).decode()
    if used + len(data) > MOST_BYTES - 200:
        return "<p>The picture is too large for a notebook: treadle.draw writes it.</p>"
    return f'<img alt="" src="data:image/svg+xml;base64,{data}"/>' if picture else ""


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The first rows and columns."""
    columns = list(rows[0])[:_MOST_COLUMNS]
    lines = ["".join(f"<th>{escape(column)}</th>" for column in columns)]
    lines += ["".join(f"<td>{escape(_cell(row[one]))}</td>" for one in columns) for row in rows[:_MOST_ROWS]]
    left_out = [f"{len(rows) - _MOST_ROWS} more rows"] if len(rows) > _MOST_ROWS else []
    left_out += [f"{len(rows[0]) - _MOST_COLUMNS} more columns"] if len(rows[0]) > _MOST_COLUMNS else []
    more = f"<p>{', '.join(left_out)}: .records() has all</p>" if left_out else ""
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>{more}"


def _cell(value: Any) -> str:
    text = "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _MOST_CELL else f"{text[:_MOST_CELL]}..."
