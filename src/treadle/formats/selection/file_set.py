"""Texts that a runtime chooses from by the size of a call, and what makes it do so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from treadle.formats.loading import Loading
from treadle.formats.verdict import RangedFile

LOADER = "load.sh"
"""Of a set's folder: runs a command with the variables that its runtime needs."""
FOLDER = "texts"
"""In a set's folder: the texts, and nothing else."""


@dataclass(frozen=True)
class FileSet:
    """All texts of a folder.

    Parameters
    ----------
    folder : str
        As people will name it.
    dialect : str
        Of the texts.
    texts : tuple of RangedFile
        In the order of their files.
    """

    folder: str
    dialect: str
    texts: tuple[RangedFile, ...]


@dataclass(frozen=True)
class Delivery:
    """What lies beside the texts of a folder.

    Parameters
    ----------
    files : tuple of (str, bytes)
        Name in the folder, and content.
    loading : Loading
    """

    files: tuple[tuple[str, bytes], ...]
    loading: Loading


def loader_script(title: str, variables: Sequence[tuple[str, str]]) -> bytes:
    """A shell script that runs a command with some variables, or prints what sets them.

    Parameters
    ----------
    title : str
        A line that says what for.
    variables : sequence of (str, str)
        Names and values; in a value ``$here`` is the script's folder, and another variable may be named as
        the shell does. Values hold no quotes.

    Notes
    -----
    The folder is found when the script runs: it may be moved or copied. Variables are set for the command
    alone, not for what the script itself calls.
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
