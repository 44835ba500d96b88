"""Traces in Chrome's Trace Event Format: JSON, for chrome://tracing and Perfetto."""

from __future__ import annotations

import json
from collections.abc import Iterator

from treadle.traces.timed_lanes import TICKS_PER_NS, Trace

_TICKS_PER_US = 1000 * TICKS_PER_NS


def chrome_json(trace: Trace) -> bytes:
    """Return complete events (``"ph": "X"``) and counters (``"C"``), with times in microseconds."""
    body = ",\n".join(json.dumps(event, separators=(",", ":"), allow_nan=False) for event in _events(trace))
    about = json.dumps(dict(trace.about), allow_nan=False)
    return f'{{"displayTimeUnit":"ns","otherData":{about},"traceEvents":[\n{body}\n]}}\n'.encode()


_Event = dict[str, object]


def _events(trace: Trace) -> Iterator[_Event]:
    numbers = {process: number for number, process in enumerate(trace.processes, start=1)}
    for process, number in numbers.items():
        yield {"name": "process_name", "ph": "M", "pid": number, "args": {"name": process}}
    for place, lane in enumerate(trace.lanes):
        own = {"pid": numbers[lane.process], "tid": place}
        yield {"name": "thread_name", "ph": "M", **own, "args": {"name": lane.name}}
        yield {"name": "thread_sort_index", "ph": "M", **own, "args": {"sort_index": place}}
        for span in lane.spans:
            yield {
                "name": span.name,
                **({"cat": span.category} if span.category else {}),
                "ph": "X",
                **own,
                "ts": _microseconds(span.begin),
                "dur": _microseconds(span.end - span.begin),
                "args": dict(span.about),
            }
    for counter in trace.counters:
        pid = numbers[counter.process]
        for tick, value in counter.points:
            at = _microseconds(tick)
            yield {"name": counter.name, "ph": "C", "pid": pid, "ts": at, "args": {counter.unit: value}}


def _microseconds(tick: int) -> float:
    """Convert ticks (picoseconds); the printed six decimals are exact up to hours."""
    return tick / _TICKS_PER_US
