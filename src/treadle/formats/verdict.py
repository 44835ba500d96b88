"""Input and output of the verifiers of all formats: plain values, the only code that they share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from treadle.brief import brief
from treadle.errors import FormatError
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.plan import PlanEntry
from treadle.schedules.schedule import Schedule
from treadle.topologies.topology import Topology


class Check(StrEnum):
    """Extent of a verification, beyond parsing.

    Examples
    --------
    >>> from treadle import planning
    >>> [one.value for one in planning.Check]
    ['executed', 'compared', 'parsed']
    """

    EXECUTED = "executed"
    """Every operation was executed by an interpreter that shares no code with the writer."""
    COMPARED = "compared"
    """The content was compared with the plan."""
    PARSED = "parsed"
    """The files were only parsed."""


_WORDS = MappingProxyType(
    {
        Check.EXECUTED: "parsed back and executed by Treadle's own interpreter{}",
        Check.COMPARED: "parsed back and compared with the plan{}; nothing executed",
        Check.PARSED: "parsed back{}; nothing executed",
    }
)


@dataclass(frozen=True)
class Planned:
    """The plan that files were written from: the schedule of one entry, and all entries as `ranges`."""

    topology: Topology
    collective: Collective
    schedule: Schedule
    boxes: Callable[[], tuple[tuple[int, ...], ...]]
    """Finds the ranks of each box, in the order of their devices."""
    ranges: tuple[PlanEntry, ...] = ()


@dataclass(frozen=True)
class Terms:
    """Input of a verifier besides the files."""

    source: str = ""
    """Name for messages; empty for the name of the format."""
    profile: str | None = None
    """Dialect whose limits apply; None: the first that fits."""
    root: int = 0
    """Root of a broadcast or reduce, if the file does not name it."""
    rank: int | None = None
    """Rank whose part the files are; None if they are complete."""
    planned: Planned | None = None
    """Expected content; None if the files were not written from a plan."""


@dataclass(frozen=True)
class RangedFile:
    """One of the runtime files that a runtime chooses from by size, and the calls that it is intended for."""

    file: str
    """Path in the folder of the set; some runtimes read the files in this order."""
    data: bytes
    plan: str
    """Label of the plan."""
    name: str
    """Name of the algorithm in the file."""
    collective: CollectiveKind
    n_ranks: int
    n_chunks: int
    in_place: bool
    min_bytes: int
    """First size of the larger per-rank buffer."""
    max_bytes: int | None
    """Last size; None: no limit."""
    root: int = -1
    """Root of a broadcast or reduce, else -1."""
    fills_in: bool = False
    """Whether it is only for sizes that the chunks of earlier files do not divide."""

    def tried(self, unit: int, end: int, *, beyond: bool = True) -> Iterator[tuple[int, bool]]:
        """Yield sizes at both ends of the range, in its middle and outside, and whether the range has them.

        Sizes are in units of `unit` bytes; `end` is the last size in bytes, and `beyond` says whether sizes
        after it are outside.
        """
        first, last = max(1, -(-self.min_bytes // unit)), end // unit
        if first <= last:
            for units in dict.fromkeys((first, first + 1, (first + last) // 2, last - 1, last)):
                if first <= units <= last:
                    yield units, True
        for units in (first - 1, last + 1) if beyond else (first - 1,):
            if units > 0:
                yield units, False


@brief("check", "collective", "n_ranks", "n_chunks", "violations")
@dataclass(frozen=True)
class Verdict:
    """Verdict on files: what was checked, and what is wrong."""

    check: Check
    violations: tuple[str, ...]
    """Errors; empty if the files are correct."""
    counts: tuple[tuple[str, int], ...]
    """Content of the files: nouns and numbers."""
    n_ranks: int
    collective: str = ""
    """Name of the collective as the file spells it; empty if the files support several."""
    detail: str = ""
    """Addition to the description of `check`, with the comma or colon that joins them."""
    variant: str = ""
    """Form of the format, as printed after the format's name."""
    n_chunks: int | None = None
    """Equal parts of the buffer that the files name."""
    is_part: bool = False
    """Whether the files contain one rank of several, which was verified alone."""
    notes: tuple[str, ...] = ()
    """Limits of the verdict: values that a runtime assumes, runtimes that do not load the files."""

    @property
    def summary(self) -> str:
        """Description of the check.

        Examples
        --------
        >>> Verdict(Check.PARSED, (), (), 2, detail=", rank 1 alone").summary
        'parsed back, rank 1 alone; nothing executed'
        """
        return _WORDS[self.check].format(self.detail)


def decoded(data: bytes, terms: Terms, name: str) -> tuple[str, str]:
    """Return a file's characters, and its name for messages; FormatError if it is not UTF-8."""
    source = terms.source or name
    try:
        return data.decode("utf-8"), source
    except UnicodeDecodeError as error:
        raise FormatError(f"byte {error.start} is not valid UTF-8", source=source) from None


def listed(faults: list[str], most: int) -> tuple[str, ...]:
    """Return the first `most` faults, and how many more there are."""
    more = len(faults) - most
    return (*faults[:most], *((f"and {more} more",) if more > 0 else ()))
