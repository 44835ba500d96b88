"""All commands, and what becomes of their errors."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Annotated

import typer
from typer.main import get_command

from treadle._version import __version__
from treadle.cli.status import INTERRUPTED, fail, interrupted
from treadle.errors import InfeasibleError, MissingDependencyError, TreadleError

USAGE, INFEASIBLE, MISSING = 2, 3, 5

_PLAIN_WORDS = {"Value error, ": "", "Input should be ": "expected "}
"""How the argument parser's validator words things, and how we do."""


def _print_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"treadle {__version__}\n")
        raise typer.Exit


def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    del version


@cache
def _commands() -> Callable[..., object]:
    """All commands, as a function of the arguments; typer takes 70 ms to read their signatures.

    Loaded when called, so that a missing core or Ctrl-C is reported well.
    """
    from treadle.cli import (
        calibrate,
        compare,
        design,
        lower,
        pareto,
        repair,
        routes,
        run,
        simulate,
        solve,
        testbed,
        topology,
        verify,
    )

    app = typer.Typer(
        name="treadle",
        help="Provably optimal, verified collective-communication schedules for any network fabric.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback()(_common)
    app.command("solve")(solve.solve_command)
    app.command("bound")(solve.bound_command)
    app.command("verify")(verify.verify_command)
    app.command("repair")(repair.repair_command)
    app.command("lower")(lower.lower_command)
    app.command("run")(run.run_command)
    app.command("simulate")(simulate.simulate_command)
    app.command("testbed")(testbed.emulate_command)
    app.command("calibrate")(calibrate.calibrate_command)
    app.command("compare")(compare.compare_command)
    app.command("pareto")(pareto.pareto_command)
    app.command("routes")(routes.routes_command)
    app.command("design")(design.design_command)
    app.add_typer(topology.app, name="topology")
    return get_command(app)


def run_command_line(arguments: Sequence[str]) -> int:
    """Run one command and return its exit status; see `treadle.cli.main.main`."""
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
        return _usage(error.format_message())
    except InfeasibleError as error:
        return fail(str(error), INFEASIBLE)
    except MissingDependencyError as error:
        return fail(str(error), MISSING)
    except TreadleError as error:
        return fail(str(error), USAGE)
    except BrokenPipeError:
        # the reader went away: nobody is left to tell, and the interpreter must not try at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        return fail(f"{name}{error.strerror or error}", USAGE)
    except MemoryError:
        return fail("out of memory; use a smaller fabric, size or number of trees", USAGE)


def _usage(message: str) -> int:
    if message.startswith("Usage:"):  # the help text, because there were no arguments
        sys.stderr.write(f"{message}\n")
        return USAGE
    for phrase, plain in _PLAIN_WORDS.items():
        message = message.replace(phrase, plain)
    return fail(message, USAGE)
