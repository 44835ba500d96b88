"""Lanes without overlap, and both formats read back by readers that share nothing with the writers."""

from __future__ import annotations

import gzip
import json
import random
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from treadle import planning
from treadle.errors import FormatError, MissingDependencyError
from treadle.simulation.trace import simulation_trace
from treadle.traces import track_events as track_events_module
from treadle.traces.timed_lanes import Trace, TraceCounter, TraceSpan, Track, lanes_apart
from treadle.traces.trace_files import check_trace_name, trace_bytes, write_trace
from treadle.traces.track_events import track_events


def random_spans(seed: int) -> list[TraceSpan]:
    rng = random.Random(seed)
    spans = []
    for number in range(rng.randrange(1, 60)):
        begin = rng.randrange(50)
        spans.append(TraceSpan(str(number), begin, begin + rng.choice((0, 1, rng.randrange(20)))))
    return spans


@pytest.mark.parametrize("seed", range(40))
def test_lanes_hold_all_spans_apart_and_are_as_few_as_can_be(seed: int) -> None:
    spans = random_spans(seed)
    lanes = lanes_apart("p", "lane", spans)
    assert sorted(span for lane in lanes for span in lane.spans) == sorted(spans)
    for lane in lanes:
        assert all(first.end <= second.begin for first, second in pairwise(lane.spans))
    at_once = max(
        sum(one.begin < moment < one.end for one in spans) for moment in (tick + 0.5 for tick in range(70))
    )
    assert len(lanes) <= max(1, at_once) + sum(one.begin == one.end for one in spans)
    if all(one.begin < one.end for one in spans):
        assert len(lanes) == max(1, at_once)
    assert [lane.name for lane in lanes[:2]] == ["lane", "lane (2)"][: len(lanes)]


def test_weeks_are_traced_too() -> None:
    """Links of a graph carry a byte a second."""
    plan = planning.solve("ring(3)", "allgather").plan
    last = planning.simulate(plan, [2**30], auto_slices=False).last
    trace = simulation_trace(last)
    assert max(span.end for lane in trace.lanes for span in lane.spans) == pytest.approx(1e12 * last.time_s)


NOTED = TraceSpan("z", 1_499, 3_000_000, {"slice": 1, "of": "a", "s": 0.5}, "send")
SAMPLE = Trace(
    (
        Track("links", "0: a->b", (TraceSpan("x", 0, 2_000_500), TraceSpan("y", 2_000_500, 2_000_500))),
        Track("ranks", "rank 0", (NOTED,)),
    ),
    (TraceCounter("links", "links busy", "%", ((0, 100.0), (1_000_000, 12.5))),),
    {"fabric": "two"},
)


def fields(data: bytes) -> list[tuple[int, int | bytes]]:
    """A message's fields by number, from protobuf's encoding alone."""

    def varint(at: int) -> tuple[int, int]:
        value = shift = 0
        while True:
            value |= (data[at] & 127) << shift
            at, shift = at + 1, shift + 7
            if data[at - 1] < 128:
                return value, at

    found: list[tuple[int, int | bytes]] = []
    at = 0
    while at < len(data):
        key, at = varint(at)
        if key & 7 == 0:
            value, at = varint(at)
            found.append((key >> 3, value))
        else:
            size, at = (8, at) if key & 7 == 1 else varint(at)
            found.append((key >> 3, data[at : at + size]))
            at += size
    return found


def test_track_events_are_what_perfetto_reads() -> None:
    """Field numbers are written here again, from Perfetto's schema."""
    pytest.importorskip("google.protobuf")
    packets = [dict(fields(value)) for number, value in fields(track_events(SAMPLE)) if number == 1]
    assert all(packet[10] == 1 for packet in packets)
    described = [dict(fields(packet[60])) for packet in packets if 60 in packet]
    tracks = {one[1]: one for one in described}
    assert len(tracks) == len(described) == 5
    processes = {one[1]: dict(fields(one[3]))[6] for one in described if 3 in one}
    assert list(processes.values()) == [b"links", b"ranks"]
    named = {number: (processes[one[5]], one[2]) for number, one in tracks.items() if 5 in one}
    events = [(packet[8], dict(fields(packet[11]))) for packet in packets if 11 in packet]
    told = [(*named[event[11]], at, event[9], event.get(23)) for at, event in events]
    assert told == [
        (b"links", b"0: a->b", 0, 1, b"x"),
        (b"links", b"0: a->b", 2001, 2, None),
        (b"links", b"0: a->b", 2001, 1, b"y"),
        (b"links", b"0: a->b", 2001, 2, None),
        (b"ranks", b"rank 0", 1, 1, b"z"),
        (b"ranks", b"rank 0", 3000, 2, None),
        (b"links", b"links busy", 0, 4, None),
        (b"links", b"links busy", 1000, 4, None),
    ]
    notes = [dict(fields(value)) for number, value in fields(packets[-5][11]) if number == 4]
    assert [(note[10], note.get(4), note.get(6)) for note in notes] == [
        (b"slice", 1, None),
        (b"of", None, b"a"),
        (b"s", None, None),
    ]
    assert events[4][1][22] == b"send"


def test_files_by_their_names(tmp_path: Path) -> None:
    for name in ("a.json", "a.pftrace", "a.JSON.gz", "a.pftrace.gz"):
        write_trace(tmp_path / name, SAMPLE)
    plain = (tmp_path / "a.json").read_bytes()
    assert json.loads(plain)["otherData"] == {"fabric": "two"}
    assert gzip.decompress((tmp_path / "a.JSON.gz").read_bytes()) == plain
    assert gzip.decompress((tmp_path / "a.pftrace.gz").read_bytes()) == (tmp_path / "a.pftrace").read_bytes()
    assert trace_bytes(SAMPLE, "a.json.gz") == trace_bytes(SAMPLE, "b.json.gz")
    for name in ("a.txt", "a.gz", "json", "a.perfetto"):
        with pytest.raises(FormatError, match=r"expected a name that ends in \.json, \.pftrace"):
            write_trace(tmp_path / name, SAMPLE)


def test_what_a_trace_needs_is_asked_for_before_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the commands that simulate for minutes and write a trace then."""
    for name in ("a.json", "a.pftrace", "a.pftrace.gz"):
        check_trace_name(name)
    monkeypatch.setattr(track_events_module, "_classes", track_events_module._classes.__wrapped__)
    monkeypatch.setitem(sys.modules, "google.protobuf.descriptor_pb2", None)
    check_trace_name("a.json.gz")
    for name in ("a.pftrace", "a.PFTRACE.gz"):
        with pytest.raises(MissingDependencyError, match="protobuf"):
            check_trace_name(name)
