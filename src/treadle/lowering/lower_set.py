"""Plans as folders of texts, one for each range of sizes, that a runtime chooses from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

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

_LEGACY_TEXTS = 4
"""That the legacy runtime reads."""


@brief("text", "algorithm", "protocol")
@dataclass(frozen=True)
class LoweredRange:
    """One text of a set.

    Parameters
    ----------
    text : RangedFile
    made : Lowered
        How it was made and judged.
    algorithm : str
        Its schedule's, with the options that it was told.
    protocol : str
        Empty where the format has none.

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
        """Its range, for people."""
        return format_range(self.text.min_bytes, self.text.max_bytes)


@brief("format", "dialect", "ranges", "left_out")
@dataclass(frozen=True)
class LoweredSet:
    """Texts for all ranges of a plan, and what makes a runtime choose from them.

    Parameters
    ----------
    format : str
    dialect : str
        Which of several the texts are written in.
    ranges : tuple of LoweredRange
        In the order of their files: by size, then those that fill in.
    left_out : tuple of (int, int or None, str)
        First and last size of ranges that cannot be written, and why: the runtime's own algorithms serve
        them.
    delivery : Delivery
        Of a folder that holds this set alone.
    faults : tuple of str
        What the judges found wrong; empty unless Treadle has a defect.

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
        """The texts alone."""
        return tuple(one.text for one in self.ranges)


def write_set(plan: Plan, record: Format, asked: FileOptions, label: str, folder: str) -> LoweredSet:
    """All texts for the ranges of a plan."""
    label = f"{label}.in-place" if asked.in_place else label
    parts = file_ranges(plan, record, asked)
    ranges: list[LoweredRange] = []
    left_out: list[tuple[int, int | None, str]] = []
    for number, part in enumerate(parts, 1):
        try:
            ranges.append(_write_text(plan, record, asked, label, part, f"{number:02}"))
        except ScheduleError as error:
            left_out.append((part.entry.min_bytes, part.entry.max_bytes, str(error)))
    if not ranges:
        raise InfeasibleError("; ".join(f"sizes {format_range(a, b)}: {why}" for a, b, why in left_out))
    dialect = ranges[0].made.dialect
    if dialect == Profile.LEGACY and len(ranges) > _LEGACY_TEXTS:
        raise InfeasibleError(
            f"{len(ranges)} texts, and the legacy runtime reads {_LEGACY_TEXTS} in all; solve with "
            f"--max-schedules {_LEGACY_TEXTS}, or fewer for several collectives"
            + (", lower with --protocol Simple" if len(parts) > len(plan.entries) else "")
        )
    if asked.chunks == AUTO_CHUNKS and dialect not in (Profile.LEGACY, Profile.RCCL):
        ranges += [*_filling_in(plan, record, asked, label, parts, ranges)]
    texts = tuple(one.text for one in ranges)
    delivery = record.delivery(FileSet(folder or "texts", dialect, texts))
    choices = record.interpreted_set(texts, dict(delivery.files), dialect or None)
    faults = (*(fault for one in ranges for fault in one.made.faults), *choices)
    return LoweredSet(record.name, dialect, tuple(ranges), tuple(left_out), delivery, faults)


def _filling_in(
    plan: Plan,
    record: Format,
    asked: FileOptions,
    label: str,
    parts: Sequence[FileRange],
    main: Sequence[LoweredRange],
) -> Iterator[LoweredRange]:
    """Texts for sizes that the chunks of a range's own text do not divide.

    Multiples of c elements are served by a text of c chunks: one of them adds something unless the
    chunks of a text before it divide its own.
    """
    number = 0
    for one in main:
        at = next(i for i, part in enumerate(parts) if part.entry.min_bytes == one.text.min_bytes)
        own, beside = parts[at].entry, [part.entry for part in (*parts[:at][-1:], *parts[at + 1 :][:1])]
        covered = [one.text.n_chunks]
        # the range itself, then those beside it with other schedules
        for other in (own, *(entry for entry in beside if entry.schedule is not own.schedule)):
            part = FileRange(replace(own, schedule=other.schedule), parts[at].protocol)
            request = FileRequest(plan, part.entry, asked, "", in_own_folder=True)
            try:
                chunks = request.program(merge=True).n_chunks
                if any(chunks % count == 0 for count in covered):
                    continue
                number += 1
                made = _write_text(plan, record, asked, label, part, f"rest-{number:02}", other)
            except ScheduleError:
                continue  # what cannot be written fills nothing in
            covered.append(made.text.n_chunks)
            yield made


def _write_text(
    plan: Plan,
    record: Format,
    asked: FileOptions,
    label: str,
    part: FileRange,
    place: str,
    filling: PlanEntry | None = None,
) -> LoweredRange:
    """One text, at its place in the order of files."""
    entry, collective = part.entry, plan.collective
    protocol = part.protocol or asked.protocol or ("Simple" if record.has_all_protocols else None)
    asked = replace(asked, protocol=protocol, chunks=asked.chunks if filling is None else PLAN_CHUNKS)
    if asked.name is not None:
        asked = replace(asked, name=f"{asked.name}-{place}")
    last = "" if entry.max_bytes is None else format_size(entry.max_bytes)
    file = f"{FOLDER}/{label}.{place}.{format_size(entry.min_bytes)}-{last}{record.extension}"
    made = lower_verified(plan, record, asked, entry=entry, path=file, in_own_folder=True, is_group=True)
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
        in_place=asked.in_place,
        min_bytes=entry.min_bytes,
        max_bytes=entry.max_bytes,
        root=-1 if collective.root is None else collective.root,
        fills_in=filling is not None,
    )
    return LoweredRange(text, made, (filling or entry).title or plan.algorithm, protocol or "")
