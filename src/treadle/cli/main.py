"""The command line: `main(argv)` runs one command and returns its exit status."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn

from treadle.cli.status import fail, interrupted

USAGE = 2


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
    if sys.stdout is None:
        return fail("standard output is closed; expected a terminal, a file or a pipe", USAGE)
    try:
        # loaded here, because Ctrl-C can come while the libraries are being loaded
        from treadle.cli.application import run_command_line

        return run_command_line(sys.argv[1:] if argv is None else list(argv))
    except KeyboardInterrupt:
        return interrupted()


def entry_point() -> NoReturn:
    """The console script."""
    sys.exit(main())
