"""Ranges of sizes that texts are written for: those of a plan, narrowed to what was asked for."""

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
    """What one text is written from.

    Parameters
    ----------
    entry : PlanEntry
        Its sizes are the text's.
    protocol : str, optional
        Of the plan's cost model, at these sizes; None: the one asked for, or the runtime's usual one.
    """

    entry: PlanEntry
    protocol: str | None = None

    @property
    def summary(self) -> str:
        """Its sizes, for people."""
        return format_range(self.entry.min_bytes, self.entry.max_bytes)


def format_range(min_bytes: int, max_bytes: int | None) -> str:
    """First and last size, for people.

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
    """A size as it is, or as the one before or after a round one; of others, two decimals."""
    for way, other in (("", size), ("above ", size - 1), ("below ", size + 1)):
        text = format_size(other) if other >= 0 else "."
        if "." not in text and parse_size(text) == other:
            return f"{way}{text}"
    return format_size(size)


def narrowed_plan(plan: Plan, record: Format, options: FileOptions) -> tuple[Plan, FileOptions]:
    """The plan with the sizes that are asked for alone, and the options that are left to the writer.

    Parameters
    ----------
    plan : Plan
    record : Format
    options : FileOptions
        Of a plan with several ranges, ``size_bytes`` chooses the one that serves it, whatever the format.

    Raises
    ------
    ScheduleError
        If the sizes are no range, or the plan serves none of them.
    """
    first, last = options.min_size_bytes, options.max_size_bytes or None
    if first < 0 or (last is not None and last < first):
        raise ScheduleError(
            f"--min-size {first} bytes, --max-size {last} bytes: expected no less than 0, rising"
        )
    entries = [*_clipped(plan, first, last)]
    if len(plan.entries) > 1 and options.size_bytes:
        size = options.size_bytes
        entries = [entry for entry in entries if entry.supports(size)]
        if "size_bytes" not in record.options:
            options = replace(options, size_bytes=0)
    if not entries:
        served = format_range(plan.entries[0].min_bytes, plan.entries[-1].max_bytes)
        raise ScheduleError(
            f"no schedule of the plan serves the sizes that were asked for; it serves {served}"
        )
    if (*entries,) == plan.entries:
        return plan, options
    rate, schedule = plan.algbw, entries[-1].schedule
    if schedule is not plan.entries[-1].schedule and isinstance(schedule, ForestSchedule):
        rate = algbw(plan.topology, schedule)
    return replace(plan, entries=tuple(entries), algbw=rate, optimal_algbw=None, witness=None), options


def range_count(plan: Plan, *, to: str, **options: Unpack[TextKeywords]) -> int:
    """How many texts a plan asks for: one for each range of sizes, or one where a format names them all.

    Parameters
    ----------
    plan : Plan
    to : str
        A name of the table of formats.
    **options
        As for `treadle.planning.lower`, which see for errors.

    Examples
    --------
    >>> import treadle
    >>> plan = treadle.solve("ring:4", "allgather").plan
    >>> treadle.planning.range_count(plan, to="msccl-xml")
    1
    """
    record, asked = find_format(to), FileOptions(**options)
    if record.holds_ranges:
        return 1
    return len(file_ranges(narrowed_plan(plan, record, asked)[0], record, asked))


def _clipped(plan: Plan, first: int, last: int | None) -> Iterator[PlanEntry]:
    for entry in plan.entries:
        low = max(entry.min_bytes, first)
        high = min((end for end in (entry.max_bytes, last) if end is not None), default=None)
        if high is None or low <= high:
            yield replace(entry, min_bytes=low, max_bytes=high)


def file_ranges(plan: Plan, record: Format, options: FileOptions) -> tuple[FileRange, ...]:
    """A text's worth each: the plan's ranges, cut where its cost model changes to another protocol.

    They are not cut for a format without all protocols, or if one is asked for.
    """
    if not record.has_all_protocols or options.protocol is not None:
        return tuple(FileRange(entry) for entry in plan.entries)
    return tuple(part for entry in plan.entries for part in _by_protocol(entry))


def _by_protocol(entry: PlanEntry) -> Iterator[FileRange]:
    """The entry, cut where messages change their protocol; what runtimes do not know is left to them."""
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
