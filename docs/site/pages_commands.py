"""A page for each command, from the parser that reads it."""

from __future__ import annotations

import inspect
from typing import Any

from rest import heading, plain, table
from treadle.cli.application import _ROOMS, SUMMARIES, load_command
from treadle.cli.command import _PLAIN_TYPES
from treadle.cli.status import EXIT_STATUS

TITLES = {
    "solving": "Plans",
    "judging": "Checking and writing",
    "designing": "Fabrics",
    "building": "Building",
    "measuring": "Times and data",
    "drawing": "Pictures",
    "training": "Training",
    "parallelising": "Sharding",
    "settings": "Settings",
}
"""What the rooms of the command line are called here."""


def _options(command: Any, name: str) -> list[str]:
    """Usage, description, arguments and options of a command that can be run."""
    context = command.context_class(command, info_name=f"treadle {name}")
    usage = " ".join(command.collect_usage_pieces(context))
    parts = [f".. code-block:: text\n\n   treadle {name} {usage}\n"]
    parts += [plain(one) + "\n" for one in inspect.cleandoc(command.help or "").split("\n\n")]
    rows: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None:
            kind = "Arguments" if type(parameter).__name__.endswith("Argument") else "Options"
            word = " ".join(record[0].split())
            for typed, plainly in _PLAIN_TYPES.items():
                word = word.replace(typed, plainly)
            word = word.split()[0] if kind == "Arguments" else word
            rows[kind].append((f"``{word}``", plain(record[1] or "")))
    for kind, found in rows.items():
        if found:
            parts.append(f".. rubric:: {kind}\n\n" + table((kind[:-1], "Meaning"), found, "30 70"))
    more = getattr(command, "sections", None)
    for section in more() if callable(more) else ():
        title, lines = section[0], section[1]
        found = [(f"``{first}``", plain(second)) for first, second in lines]
        parts.append(f".. rubric:: {title.strip(':')}\n\n" + table(("Name", "What it is"), found, "30 70"))
    return parts


def command_pages() -> dict[str, str]:
    """Texts by name; ``index`` lists all."""
    pages = {}
    for name in SUMMARIES:
        command = load_command(name)
        parts = [heading(f"treadle {name}")]
        if getattr(command, "commands", None):
            parts.append(plain(SUMMARIES[name]) + "\n")
            for one, below in command.commands.items():
                parts += [heading(f"treadle {name} {one}", "-"), *_options(below, f"{name} {one}")]
        else:
            parts += _options(command, name)
        pages[name] = "\n".join(parts)
    parts = [heading("Commands"), f"Exit status: {plain(EXIT_STATUS)}.\n"]
    for room, names in _ROOMS.items():
        rows = [(f":doc:`{name}`", plain(SUMMARIES[name])) for name in names]
        parts.append(heading(TITLES[room], "-") + "\n" + table(("Command", "What it does"), rows, "20 80"))
    parts.append(".. toctree::\n   :hidden:\n\n" + "".join(f"   {name}\n" for name in sorted(SUMMARIES)))
    pages["index"] = "\n".join(parts)
    return pages
