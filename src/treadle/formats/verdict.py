"""What a format's judge is asked and what it answers: values alone, which judges of all formats share."""

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
    """What a judge did with files that it had parsed.

    Examples
    --------
    >>> from treadle import planning
    >>> [one.value for one in planning.Check]
    ['executed', 'compared', 'parsed']
    """

    EXECUTED = "executed"
    """Carried out every operation, by an interpreter that shares no code with the writer."""
    COMPARED = "compared"
    """Compared what they hold with the plan."""
    PARSED = "parsed"
    """Nothing more."""


_WORDS = MappingProxyType(
    {
        Check.EXECUTED: "parsed back and executed by Treadle's own interpreter{}",
        Check.COMPARED: "parsed back and compared with the plan{}; nothing executed",
        Check.PARSED: "parsed back{}; nothing executed",
    }
)


@dataclass(frozen=True)
class Planned:
    """What files should hold.

    Parameters
    ----------
    topology : Topology
    collective : Collective
    schedule : Schedule
        As it is written.
    boxes : callable
        Finds the ranks of each box, in the order of their devices.
    ranges : tuple of PlanEntry
        Of the plan, for files that name several.
    """

    topology: Topology
    collective: Collective
    schedule: Schedule
    boxes: Callable[[], tuple[tuple[int, ...], ...]]
    ranges: tuple[PlanEntry, ...] = ()


@dataclass(frozen=True)
class Terms:
    """What files are judged by, besides their content.

    Parameters
    ----------
    source : str
        Name for messages; empty for that of the format.
    profile : str, optional
        Whose limits hold, where a format has several dialects; None: the first that fits.
    root : int
        Of a broadcast or reduce whose text does not name it.
    rank : int, optional
        The files are this rank's part alone.
    planned : Planned, optional
        What they should hold; None for somebody else's.
    """

    source: str = ""
    profile: str | None = None
    root: int = 0
    rank: int | None = None
    planned: Planned | None = None


@dataclass(frozen=True)
class RangedFile:
    """One of the texts that a runtime chooses from by size, and the calls that it is meant for.

    Parameters
    ----------
    file : str
        Its path in the folder of the set, whose order some runtimes follow.
    data : bytes
    plan : str
        In a word, which plan's it is.
    name : str
        Of the algorithm in the text.
    collective : CollectiveKind
    n_ranks, n_chunks : int
    in_place : bool
    min_bytes : int
        First size, the larger per-rank buffer.
    max_bytes : int, optional
        Last size; None: no limit.
    root : int
        Of a broadcast or reduce, else -1.
    fills_in : bool
        It is meant for those sizes alone that the chunks of the texts before it do not divide.
    """

    file: str
    data: bytes
    plan: str
    name: str
    collective: CollectiveKind
    n_ranks: int
    n_chunks: int
    in_place: bool
    min_bytes: int
    max_bytes: int | None
    root: int = -1
    fills_in: bool = False

    def tried(self, unit: int, end: int, *, beyond: bool = True) -> Iterator[tuple[int, bool]]:
        """Sizes at both ends of the range, about its middle, and outside; whether the text serves them.

        Parameters
        ----------
        unit : int
            Bytes that sizes are counted in.
        end : int
            Last size, in bytes.
        beyond : bool
            Whether sizes after it are none of the text's.
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
    """What a judge found, and what it did to find it.

    Parameters
    ----------
    check : Check
    violations : tuple of str
        What is wrong; empty if nothing is.
    counts : tuple of (str, int)
        What the files consist of: nouns and how many.
    n_ranks : int
    collective : str
        Empty where the files serve several.
    detail : str
        What the words of `check` leave open, with the comma or colon that joins it to them.
    variant : str
        Which of the format's forms it is, as it is written after the format's name.
    n_chunks : int, optional
        Equal parts of the buffer that the files name.
    is_part : bool
        They hold one rank of several, which was judged alone.
    notes : tuple of str
        Limits of the result: values that a runtime assumes, runtimes that do not load the files.
    """

    check: Check
    violations: tuple[str, ...]
    counts: tuple[tuple[str, int], ...]
    n_ranks: int
    collective: str = ""
    detail: str = ""
    variant: str = ""
    n_chunks: int | None = None
    is_part: bool = False
    notes: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """What was done, for people.

        Examples
        --------
        >>> Judgement(Check.PARSED, (), (), 2, detail=", rank 1 alone").words
        'parsed back, rank 1 alone; nothing executed'
        """
        return _WORDS[self.check].format(self.detail)


def decoded(data: bytes, terms: Terms, name: str) -> tuple[str, str]:
    """Return a file's characters, and its name for messages; FormatError if it is no UTF-8."""
    source = terms.source or name
    try:
        return data.decode("utf-8"), source
    except UnicodeDecodeError as error:
        raise FormatError(f"byte {error.start} is no UTF-8", source=source) from None


def listed(faults: list[str], most: int) -> tuple[str, ...]:
    """Return the first faults, and how many more there are."""
    more = len(faults) - most
    return (*faults[:most], *((f"and {more} more",) if more > 0 else ()))
