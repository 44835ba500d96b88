"""Checks of the arguments of public functions against annotations: a wrong type is an error of one line.

The annotations are the only description of a parameter; `checked` reads them when a function is first called.
A parameter may have a hook instead, which converts an argument (a string with a unit) to the value that the
function uses. A protocol allows every value; the function itself checks it.
"""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from difflib import get_close_matches
from enum import Enum
from fractions import Fraction
from functools import cache, wraps
from typing import Any, TypeVar

import numpy as np

from treadle.errors import TreadleError

_Function = TypeVar("_Function", bound=Callable[..., Any])
Hook = Callable[[Any, str], Any]
"""Function from an argument and the name of its parameter to the value that the function uses."""

_MOST_ELEMENTS = 1000
"""Number of elements of a sequence that are checked."""
_WORDS: Mapping[object, str] = types.MappingProxyType(
    {int: "an integer", float: "a number", bool: "True or False", str: "a text", bytes: "bytes"}
)
_SCALARS: Mapping[object, tuple[Any, Any]] = types.MappingProxyType(
    {
        bool: (bool | np.bool_, ()),
        int: (int | np.integer, bool),
        float: (int | float | Fraction | np.integer | np.floating, bool),
        str: (str, Enum),
    }
)
"""Types of the values that are accepted and rejected for an annotation."""


def checked(known_as: str = "", /, **hooks: Hook) -> Callable[[_Function], _Function]:
    """Decorator of public functions: arguments that their annotations do not allow raise TreadleError.

    So do seconds, of parameters whose names end in ``_s``, that are negative or no number.

    Parameters
    ----------
    known_as : str
        The public function that calls this one, which messages name; default the function itself.
    **hooks
        For single parameters: a converter from an argument to the function's type, which rejects the rest.
    """

    def decorate(function: _Function) -> _Function:
        signature = inspect.signature(function)
        function.__name__ = known_as or function.__name__

        @wraps(function)
        def call(*arguments: Any, **keywords: Any) -> Any:
            bound = signature.bind(*arguments, **keywords)  # TypeError, as of any function, for a wrong call
            hints = _hints(function)
            for name, value in bound.arguments.items():
                if signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
                    bound.arguments[name] = _checked_keywords(function, hints[name], value, hooks)
                else:
                    bound.arguments[name] = _checked(function, name, hints.get(name, Any), value, hooks)
            return function(*bound.args, **bound.kwargs)

        return typing.cast(_Function, call)

    return decorate


def left_alone(value: Any, place: str) -> Any:
    """Hook of a parameter that its function looks at by itself."""
    del place
    return value


def unexpected(place: str, expected: str, value: object) -> TreadleError:
    """The error for an argument of a wrong type."""
    return TreadleError(f"{place}: expected {expected}, found {_found(value)}")


_UNREAD = object()


@cache
def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Annotations by parameter; `_UNREAD` where a name is imported for type checkers only."""
    scope = vars(sys.modules[function.__module__])
    found: dict[str, Any] = {}
    for name, text in function.__annotations__.items():
        if name == "return":
            continue
        try:
            found[name] = eval(text, scope) if isinstance(text, str) else text
        except NameError:
            found[name] = _UNREAD
    return found


def _checked(
    function: Callable[..., Any], name: str, hint: Any, value: Any, hooks: Mapping[str, Hook]
) -> Any:
    place = f"{function.__name__}: {name}"
    if name in hooks:
        return hooks[name](value, place)
    if hint is not _UNREAD and not is_of(value, hint):
        raise unexpected(place, describe_type(hint), value)
    if name.endswith("_s") and isinstance(value, int | float) and not value >= 0:
        raise TreadleError(f"{place}: expected 0 or more seconds, found {value}")
    return value


def _checked_keywords(
    function: Callable[..., Any], hint: Any, values: dict[str, Any], hooks: Mapping[str, Hook]
) -> dict[str, Any]:
    """Keywords of ``**options: Unpack[...]``: their names, then their values."""
    if hint is _UNREAD:
        return values
    (table,) = typing.get_args(hint)
    types = getattr(table, "types", None)  # of `treadle.options.keywords`
    known = typing.get_type_hints(table) if types is None else types()
    for name in values:
        if name not in known:
            close = get_close_matches(name, [*known, *inspect.signature(function).parameters], n=1)
            more = f"; did you mean {close[0]}?" if close else ""
            raise TreadleError(f"{function.__name__}: unknown option {name[:40]!r}{more}")
    return {name: _checked(function, name, known[name], value, hooks) for name, value in values.items()}


def is_of(value: Any, hint: Any) -> bool:
    """Whether a value is what an annotation says, as far as can be seen without using it up."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any or hint is object or isinstance(hint, TypeVar):
        return True
    if origin in (typing.Union, types.UnionType):
        return any(is_of(value, one) for one in arguments)
    if origin is typing.Annotated:
        return is_of(value, arguments[0])
    if origin is typing.Literal:
        return value in arguments
    if hint is None or hint is type(None):
        return value is None
    if hint in _SCALARS:
        accepted, rejected = _SCALARS[hint]
        return isinstance(value, accepted) and not isinstance(value, rejected)
    if origin is not None:
        return _is_container(value, origin, arguments)
    if not isinstance(hint, type) or getattr(hint, "_is_protocol", False):
        return True
    return isinstance(value, hint)


def _is_container(value: Any, origin: Any, arguments: tuple[Any, ...]) -> bool:
    if origin is Callable or origin is type:
        return callable(value)
    if issubclass(origin, Mapping):
        rows = list(value.items())[:_MOST_ELEMENTS] if isinstance(value, Mapping) else [()]
        return all(len(row) == 2 and all(map(is_of, row, arguments)) for row in rows)
    if origin is tuple and arguments[-1:] != (Ellipsis,):
        fits = isinstance(value, tuple) and len(value) == len(arguments)
        return fits and all(map(is_of, value, arguments))
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        return False
    if not isinstance(value, Sequence | AbstractSet | np.ndarray):
        return origin is Iterable  # an iterator's elements are seen once only
    return all(is_of(one, arguments[0]) for one in list(value)[:_MOST_ELEMENTS])


def describe_type(hint: Any) -> str:
    """Describe the values that an annotation allows."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        words = [describe_type(one) for one in arguments if one is not type(None)]
        return ", ".join(words[:-1]) + " or " * (len(words) > 1) + words[-1]
    if hint in _WORDS:
        return _WORDS[hint]
    if hint is None or hint is type(None):
        return "None"
    if origin is typing.Literal:
        return " or ".join(map(repr, arguments))
    if origin is Callable or hint is Callable:
        return "a function"
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        return "a mapping"
    if origin is not None:
        inner = describe_type(arguments[0]) if arguments else "values"
        return f"a sequence, of each {inner}"
    name = getattr(hint, "__name__", str(hint))
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"


def _found(value: object) -> str:
    """A value as messages show it: short, on one line, with its type."""
    if value is None or isinstance(value, bool):
        return str(value)
    if isinstance(value, int | float | str | bytes):
        text = repr(value[:50] if isinstance(value, str | bytes) else value)
        return f"{text if len(text) <= 50 else text[:50] + '...'} of type {type(value).__name__}"
    name = type(value).__name__
    return f"{'an' if name[:1] in 'aeiouAEIOU' else 'a'} {name}"
