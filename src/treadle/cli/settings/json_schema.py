"""JSON Schema of the ``--json`` output, built from the tables of ``json_output.toml``."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from treadle.cli.output import SCHEMA_VERSION
from treadle.spelling import known_name

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_FRACTION = "^-?[0-9]+/[0-9]+$"


@cache
def _tables() -> Mapping[str, Mapping[str, Any]]:
    path = Path(__file__).with_name("json_output.toml")
    return tomllib.loads(path.read_text(encoding="utf-8"))


def described_commands() -> tuple[str, ...]:
    """Names of commands with a schema, such as ``topology-show``."""
    return tuple(_tables()["commands"])


def json_schema(command: str) -> dict[str, object]:
    """Return the JSON Schema of the ``--json`` output of a command, without references to other files.

    Parameters
    ----------
    command : str
        Such as ``solve`` or ``topology-show``.

    Raises
    ------
    FormatError
        If there is no such command, or it prints no JSON.
    """
    name = known_name("command", command, described_commands())
    table = _tables()["commands"][name]
    body = _object(table)
    schema = {"const": f"{name}/{SCHEMA_VERSION}", "description": "name and version of this schema"}
    body["properties"] = {"schema": schema, **body["properties"]}
    body["required"] = ["schema", *body["required"]]
    return {
        "$schema": _DIALECT,
        "title": f"treadle {_typed(name)} --json",
        **body,
        "$defs": {one: _object(_tables()["objects"][one]) for one in sorted(_add_objects(table, set()))},
    }


def _typed(name: str) -> str:
    """Return the command line that prints the object."""
    if name.endswith("-jobs"):
        command = name.removesuffix("-jobs")
        return f"{command} FOLDER" if command == "verify" else f"{command} --jobs"
    return name.replace("-", " ", 1) if name.startswith("topology") else name


def _keys(table: Mapping[str, Any]) -> list[str]:
    return f"{table['required']} {table.get('optional', '')}".split()


def _described(table: Mapping[str, Any], key: str) -> tuple[str, str]:
    """Return the type and meaning of a key: those of the table, else the general ones."""
    kind, meaning = table.get(key) or _tables()["keys"][key]
    return kind, meaning


def _object(table: Mapping[str, Any]) -> dict[str, Any]:
    properties = {}
    for key in _keys(table):
        kind, meaning = _described(table, key)
        properties[key] = {**_type(kind), "description": meaning}
    found: dict[str, Any] = {
        "type": "object",
        "properties": properties,
        "required": table["required"].split(),
        "additionalProperties": False,
    }
    if "others" in table:
        found["additionalProperties"] = _type(table["others"])
    return found


def _type(kind: str) -> dict[str, Any]:
    """Return the JSON Schema of a type in the notation of the tables."""
    if kind.endswith("?"):
        return {"anyOf": [_type(kind[:-1]), {"type": "null"}]}
    if kind.startswith("["):
        return {"type": "array", "items": _type(kind[1:-1])}
    if kind.startswith("<"):
        return {"type": "object", "additionalProperties": _type(kind[1:-1])}
    if kind.startswith("{"):
        return {"$ref": f"#/$defs/{kind[1:-1]}"}
    if "|" in kind:
        return {"anyOf": [_type(one) for one in kind.split("|")]}
    if kind == "fraction":
        return {"type": "string", "pattern": _FRACTION}
    return {} if kind == "any" else {"type": kind}


def _add_objects(table: Mapping[str, Any], found: set[str]) -> set[str]:
    """Add the objects that a table's types name, directly or through others."""
    for key in _keys(table):
        name = _described(table, key)[0].partition("{")[2].partition("}")[0]
        if name and name not in found:
            found.add(name)
            _add_objects(_tables()["objects"][name], found)
    return found
