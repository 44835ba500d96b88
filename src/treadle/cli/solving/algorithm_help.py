"""Algorithms in help: their names by form, and the options that only some of them heed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from treadle import planning

if TYPE_CHECKING:
    from treadle.cli.command import Section

_TITLE = "Algorithms ('treadle algorithms NAME' has the options that only some heed)"


def algorithm_sections() -> Sequence[Section]:
    """Names of Treadle's own algorithms, a row for each form of schedule."""
    names: dict[str, list[str]] = defaultdict(list)
    for one in planning.schedulers(plug_ins=False):
        names[one.form.value].append(one.name)
    return [(_TITLE, [(form, ", ".join(found)) for form, found in names.items()])]


def option_helps() -> dict[str, str]:
    """What ``solve --help`` would say of each option, by its flag."""
    from treadle.cli.application import load_command

    found: dict[str, str] = {}
    parameter: Any
    for parameter in load_command("solve").params:
        metavar = f" {parameter.metavar}" if parameter.metavar else ""
        for flag in parameter.opts:
            found[flag] = f"{flag}{metavar}: {' '.join((parameter.help or '').split())}"
    return found
