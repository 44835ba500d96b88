"""Route files: JSON there and back, CSV and XML with the same routes, and what is refused."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from lxml import etree

from reference.route_texts import parse_route_json
from treadle.errors import FormatError, ScheduleError
from treadle.formats.routes.writer import emit_route_csv, emit_route_json, emit_route_xml
from treadle.schedules.alltoall.routes import RouteSchedule, routes_from_paths
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.topologies import ring
from treadle.topologies.topology import Topology, TopologyBuilder

RING = ring(4)
EVERYONE = on_all_ranks(RING, CollectiveKind.ALLTOALL)


def both_ways() -> RouteSchedule:
    """Ring of 4: neighbours directly, opposite ranks half each way, in two layers."""
    link = {(int(a), int(b)): e for e, (a, b) in enumerate(zip(RING.tails, RING.heads, strict=True))}
    routes: list[tuple[int, int, int, int, list[int]]] = []
    for i in range(4):
        left, far, right = (i - 1) % 4, (i + 2) % 4, (i + 1) % 4
        routes.append((i, left, 2, 0, [link[i, left]]))
        routes.append((i, right, 2, 0, [link[i, right]]))
        routes.append((i, far, 1, i % 2, [link[i, right], link[right, far]]))
        routes.append((i, far, 1, i % 2, [link[i, left], link[left, far]]))
    return routes_from_paths(4, 2, routes)


def test_json_there_and_back() -> None:
    text = emit_route_json(RING, EVERYONE, both_ways())
    assert parse_route_json(text, RING, EVERYONE) == both_ways()
    value = json.loads(text)
    far = [route for route in value["routes"] if (route["source"], route["target"]) == (0, 2)]
    assert [(route["route"], route["first_chunk"], route["chunks"]) for route in far] == [
        (0, 0, 1),
        (1, 1, 1),
    ]
    assert value["ranks"] == list(RING.node_names)
    assert value["n_layers"] == 2


def test_ports_lead_along_the_links() -> None:
    out: dict[int, list[int]] = {}
    for link, tail in enumerate(RING.tails.tolist()):
        out.setdefault(tail, []).append(link)
    for route in json.loads(emit_route_json(RING, EVERYONE, both_ways()))["routes"]:
        at = route["source"]
        for port, link in zip(route["ports"], route["links"], strict=True):
            assert out[at][port] == link
            at = int(RING.heads[link])
        assert at == route["target"]


def test_csv_says_the_same() -> None:
    rows = list(csv.DictReader(io.StringIO(emit_route_csv(RING, EVERYONE, both_ways()))))
    routes = json.loads(emit_route_json(RING, EVERYONE, both_ways()))["routes"]
    assert len(rows) == len(routes) == 16
    for row, route in zip(rows, routes, strict=True):
        for key in ("source", "target", "route", "layer", "first_chunk", "chunks"):
            assert int(row[key]) == route[key]
        for key in ("ports", "links"):
            assert [int(word) for word in row[key].split()] == route[key]
        assert row["source_node"] == RING.node_names[route["source"]]
        assert int(row["hops"]) == len(route["links"])


def test_xml_says_the_same() -> None:
    root = etree.fromstring(emit_route_xml(RING, EVERYONE, both_ways()))
    assert [rank.get("node") for rank in root.findall("rank")] == list(RING.node_names)
    found = [
        (pair.get("source"), pair.get("target"), route.get("layer"), route.get("chunks"),
         [int(hop.get("link") or -1) for hop in route.findall("hop")])
        for pair in root.findall("pair")
        for route in pair.findall("route")
    ]  # fmt: skip
    routes = json.loads(emit_route_json(RING, EVERYONE, both_ways()))["routes"]
    keys = ("source", "target", "layer", "chunks")
    assert found == [(*(str(route[key]) for key in keys), route["links"]) for route in routes]


def test_names_are_escaped() -> None:
    builder = TopologyBuilder('a "fabric" <&>')
    one, other = builder.compute('x,"<y>'), builder.compute("é&")
    builder.duplex(one, other, 5)
    fabric = builder.build()
    collective = on_all_ranks(fabric, CollectiveKind.ALLTOALL)
    routes = routes_from_paths(2, 1, [(0, 1, 1, 0, [0]), (1, 0, 1, 0, [1])])
    assert parse_route_json(emit_route_json(fabric, collective, routes), fabric, collective) == routes
    assert etree.fromstring(emit_route_xml(fabric, collective, routes))[0].get("node") == one
    assert list(csv.reader(io.StringIO(emit_route_csv(fabric, collective, routes))))[1][2] == one


def _set(key: str, value: object) -> Callable[[Any], None]:
    def change(file: Any) -> None:
        file[key] = value

    return change


def _route(key: str, value: object) -> Callable[[Any], None]:
    def change(file: Any) -> None:
        file["routes"][-1][key] = value

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_set("version", 3), "version 1 or 2"),
        (_set("version", 1), "queue_pairs in version 2, and only there"),
        (_set("queue_pairs", [4, 4, 4]), "3 queue_pairs for 4 ranks"),
        (_route("flow", "x"), "expected an integer"),
        (_set("treadle", "topology"), "expected treadle routes"),
        (_set("ranks", ["a", "b", "c", "d"]), "ranks are not those"),
        (_set("n_chunks", 0), "1 to 2"),
        (_set("n_layers", 3), "2 layers are used"),
        (_set("routes", {}), "expected a list"),
        (_set("more", 1), "key 'more' is unknown"),
        (_route("links", [99, 0]), "links must be 0 to 7"),
        (_route("ports", [0, 0]), "another fabric"),
        (_route("first_chunk", 1), "from chunk 0"),
        (_route("chunks", "many"), "expected an integer"),
        (_route("chunks", 2**62), "expected 1 to"),
        (_route("layer", -1), "layer: found"),
        (_route("source", 7), "rank 3: 4 queue pairs, it sends 3 flows"),
        (_route("target", 7), "target: found"),
    ],
)
def test_malformed_files(change: Callable[[Any], None], words: str) -> None:
    value = json.loads(emit_route_json(RING, EVERYONE, both_ways()))
    change(value)
    with pytest.raises(FormatError, match=words) as caught:
        parse_route_json(json.dumps(value), RING, EVERYONE, source="routes.json")
    assert str(caught.value).startswith("routes.json: ")
    assert "\n" not in str(caught.value)


def test_routes_of_another_fabric_are_not_written() -> None:
    small: Topology = ring(3)
    with pytest.raises(ScheduleError, match="4 ranks, expected 3"):
        emit_route_json(small, on_all_ranks(small, CollectiveKind.ALLTOALL), both_ways())
    one_way = ring(4, bidirectional=False)
    with pytest.raises(ScheduleError, match="beyond the 4"):
        emit_route_csv(one_way, Collective(CollectiveKind.ALLTOALL, (0, 1, 2, 3)), both_ways())
