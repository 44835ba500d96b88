"""Traces as text, event by event, and how spans share lanes."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest

from treadle.errors import FormatError, ScheduleError
from treadle.traces.chrome_json import chrome_json
from treadle.traces.timed_lanes import Trace, TraceCounter, TraceSpan, Track, lanes_apart, ticks
from treadle.traces.trace_files import MOST_EVENTS, check_event_count, trace_bytes, write_trace
from treadle.traces.track_events import track_events

SAMPLE = Trace(
    (
        Track("links", "0: a->b", (TraceSpan("x", 0, 2_000_500),)),
        Track("ranks", "rank 0", (TraceSpan("z", 1_499, 3_000_000, {"of": "a", "s": 0.5}, "send"),)),
        Track("links", "1: b->a", ()),
    ),
    (TraceCounter("host", "load", "%", ((0, 100.0), (1_500_000, 12.5))),),
    {"fabric": "two"},
)


def test_every_event_of_chromes_format() -> None:
    """Processes are numbered from 1, lanes from 0; a microsecond is a million ticks."""
    found = json.loads(chrome_json(SAMPLE), parse_float=Decimal)
    assert (found["displayTimeUnit"], found["otherData"]) == ("ns", {"fabric": "two"})
    assert found["traceEvents"] == [
        {"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "links"}},
        {"name": "process_name", "ph": "M", "pid": 2, "args": {"name": "ranks"}},
        {"name": "process_name", "ph": "M", "pid": 3, "args": {"name": "host"}},
        {"name": "thread_name", "ph": "M", "pid": 1, "tid": 0, "args": {"name": "0: a->b"}},
        {"name": "thread_sort_index", "ph": "M", "pid": 1, "tid": 0, "args": {"sort_index": 0}},
        {"name": "x", "ph": "X", "pid": 1, "tid": 0, "ts": 0, "dur": Decimal("2.0005"), "args": {}},
        {"name": "thread_name", "ph": "M", "pid": 2, "tid": 1, "args": {"name": "rank 0"}},
        {"name": "thread_sort_index", "ph": "M", "pid": 2, "tid": 1, "args": {"sort_index": 1}},
        {
            **{"name": "z", "cat": "send", "ph": "X", "pid": 2, "tid": 1, "ts": Decimal("0.001499")},
            **{"dur": Decimal("2.998501"), "args": {"of": "a", "s": Decimal("0.5")}},
        },
        {"name": "thread_name", "ph": "M", "pid": 1, "tid": 2, "args": {"name": "1: b->a"}},
        {"name": "thread_sort_index", "ph": "M", "pid": 1, "tid": 2, "args": {"sort_index": 2}},
        {"name": "load", "ph": "C", "pid": 3, "ts": 0, "args": {"%": 100}},
        {"name": "load", "ph": "C", "pid": 3, "ts": Decimal("1.5"), "args": {"%": Decimal("12.5")}},
    ]
    for bad in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="not JSON compliant"):
            chrome_json(Trace((), (TraceCounter("p", "c", "%", ((0, bad),)),)))
        with pytest.raises(ValueError, match="not JSON compliant"):
            chrome_json(Trace((), (), {"a": bad}))


def test_every_packet_of_perfettos_format() -> None:
    """Tracks are numbered on after the processes, and rank as they are numbered."""
    pytest.importorskip("google.protobuf")
    from treadle.traces import track_events as module

    found = module._classes()["Trace"].FromString(track_events(SAMPLE))
    described = [one.track_descriptor for one in found.packet if one.HasField("track_descriptor")]
    assert [
        (one.uuid, one.parent_uuid, one.name, one.sibling_order_rank, one.child_ordering, one.process.pid)
        for one in described
    ] == [
        (1, 0, "", 0, 3, 1),
        (2, 0, "", 0, 3, 2),
        (3, 0, "", 0, 3, 3),
        (4, 1, "0: a->b", 4, 0, 0),
        (5, 2, "rank 0", 5, 0, 0),
        (6, 1, "1: b->a", 6, 0, 0),
        (7, 3, "load", 7, 0, 0),
    ]
    assert [one.process.process_name for one in described[:3]] == ["links", "ranks", "host"]
    assert described[6].counter.unit_name == "%"
    events = [(one.timestamp, one.track_event) for one in found.packet if one.HasField("track_event")]
    assert [(at, one.track_uuid, one.type, one.name, list(one.categories)) for at, one in events] == [
        (0, 4, 1, "x", []),
        (2001, 4, 2, "", []),
        (1, 5, 1, "z", ["send"]),
        (3000, 5, 2, "", []),
        (0, 7, 4, "", []),
        (1500, 7, 4, "", []),
    ]
    assert [one.double_counter_value for _, one in events[4:]] == [100, 12.5]
    first, second = events[2][1].debug_annotations
    assert (first.name, first.string_value, second.name, second.double_value) == ("of", "a", "s", 0.5)
    assert {one.trusted_packet_sequence_id for one in found.packet} == {1}


def numbers(data: bytes) -> dict[int, bytes]:
    """A message's fields by number, the last of each; lengths and varints are of one byte or two."""
    found, place = {}, 0
    while place < len(data):
        key, place = data[place], place + 1
        if key >= 128:
            key, place = key - 128 + 128 * data[place], place + 1
        start = place
        if key & 7 == 1:
            place += 8
        else:
            value = data[place]
            place += 1
            if value >= 128:
                value, place = value - 128 + 128 * data[place], place + 1
            if key & 7 == 2:
                start, place = place, place + value
        found[key >> 3] = data[start:place]
    return found


def test_numbers_of_perfettos_fields() -> None:
    """As in its protos/perfetto/trace: TracePacket 8, 10, 11, 60; TrackDescriptor 1 to 12; TrackEvent 44."""
    pytest.importorskip("google.protobuf")
    lane = Track(
        "p", "l", (TraceSpan("s", 5000, 6000, {"i": 7}, "c"), TraceSpan("t", 6000, 7000, {"v": 0.5}))
    )
    counter = TraceCounter("p", "n", "u", ((0, 2.0),))
    data, packets = track_events(Trace((lane,), (counter,))), []
    while data:
        assert data[0] == 1 << 3 | 2  # a Trace is its packets
        packets.append(numbers(data[2 : 2 + data[1]]))
        data = data[2 + data[1] :]
    process, track, begin, end = packets[:4]
    assert set(process) == {10, 60}
    assert set(numbers(process[60])) == {1, 3, 11}
    assert set(numbers(numbers(process[60])[3])) == {1, 6}
    assert set(numbers(track[60])) == {1, 2, 5, 12}
    assert set(begin) == set(end) == {8, 10, 11}
    assert (begin[8], end[8]) == (b"\x05", b"\x06")
    assert set(numbers(begin[11])) == {4, 9, 11, 22, 23}
    assert numbers(numbers(begin[11])[4]) == {4: b"\x07", 10: b"i"}
    assert set(numbers(numbers(packets[4][11])[4])) == {5, 10}
    last = packets[-2:]
    assert set(numbers(last[0][60])) == {1, 2, 5, 8, 12}
    assert set(numbers(numbers(last[0][60])[8])) == {6}
    assert set(numbers(last[1][11])) == {9, 11, 44}


@pytest.mark.parametrize(("seconds", "tick"), [(1.0, 10**12), (2.5e-12, 2), (3.5e-12, 4), (0.0, 0)])
def test_ticks_are_picoseconds(seconds: float, tick: int) -> None:
    assert ticks(seconds) == tick


def test_spans_take_the_first_lane_that_is_idle() -> None:
    """Of equal beginnings the shorter comes first; a lane is idle again at the end of its span."""
    spans = [
        TraceSpan("long", 0, 9),
        TraceSpan("short", 0, 3),
        TraceSpan("next", 3, 4),
        TraceSpan("third", 3, 8),
        TraceSpan("fourth", 3, 4),
        TraceSpan("late", 8, 9),
        TraceSpan("last", 9, 9),
    ]
    found = lanes_apart("p", "lane", reversed(spans))
    assert [(lane.process, lane.name, [span.name for span in lane.spans]) for lane in found] == [
        ("p", "lane", ["short", "fourth", "late", "last"]),
        ("p", "lane (2)", ["long"]),
        ("p", "lane (3)", ["next"]),
        ("p", "lane (4)", ["third"]),
    ]
    assert lanes_apart("p", "lane", []) == (Track("p", "lane", ()),)


def test_names_and_counts_at_their_limits(tmp_path: Path) -> None:
    assert MOST_EVENTS == 1000000
    check_event_count(1000000, "remedy")
    with pytest.raises(ScheduleError, match="trace: 1000001 events, expected at most 1000000; remedy"):
        check_event_count(1000001, "remedy")
    write_trace(tmp_path / "A.JSON", SAMPLE)
    assert (tmp_path / "A.JSON").read_bytes() == trace_bytes(SAMPLE, "b.json") == chrome_json(SAMPLE)
    with pytest.raises(FormatError) as caught:
        trace_bytes(SAMPLE, "x" * 201)
    assert f"trace {'x' * 200}: expected" in str(caught.value)
