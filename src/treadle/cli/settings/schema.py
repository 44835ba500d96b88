"""``treadle schema``."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from treadle.cli.settings.json_schema import described_commands, json_schema
from treadle.cli.status import put


def command(
    name: Annotated[
        str | None,
        typer.Argument(metavar="COMMAND", help="Such as solve or topology-show; none: list them."),
    ] = None,
) -> int:
    """Print the JSON Schema of what a command prints with --json."""
    if name is None:
        put("".join(f"{one}\n" for one in described_commands()))
    else:
        put(json.dumps(json_schema(name), indent=1) + "\n")
    return 0
