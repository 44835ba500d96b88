"""A page for each command, from the table of its options."""

from __future__ import annotations

from rest import heading, plain, table
from treadle.cli.help import command_sections
from treadle.cli.status import EXIT_STATUS
from treadle.options.verbs import ALIASES, GROUPS, VERBS


def _options(verb: str) -> list[str]:
    """Usage, description, arguments and options of a command that can be run."""
    usage, sections = command_sections(verb, f"treadle {verb}", in_full=True)
    parts = [f".. code-block:: text\n\n   {usage}\n", plain(VERBS[verb].summary) + "\n"]
    former = [name for name, alias in ALIASES.items() if alias.verb == verb]
    if former:
        parts.append(f"Former names: {', '.join(f'``treadle {name}``' for name in former)}.\n")
    for title, rows in sections:
        if rows:
            found = [(f"``{name}``", plain(said)) for name, said in rows]
            parts.append(f".. rubric:: {title}\n\n" + table((title.split()[0], "Meaning"), found, "30 70"))
    return parts


def command_pages() -> dict[str, str]:
    """Texts by name; ``index`` lists all."""
    pages: dict[str, list[str]] = {}
    tasks: dict[str, dict[str, str]] = {}
    for verb, one in VERBS.items():
        name = verb.split()[0]
        about = GROUPS.get(name, VERBS.get(name, one).summary)
        tasks.setdefault(one.group, {})[name] = about
        if name not in pages:
            pages[name] = [heading(f"treadle {name}"), *([plain(about) + "\n"] if name in GROUPS else [])]
        pages[name] += [*([heading(f"treadle {verb}", "-")] if " " in verb else []), *_options(verb)]
    parts = [heading("Commands"), f"Exit status: {plain(EXIT_STATUS)}.\n"]
    for task, found in tasks.items():
        rows = [(f":doc:`{name}`", plain(said)) for name, said in found.items()]
        parts.append(heading(task, "-") + "\n" + table(("Command", "What it does"), rows, "20 80"))
    parts.append(".. toctree::\n   :hidden:\n\n" + "".join(f"   {name}\n" for name in sorted(pages)))
    return {name: "\n".join(text) for name, text in (pages | {"index": parts}).items()}
