"""The command line: `main(argv)` runs one command and returns its exit status."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer

from treadle._version import __version__
from treadle.errors import InfeasibleError, MissingDependencyError, TreadleError

USAGE, INFEASIBLE, MISSING, INTERRUPTED = 2, 3, 5, 130


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


def _application() -> typer.Typer:
    """All commands. Loaded when called, so that a missing core or Ctrl-C is reported well."""
    from treadle.cli import compare, lower, run, solve, topology, verify

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
    app.command("lower")(lower.lower_command)
    app.command("run")(run.run_command)
    app.command("compare")(compare.compare_command)
    app.add_typer(topology.app, name="topology")
    return app


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments without the program's name; default those of the process.

    Returns
    -------
    int
        0 ok; 1 a check failed; 2 usage or malformed input; 3 infeasible; 4 time limit; 5 an optional
        dependency is missing; 130 interrupted.
    """
    arguments = sys.argv[1:] if argv is None else list(argv)
    try:
        status = _application()(args=arguments, prog_name="treadle", standalone_mode=False)
        # typer turns Ctrl-C inside a command into this status
        if status == INTERRUPTED:
            return _interrupted()
        return status if isinstance(status, int) else 0
    except typer.Exit as stop:
        return stop.exit_code
    except (typer.Abort, KeyboardInterrupt):
        return _interrupted()
    except typer.TyperException as error:
        return _usage(error.format_message())
    except InfeasibleError as error:
        return _fail(str(error), INFEASIBLE)
    except MissingDependencyError as error:
        return _fail(str(error), MISSING)
    except TreadleError as error:
        return _fail(str(error), USAGE)
    except BrokenPipeError:
        # the reader went away: nobody is left to tell, and the interpreter must not try at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        return _fail(f"{name}{error.strerror or error}", USAGE)
    except MemoryError:
        return _fail("out of memory; use a smaller fabric, size or number of trees", USAGE)


def _interrupted() -> int:
    return _fail("interrupted; nothing was written", INTERRUPTED)


def _usage(message: str) -> int:
    if message.startswith("Usage:"):  # the help text, because there were no arguments
        sys.stderr.write(f"{message}\n")
        return USAGE
    return _fail(message, USAGE)


def _fail(message: str, status: int) -> int:
    sys.stderr.write(f"treadle: {' '.join(message.split())}\n")
    return status


def entry_point() -> NoReturn:
    """The console script."""
    sys.exit(main())
