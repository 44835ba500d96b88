"""The page about ``--json``: keys of every command, from the tables that make the JSON Schema."""

from __future__ import annotations

from typing import Any

from rest import heading, plain
from treadle.cli.settings.json_schema import described_commands, json_schema


def _type(schema: dict[str, Any]) -> str:
    """A type in a word or two."""
    if "$ref" in schema:
        return schema["$ref"].rsplit("/", 1)[1]
    if "anyOf" in schema:
        return " or ".join(_type(one) for one in schema["anyOf"])
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}" if "items" in schema else "list"
    kind = schema.get("type", "any")
    if isinstance(kind, list):
        return " or ".join(kind)
    return "fraction" if schema.get("pattern", "").endswith("/[0-9]+$") else kind


def _rows(schema: dict[str, Any]) -> list[tuple[str, str, str]]:
    needed = set(schema.get("required", ()))
    return [
        (
            f"``{key}``" + ("" if key in needed else " (may be absent)"),
            plain(_type(one)),
            plain(one.get("description", "")),
        )
        for key, one in schema.get("properties", {}).items()
        if key != "schema"
    ]


def json_page() -> str:
    """Text of the page."""
    parts = [
        heading("What --json prints"),
        "Every command prints one object. ``treadle config schema COMMAND`` prints its JSON Schema, of which "
        "this page is made. "
        'Units are in the names of keys; a fraction is an exact rational ``"p/q"``.\n',
        heading("Commands", "-"),
    ]
    objects: dict[str, dict[str, Any]] = {}
    for name in described_commands():
        schema = json_schema(name)
        objects.update(schema.get("$defs", {}))
        keys = [f"``{key}``" for key in schema["required"] if key != "schema"]
        optional = [f"``{key}``" for key in schema["properties"] if key not in schema["required"]]
        parts.append(f"{schema['title'].removesuffix(' --json')}\n    {', '.join(keys)}")
        parts.append(f"\n    May be there: {', '.join(optional)}\n" if optional else "")
    parts.append(heading("Keys", "-"))
    keys: dict[str, tuple[str, str, str]] = {}
    for name in described_commands():
        for row in _rows(json_schema(name)):
            key = row[0].split()[0]
            keys.setdefault(key, (key, *row[1:]))
    for schema in objects.values():
        for row in _rows(schema):
            keys.setdefault(row[0].split()[0], (row[0].split()[0], *row[1:]))
    parts += [f"{key} : {kind}\n    {meaning or '-'}\n" for key, kind, meaning in sorted(keys.values())]
    parts.append(heading("Objects within", "-"))
    parts.append("Keys have the meaning above unless it is told here.\n")
    for name, schema in sorted(objects.items()):
        own = [row for row in _rows(schema) if keys.setdefault(row[0].split()[0], row)[2] != row[2]]
        names = ", ".join(row[0] for row in _rows(schema))
        meanings = "".join(f"\n    {key}: {kind}; {meaning}\n" for key, kind, meaning in own)
        parts.append(f"{name}\n    {names}\n{meanings}")
    return "\n".join(parts)
