"""The command line: `main(argv)` runs one command and returns its exit status.

Nothing is imported up here: Ctrl-C can come at any time, and what comes before `main` has no answer to it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn


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
        dependency is missing; 6 out of memory; 130 interrupted; 141 broken pipe.
    """
    try:
        # loaded here, because Ctrl-C can come while the libraries are being loaded
        import sys

        from treadle.cli.status import USAGE, fail

        if sys.stdout is None:
            return fail("standard output is closed; expected a terminal, a file or a pipe", USAGE)
        from treadle.cli.application import run_command_line

        return run_command_line(sys.argv[1:] if argv is None else list(argv))
    except KeyboardInterrupt:
        from treadle.cli.status import interrupted

        return interrupted()


def entry_point() -> NoReturn:
    """The console script."""
    status = 130
    try:
        import signal

        from treadle.cli.status import open_standard_streams

        open_standard_streams()
        status = main()
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # what remains is to end: Ctrl-C ends it at once
    except KeyboardInterrupt:  # before `main`, or a second one while the first was being answered
        pass
    raise SystemExit(status)
