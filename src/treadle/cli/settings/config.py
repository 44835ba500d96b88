"""``treadle config``."""

from __future__ import annotations

import json
import os

from treadle.cli.output import Output
from treadle.cli.settings.configuration import (
    SETTINGS,
    chosen_settings,
    settings_files,
    unknown_variables,
)
from treadle.cli.settings.json_schema import described_commands, json_schema
from treadle.cli.status import put
from treadle.options.settings import Config, ConfigSchema
from treadle.render.rows import row
from treadle.render.table import Table


def command(o: Config) -> int:
    """Show what treadle.toml and the environment set, and where each value comes from."""
    output = Output.of(o)
    chosen = chosen_settings()
    for one in chosen.values():
        one.read()
    rows = [
        (one.key, found.value if found.value.isprintable() else ascii(found.value), found.origin)
        if (found := chosen.get(one.key)) is not None
        else (one.key, "-", f"{one.variable}: {one.meaning}")
        for one in SETTINGS
    ]
    files = [(str(path), path.is_file()) for path in settings_files(os.environ)]
    strange = unknown_variables(os.environ)
    output.show(
        [
            Table(("key", "value", "from"), rows, 3),
            row(None, ""),
            *(row("file", f"{path}{'' if exists else ': not found'}") for path, exists in files),
            *(row("warning", f"{name} is not a variable of Treadle{hint}") for name, hint in strange),
        ],
        settings=[
            {
                "key": one.key,
                "variable": one.variable,
                "meaning": one.meaning,
                **({} if one.key not in chosen else {"value": chosen[one.key].value}),
                **({} if one.key not in chosen else {"origin": chosen[one.key].origin}),
            }
            for one in SETTINGS
        ],
        files=[{"path": path, "exists": exists} for path, exists in files],
        unknown_variables=[name for name, _ in strange],
    )
    return 0


def schema_command(o: ConfigSchema) -> int:
    """Print the JSON Schema of what a command prints with --json."""
    if o.name is None:
        put("".join(f"{one}\n" for one in described_commands()))
    else:
        put(json.dumps(json_schema(o.name), indent=1) + "\n")
    return 0
