"""All commands, and what becomes of their errors."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import Annotated, Any, cast

import typer
from typer.core import TyperGroup
from typer.main import get_command

import treadle
from treadle.cli.command import Command, help_rows
from treadle.cli.status import (
    EXIT_STATUS,
    INFEASIBLE,
    INTERRUPTED,
    MISSING,
    OUT_OF_MEMORY,
    TIME_LIMIT_REACHED,
    UNREAD,
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


def _print_version(wanted: bool) -> None:
    if wanted:
        put(f"treadle {treadle.__version__}\n")
        raise typer.Exit


def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    install: Annotated[
        bool, typer.Option("--install-completion", help="Let the shell complete; a shell's name may follow.")
    ] = False,
    show: Annotated[
        bool, typer.Option("--show-completion", help="Print the script that lets a shell complete.")
    ] = False,
) -> None:
    del version, install, show  # answered before options are read: a word may follow


SUMMARIES = {
    "solve": "Synthesise a schedule, verify it, report, and write a plan.",
    "bound": "Print the optimum and its witness, without building a schedule.",
    "verify": "Recompute every claim of a plan, or execute a text; list every violation, or none.",
    "repair": "Plan anew without failed links and nodes, and say what the failure costs.",
    "harden": "Plan for every single failure before it comes, and say what each costs.",
    "resilience": "Show what random failures leave of a fabric's optimum, and which cables matter most.",
    "cabling": "Cables of a fabric: write the list, check what was plugged.",
    "lower": "Write a plan as text for a runtime, once that text has been read back and checked.",
    "run": "Move real data by a plan, check every element, and print the columns of nccl-tests.",
    "simulate": "Predict how long a plan takes on its fabric, message by message.",
    "draw": "Draw a fabric, or what a plan does on it: loads, the bottleneck, a tree.",
    "report": "Write a page about a plan, to look at in a browser: what it does and why it cannot be faster.",
    "testbed": "Emulate a fabric with network namespaces (root on Linux), run plans on it, compare with the "
    "model.",
    "diagnose": "Explain a measured busbw: % of rings, of the optimum, and what in the log makes it slow.",
    "calibrate": "Fit latency and bandwidth to measured times, or a cost model to those of plans.",
    "reproduce": "Compute a table or figure of the papers anew and set it beside what is printed.",
    "compare": "Show schedulers side by side, each schedule verified, beside the optimum.",
    "algorithms": "List all schedulers, those of plug-ins too: form, collectives, needs, options, source.",
    "retune": "Fit the size ranges of a set to other costs; its schedules stay as they are.",
    "pareto": "Show what lower and fewer trees cost in throughput, or (--max-steps) all steps that are worth "
    "it.",
    "routes": "Route an all-to-all over weighted paths, free of deadlock, near the optimal rate; or write a "
    "plan's.",
    "design": "Find the best topologies for N nodes of degree D, and their schedules.",
    "train": "Simulate a step of training: its time, exposed communication and MFU, by fabric and schedule.",
    "capture": "Capture a model as a graph of operators, forward and backward, with tensors by dimensions.",
    "parallelize": "Find the best way to shard, recompute and pipeline a model, with a proven gap.",
    "execute": "Run a step of a module by a plan on processes of this machine, and compare with one process.",
    "topology": "The catalogue of fabrics; one fabric in detail; its JSON.",
    "config": "Show what treadle.toml and the environment set, and where each value comes from.",
    "schema": "Print the JSON Schema of what a command prints with --json.",
}
"""First lines of the commands' own descriptions."""

_ROOMS = {
    "solving": ("solve", "bound", "repair", "harden", "compare", "algorithms", "pareto", "routes", "retune"),
    "judging": ("verify", "lower"),
    "designing": ("design", "topology"),
    "building": ("resilience", "cabling"),
    "measuring": ("run", "simulate", "testbed", "diagnose", "calibrate", "reproduce"),
    "drawing": ("draw", "report"),
    "training": ("train",),
    "parallelising": ("capture", "parallelize", "execute"),
    "settings": ("config", "schema"),
}
_ROOM = {command: room for room, commands in _ROOMS.items() for command in commands}
"""Folder in which a command has a module of its name."""


def _stub() -> None:
    """Stands for a command until that is loaded."""


class _Commands(TyperGroup):
    """Lists all commands, and loads the one that is run: to load all of them takes a second."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command's name, the command with its options, and the other arguments."""
        name, stub, rest = super().resolve_command(ctx, args)
        return name, stub if name is None else load_command(name), rest

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Names, and whole summaries beside them."""
        rows = [(name, self.commands[name].help or "") for name in self.list_commands(ctx)]
        formatter.write("\n".join(["", "Commands:", *help_rows(rows, formatter.width), ""]))


def _application() -> typer.Typer:
    """An application without commands."""
    app = typer.Typer(
        name="treadle",
        cls=_Commands,
        help="Provably optimal, verified collective-communication schedules for any network fabric.",
        epilog=f"Exit status: {EXIT_STATUS}.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback()(_common)
    return app


@cache
def load_command(name: str) -> Any:
    """The command of that name with its options, or a group of commands; typer takes long to read them."""
    module, app = import_module(f"treadle.cli.{_ROOM[name]}.{name}"), _application()
    if hasattr(module, "app"):
        app.add_typer(module.app, name=name)
    else:
        app.command(name, cls=Command)(module.command)
    found = cast(TyperGroup, get_command(app)).commands[name]
    if isinstance(found, Command) and hasattr(module, "help_sections"):
        found.sections = module.help_sections
    return found


@cache
def _commands() -> Callable[..., object]:
    """All commands, as a function of the arguments; of each the name and the summary."""
    app = _application()
    for name, summary in SUMMARIES.items():
        app.command(name, help=summary)(_stub)
    return get_command(app)


def run_command_line(arguments: Sequence[str]) -> int:
    """Run one command and return its exit status; see `treadle.cli.main.main`."""
    status = 0
    try:
        answer = _answer_shell(arguments)
        status = _run(arguments) if answer is None else answer
        flush()  # here, where it still has an answer that it cannot be written
    except UnprintableError as error:
        return unprintable(error, status)
    return status


def _answer_shell(arguments: Sequence[str]) -> int | None:
    """What a shell asks for that completes a line, or is to learn it; None for other arguments."""
    if "_TREADLE_COMPLETE" not in os.environ and not any("-completion" in word for word in arguments[:1]):
        return None
    from treadle.cli.completion import VARIABLE, complete, set_up  # here: no other command needs it

    if VARIABLE in os.environ:
        return complete(os.environ, SUMMARIES, load_command)
    return set_up(arguments, os.environ)


def _run(arguments: Sequence[str]) -> int:
    try:
        status = _commands()(args=arguments, prog_name="treadle", standalone_mode=False)
        # typer turns Ctrl-C inside a command into this status
        if status == INTERRUPTED:
            return interrupted()
        return status if isinstance(status, int) else 0
    except typer.Exit as stop:
        return stop.exit_code
    except (typer.Abort, KeyboardInterrupt):
        return interrupted()
    except typer.TyperException as error:
        return _usage(error)
    except InfeasibleError as error:
        return fail(_said(error), INFEASIBLE)
    except MissingDependencyError as error:
        return fail(_said(error), MISSING)
    except MemoryLimitError as error:
        return fail(_said(error), OUT_OF_MEMORY)
    except TreadleError as error:
        return fail(_said(error), USAGE)
    except TimeLimitError:
        said = "the time limit was reached; nothing was found; allow more time (--time-limit)"
        return fail(said, TIME_LIMIT_REACHED)
    except SystemExit:  # typer's answer to a broken pipe
        return UNREAD
    except OSError as error:
        flush()  # if it was of standard output, then in writing help
        place = f"{error.filename}: " if error.filename else ""
        return fail(f"{place}{error.strerror or error}", USAGE)
    except MemoryError:
        return fail("out of memory; use a smaller fabric, size or number of trees", OUT_OF_MEMORY)


def _said(error: TreadleError) -> str:
    """An error's message, and what is noted beside it."""
    notes = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
    return f"{error}{notes}"


def _usage(error: Any) -> int:
    from treadle.cli.usage import usage_message  # here, because most commands are right

    message = usage_message(error, lambda group: load_command(group).commands)
    if message.startswith("Usage:"):
        say(f"{message}\n")
        return USAGE
    return fail(message, USAGE)
