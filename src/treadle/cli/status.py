"""Exit status, and the line on stderr that goes with a failure's; imports nothing heavy."""

from __future__ import annotations

import os
import sys

FAILED = 1
"""A verification or a data check failed."""
USAGE = 2
"""Wrong usage, malformed input, or a file that cannot be read or written."""
INFEASIBLE = 3
TIME_LIMIT_REACHED = 4
MISSING = 5
"""An optional dependency is missing."""
OUT_OF_MEMORY = 6
INTERRUPTED = 130
"""Exit status of a process ended by SIGINT, as in a shell."""
UNREAD = 141
"""Exit status of a process ended by SIGPIPE, as in a shell: its output is not read."""

EXIT_STATUS = (
    "0 success; 1 a check failed; 2 invalid input; 3 infeasible; 4 time limit; 5 missing extra; "
    "6 out of memory; 130 interrupted; 141 broken pipe"
)


def fail(message: str, status: int) -> int:
    """Say what failed in one line and return the status; what cannot be shown is escaped."""
    text = " ".join(message.split())
    if not text.isprintable():  # bytes of a name may be commands to the terminal
        text = "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)
    say(f"treadle: {text}\n")
    return status


def say(text: str) -> None:
    """Write to stderr, if it is there and takes it: what a command returns does not depend on that."""
    if sys.stderr is None:
        return
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except (OSError, ValueError):
        divert(sys.stderr)


class UnprintableError(Exception):
    """Standard output takes no more; its cause is the error of the operating system."""


def put(text: str) -> None:
    """Write to stdout; UnprintableError if it is full or not read."""
    try:
        sys.stdout.write(text)
    except OSError as error:
        raise UnprintableError from error


def flush() -> None:
    """Have written what `put` was given; UnprintableError as there."""
    try:
        sys.stdout.flush()
    except OSError as error:
        raise UnprintableError from error


def unprintable(error: UnprintableError, status: int) -> int:
    """The status of a command whose report cannot be printed, and which would else have had `status`."""
    divert(sys.stdout)
    if isinstance(error.__cause__, BrokenPipeError):
        return status or UNREAD  # the reader went away: nobody is left to tell
    reason = getattr(error.__cause__, "strerror", None) or error.__cause__
    return fail(f"standard output: {reason}", status or USAGE)


def divert(stream: object) -> None:
    """Discard what a standard stream could not write; the interpreter would complain at the end."""
    try:
        number = stream.fileno()  # type: ignore[attr-defined]
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, number)
        os.close(nowhere)
    except (AttributeError, OSError, ValueError):  # not a stream of the process
        pass


def open_standard_streams() -> None:
    """Take the place of standard streams that are closed: the next file opened would be one of them.

    Python has none of those (``sys.stderr`` is None), but compiled libraries and child processes write to
    descriptor 2 all the same, which might by then be a plan.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            os.set_inheritable(number, True)


def interrupted() -> int:
    """Say that Ctrl-C ended the command."""
    return fail("interrupted; nothing was written", INTERRUPTED)
