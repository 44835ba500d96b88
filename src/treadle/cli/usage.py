"""Errors of usage in one line: what is missing or unknown, the most similar name, and an example.

Libraries are loaded only if a mistake may concern names that only they define.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import click

from treadle.errors import FormatError
from treadle.options.rows import REQUIRED, Row
from treadle.options.shared import COLLECTIVES
from treadle.options.verbs import VERBS
from treadle.spelling import did_you_mean, folded

_LONGEST = 60

_EXAMPLES = {
    "TOPOLOGY": "dgx_a100:2",
    "COLLECTIVE": "allreduce",
    "PLAN": "two.plan",
    "PLAN|TOPOLOGY": "two.plan",
    "FILE": "FILE",
}
"""Placeholders of arguments in examples."""


def usage_message(error: click.UsageError) -> str:
    """Return the message of a usage error, in one line."""
    if isinstance(error, click.NoSuchOption):
        return _unknown_option(error)
    if isinstance(error, click.BadOptionUsage):
        rows = [] if error.ctx is None else getattr(error.ctx.command, "rows", {}).values()
        for row in rows:
            if error.option_name in (row.flag, row.short) and not row.is_flag:
                return f"{error.option_name} needs a value: {_as_sentence_end(row)}"
    if error.format_message().startswith("Missing command"):
        return f"a command is missing; {_see_help(_path(error.ctx))}"
    return error.format_message()


def is_collective(text: str) -> bool:
    """Whether a word is the name of a collective, however it is spelt."""
    from treadle.inputs.problem import resolve_kind

    try:
        resolve_kind(text)
    except FormatError:
        return False
    return True


def is_fabric(text: str) -> bool:
    """Whether a word is an expression of the catalogue."""
    from treadle.topologies.expressions import names_fabric

    return names_fabric(text)


def reject_swapped(command: str, topology: str | None, collective: str | None) -> None:
    """Raise FormatError, with the right order, for a collective in the place of the fabric."""
    if topology is None or collective is None or not is_collective(topology) or is_collective(collective):
        return
    raise FormatError(
        f"TOPOLOGY and COLLECTIVE have changed places; write: {command} {shlex.quote(collective)} {topology}"
    )


def _shown(text: str) -> str:
    return repr(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}...")


def _path(ctx: click.Context | None) -> str:
    """Return the command as it was typed: ``treadle topology show``."""
    return "treadle" if ctx is None else ctx.command_path


def _name(path: str) -> str:
    """Return the command without the program: ``topology show``."""
    return path.removeprefix("treadle ")


def _see_help(path: str) -> str:
    return f"'{path} --help' lists them"


def _unknown_option(error: click.NoSuchOption) -> str:
    path, option = _path(error.ctx), error.option_name
    parameters = [] if error.ctx is None else error.ctx.command.get_params(error.ctx)
    known = [name for one in parameters for name in (*one.opts, *one.secondary_opts)]
    text = f"{_name(path)} has no option {option[:_LONGEST]}"
    if re.fullmatch(r"-\d", option):
        return f"{text}; a negative number means nothing here, and a name that begins with - stands after --"
    hint = did_you_mean(option, [name for name in known if name.startswith("--")])
    return f"{text}{hint or ';'} {_see_help(path)}"


def missing(path: str, rows: Mapping[str, Row], row: Row, words: Mapping[str, Any]) -> str:
    """Return the error that an option or argument is missing, with an example."""
    if not row.is_argument:
        return f"{row.flag} {row.metavar} is missing: {_as_sentence_end(row)}"
    is_collective = row.placeholder == "COLLECTIVE"
    expected = f"one of {', '.join(COLLECTIVES)}" if is_collective else _as_sentence_end(row)
    example = [path]
    for one in rows.values():
        if one.is_argument and one.default is REQUIRED:
            given = words.get(one.name)
            example.append(
                _EXAMPLES.get(one.placeholder, one.placeholder) if given is None else shlex.quote(str(given))
            )
    return f"{row.placeholder} is missing; expected {expected}, as in: {' '.join(example)}"


def _as_sentence_end(row: Row) -> str:
    """Return the help of a row as the end of a sentence."""
    text = row.help.rstrip(".")
    first, _, _ = text.partition(" ")
    return text if first.isupper() and len(first) > 1 else text[:1].lower() + text[1:]


def unknown_command(name: str, path: str, known: Sequence[str]) -> str:
    """Return the error of an unknown command, with the most similar one."""
    shown = _shown(name)
    if path != "treadle":
        return f"no command {shown} of {_name(path)}{did_you_mean(name, known) or ';'} {_see_help(path)}"
    if is_collective(name):
        return f"{shown} is a collective; a command comes first, as in: treadle solve dgx_a100:2 {name}"
    if is_fabric(name):
        return (
            f"{shown} is a fabric; a command comes first, as in: treadle solve {shlex.quote(name)} allreduce"
        )
    in_groups = [one for one in VERBS if " " in one and folded(one.split()[1]) == folded(name)]
    if in_groups:
        return f"no command {shown}; did you mean {' or '.join(in_groups)}? {_see_help(path)}"
    return f"no command {shown}{did_you_mean(name, known) or ';'} {_see_help(path)}"


def reject_extra(path: str, rows: Mapping[str, Row], rest: Sequence[str], values: Mapping[str, Any]) -> None:
    """Raise FormatError if arguments are left over."""
    if not rest:
        return
    words = " ".join(rest)
    takes = " ".join(one.placeholder for one in rows.values() if one.is_argument) or "no arguments"
    text = f"{_name(path)} takes {takes}; left over: {words[:_LONGEST]}"
    given = str(values.get("topology") or values.get("plan") or "")
    second = str(values.get("collective") or "")
    numbers = [*([second] if second.isdigit() else []), *words.replace(",", " ").split()]
    if given and numbers and all(word.isdigit() for word in numbers):
        name, _, after = given.rstrip(",").partition(":")
        meant = ",".join([*filter(None, [after]), *numbers])
        raise FormatError(f"{text}; did you mean {name}:{meant}?")
    if any(word.startswith("(") for word in words.split()) or given.endswith((",", "(")):
        raise FormatError(f"{text}; quote an expression with blanks or brackets: 'torus(4, 4)'")
    raise FormatError(text)
