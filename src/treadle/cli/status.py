"""The line on stderr that goes with a failure's exit status; imports nothing heavy."""

from __future__ import annotations

import sys

INTERRUPTED = 130


def fail(message: str, status: int) -> int:
    """Say what failed in one line and return the status."""
    if sys.stderr is not None:
        sys.stderr.write(f"treadle: {' '.join(message.split())}\n")
    return status


def interrupted() -> int:
    """Say that Ctrl-C ended the command."""
    return fail("interrupted; nothing was written", INTERRUPTED)
