"""What a viewer of traces shows: lanes of spans in time, and counters, by process.

Viewers stack what is nested in a lane, and show wrongly what overlaps in another way (Perfetto's
documentation). So spans of a lane that would overlap are given lanes of their own.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from treadle.brief import brief

Detail = str | int | float
"""What is told of a span beside its name."""


class TraceSpan(NamedTuple):
    """Something that takes time.

    Parameters
    ----------
    name : str
    begin, end : int
        Nanoseconds times `TICKS_PER_NS`, end not before begin.
    about : mapping of str to Detail
    category : str
        Of which viewers make colours and filters.
    """

    name: str
    begin: int
    end: int
    about: Mapping[str, Detail] = MappingProxyType({})
    category: str = ""


TICKS_PER_NS = 1000
"""Ticks are picoseconds, in whole numbers: times that are equal stay so, whatever a format rounds to."""


def ticks(seconds: float) -> int:
    """Seconds as ticks."""
    return round(seconds * 1e9 * TICKS_PER_NS)


@brief("process", "name")
@dataclass(frozen=True)
class Track:
    """Spans of which no two overlap.

    Parameters
    ----------
    process : str
        Lanes of a process stand together.
    name : str
    spans : tuple of TraceSpan
        By begin.
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
    """Lanes and counters, and what is told of the whole.

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
        """In the order in which they come."""
        lanes = dict.fromkeys(lane.process for lane in self.lanes)
        return tuple(lanes | dict.fromkeys(counter.process for counter in self.counters))


def lanes_apart(process: str, name: str, spans: Iterable[TraceSpan]) -> tuple[Track, ...]:
    """As few lanes as hold the spans without overlap; the second and later ones are numbered.

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
