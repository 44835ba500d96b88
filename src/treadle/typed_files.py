"""Treadle's own JSON and TOML files as typed tables; an error names its place and what belongs there."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import msgspec

from treadle.errors import FormatError
from treadle.input_files import parse_json

T = TypeVar("T")
Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
"""An integer from 0 on, of 64 bits."""

_MAX_LINE = 1000
"""Characters of a line of TOML; a dotted key costs memory by the square of its parts."""
_HALF = re.compile("[\ud800-\udfff]")
_ERROR = re.compile(r"(.*?)(?: - at `(?:key in )?\$(.*)`)?", re.DOTALL)
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]|\[\.\.\.\]")
_EXPECTED = re.compile(r"Expected `([^`]*)`(.*?)(?:, got .*)?")
_NAMED = re.compile(r"Object (contains unknown|missing required) field `(.*)`", re.DOTALL)
_WORDS = {
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
}
_BOUNDS = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than"}


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An object of JSON or a table of TOML, whose keys are its fields and no others."""


def read_json(text: str, kind: type[T], *, source: str = "") -> T:
    """A JSON text as a value of a type.

    Raises
    ------
    FormatError
        As `parse_json` and `read_value`.
    """
    try:
        value = msgspec.json.decode(text, type=kind)
        # a key that is repeated is lost, and with it two quotes of what is written again
        if "\\" not in text and text.count('"') == msgspec.json.encode(value).count(b'"'):
            return value
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        pass  # read again more slowly, with all that is known of the place
    parsed = parse_json(text, source=source)
    if _HALF.search(json.dumps(parsed, ensure_ascii=False)):
        raise FormatError("a lone surrogate is not text", source=source)
    return read_value(parsed, kind, source=source)


def read_toml(text: str, kind: type[T], *, source: str = "") -> T:
    """A TOML text as a value of a type.

    Raises
    ------
    FormatError
        If a line is very long, the text is not TOML, or `read_value` rejects it.
    """
    for number, line in enumerate(text.splitlines(), start=1):
        if len(line) > _MAX_LINE:
            raise FormatError(f"line {number} is longer than {_MAX_LINE} characters", source=source)
    try:
        value = tomllib.loads(text)
    except RecursionError:
        raise FormatError("not TOML that can be read: nested too deeply", source=source) from None
    except ValueError as error:  # TOMLDecodeError is one; integers of very many digits are another
        raise FormatError(f"not TOML: {error}", source=source) from None
    return read_value(value, kind, source=source, words=_WORDS | {"object": "a table"})


def read_value(value: object, kind: type[T], *, source: str = "", words: Mapping[str, str] = _WORDS) -> T:
    """A parsed value as one of a type.

    Raises
    ------
    FormatError
        With the place, such as ``links[3].head``, for a key that is unknown or missing and for a value of
        another type or out of range.
    """
    try:
        return msgspec.convert(value, kind)
    except UnicodeEncodeError:
        raise FormatError("a lone surrogate is not text", source=source) from None
    except msgspec.ValidationError as error:
        place, message = _explain(value, kind, str(error), words)
        place = place.removeprefix(".") or ("" if source else "file")
        raise FormatError(f"{place}: {message}" if place else message, source=source) from None


def _explain(value: Any, kind: Any, error: str, words: Mapping[str, str]) -> tuple[str, str]:
    """The place of an error of msgspec, and what is wrong there."""
    what, path = _ERROR.fullmatch(error).groups()  # type: ignore[union-attr]
    place = ""
    for step in _STEP.finditer(path or ""):
        name, index = step.groups()
        if name is not None:
            kind, value = _fields(kind)[name], value[name]
        elif index is not None:
            kind, value = _items(kind)[: int(index) + 1][-1], value[int(index)]
        else:  # msgspec does not name the key
            kind = _items(kind)[1]
            for key, item in value.items():
                try:
                    msgspec.convert(item, kind)
                except msgspec.ValidationError as inner:
                    further, message = _explain(item, kind, str(inner), words)
                    return f"{place}[{format_value(key)}]{further}", message
        place += step[0]
    message = _message(value, kind, what, words)
    field, colon, rest = message.partition(": ")
    return (f"{place}.{field}", rest) if colon and field in _fields(kind) else (place, message)


def _kinds(kind: Any) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """The types of a union, each with its annotations."""
    if get_origin(kind) is Annotated:
        yield from ((one, (*metas, *get_args(kind)[1:])) for one, metas in _kinds(get_args(kind)[0]))
    elif get_origin(kind) in (Union, UnionType):
        yield from (found for part in get_args(kind) for found in _kinds(part))
    else:
        yield kind, ()


def _fields(kind: Any) -> dict[str, Any]:
    """The types of a table's fields by key; none for any other type."""
    tables = [one for one, _ in _kinds(kind) if isinstance(one, type) and issubclass(one, msgspec.Struct)]
    return {field.encode_name: field.type for one in tables for field in msgspec.structs.fields(one)}


def _items(kind: Any) -> list[Any]:
    """The types of the items of a list, or of the keys and values of a mapping."""
    items = [get_args(one) for one, _ in _kinds(kind) if get_origin(one) in (list, tuple, dict, frozenset)]
    return [item for item in items[0] if item is not Ellipsis]


def _message(value: Any, kind: Any, what: str, words: Mapping[str, str]) -> str:
    if (named := _NAMED.fullmatch(what)) is not None:
        if named[1].startswith("missing"):
            return f"key {named[2]!r} is missing"
        return f"unknown key {format_value(named[2])}; known are {', '.join(sorted(_fields(kind)))}"
    metas = [meta for _, found in _kinds(kind) for meta in found]
    found = f"found {format_value(value)}"
    for meta in metas:
        if meta.description is not None:
            return f"expected {meta.description}, {found}"
    if what.startswith("Invalid enum value"):
        choices = [
            get_args(one) or [word.value for word in one]
            for one, _ in _kinds(kind)
            if one not in (NoneType, msgspec.UnsetType)
        ]
        *others, last = map(format_value, choices[0])
        return f"expected {', '.join(others)}{' or ' if others else ''}{last}, {found}"
    if (expected := _EXPECTED.fullmatch(what)) is None:
        return what if what != "Number out of range" else f"number out of range, {found}"
    for meta in metas:
        if expected[2] and meta.ge is not None and meta.le is not None:
            return f"expected {meta.ge} to {meta.le}, {found}"
    kinds = " or ".join(words.get(word, word) for word in expected[1].split(" | ") if word != "null")
    bound = re.sub("[<>]=?", lambda sign: _BOUNDS[sign[0]], expected[2])
    return f"expected {kinds}{bound}, {f'found {len(value)}' if 'length' in bound else found}"


def format_value(value: object) -> str:
    """A value as messages show it: its beginning, or its kind where it has parts."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else f"{text[:60]}..."
