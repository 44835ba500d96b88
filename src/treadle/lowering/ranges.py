"""Ranges of sizes of runtime files: those of a plan, restricted to the given sizes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Unpack

from treadle.errors import ScheduleError
from treadle.formats.file_options import PROTOCOLS, FileOptions
from treadle.formats.format import Format, find_format
from treadle.options.keywords import TextKeywords
from treadle.schedules.plan import Plan, PlanEntry
from treadle.schedules.trees.forest import ForestSchedule
from treadle.schedules.trees.forest_cost import algbw
from treadle.units import format_size, parse_size


@dataclass(frozen=True)
class FileRange:
    """A range of sizes that one runtime file is written for."""

    entry: PlanEntry
    protocol: str | None = None
    """Protocol of the plan's cost model at these sizes; None: the given one, or the runtime's default."""


def format_range(min_bytes: int, max_bytes: int | None) -> str:
    """Return a range of sizes in words.

    Examples
    --------
    >>> from treadle import planning
    >>> planning.format_range(0, 2**14), planning.format_range(2**14 + 1, 2**20)
    ('to 16KB', 'from above 16KB to 1MB')
    >>> planning.format_range(26126, 2**20 - 1)
    'from 25.51KB to below 1MB'
    """
    first, last = f"from {_size(min_bytes)}", "" if max_bytes is None else f"to {_size(max_bytes)}"
    if not min_bytes:
        return last or "all sizes"
    return f"{first} {last}".rstrip()


def _size(size: int) -> str:
    """Format a round size, or the size before or after one; other sizes with two decimals."""
    for relation, other in (("", size), ("above ", size - 1), ("below ", size + 1)):
        text = format_size(other) if other >= 0 else "."
        if "." not in text and parse_size(text) == other:
            return f"{relation}{text}"
    return format_size(size)


def narrowed_plan(plan: Plan, record: Format, options: FileOptions) -> tuple[Plan, FileOptions]:
    """Restrict the plan to the given sizes; return it with the options that are left to the writer.

    Among several ranges, ``size_bytes`` selects the one that supports it, for every format. ScheduleError if
    the sizes are not a range, or the plan supports none of them.
    """
    first, last = options.min_size_bytes, options.max_size_bytes or None
    if first < 0 or (last is not None and last < first):
        raise ScheduleError(
            f"--min-size {first} bytes, --max-size {last} bytes: expected no less than 0, rising"
        )
    entries = []
    for entry in plan.entries:
        low = max(entry.min_bytes, first)
        high = min((end for end in (entry.max_bytes, last) if end is not None), default=None)
        if high is None or low <= high:
            entries.append(replace(entry, min_bytes=low, max_bytes=high))
    if len(plan.entries) > 1 and options.size_bytes:
        size = options.size_bytes
        entries = [entry for entry in entries if entry.supports(size)]
        if "size_bytes" not in record.options:
            options = replace(options, size_bytes=0)
    if not entries:
        supported = format_range(plan.entries[0].min_bytes, plan.entries[-1].max_bytes)
        raise ScheduleError(f"the plan has no schedule for the given sizes; it supports {supported}")
    if (*entries,) == plan.entries:
        return plan, options
    rate, schedule = plan.algbw, entries[-1].schedule
    if schedule is not plan.entries[-1].schedule and isinstance(schedule, ForestSchedule):
        rate = algbw(plan.topology, schedule)
    return replace(plan, entries=tuple(entries), algbw=rate, optimal_algbw=None, certificate=None), options


def range_count(plan: Plan, *, to: str, **options: Unpack[TextKeywords]) -> int:
    """Return the number of runtime files: one per range of sizes, or one if the format has all ranges in it.

    Parameters
    ----------
    plan : Plan
    to : str
        Name of a format.
    **options
        Options of `treadle.planning.lower`, with the same errors.

    Examples
    --------
    >>> import treadle
    >>> plan = treadle.solve("ring:4", "allgather").plan
    >>> treadle.planning.range_count(plan, to="msccl-xml")
    1
    """
    record, given = find_format(to), FileOptions(**options)
    if record.holds_ranges:
        return 1
    return len(file_ranges(narrowed_plan(plan, record, given)[0], record, given))


def file_ranges(plan: Plan, record: Format, options: FileOptions) -> tuple[FileRange, ...]:
    """Return the plan's ranges, split where its cost model changes to another protocol.

    They are not split for a format without all protocols, or if a protocol is given.
    """
    if not record.has_all_protocols or options.protocol is not None:
        return tuple(FileRange(entry) for entry in plan.entries)
    return tuple(part for entry in plan.entries for part in _by_protocol(entry))


def _by_protocol(entry: PlanEntry) -> Iterator[FileRange]:
    """Split the entry where messages change their protocol; unknown protocols are left to the runtime."""
    known = [(one.min_bytes, one.protocol if one.protocol in PROTOCOLS else None) for one in entry.pipelining]
    cuts: list[tuple[int, str | None]] = []
    for start, protocol in known or [(entry.min_bytes, None)]:
        start = max(start, entry.min_bytes)
        if cuts and cuts[-1][0] == start:
            cuts.pop()
        if (entry.max_bytes is None or start <= entry.max_bytes) and (not cuts or cuts[-1][1] != protocol):
            cuts.append((start, protocol))
    ends = [start - 1 for start, _ in cuts[1:]] + [entry.max_bytes]
    for (start, protocol), end in zip(cuts, ends, strict=True):
        yield FileRange(replace(entry, min_bytes=start, max_bytes=end), protocol)
