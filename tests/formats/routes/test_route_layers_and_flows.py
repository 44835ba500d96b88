"""Layers of hops, flow ids and queue pairs in route files: there and back, and mutants that are seen."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from treadle.errors import ScheduleError
from treadle.formats.routes import interpreter as judges
from treadle.formats.routes.writer import emit_route_csv, emit_route_json, emit_route_xml
from treadle.formats.verdict import Planned, Terms, Verdict
from treadle.schedules.alltoall.routes import RouteSchedule, routes_from_paths
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.topologies import ring
from treadle.verification.routes.route_check import verify_routes

RING = ring(5, bidirectional=False)
EVERYONE = on_all_ranks(RING, CollectiveKind.ALLTOALL)
FORMS: dict[str, tuple[Callable[..., str], Callable[..., Verdict]]] = {
    "json": (emit_route_json, judges.interpret_json),
    "csv": (emit_route_csv, judges.interpret_csv),
    "xml": (emit_route_xml, judges.interpret_xml),
}


def over_the_dateline(chunks: int = 1) -> RouteSchedule:
    """Everybody the one way round; behind the link from the last node to the first the layer is 1."""
    link = dict(zip(RING.tails.tolist(), range(RING.n_links), strict=True))
    pairs = [(i, hops) for i in range(5) for hops in range(1, 5)]
    ways = [[link[(i + step) % 5] for step in range(hops)] for i, hops in pairs]
    rows = [
        (i, (i + hops) % 5, 1, 0, way)
        for (i, hops), way in zip(pairs, ways, strict=True)
        for _ in range(chunks)
    ]
    flat = routes_from_paths(5, chunks, rows)
    starts = flat.source.tolist()
    layers = [int(starts[k] + step >= 5) for k in range(flat.n_paths) for step in range(len(flat.path(k)))]
    return dataclasses.replace(flat, hop_layer=np.array(layers, dtype=np.int32))


def judged(form: str, content: str, schedule: RouteSchedule | None = None) -> tuple[str, ...]:
    planned = schedule and Planned(RING, EVERYONE, schedule, tuple)
    return FORMS[form][1]([content.encode()], Terms(planned=planned)).violations


def text(form: str, schedule: RouteSchedule) -> str:
    return FORMS[form][0](RING, EVERYONE, schedule)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("chunks", [1, 2])
def test_layers_and_flows_there_and_back(form: str, chunks: int) -> None:
    schedule = over_the_dateline(chunks)
    assert verify_routes(RING, EVERYONE, schedule).is_ok
    content = text(form, schedule)
    assert judged(form, content, schedule) == judged(form, content) == ()


def test_what_the_json_says() -> None:
    file = json.loads(text("json", over_the_dateline(2)))
    assert (file["version"], file["queue_pairs"]) == (2, [8] * 5)
    far = [route for route in file["routes"] if (route["source"], route["target"]) == (3, 2)]
    assert [route["layers"] for route in far] == [[0, 0, 1, 1]] * 2
    assert [route["flow"] for route in far] == [0xC000, 0xC001]
    assert all("layers" not in route for route in file["routes"] if route["source"] == 0)


def mutant(change: Callable[[Any, list[Any]], object]) -> tuple[str, ...]:
    """What is found, without a plan, in the JSON of two routes a pair once it is changed."""
    file = json.loads(text("json", over_the_dateline(2)))
    far = [route for route in file["routes"] if (route["source"], route["target"]) == (3, 2)]
    change(file, far)
    return judged("json", json.dumps(file))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda _, far: far[0].update(layers=[0, 0, 0, 1]), "links wait for each other: "),
        (lambda _, far: far[0].update(layers=[0, 1, 0, 0]), "links wait for each other: "),
        (lambda _, far: far[1].update(layers=[0, 0, 1]), "expected one for each hop"),
        (lambda _, far: far[1].update(layers=[1, 1, 1, 1]), "the first 0"),
        (lambda _, far: far[1].update(layers=[0, 0, 1, 2]), "layer 2 is beyond the 2 of the file"),
        (lambda _, far: far[1].update(flow=far[0]["flow"]), "flow 49152 is that of route "),
        (lambda _, far: far[0].update(flow=0xBFFF), "flow 49151: expected 49152 to 65535"),
        (lambda _, far: far[0].update(flow=0x10000), "flow 65536: expected 49152 to 65535"),
        (lambda file, _: file.update(queue_pairs=[8, 8, 9, 8, 8]), "rank 2: 9 queue pairs, it sends 8 flows"),
        (lambda file, _: file["routes"].pop(), "rank 4: 8 queue pairs, it sends 7 flows"),
    ],
)
def test_mutants_are_seen_from_the_file_alone(change: Callable[[Any, list[Any]], object], words: str) -> None:
    assert any(words in violation for violation in mutant(change)), mutant(change)


def test_ids_at_both_ends_of_the_range_are_right() -> None:
    assert mutant(lambda _, far: far[0].update(flow=0xFFFF)) == ()


def test_the_circle_is_one() -> None:
    """Without the dateline all five links wait for each other in layer 0."""
    flat = dataclasses.replace(over_the_dateline(), hop_layer=np.array([], dtype=np.int32))
    (fault,) = judged("csv", text("csv", flat))
    assert fault.startswith("5 links wait for each other: ")
    named = [int(link) for link in re.findall(r"(\d+) in layer 0", fault)]
    heads, tails = RING.heads.tolist(), RING.tails.tolist()
    assert [heads[link] for link in named] == [tails[link] for link in (*named[1:], named[0])]


DAMAGES = [
    ("csv", ",0 0 1,", ",0 1 1,", "the plan has [0, 0, 1]"),
    ("csv", "49152,4\n", "49152,5\n", "rank 0: 5 queue pairs, it sends 4 flows"),
    ("csv", "49152,4\n", "9,4\n", "flow 9: expected"),
    ("xml", 'layer="1"/>', 'layer="0"/>', "the plan has"),
    ("xml", 'queue_pairs="4"', 'queue_pairs="3"', "rank 0: 3 queue pairs"),
    ("xml", 'flow="49152"', 'flow="1"', "flow 1: expected"),
]


@pytest.mark.parametrize(("form", "old", "new", "words"), DAMAGES)
def test_damages_of_the_others(form: str, old: str, new: str, words: str) -> None:
    content = text(form, over_the_dateline())
    assert old in content
    found = judged(form, content.replace(old, new, 1), over_the_dateline())
    assert any(words in violation for violation in found), found


def test_a_layer_that_hangs_nothing_up_is_held_against_the_plan() -> None:
    content = text("json", over_the_dateline()).replace('"layers": [0, 0, 1]', '"layers": [0, 1, 1]', 1)
    assert judged("json", content) == ()
    (fault,) = judged("json", content, over_the_dateline())
    assert fault.endswith("layers [0, 1, 1], the plan has [0, 0, 1]")


def first_version(form: str, schedule: RouteSchedule) -> str:
    """The text as version 1 had it."""
    content = text(form, schedule)
    if form == "json":
        content = re.sub(r', "(layers|queue_pairs)": \[[^]]*\]|, "flow": \d+', "", content)
        return content.replace('"version": 2', '"version": 1')
    if form == "xml":
        content = re.sub(r' (flow|queue_pairs)="\d+"|(?<=") layer="\d+"(?=/>)', "", content)
        return content.replace('version="2"', 'version="1"')
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(row[:-3] for row in csv.reader(io.StringIO(content)))
    return out.getvalue()


@pytest.mark.parametrize("form", FORMS)
def test_files_of_version_1_still_load(form: str) -> None:
    flat = dataclasses.replace(over_the_dateline(), hop_layer=np.array([], dtype=np.int32))
    assert judged(form, first_version(form, flat), flat) == ()
    rising = over_the_dateline()
    assert judged(form, first_version(form, rising)) == ()
    found = judged(form, first_version(form, rising), rising)
    assert len(found) == 6
    assert all("file of version 1 does not say" in fault for fault in found)


def test_more_routes_of_a_pair_than_ids() -> None:
    many = routes_from_paths(5, 2**15, [(0, 1, 1, 0, [0])] * (2**14 + 1))
    with pytest.raises(ScheduleError, match="more than 16384 routes"):
        emit_route_csv(RING, EVERYONE, many)
