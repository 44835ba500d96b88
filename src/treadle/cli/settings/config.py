"""``treadle config``."""

from __future__ import annotations

import os

from treadle.cli.output import JsonOption, Output, QuietOption
from treadle.cli.settings.configuration import (
    SETTINGS,
    chosen_settings,
    settings_files,
    unknown_variables,
)


def command(json: JsonOption = False, quiet: QuietOption = False) -> int:
    """Show what treadle.toml and the environment set, and where each value comes from."""
    output = Output(json, quiet)
    chosen = chosen_settings()
    for one in chosen.values():
        one.check()
    rows = [
        (one.key, found.value if found.value.isprintable() else ascii(found.value), found.origin)
        if (found := chosen.get(one.key)) is not None
        else (one.key, "-", f"{one.variable}: {one.meaning}")
        for one in SETTINGS
    ]
    output.table(("key", "value", "from"), rows, left=3)
    output.line()
    files = settings_files(os.environ)
    for path in files:
        output.line(f"file        {path}{'' if path.is_file() else ': there is none'}")
    strange = unknown_variables(os.environ)
    for name, hint in strange:
        output.line(f"note        {name} is no variable of Treadle's{hint}")
    output.result(
        {
            "settings": [
                {
                    "key": one.key,
                    "variable": one.variable,
                    "meaning": one.meaning,
                    **({} if one.key not in chosen else {"value": chosen[one.key].value}),
                    **({} if one.key not in chosen else {"origin": chosen[one.key].origin}),
                }
                for one in SETTINGS
            ],
            "files": [{"path": str(path), "exists": path.is_file()} for path in files],
            "unknown_variables": [name for name, _ in strange],
        }
    )
    return 0
