"""Writes plans as folders of runtime files, one for each range of sizes, from which a runtime chooses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from treadle.brief import brief
from treadle.errors import InfeasibleError, ScheduleError
from treadle.formats.file_options import AUTO_CHUNKS, PLAN_CHUNKS, FileOptions
from treadle.formats.format import Format
from treadle.formats.msccl.profile import Profile
from treadle.formats.request import FileRequest
from treadle.formats.selection.file_set import FOLDER, Delivery, FileSet
from treadle.formats.verdict import RangedFile
from treadle.lowering.lower import lower_verified
from treadle.lowering.lowered import Lowered
from treadle.lowering.ranges import FileRange, file_ranges, format_range
from treadle.schedules.plan import Plan, PlanEntry
from treadle.units import format_size

_LEGACY_FILES = 4
"""Maximum number of files that the legacy runtime reads."""


@brief("text", "algorithm", "protocol")
@dataclass(frozen=True)
class LoweredRange:
    """One runtime file of a set.

    Parameters
    ----------
    text : RangedFile
    made : Lowered
        The file's content and verdict.
    algorithm : str
        Algorithm and options of its schedule.
    protocol : str
        Empty if the format has none.

    Examples
    --------
    >>> import treadle
    >>> found = treadle.planning.lower_set(treadle.solve("ring:4", "allgather"), label="ours")
    >>> [(one.text.file, one.algorithm) for one in found.ranges]
    [('texts/ours.01.0B-.xml', 'forestcoll')]
    """

    text: RangedFile
    made: Lowered
    algorithm: str
    protocol: str

    @property
    def sizes(self) -> str:
        """Description of the range."""
        return format_range(self.text.min_bytes, self.text.max_bytes)


@brief("format", "dialect", "ranges", "left_out")
@dataclass(frozen=True)
class LoweredSet:
    """Runtime files for all ranges of a plan, and what makes a runtime choose from them.

    Parameters
    ----------
    format : str
    dialect : str
        Dialect of the files, if the format has several.
    ranges : tuple of LoweredRange
        In the order of their file names: by size, then those that fill in.
    left_out : tuple of (int, int or None, str)
        First and last size of ranges that cannot be written, and the reason: the runtime uses its own
        algorithms for them.
    delivery : Delivery
        For a folder that contains only this set.
    faults : tuple of str
        Errors that the verifiers found; empty unless Treadle has a defect.

    Examples
    --------
    >>> import treadle
    >>> found = treadle.planning.lower_set(treadle.solve("ring:4", "allgather"))
    >>> found
    <LoweredSet msccl-xml, azure, 1 range>
    >>> [name for name, _ in found.delivery.files], found.faults
    (['load.sh'], ())
    """

    format: str
    dialect: str
    ranges: tuple[LoweredRange, ...]
    left_out: tuple[tuple[int, int | None, str], ...]
    delivery: Delivery
    faults: tuple[str, ...]

    @property
    def files_by_range(self) -> tuple[RangedFile, ...]:
        """Files of all ranges."""
        return tuple(one.text for one in self.ranges)


def write_set(plan: Plan, record: Format, options: FileOptions, label: str, folder: str) -> LoweredSet:
    """Write a runtime file for each range of a plan."""
    label = f"{label}.in-place" if options.in_place else label
    parts = file_ranges(plan, record, options)
    write = partial(_write_file, plan, record, options, label)
    ranges: list[LoweredRange] = []
    left_out: list[tuple[int, int | None, str]] = []
    for number, part in enumerate(parts, 1):
        try:
            ranges.append(write(part, f"{number:02}"))
        except ScheduleError as error:
            left_out.append((part.entry.min_bytes, part.entry.max_bytes, str(error)))
    if not ranges:
        raise InfeasibleError("; ".join(f"sizes {format_range(a, b)}: {why}" for a, b, why in left_out))
    dialect = ranges[0].made.dialect
    if dialect == Profile.LEGACY and len(ranges) > _LEGACY_FILES:
        raise InfeasibleError(
            f"{len(ranges)} files, and the legacy runtime reads {_LEGACY_FILES} in all; solve with "
            f"--max-schedules {_LEGACY_FILES}, or fewer for several collectives"
            + (", lower with --protocol Simple" if len(parts) > len(plan.entries) else "")
        )
    if options.chunks == AUTO_CHUNKS and dialect not in (Profile.LEGACY, Profile.RCCL):
        ranges += [*_filling_in(write, plan, options, parts, ranges)]
    texts = tuple(one.text for one in ranges)
    delivery = record.delivery(FileSet(folder or "texts", dialect, texts))
    choices = record.interpreted_set(texts, dict(delivery.files), dialect or None)
    faults = (*(fault for one in ranges for fault in one.made.faults), *choices)
    return LoweredSet(record.name, dialect, tuple(ranges), tuple(left_out), delivery, faults)


def _filling_in(
    write: Callable[[FileRange, str, PlanEntry], LoweredRange],
    plan: Plan,
    options: FileOptions,
    parts: Sequence[FileRange],
    main: Sequence[LoweredRange],
) -> Iterator[LoweredRange]:
    """Yield files for sizes that the chunks of a range's own file do not divide.

    A file of c chunks supports multiples of c elements, so another file adds sizes unless the chunks of an
    earlier one divide its own.
    """
    number = 0
    for one in main:
        at = next(i for i, part in enumerate(parts) if part.entry.min_bytes == one.text.min_bytes)
        own, neighbours = parts[at].entry, [part.entry for part in (*parts[:at][-1:], *parts[at + 1 :][:1])]
        covered = [one.text.n_chunks]
        # First the range itself, then the neighbouring ranges with other schedules.
        for other in (own, *(entry for entry in neighbours if entry.schedule is not own.schedule)):
            part = FileRange(replace(own, schedule=other.schedule), parts[at].protocol)
            request = FileRequest(plan, part.entry, options, "", in_own_folder=True)
            try:
                chunks = request.program(merge=True).n_chunks
                if any(chunks % count == 0 for count in covered):
                    continue
                number += 1
                made = write(part, f"rest-{number:02}", other)
            except ScheduleError:
                continue  # It cannot be written.
            covered.append(made.text.n_chunks)
            yield made


def _write_file(
    plan: Plan,
    record: Format,
    options: FileOptions,
    label: str,
    part: FileRange,
    position: str,
    filling: PlanEntry | None = None,
) -> LoweredRange:
    """Write one runtime file; `position` in the names of the files gives their order."""
    entry, collective = part.entry, plan.collective
    protocol = part.protocol or options.protocol or ("Simple" if record.has_all_protocols else None)
    options = replace(options, protocol=protocol, chunks=options.chunks if filling is None else PLAN_CHUNKS)
    if options.name is not None:
        options = replace(options, name=f"{options.name}-{position}")
    last = "" if entry.max_bytes is None else format_size(entry.max_bytes)
    file = f"{FOLDER}/{label}.{position}.{format_size(entry.min_bytes)}-{last}{record.extension}"
    made = lower_verified(plan, record, options, entry=entry, path=file, in_own_folder=True, is_group=True)
    ((_, data),) = made.files
    assert made.n_chunks is not None
    text = RangedFile(
        file=file,
        data=data,
        plan=label,
        name=made.name,
        collective=collective.kind,
        n_ranks=collective.n_ranks,
        n_chunks=made.n_chunks,
        in_place=options.in_place,
        min_bytes=entry.min_bytes,
        max_bytes=entry.max_bytes,
        root=-1 if collective.root is None else collective.root,
        fills_in=filling is not None,
    )
    return LoweredRange(text, made, (filling or entry).title or plan.algorithm, protocol or "")
