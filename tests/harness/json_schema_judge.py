"""A judge of JSON Schema (draft 2020-12) for the keywords that Treadle's schemas use; others are refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_TYPES: Mapping[str, Any] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}
_KNOWN = {"$schema", "$defs", "$ref", "title", "description", "type", "const", "pattern", "anyOf", "items"}
_KNOWN |= {"properties", "required", "additionalProperties"}


def faults(value: object, schema: Mapping[str, Any], whole: Mapping[str, Any], place: str = "$") -> list[str]:
    """Where a value is not as its schema says; empty if it is.

    Parameters
    ----------
    value : object
        As `json.loads` returns it.
    schema, whole : mapping
        The schema, and the one in which its references are found.
    place : str
        For messages.
    """
    unknown = set(schema) - _KNOWN
    assert not unknown, f"keywords that are not judged: {unknown}"
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/$defs/")
        return faults(value, whole["$defs"][name], whole, place)
    if "anyOf" in schema:
        tried = [faults(value, one, whole, place) for one in schema["anyOf"]]
        return [] if any(not found for found in tried) else [f"{place}: none of the alternatives fits"]
    if "const" in schema and value != schema["const"]:
        return [f"{place}: {value!r} is not {schema['const']!r}"]
    if "type" in schema and not _TYPES[schema["type"]](value):
        return [f"{place}: {value!r:.60} is no {schema['type']}"]
    found = []
    if "pattern" in schema and isinstance(value, str) and not re.search(schema["pattern"], value):
        found.append(f"{place}: {value!r:.60} does not match {schema['pattern']}")
    if "items" in schema and isinstance(value, list):
        for number, one in enumerate(value):
            found += faults(one, schema["items"], whole, f"{place}[{number}]")
    if isinstance(value, dict):
        found += _of_object(value, schema, whole, place)
    return found


def _of_object(
    value: Mapping[str, object], schema: Mapping[str, Any], whole: Mapping[str, Any], place: str
) -> list[str]:
    found = [f"{place}: {key} is missing" for key in schema.get("required", ()) if key not in value]
    known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    for key, one in value.items():
        if key in known:
            found += faults(one, known[key], whole, f"{place}.{key}")
        elif others is False:
            found.append(f"{place}: {key} is not in the schema")
        elif others is not True:
            found += faults(one, others, whole, f"{place}.{key}")
    return found
