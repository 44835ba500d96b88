"""Route files as they are read in each format, and what contradicts itself in one."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

import pytest

from shortcuts.json_edits import Change, at, without
from treadle.errors import FormatError
from treadle.formats.routes import interpreter as judge_module
from treadle.formats.routes import reader
from treadle.formats.routes.interpreter import interpret_csv, interpret_json, own_faults
from treadle.formats.routes.reader import (
    FileRoute,
    RouteFile,
    read_route_csv,
    read_route_json,
    read_route_xml,
)
from treadle.formats.verdict import Check, Terms

ROUTES = (
    FileRoute(0, 2, 0, 1, 0, 3, (5, 0), (7, 4), (), (1, 0), 49152),
    FileRoute(0, 2, 1, 0, 3, 1, (2,), (6,), (), (), 65535),
    FileRoute(2, 1, 0, 0, 0, 4, (), (), (), (), 50000),
)
KEYS = ("source", "target", "route", "layer", "first_chunk", "chunks")


def json_value() -> dict[str, Any]:
    """The routes as an object of version 2."""
    routes: list[dict[str, Any]] = []
    for one in ROUTES:
        numbers = (one.source, one.target, one.number, one.layer, one.first_chunk, one.chunks)
        route: dict[str, Any] = dict(zip(KEYS, numbers, strict=True))
        route |= {"ports": list(one.ports), "links": list(one.links), "flow": one.flow}
        routes.append(route | ({"layers": list(one.hop_layers)} if one.hop_layers else {}))
    head = {"treadle": "routes", "version": 2, "fabric": "f", "ranks": ["a", "b", "c"]}
    return {**head, "n_chunks": 4, "n_layers": 2, "queue_pairs": [2, 0, 1], "routes": routes}


def old_value() -> dict[str, Any]:
    """The same of version 1."""
    value = json_value()
    del value["queue_pairs"]
    value["version"] = 1
    for route in value["routes"]:
        del route["flow"]
        route.pop("layers", None)
    return value


def test_both_versions_of_json() -> None:
    pairs = ((0, 2), (1, 0), (2, 1))
    names = ("a", "b", "c")
    assert read_route_json(json.dumps(json_value())) == RouteFile(ROUTES, names, 4, 2, pairs)
    old = tuple(replace(route, hop_layers=(), flow=None) for route in ROUTES)
    assert read_route_json(json.dumps(old_value())) == RouteFile(old, names, 4, 2, None)


@pytest.mark.parametrize(
    ("is_new", "change", "message"),
    [
        (True, at("version", 0), "expected treadle routes, version 1 or 2"),
        (True, at("version", 3), "expected treadle routes, version 1 or 2"),
        (True, at("treadle", "plan"), "expected treadle routes, version 1 or 2"),
        (True, without("queue_pairs"), "expected queue_pairs in version 2, and only there"),
        (False, at("queue_pairs", [2, 0, 1]), "expected queue_pairs in version 2, and only there"),
        (True, at("queue_pairs", [2, 0]), "2 queue_pairs for 3 ranks"),
        (True, at("queue_pairs", [2, 0, "1"]), "route file: queue_pairs"),
        (True, at("ranks 1", 7), "route file: ranks"),
        (True, without("routes 1 flow"), "route file: route 1: "),
        (False, at("routes 1 flow", 7), "route file: route 1: "),
        (False, at("routes 0 layers", [1, 0]), "route file: route 0: "),
        (True, at("routes 2 links", 7), "route file: route 2"),
        (True, at("n_layers", "2"), "n_layers"),
    ],
)
def test_malformed_json_names_its_route(is_new: bool, change: Change, message: str) -> None:
    value = json_value() if is_new else old_value()
    change(value)
    with pytest.raises(FormatError) as caught:
        read_route_json(json.dumps(value), source="file")
    assert str(caught.value).startswith("file: ")
    assert message in str(caught.value)
    assert str(caught.value).count("file: ") - str(caught.value).count("route file: ") == 1


HEADING = "source,target,source_node,target_node,route,layer,first_chunk,chunks,hops,ports,links"
NEW = f"{HEADING},layers,flow,queue_pairs"


def test_both_versions_of_csv() -> None:
    rows = "0,2,a,c,0,1,0,3,2,5 0,7 4,1 0,49152,2\n0,2,a,c,1,0,3,1,1,2,6,,65535,2\n"
    rows += "2,1,c,b,0,0,0,4,0,,,,50000,1\n"
    file = read_route_csv(f"{NEW}\n{rows}")
    assert file == RouteFile(
        (
            replace(ROUTES[0], nodes=("a", "c")),
            replace(ROUTES[1], nodes=("a", "c")),
            replace(ROUTES[2], nodes=("c", "b")),
        ),
        queue_pairs=((0, 2), (2, 1)),
    )
    assert read_route_csv(f"{HEADING}\n0,2,a,c,1,0,3,1,1,2,6\n") == RouteFile(
        (replace(ROUTES[1], nodes=("a", "c"), flow=None),), queue_pairs=None
    )
    assert read_route_csv(f"{NEW}\n") == RouteFile((), queue_pairs=())


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (f"{NEW}\n0,2,a,c,0,1,0,3,2,5 0,7 4,1 0,49152\n", "row 1: 13 cells, expected 14"),
        (f"{HEADING}\n0,2,a,c,1,0,3,1,1,2,6\n0,2,a,c,1,0,3,1,1,2,6,,1,1\n", "row 2: 14 cells, expected 11"),
        (f"{NEW}\n0,2,a,c,0,1,0,3,3,5 0,7 4,1 0,49152,2\n", "row 1: 2 links, not 3"),
        (f"{NEW}\n0,2,a,c,0,1,0,3,2,5 x,7 4,1 0,49152,2\n", "row 1: ports: 'x': expected an integer"),
        (f"{NEW}\n0,2,a,c,0,1,0,3,2,5 0,7 4,1 y,49152,2\n", "row 1: layers: 'y': expected an integer"),
        (f"{NEW}\n0,2,a,c,0,1,0,3,2,5 0,7 4,1 0,49152,\n", "row 1: queue_pairs: '': expected an integer"),
        (f"{NEW}\n0,2,a,c,{'1' * 19},1,0,3,2,5 0,7 4,1 0,49152,2\n", "row 1: route: '1111111111111111111'"),
        (f"{NEW},x\n", "expected the heading source,target"),
    ],
)
def test_malformed_csv_names_its_row(rows: str, message: str) -> None:
    with pytest.raises(FormatError) as caught:
        read_route_csv(rows, source="file")
    assert str(caught.value).startswith("file: ")
    assert message in str(caught.value)


XML = """\
<routes version="2" ranks="3" chunks="4" layers="2">
  <rank number="0" node="a" queue_pairs="2"/>
  <rank number="1" node="b" queue_pairs="0"/>
  <rank number="2" queue_pairs="1"/>
  <pair source="0" target="2">
    <route layer="1" first_chunk="0" chunks="3" flow="49152">
      <hop node="a" port="5" link="7" layer="1"/><hop port="0" link="4" layer="0"/>
    </route>
    <route layer="0" first_chunk="3" chunks="1" flow="65535"><hop node="a" port="2" link="6"/></route>
  </pair>
  <pair source="2" target="1"><route layer="0" first_chunk="0" chunks="4" flow="50000"/></pair>
</routes>
"""


def test_both_versions_of_xml() -> None:
    routes = (replace(ROUTES[0], nodes=("a", "")), replace(ROUTES[1], nodes=("a",)), ROUTES[2])
    pairs = ((0, 2), (1, 0), (2, 1))
    assert read_route_xml(XML) == RouteFile(routes, ("a", "b", ""), 4, 2, pairs)
    old = tuple(replace(route, hop_layers=(), flow=None) for route in routes)
    assert read_route_xml(XML.replace('version="2"', 'version="1"')) == RouteFile(old, ("a", "b", ""), 4, 2)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('version="2"', 'version="3"', ": expected <routes>, version 1 or 2"),
        ('ranks="3"', 'ranks="2"', ":1: <routes>: holds 3 ranks"),
        ('number="1"', 'number="2"', ":3: <rank>: expected rank 1"),
        ('node="b" queue_pairs="0"', 'node="b"', ": line 3: queue_pairs: '': expected an integer"),
        ('<pair source="0"', '<pear source="0"', "not well-formed ("),
        ('<hop node="a" port="5"', '<hop node="a" port="x"', ": line 7: port: 'x': expected an integer"),
        (' layer="0"/>\n', "/>\n", ": line 7: layer: '': expected an integer"),
        (' flow="49152"', "", ": line 6: flow: '': expected an integer"),
        (
            '<hop node="a" port="2" link="6"/>',
            "<hip/>",
            ":9: <route>: expected <route> with a <hop> for each",
        ),
        ('layers="2"', "", ": line 1: layers: '': expected an integer"),
        ("<routes", "<!DOCTYPE x><routes", ": expected at most 2147483648 characters and no DTD or entity"),
    ],
)
def test_malformed_xml_names_its_line(old: str, new: str, message: str) -> None:
    assert old in XML
    with pytest.raises(FormatError) as caught:
        read_route_xml(XML.replace(old, new, 1), source="file")
    assert str(caught.value).startswith(f"file{message}" if message[0] == ":" else "file: ")
    assert message in str(caught.value)


def test_long_xml_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MAX_TEXT", len(XML))
    assert read_route_xml(XML).n_chunks == 4
    with pytest.raises(FormatError, match=f"expected at most {len(XML)} characters"):
        read_route_xml(XML + " ")


SOUND = RouteFile(ROUTES, ("a", "b", "c"), 4, 2, ((0, 2), (1, 0), (2, 1)))


def routed(place: int, **changes: Any) -> RouteFile:
    """The sound file with another route at a place."""
    routes = list(copy.copy(ROUTES))
    routes[place] = replace(routes[place], **changes)
    return replace(SOUND, routes=tuple(routes))


@pytest.mark.parametrize(
    ("file", "faults"),
    [
        (SOUND, []),
        (routed(1, number=0), ["route 1: expected route 1 of its pair, from chunk 3"]),
        (routed(1, first_chunk=2), ["route 1: expected route 1 of its pair, from chunk 3"]),
        (routed(2, number=1), ["route 2: expected route 0 of its pair, from chunk 0"]),
        (routed(0, flow=49151), ["route 0: flow 49151: expected 49152 to 65535"]),
        (routed(1, flow=65536), ["route 1: flow 65536: expected 49152 to 65535"]),
        (routed(2, flow=None), ["route 2: flow None: expected 49152 to 65535"]),
        (routed(1, flow=49152), ["route 1: flow 49152 is that of route 0 of the same pair"]),
        (routed(2, flow=49152), []),
        (replace(SOUND, queue_pairs=((0, 1), (1, 0), (2, 1))), ["rank 0: 1 queue pairs, it sends 2 flows"]),
        (replace(SOUND, queue_pairs=((0, 2), (1, 3), (2, 1))), ["rank 1: 3 queue pairs, it sends 0 flows"]),
        (replace(SOUND, queue_pairs=((0, 2),)), ["rank 2: queue pairs are not said, it sends 1 flows"]),
        (
            replace(SOUND, queue_pairs=((1, 0),)),
            [
                "rank 0: queue pairs are not said, it sends 2 flows",
                "rank 2: queue pairs are not said, it sends 1 flows",
            ],
        ),
        (routed(0, hop_layers=(1,)), ["route 0: layers [1]: expected one for each hop, the first 1"]),
        (routed(0, hop_layers=(0, 0)), ["route 0: layers [0, 0]: expected one for each hop, the first 1"]),
        (routed(0, hop_layers=(1, 2)), ["route 0: layer 2 is beyond the 2 of the file"]),
        (routed(2, layer=2), ["route 2: layer 2 is beyond the 2 of the file"]),
        (replace(routed(2, layer=2), n_layers=None), []),
        (replace(routed(0, flow=3, hop_layers=(0, 5)), queue_pairs=None), []),
        (
            replace(routed(1, number=0), queue_pairs=None),
            ["route 1: expected route 1 of its pair, from chunk 3"],
        ),
    ],
)
def test_what_contradicts_itself_is_told(file: RouteFile, faults: list[str]) -> None:
    assert list(own_faults(file)) == faults


def circle_of(*ways: list[tuple[int, int]]) -> list[str]:
    """What is said of routes of these (layer, link), one for each target of rank 0."""
    routes = tuple(
        FileRoute(
            *(0, place + 1, 0, way[0][0], 0, 1, (0,) * len(way)),
            tuple(link for _, link in way),
            hop_layers=tuple(layer for layer, _ in way),
            flow=50000,
        )
        for place, way in enumerate(ways)
    )
    return list(own_faults(RouteFile(routes, queue_pairs=((0, len(routes)),))))


def test_links_that_wait_in_a_circle_are_listed_in_its_order() -> None:
    assert circle_of([(0, 1), (0, 2)], [(0, 2), (0, 3)], [(0, 3), (1, 1)]) == []
    told = "3 links wait for each other: {} in layer 0, {} in layer 0, {} in layer 0"
    ways = [[(0, 4), (0, 6)], [(0, 6), (0, 5)], [(0, 5), (0, 4)], [(0, 9), (0, 4)], [(0, 4), (0, 2)]]
    assert circle_of(*ways) == [told.format(6, 5, 4)]
    assert circle_of([(0, 3), (1, 3)], [(1, 3), (0, 3)]) == [
        "2 links wait for each other: 3 in layer 1, 3 in layer 0"
    ]
    assert circle_of([(0, 3), (0, 3)]) == ["1 links wait for each other: 3 in layer 0"]
    long = circle_of(*([(0, place), (0, (place + 1) % 9)] for place in range(9)))
    assert long[0].endswith(", ...")
    assert long[0].count(" in layer 0") == 8
    assert not circle_of(*([(0, place), (0, (place + 1) % 8)] for place in range(8)))[0].endswith("...")


def test_counts_ranks_and_how_many_faults_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    found = interpret_json([json.dumps(json_value()).encode()], Terms())
    assert (found.check, found.n_ranks, found.collective) == (Check.PARSED, 3, "alltoall")
    assert (found.counts, found.violations) == ((("route", 3), ("hop", 3)), ())
    assert interpret_csv([f"{NEW}\n".encode()], Terms()).n_ranks == 0
    assert judge_module.MAX_VIOLATIONS == 1000
    value = json_value()
    for route in value["routes"]:
        route["flow"] = 1
    monkeypatch.setattr(judge_module, "MAX_VIOLATIONS", 4)
    data = [json.dumps(value).encode()]
    assert len(interpret_json(data, Terms()).violations) == 4
    monkeypatch.setattr(judge_module, "MAX_VIOLATIONS", 2)
    flow = "flow 1: expected 49152 to 65535"
    assert interpret_json(data, Terms()).violations == (f"route 0: {flow}", f"route 1: {flow}", "and 2 more")
