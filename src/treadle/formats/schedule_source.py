"""Files of others that hold schedules: one record each, and the table of them.

They are read and judged, and their messages can be put on a fabric; most are never written here. Ours are
declared by the packages beside this module, each in `SCHEDULES`.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

import treadle.formats
from treadle.formats.judgement import Judgement, Terms
from treadle.program.foreign.traffic import NamedRings, NamedTrees, Traffic

_COMMENT = re.compile(r"\s*<!--.*?-->", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class ScheduleSource:
    """One kind of file.

    Parameters
    ----------
    name : str
        As reports show it; that of the format, where there is one that is written too.
    title : str
        As people call it.
    begins : str
        Pattern (of `re`) with which every such file begins, after comments of XML.
    judge : str
        ``module:function`` from all files' bytes and `Terms` to a `Judgement`.
    traffic : str
        ``module:function`` from a file's bytes and `Terms` to `Traffic`, `NamedTrees` or `NamedRings`;
        FormatError if the file is malformed, ScheduleError if it is none that can be simulated.
    """

    name: str
    title: str
    begins: str
    judge: str
    traffic: str

    def is_begun_by(self, head: str) -> bool:
        """Whether a text, or its first part, begins as such files do."""
        while (comment := _COMMENT.match(head)) is not None:
            head = head[comment.end() :]
        return re.match(self.begins, head.lstrip()) is not None

    def judged(self, files: Sequence[bytes], terms: Terms) -> Judgement:
        """The verdict on files: whether they do what their collective asks, on any fabric."""
        found: Judgement = _function(self.judge)(files, terms)
        return found

    def messages(self, data: bytes, terms: Terms) -> Traffic | NamedTrees | NamedRings:
        """What a file's ranks send each other."""
        found: Traffic | NamedTrees | NamedRings = _function(self.traffic)(data, terms)
        return found


def _function(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


@cache
def schedule_sources() -> tuple[ScheduleSource, ...]:
    """All records, in the order of their packages."""
    path, prefix = treadle.formats.__path__, f"{treadle.formats.__name__}."
    packages = [module.name for module in pkgutil.iter_modules(path, prefix) if module.ispkg]
    return tuple(record for name in packages for record in getattr(import_module(name), "SCHEDULES", ()))


def told_source(head: str) -> ScheduleSource | None:
    """The kind of file that a text, or its first part, begins as; None if it is of none."""
    return next((record for record in schedule_sources() if record.is_begun_by(head)), None)
