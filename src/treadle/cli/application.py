"""The command line as an application: all commands, and the exit status of their errors."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import click

import treadle
from treadle.cli.command import Commands
from treadle.cli.status import (
    INFEASIBLE,
    MISSING,
    OUT_OF_MEMORY,
    TIME_LIMIT_REACHED,
    USAGE,
    UnprintableError,
    fail,
    flush,
    interrupted,
    put,
    say,
    unprintable,
)
from treadle.context import TimeLimitError
from treadle.errors import InfeasibleError, MemoryLimitError, MissingDependencyError, TreadleError

COMPLETION_OPTIONS = ("--install-completion", "--show-completion")
_STATUS_OF = {
    InfeasibleError: INFEASIBLE,
    MissingDependencyError: MISSING,
    MemoryLimitError: OUT_OF_MEMORY,
}


def _print_version(ctx: Any, option: Any, wanted: bool) -> None:
    del option
    if wanted:
        put(f"treadle {treadle.__version__}\n")
        ctx.exit()


def _commands() -> Commands:
    """Return the group of all commands."""
    version = click.Option(["--version"], is_flag=True, is_eager=True, callback=_print_version)
    # handled before options are read, since a word may follow
    shells = [click.Option([name], is_flag=True, expose_value=False) for name in COMPLETION_OPTIONS]
    return Commands(params=[version, *shells])


def run_command_line(arguments: Sequence[str]) -> int:
    """Run one command and return its exit status; see `treadle.cli.main.main`."""
    status = 0
    try:
        answer = _answer_shell(arguments)
        status = _run(arguments) if answer is None else answer
        flush()  # here, where a failed write can still be reported
    except UnprintableError as error:
        return unprintable(error, status)
    return status


def _answer_shell(arguments: Sequence[str]) -> int | None:
    """Answer a shell that completes a line or installs completion; None for other arguments."""
    if "_TREADLE_COMPLETE" not in os.environ and not any("-completion" in word for word in arguments[:1]):
        return None
    from treadle.cli.completion import VARIABLE, complete, set_up  # here: no other command needs it

    if VARIABLE in os.environ:
        return complete(os.environ)
    return set_up(arguments, os.environ)


def _run(arguments: Sequence[str]) -> int:
    try:
        commands = _commands()
        with commands.make_context("treadle", list(arguments)) as ctx:
            status = commands.invoke(ctx)
        return status if isinstance(status, int) else 0
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except KeyboardInterrupt:
        return interrupted()
    except click.exceptions.NoArgsIsHelpError as error:
        say(f"{error.format_message()}\n")
        return USAGE
    except click.UsageError as error:
        from treadle.cli.usage import usage_message  # here, because most commands are right

        return fail(usage_message(error), USAGE)
    except TreadleError as error:
        notes = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
        status = next((status for kind, status in _STATUS_OF.items() if isinstance(error, kind)), USAGE)
        return fail(f"{error}{notes}", status)
    except TimeLimitError:
        message = "the time limit was reached; nothing was found; allow more time (--time-limit)"
        return fail(message, TIME_LIMIT_REACHED)
    except OSError as error:
        flush()  # raises if standard output failed, while help was written
        place = f"{error.filename}: " if error.filename else ""
        return fail(f"{place}{error.strerror or error}", USAGE)
    except MemoryError:
        return fail("out of memory; use a smaller fabric, size or number of trees", OUT_OF_MEMORY)
