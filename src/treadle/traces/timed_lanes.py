"""Content of a trace: tracks of spans in time, and counters, by process.

Viewers stack nested spans of a track, but misplace spans that overlap otherwise (Perfetto's documentation).
So spans that would overlap are put on separate tracks.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from treadle.brief import brief

Detail = str | int | float
"""Value of a property of a span."""


class TraceSpan(NamedTuple):
    """An event with a duration.

    Parameters
    ----------
    name : str
    begin, end : int
        Nanoseconds times `TICKS_PER_NS`, end not before begin.
    about : mapping of str to Detail
    category : str
        Used by viewers for colours and filters.
    """

    name: str
    begin: int
    end: int
    about: Mapping[str, Detail] = MappingProxyType({})
    category: str = ""


TICKS_PER_NS = 1000
"""Ticks are integral picoseconds, so equal times stay equal in all formats."""


def ticks(seconds: float) -> int:
    """Convert seconds to ticks."""
    return round(seconds * 1e9 * TICKS_PER_NS)


@brief("process", "name")
@dataclass(frozen=True)
class Track:
    """A track: spans of which no two overlap.

    Parameters
    ----------
    process : str
        Viewers group tracks by process.
    name : str
    spans : tuple of TraceSpan
        In the order of their begin.
    """

    process: str
    name: str
    spans: tuple[TraceSpan, ...]


@brief("process", "name")
@dataclass(frozen=True)
class TraceCounter:
    """A quantity over time: each value holds until the next.

    Parameters
    ----------
    process, name, unit : str
    points : tuple of (int, float)
        Tick and value, ascending.
    """

    process: str
    name: str
    unit: str
    points: tuple[tuple[int, float], ...]


@brief("about")
@dataclass(frozen=True)
class Trace:
    """Tracks, counters, and properties of the trace.

    Parameters
    ----------
    lanes : tuple of Track
    counters : tuple of TraceCounter
    about : mapping of str to Detail
    """

    lanes: tuple[Track, ...]
    counters: tuple[TraceCounter, ...] = ()
    about: Mapping[str, Detail] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def processes(self) -> tuple[str, ...]:
        """Names in the order of first use."""
        lanes = dict.fromkeys(lane.process for lane in self.lanes)
        return tuple(lanes | dict.fromkeys(counter.process for counter in self.counters))


def lanes_apart(process: str, name: str, spans: Iterable[TraceSpan]) -> tuple[Track, ...]:
    """Distribute spans to the fewest tracks without overlap; the second and later ones are numbered.

    Examples
    --------
    >>> spans = [TraceSpan("a", 0, 5), TraceSpan("b", 2, 9), TraceSpan("c", 5, 6)]
    >>> found = lanes_apart("ranks", "rank 0", spans)
    >>> [(lane.name, [span.name for span in lane.spans]) for lane in found]
    [('rank 0', ['a', 'c']), ('rank 0 (2)', ['b'])]
    """
    held: list[list[TraceSpan]] = [[]]
    idle, busy = [0], list[tuple[int, int]]()
    for span in sorted(spans, key=lambda span: (span.begin, span.end)):
        while busy and busy[0][0] <= span.begin:
            heapq.heappush(idle, heapq.heappop(busy)[1])
        if not idle:
            heapq.heappush(idle, len(held))
            held.append([])
        place = heapq.heappop(idle)
        held[place].append(span)
        heapq.heappush(busy, (span.end, place))
    return tuple(
        Track(process, name if not place else f"{name} ({place + 1})", tuple(own))
        for place, own in enumerate(held)
    )
