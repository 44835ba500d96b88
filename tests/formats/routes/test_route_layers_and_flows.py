"""Layers of hops, flow ids and queue pairs in route files: there and back, and mutants that are seen."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

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


def test_more_routes_of_a_pair_than_ids() -> None:
    many = routes_from_paths(5, 2**15, [(0, 1, 1, 0, [0])] * (2**14 + 1))
    with pytest.raises(ScheduleError, match="more than 16384 routes"):
        emit_route_csv(RING, EVERYONE, many)
