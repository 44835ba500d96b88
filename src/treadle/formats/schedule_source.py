"""Files of others that hold schedules: one record each, and the table of them.

They are read and judged, and their messages can be put on a fabric; most are never written here. Ours are
declared by the packages beside this module, each in `SCHEDULES`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from treadle.formats.format import Format, begins_as, declared, load_function
from treadle.formats.verdict import Terms, Verdict
from treadle.program.foreign.traffic import NamedRings, NamedTrees, Traffic


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
    judge : callable or str
        From all files' bytes and `Terms` to a `Verdict`; functions may be given as ``module:function``.
    traffic : callable or str
        From a file's bytes and `Terms` to `Traffic`, `NamedTrees` or `NamedRings`; FormatError if the file is
        malformed, ScheduleError if it is none that can be simulated.
    """

    name: str
    title: str
    begins: str
    judge: Callable[[Sequence[bytes], Terms], Verdict] | str
    traffic: Callable[[bytes, Terms], Traffic | NamedTrees | NamedRings] | str

    def is_begun_by(self, head: str) -> bool:
        """Whether a text, or its first part, begins as such files do."""
        return begins_as(self.begins, head)

    def interpreted(self, files: Sequence[bytes], terms: Terms) -> Verdict:
        """The verdict on files: whether they do what their collective asks, on any fabric."""
        return load_function(self.judge)(files, terms)

    def messages(self, data: bytes, terms: Terms) -> Traffic | NamedTrees | NamedRings:
        """What a file's ranks send each other."""
        return load_function(self.traffic)(data, terms)


def source_of(record: Format, traffic: str) -> ScheduleSource:
    """Return the files of a format that is written too."""
    return ScheduleSource(
        name=record.name, title=record.title, begins=record.begins, judge=record.judge, traffic=traffic
    )


@cache
def schedule_sources() -> tuple[ScheduleSource, ...]:
    """All records, in the order of their packages."""
    return tuple(record for _, record in declared("SCHEDULES"))


def source_name(head: str) -> ScheduleSource | None:
    """The kind of file that a text, or its first part, begins as; None if it is of none."""
    return next((record for record in schedule_sources() if record.is_begun_by(head)), None)
