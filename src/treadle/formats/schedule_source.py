"""Third-party files that contain schedules, one record per kind of file, and their table.

They are read and verified, and their messages can be placed on a fabric; most are never written here. The
records are declared in `SCHEDULES` of the subpackages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from treadle.formats.format import Format, begins_as, declared, load_function
from treadle.formats.verdict import Terms, Verdict
from treadle.program.foreign.traffic import NamedRings, NamedTrees, Traffic, even_shards
from treadle.program.program import Operation, program_from_operations
from treadle.schedules.collective import CollectiveKind


@dataclass(frozen=True, kw_only=True)
class ScheduleSource:
    """One kind of file; functions may be given as ``module:function``."""

    name: str
    """Name in reports; that of the format, if there is one with a writer."""
    title: str
    """Name in prose."""
    begins: str
    """Regular expression that matches the beginning of every such file, after XML comments."""
    judge: Callable[[Sequence[bytes], Terms], Verdict] | str
    """From all files' bytes and `Terms` to a verdict."""
    traffic: Callable[[bytes, Terms], Traffic | NamedTrees | NamedRings] | str
    """FormatError if the file is malformed, ScheduleError if it cannot be simulated."""

    def is_begun_by(self, head: str) -> bool:
        """Whether a string, or its first part, begins like such files."""
        return begins_as(self.begins, head)

    def interpreted(self, files: Sequence[bytes], terms: Terms) -> Verdict:
        """Return the verdict on files: whether they perform their collective, on any fabric."""
        return load_function(self.judge)(files, terms)

    def messages(self, data: bytes, terms: Terms) -> Traffic | NamedTrees | NamedRings:
        """Return the messages between the ranks of a file."""
        return load_function(self.traffic)(data, terms)


def source_of(record: Format, traffic: str) -> ScheduleSource:
    """Return the record of a format that has a writer too."""
    return ScheduleSource(
        name=record.name, title=record.title, begins=record.begins, judge=record.judge, traffic=traffic
    )


@cache
def schedule_sources() -> tuple[ScheduleSource, ...]:
    """Return all records, in the order of their packages."""
    return tuple(record for _, record in declared("SCHEDULES"))


def source_name(head: str) -> ScheduleSource | None:
    """Return the kind of file that the beginning of a file belongs to; None if it is not recognized."""
    return next((record for record in schedule_sources() if record.is_begun_by(head)), None)


def simulated_traffic(
    collective: str, operations: Sequence[Sequence[Operation]], n_chunks: int, root: int
) -> Traffic:
    """Return messages without their memory: the operations can be simulated, but not executed."""
    kind = CollectiveKind(re.sub("reduce_?scatter", "reduce-scatter", collective))
    program = program_from_operations(
        kind,
        operations,
        n_chunks=n_chunks,
        shard_offset=even_shards(kind, len(operations), n_chunks, root),
        root=root if kind.is_rooted else -1,
    )
    return Traffic(program, is_runnable=False)
