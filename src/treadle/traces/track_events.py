"""Traces in Perfetto's format: packets of track events (``.pftrace``), which it reads fastest.

The fields are those of Perfetto's protos/perfetto/trace: a numbered track for each process, with child tracks
for its tracks and counters; then a packet for each begin and end, in the order of time on each track.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from treadle.protobuf_messages import message_classes
from treadle.traces.timed_lanes import TICKS_PER_NS, Trace

_MESSAGES = {
    "ProcessDescriptor": (("pid", 1, "int32"), ("process_name", 6, "string")),
    "CounterDescriptor": (("unit_name", 6, "string"),),
    "TrackDescriptor": (
        ("uuid", 1, "uint64"),
        ("name", 2, "string"),
        ("process", 3, "ProcessDescriptor"),
        ("parent_uuid", 5, "uint64"),
        ("counter", 8, "CounterDescriptor"),
        ("child_ordering", 11, "int32"),
        ("sibling_order_rank", 12, "int32"),
    ),
    "DebugAnnotation": (
        ("int_value", 4, "int64"),
        ("double_value", 5, "double"),
        ("string_value", 6, "string"),
        ("name", 10, "string"),
    ),
    "TrackEvent": (
        ("debug_annotations", 4, "DebugAnnotation*"),
        ("type", 9, "int32"),
        ("track_uuid", 11, "uint64"),
        ("categories", 22, "string*"),
        ("name", 23, "string"),
        ("double_counter_value", 44, "double"),
    ),
    "TracePacket": (
        ("timestamp", 8, "uint64"),
        ("trusted_packet_sequence_id", 10, "uint32"),
        ("track_event", 11, "TrackEvent"),
        ("track_descriptor", 60, "TrackDescriptor"),
    ),
    "Trace": (("packet", 1, "TracePacket*"),),
}
_BEGIN, _END, _COUNTER = 1, 2, 4
_EXPLICIT = 3
"""Child tracks are ordered by their rank."""
_SEQUENCE = 1


def require_track_events() -> None:
    """Raise MissingDependencyError without protobuf, before the work for a trace."""
    _classes()


@cache
def _classes() -> dict[str, Any]:
    return message_classes(
        "perfetto.protos", _MESSAGES, syntax="proto2", what="Perfetto's traces", extra="chakra"
    )


def track_events(trace: Trace) -> bytes:
    """Return the file's content, with times in nanoseconds; MissingDependencyError without protobuf."""
    found = _classes()["Trace"]()
    parents = {process: number for number, process in enumerate(trace.processes, start=1)}
    for process, number in parents.items():
        described = found.packet.add(trusted_packet_sequence_id=_SEQUENCE).track_descriptor
        described.uuid, described.child_ordering = number, _EXPLICIT
        described.process.pid, described.process.process_name = number, process
    track = len(parents)
    for lane in trace.lanes:
        track += 1
        _describe(found, track, parents[lane.process], lane.name)
        for span in lane.spans:
            event = _event(found, track, span.begin, _BEGIN)
            event.name = span.name
            if span.category:
                event.categories.append(span.category)
            for key, value in span.about.items():
                kind = "string" if isinstance(value, str) else "int" if isinstance(value, int) else "double"
                event.debug_annotations.add(name=key, **{f"{kind}_value": value})
            _event(found, track, span.end, _END)
    for counter in trace.counters:
        track += 1
        _describe(found, track, parents[counter.process], counter.name).counter.unit_name = counter.unit
        for tick, value in counter.points:
            _event(found, track, tick, _COUNTER).double_counter_value = value
    data: bytes = found.SerializeToString(deterministic=True)
    return data


def _describe(found: Any, track: int, parent: int, name: str) -> Any:
    described = found.packet.add(trusted_packet_sequence_id=_SEQUENCE).track_descriptor
    described.uuid, described.parent_uuid, described.name = track, parent, name
    described.sibling_order_rank = track
    return described


def _event(found: Any, track: int, tick: int, kind: int) -> Any:
    at = (2 * tick + TICKS_PER_NS) // (2 * TICKS_PER_NS)  # halves up
    event = found.packet.add(timestamp=at, trusted_packet_sequence_id=_SEQUENCE).track_event
    event.type, event.track_uuid = kind, track
    return event
