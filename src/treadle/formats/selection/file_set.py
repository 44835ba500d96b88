"""Runtime files that a runtime chooses from by the size of a call, and the files that make it do so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from treadle.formats.loading import Loading
from treadle.formats.verdict import RangedFile

LOADER = "load.sh"
"""Script in a set's folder that runs a command with the variables that its runtime needs."""
FOLDER = "texts"
"""Subfolder of a set's folder that contains only the runtime files."""


@dataclass(frozen=True)
class FileSet:
    """All runtime files of a folder."""

    folder: str
    """Path as users will name it."""
    dialect: str
    texts: tuple[RangedFile, ...]
    """In the order of their file names."""


@dataclass(frozen=True)
class Delivery:
    """Files next to the runtime files of a folder (name, content), and how to load them."""

    files: tuple[tuple[str, bytes], ...]
    loading: Loading


def loader_script(title: str, variables: Sequence[tuple[str, str]]) -> bytes:
    """Return a shell script that runs a command with some variables, or prints the commands that set them.

    In a value ``$here`` is the script's folder, and another variable may be named as in the shell. Values
    have no quotation marks. The folder is found when the script runs, so it may be moved or copied. Variables
    are set only for the command, not for the programs that the script itself runs.
    """
    words = " ".join(f'"{name}={value}"' for name, value in variables)
    printed = "\n".join(
        f"""printf "export {name}='%s'\\n" "$(printf %s "{value}" | sed "s/'/'\\\\\\\\''/g")\""""
        for name, value in variables
    )
    return f"""#!/bin/sh
# {title}
# A command that uses it:          sh {LOADER} COMMAND...
# The shell that you are in:       eval "$(sh {LOADER})"
set -eu
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
case $here in
*:*) echo "{LOADER}: $here: a folder without colon is needed" >&2; exit 2 ;;
esac
if [ $# -gt 0 ]; then
  exec env {words} "$@"
fi
{printed}
""".encode()
