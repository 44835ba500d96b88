"""The record of a planted fault."""

from __future__ import annotations

import difflib
from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """A change of one place of a file.

    Parameters
    ----------
    path : str
        Of the file, from the root of the tree.
    line : int
        From 1.
    start, end : int
        What is replaced, in characters of the file.
    replacement : str
    kind : str
        The operator's name.
    """

    path: str
    line: int
    start: int
    end: int
    replacement: str
    kind: str

    @property
    def name(self) -> str:
        """Short and unique."""
        return f"{self.path}:{self.line} [{self.start}] {self.kind}"

    def applied(self, source: str) -> str:
        """The file's text with the fault."""
        return source[: self.start] + self.replacement + source[self.end :]

    def difference(self, source: str) -> str:
        """The changed lines as a unified diff without context."""
        lines = difflib.unified_diff(
            source.splitlines(), self.applied(source).splitlines(), self.path, self.path, n=0, lineterm=""
        )
        return "\n".join(list(lines)[2:])
