"""Wrong usage in one line: what is missing or unknown, what was probably meant, and the words that help.

Libraries are loaded here only where a mistake may be of words that only they know.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from treadle.errors import FormatError
from treadle.spelling import did_you_mean, folded

_PLAIN_WORDS = {
    "Value error, ": "",
    "Input should be ": "expected ",
    "expected a valid integer, unable to parse string as an integer": "expected an integer",
    "expected a valid number, unable to parse string as a number": "expected a number",
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
}
"""How the argument parser's validator words things, and how we do."""
_COMMAND = re.compile(r"No such command '(.*?)'", re.DOTALL)
_CHOICE = re.compile(r"'(.*)' is not one of (.*)\.", re.DOTALL)
_EXTRA = re.compile(r"Got unexpected extra argument\(s\) \((.*)\)", re.DOTALL)
_LONGEST = 60

COLLECTIVES = ("allgather", "reduce-scatter", "allreduce", "broadcast", "reduce", "alltoall")
_EXAMPLES = {
    "TOPOLOGY": "dgx_a100:2",
    "COLLECTIVE": "allreduce",
    "PLAN": "two.plan",
    "PLAN|TOPOLOGY": "two.plan",
    "FILE": "FILE",
}
"""What stands for an argument in an example."""


def usage_message(error: Any, groups: Callable[[str], Iterable[str]]) -> str:
    """What is wrong with a command line, in one line.

    Parameters
    ----------
    error : typer.TyperException
        As the parser raised it.
    groups : callable
        From the name of a command to those of its own commands.
    """
    message: str = error.format_message()
    if message.startswith("Usage:"):  # the help text, because there were no arguments
        return message
    kind = type(error).__name__
    if kind == "NoSuchOption":
        return _unknown_option(error)
    if kind == "MissingParameter":
        return _missing(error)
    if kind == "BadOptionUsage" and "requires" in message:
        return _without_value(error)
    if found := _COMMAND.match(message):
        return _unknown_command(found[1], error.ctx, groups)
    if found := _EXTRA.match(message):
        return _extra(found[1], error.ctx)
    if message == "Missing command." or message.startswith("Missing command"):
        return f"a command is missing; {_listed(error.ctx)}"
    return _bad_value(error, message)


def is_collective(text: str) -> bool:
    """Whether a word is the name of a collective, however it is spelt."""
    from treadle.planning.problem import resolve_kind

    try:
        resolve_kind(text)
    except FormatError:
        return False
    return True


def is_fabric(text: str) -> bool:
    """Whether a word is an expression of the catalogue."""
    from treadle.topologies.expressions import names_fabric

    return names_fabric(text)


def refuse_swapped(command: str, topology: str | None, collective: str | None) -> None:
    """FormatError for a collective in the place of the fabric, with the right order."""
    if topology is None or collective is None or not is_collective(topology) or is_collective(collective):
        return
    raise FormatError(
        f"TOPOLOGY and COLLECTIVE have changed places; write: {command} {_quoted(collective)} {topology}"
    )


def _quoted(text: str) -> str:
    import shlex

    return shlex.quote(text)


def _shown(text: str) -> str:
    return repr(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}...")


def _path(ctx: Any) -> str:
    """The command as it was typed: ``treadle topology show``."""
    return "treadle" if ctx is None else str(ctx.command_path)


def _name(ctx: Any) -> str:
    """The command without the program: ``topology show``."""
    return _path(ctx).removeprefix("treadle ")


def _listed(ctx: Any) -> str:
    return f"'{_path(ctx)} --help' lists them"


def _parameters(ctx: Any) -> list[Any]:
    return [] if ctx is None else list(ctx.command.get_params(ctx))


def _unknown_option(error: Any) -> str:
    known = [
        name
        for one in _parameters(error.ctx)
        if one.param_type_name == "option"
        for name in (*one.opts, *one.secondary_opts)
    ]
    option = str(error.option_name)
    text = f"{_name(error.ctx)} has no option {option[:_LONGEST]}"
    if re.fullmatch(r"-\d", option):
        return f"{text}; a negative number means nothing here, and a name that begins with - stands after --"
    hint = did_you_mean(option, [name for name in known if name.startswith("--")])
    return f"{text}{hint or ';'} {_listed(error.ctx)}"


def _missing(error: Any) -> str:
    parameter, ctx = error.param, error.ctx
    if parameter is None or parameter.param_type_name == "option":
        name = "an option" if parameter is None else " ".join((parameter.opts[0], parameter.metavar or ""))
        return f"{name.strip()} is missing: {_told(parameter)}"
    place = parameter.display_name_raw.strip("[]")
    expected = f"one of {', '.join(COLLECTIVES)}" if place == "COLLECTIVE" else _told(parameter)
    return f"{place} is missing; expected {expected}, as in: {_example(ctx, place)}"


def _told(parameter: Any) -> str:
    """What a parameter's help says, as the end of a sentence."""
    text = " ".join(str(getattr(parameter, "help", "") or "").split()).rstrip(".")
    first, _, _ = text.partition(" ")
    return text if first.isupper() and len(first) > 1 else text[:1].lower() + text[1:]


def _example(ctx: Any, place: str) -> str:
    """A command line with the words that were typed, and likely ones for those that are missing."""
    words = [_path(ctx)]
    for one in _parameters(ctx):
        if one.param_type_name == "argument" and (one.required or one.display_name_raw == place):
            name = one.display_name_raw.strip("[]")
            given = None if ctx is None else ctx.params.get(one.name)
            words.append(_quoted(str(given)) if given is not None else _EXAMPLES.get(name, name))
    return " ".join(words)


def _without_value(error: Any) -> str:
    option = str(error.option_name)
    known = [one for one in _parameters(error.ctx) if option in one.opts]
    return f"{option} needs a value{f': {_told(known[0])}' if known else ''}"


def _unknown_command(name: str, ctx: Any, groups: Callable[[str], Iterable[str]]) -> str:
    known = list(ctx.command.commands)
    shown = _shown(name)
    if ctx.parent is None:
        if is_collective(name):
            return f"{shown} is a collective; a command comes first, as in: treadle solve dgx_a100:2 {name}"
        if is_fabric(name):
            return (
                f"{shown} is a fabric; a command comes first, as in: treadle solve {_quoted(name)} allreduce"
            )
        within = [f"{group} {one}" for group in ("topology",) for one in groups(group)]
        alike = [one for one in within if folded(one.split()[1]) == folded(name)]
        if alike:
            return f"no command {shown}; did you mean {' or '.join(alike)}? {_listed(ctx)}"
    hint = did_you_mean(name, known)
    of = f" of {_name(ctx)}" if ctx.parent is not None else ""
    return f"no command {shown}{of}{hint or ';'} {_listed(ctx)}"


def _extra(words: str, ctx: Any) -> str:
    places = [
        one.display_name_raw.strip("[]") for one in _parameters(ctx) if one.param_type_name == "argument"
    ]
    takes = " ".join(places) or "no arguments"
    text = f"{_name(ctx)} takes {takes}; left over: {words[:_LONGEST]}"
    values = {} if ctx is None else ctx.params
    given, second = (
        str(values.get("topology") or values.get("plan") or ""),
        str(values.get("collective") or ""),
    )
    numbers = [*([second] if second.isdigit() else []), *words.replace(",", " ").split()]
    if given and numbers and all(word.isdigit() for word in numbers):
        name, _, rest = given.rstrip(",").partition(":")
        meant = ",".join([*filter(None, [rest]), *numbers])
        return f"{text}; did you mean {name}:{meant}?"
    if any(word.startswith("(") for word in words.split()) or given.endswith((",", "(")):
        return f"{text}; quote an expression with blanks or brackets: 'torus(4, 4)'"
    return text


def _bad_value(error: Any, message: str) -> str:
    """A value that cannot be read, beside the option that it was given to."""
    for phrase, plain in _PLAIN_WORDS.items():
        message = message.replace(phrase, plain)
    parameter = getattr(error, "param", None)
    told, value = message.rpartition(f"{_hint(parameter)}: ")[2], getattr(error, "found", None)
    if parameter is None:
        return message
    name = "/".join(parameter.opts) if parameter.param_type_name == "option" else parameter.display_name_raw
    if found := _CHOICE.fullmatch(told):
        known = re.findall(r"'(.*?)'", found[2])
        hint = did_you_mean(found[1], known)
        expected = "expected " + (" or ".join(known) if len(known) < 3 else f"one of {', '.join(known)}")
        rest = f" {expected[0].upper()}{expected[1:]}" if hint else f"; {expected}"
        return f"{name} {_shown(found[1])}{hint}{rest}"
    given = f" {_shown(value)}" if isinstance(value, str) else ""
    return f"{name}{given}: {told}"


def _hint(parameter: Any) -> str:
    return "" if parameter is None else str(parameter.get_error_hint())
