"""Traces as files, in the format of the file's suffix."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from treadle.atomic import write_bytes
from treadle.errors import FormatError, ScheduleError
from treadle.traces.chrome_json import chrome_json
from treadle.traces.timed_lanes import Trace
from treadle.traces.track_events import require_track_events, track_events

MOST_EVENTS = 10**6
"""Limit of viewers."""

_WRITERS: Mapping[str, Callable[[Trace], bytes]] = MappingProxyType(
    {".json": chrome_json, ".pftrace": track_events}
)


def check_trace_name(path: Path | str) -> None:
    """Raise for a file that could not be written, before the work for it.

    Raises
    ------
    FormatError
        For an unsupported suffix.
    MissingDependencyError
        ``.pftrace`` without protobuf.

    Examples
    --------
    >>> from treadle import planning
    >>> planning.check_trace_name("run.pftrace")
    """
    if _writer(path)[0] is track_events:
        require_track_events()


def trace_bytes(trace: Trace, path: Path | str) -> bytes:
    """Return the trace in the format of the suffix: ``.json``, ``.pftrace``, or either with ``.gz``."""
    writer, is_packed = _writer(path)
    data = writer(trace)
    return gzip.compress(data, mtime=0) if is_packed else data


def write_trace(path: Path | str, trace: Trace) -> None:
    """Write the trace to a file, in the format of its suffix; errors are those of `check_trace_name`.

    Examples
    --------
    >>> from pathlib import Path
    >>> import treadle
    >>> from treadle import planning
    >>> run = treadle.simulate(treadle.solve("ring:4", "allgather"), "1K")
    >>> planning.write_trace("run.json", planning.simulation_trace(run.last))
    >>> Path("run.json").read_text()[:16]
    '{"displayTimeUni'
    """
    write_bytes(path, trace_bytes(trace, path))


def check_event_count(count: int, fix: str) -> None:
    """Raise ScheduleError for more events than viewers show: an incomplete trace would mislead."""
    if count > MOST_EVENTS:
        raise ScheduleError(f"trace: {count} events, expected at most {MOST_EVENTS}; {fix}")


def _writer(path: Path | str) -> tuple[Callable[[Trace], bytes], bool]:
    name = Path(path).name.lower()
    plain = name.removesuffix(".gz")
    for ending, writer in _WRITERS.items():
        if plain.endswith(ending):
            return writer, plain != name
    expected = f"expected a name that ends in {', '.join(_WRITERS)} or one of these and .gz"
    raise FormatError(f"trace {str(path)[:200]}: {expected}")
