"""Results show themselves by the rows of their view, which lies above them."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any, TypeVar

from treadle.notebook import drawn, image_of, loaded

_Value = TypeVar("_Value", bound=type)


def format_choice(view: str) -> Callable[[_Value], _Value]:
    """Decorator of a result: its repr, and what notebooks and rich show, are made from the rows of its view.

    Parameters
    ----------
    view : str
        ``module:function`` of `treadle.render`, which lies above results and is loaded when one is shown.
    """

    def decorate(kind: _Value) -> _Value:
        def rows(self: Any) -> list[Any]:
            return list(loaded(view)(self))

        def __repr__(self: Any) -> str:  # noqa: N807  (it becomes the class's)
            return str(loaded("treadle.render.rows:one_line")(type(self).__name__, rows(self)))

        def _repr_html_(self: Any) -> str:
            tables = loaded("treadle.render.rows:html_tables")(rows(self))
            text = f"<p><b>{escape(type(self).__name__)}</b></p>{tables}"
            return f"<div>{text}{image_of(drawn(self), len(text.encode()))}</div>"

        def __rich__(self: Any) -> str:  # noqa: N807  (it becomes the class's)
            text = "\n".join(loaded("treadle.render.rows:lines")(rows(self))).replace("[", r"\[")
            return f"[bold]{type(self).__name__}[/bold]\n{text}"

        type.__setattr__(kind, "__repr__", __repr__)
        type.__setattr__(kind, "_repr_html_", _repr_html_)
        type.__setattr__(kind, "__rich__", __rich__)
        return kind

    return decorate
