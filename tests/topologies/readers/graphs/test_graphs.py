"""Fabrics from graphs: networkx's own, GraphML, edge lists and matrices; and back without loss."""

from __future__ import annotations

import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pytest
from hypothesis import given, settings

import treadle
from samples.readers.reader_texts import EDGES, GB, GRAPHML, MATRIX
from samples.strategies import dressed_topologies
from treadle.cli.main import main
from treadle.errors import FormatError, MissingDependencyError, TopologyError, TreadleError
from treadle.planning import bound, import_topology
from treadle.topologies import Topology, dgx_h100, from_networkx, parse, ring
from treadle.topologies.exports import to_edge_list, to_graphml
from treadle.topologies.readers.graphs import matrix
from treadle.topologies.readers.imported import Imported, ImportOptions, SourceFile
from treadle.topologies.readers.reader import HEAD_CHARACTERS, topology_formats

RECORDS = {record.name: record for record in topology_formats()}


def read(name: str, text: str, **options: Any) -> Imported:
    return RECORDS[name].imported(SourceFile(text, "fabric"), ImportOptions(**options))


def refusal(name: str, text: str, **options: Any) -> str:
    with pytest.raises(FormatError) as caught:
        read(name, text, **options)
    return str(caught.value)


def algbw(topology: Topology) -> Fraction:
    return bound(topology, "allgather").algbw


def same(one: Topology, other: Topology) -> bool:
    """Equal, and of one name, but for blanks around it."""
    return one == other and one.name.strip() == other.name.strip()


@settings(max_examples=40)
@given(dressed_topologies())
def test_what_is_written_is_read_back(topology: Topology) -> None:
    assert same(from_networkx(topology.to_networkx()), topology)
    if topology.name.strip():
        assert same(read("graphml", to_graphml(topology)).topology, topology)
    assert read("edge-list", to_edge_list(topology)).topology == topology


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("a,b,25GB/s\nb,c,25GB/s\nc,a,50GB/s\n", {}),
        ("# of a switch\na, b, 25GB/s, 2us\nb, c, 25GB/s, 2us\nc, a, 50GB/s, 2us\n", {}),
        ("Source,Target,Bandwidth (GB/s)\na,b,25GB/s\nb,c,25GB/s\nc,a,50GB/s\n", {}),
        ("from,to,weight\n0,1,1\n1,2,1\n2,0,2\n", {"bandwidth": 25 * GB}),
        ("0,1,25GB/s\n1,2,25GB/s\n2,0,50GB/s\n", {}),
        ("a,b,1\nb,c,1\nc,a,2\n", {"bandwidth": 25 * GB}),
    ],
)
def test_edges_with_commas(text: str, options: dict[str, Any]) -> None:
    assert [record.name for record in RECORDS.values() if record.detect and record.detect(text)] == [
        "edge-list"
    ]
    found = read("edge-list", text, **options).topology
    plain = read("edge-list", "a b 25GB/s\nb c 25GB/s\nc a 50GB/s\n").topology
    assert found.bandwidths.tolist() == plain.bandwidths.tolist()
    assert (found.tails.tolist(), found.heads.tolist()) == (plain.tails.tolist(), plain.heads.tolist())
    assert found.latencies_ns.tolist() == [2000 if "2us" in text else 0] * 6


@pytest.mark.parametrize(
    "text",
    ["0,1,2\n1,0,3\n2,3,0\n", "a,b,c\n0,1,25GB/s\n1,0,1\n2,3,0\n", "0,25GB/s\n25GB/s,0\n", MATRIX],
)
def test_matrices_are_no_edges_with_commas(text: str) -> None:
    assert [record.name for record in RECORDS.values() if record.detect and record.detect(text)] == [
        "csv-matrix"
    ]


def test_texts_of_ours_are_told() -> None:
    for name, text in (("graphml", to_graphml(ring(5))), ("edge-list", to_edge_list(ring(5)))):
        head = text[:HEAD_CHARACTERS]
        assert [record.name for record in RECORDS.values() if record.detect and record.detect(head)] == [name]


def test_networkx_reads_our_graphml(tmp_path: Path) -> None:
    path = tmp_path / "fabric.graphml"
    path.write_text(to_graphml(dgx_h100(2)))
    found = networkx.read_graphml(path, force_multigraph=True)
    assert from_networkx(found, name="x").n_links == dgx_h100(2).n_links
    assert algbw(from_networkx(found)) == algbw(dgx_h100(2))


def test_our_reader_reads_networkxs_graphml_and_edge_lists(tmp_path: Path) -> None:
    graph = networkx.petersen_graph()
    for writer, name in ((networkx.write_graphml, "p.graphml"), (networkx.write_edgelist, "p.edgelist")):
        path = tmp_path / name
        writer(graph, path)
        found = import_topology(path, bandwidth="25GB/s")
        assert algbw(found.topology) == Fraction(250 * GB, 3)


def test_petersen_and_the_full_mesh() -> None:
    assert algbw(treadle.from_networkx(networkx.petersen_graph(), bandwidth="25GB/s")) == Fraction(
        250 * GB, 3
    )
    assert algbw(read("csv-matrix", MATRIX, bandwidth=GB).topology) == 400 * GB


def test_directions_and_parallel_edges() -> None:
    undirected = networkx.Graph([("a", "b"), ("b", "b")])
    found = from_networkx(undirected, bandwidth=7)
    assert list(zip(found.tails.tolist(), found.heads.tolist(), strict=True)) == [(0, 1), (1, 0), (1, 1)]
    directed = networkx.MultiDiGraph()
    directed.add_edge("a", "b", bandwidth=3)
    directed.add_edge("a", "b", bandwidth="5B/s", latency="1us")
    directed.add_edge("b", "a", weight=1.5)
    found = from_networkx(directed, bandwidth=4, name="three")
    assert (found.name, found.bandwidths.tolist(), found.latencies_ns.tolist()) == (
        "three",
        [3, 5, 6],
        [0, 1000, 0],
    )


def test_numbers_of_numpy_are_numbers() -> None:
    graph = networkx.Graph()
    graph.add_edge(0, 1, weight=np.float64(0.25))
    graph.add_edge(1, 2, bandwidth=np.int64(9))
    assert from_networkx(graph, bandwidth=8).bandwidths.tolist() == [2, 2, 9, 9]


@pytest.mark.parametrize(
    ("attributes", "bandwidth", "says"),
    [
        ({}, None, "edge 'a' to 'b' has no bandwidth; say it by from_networkx(graph, bandwidth='25GB/s')"),
        (
            {"weight": 2},
            None,
            "has a weight, which is a multiple of a bandwidth; say it by from_networkx(graph, ",
        ),
        ({"bandwidth": 5, "weight": 2}, 1, "has both bandwidth and weight"),
        ({"bandwidth": "5"}, None, "has no unit"),
        ({"bandwidth": -5}, None, "expected a number"),
        ({"bandwidth": float("nan")}, None, "expected a number"),
        ({"bandwidth": True}, None, "expected a number"),
        ({"bandwidth": 2**51}, None, "expected 1 to 2**50 bytes/s"),
        ({"weight": 0}, 1, "expected 1 to 2**50 bytes/s, found 0"),
        ({"bandwidth": 1, "latency": 5}, None, "latency '5' has no unit"),
        ({"bandwidth": 1, "latency_ns": 0.5}, None, "expected an integer"),
        ({}, 0, "bandwidth: expected at least 1 byte/s, found 0"),
        ({}, "25", "has no unit"),
        ({}, 2.5, "or an integer number of bytes/s, found 2.5"),
    ],
)
def test_wrong_edges_are_named(attributes: dict[str, Any], bandwidth: Any, says: str) -> None:
    graph = networkx.Graph()
    graph.add_edge("a", "b", **attributes)
    with pytest.raises(treadle.errors.TreadleError) as caught:
        from_networkx(graph, bandwidth=bandwidth)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("nodes", "says"),
    [
        ({1: {}, "1": {}}, "node '1' stands here a second time"),
        ({"a": {"kind": "router"}}, "kind 'router'; expected compute or switch"),
        ({"a": {"kind": "switch"}}, "has no compute node"),
        ({"a": {"multicast": True}}, "neither multicasts nor aggregates"),
        ({"a": {"kind": "switch", "multicast": "maybe"}}, "multicast 'maybe'; expected true or false"),
        ({"a\nb": {}}, "expected a name of one line"),
        ({"a": {"injection_bytes_per_s": "much"}}, "expected a number"),
    ],
)
def test_wrong_nodes_are_named(nodes: dict[Any, dict[str, Any]], says: str) -> None:
    graph = networkx.Graph()
    graph.add_nodes_from(nodes.items())
    with pytest.raises(TopologyError, match="from_networkx") as caught:
        from_networkx(graph, bandwidth=1)
    assert says in str(caught.value)


def test_what_is_no_graph_is_refused() -> None:
    with pytest.raises(TreadleError, match="graph: expected a graph of networkx, found a list"):
        from_networkx([])  # type: ignore[arg-type]


def test_networkx_is_optional(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'treadle\[networkx\]'"):
        ring(3).to_networkx()


def test_graphml_kinds_defaults_and_directions() -> None:
    found = read("graphml", GRAPHML).topology
    assert (found.name, found.node_names, found.is_compute.tolist()) == (
        "star",
        ("a", "b", "c", "hub"),
        [True, True, True, False],
    )
    assert found.n_links == 6
    assert algbw(found) == Fraction(75 * GB, 2)
    directed = read("graphml", GRAPHML.replace('target="hub">', 'target="hub" directed="true">')).topology
    assert directed.n_links == 3


ZOO = """\
<graphml><key attr.name="LinkSpeedRaw" attr.type="double" for="edge" id="s"/>
<key attr.name="LinkSpeed" attr.type="string" for="edge" id="t"/><graph edgedefault="undirected">
<node id="0"/><node id="1"/><node id="2"/><node id="3"/>
<edge source="0" target="1"><data key="t">10</data><data key="s">10000000000.0</data></edge>
<edge source="1" target="2"><data key="s">10000000000.0</data></edge>
<edge source="2" target="3"><data key="s">2500000000.0</data></edge>
<edge source="3" target="0"><data key="s">1.0e10</data></edge>
<edge source="0" target="2"/></graph></graphml>
"""
"""As the Internet Topology Zoo writes it: bits per second, and an edge without."""


def test_graphml_of_the_topology_zoo() -> None:
    found = read("graphml", ZOO, bandwidth=1250 * 10**6)
    # three shards of four enter node 3 by 10 and 2.5 Gbit/s; --bandwidth is of the last edge alone
    assert algbw(found.topology) == Fraction(25 * GB, 12)
    assert [str(finding) for finding in found.defaulted] == ["1 edge with the speed of --bandwidth"]
    assert "edge '0' to '2' has no bandwidth; say it by --bandwidth" in refusal("graphml", ZOO)
    assert "LinkSpeedRaw 'fast'; expected a number" in refusal("graphml", ZOO.replace("1.0e10", "fast"))
    assert algbw(from_networkx(networkx.parse_graphml(ZOO), bandwidth=1250 * 10**6)) == Fraction(25 * GB, 12)


def drawn(tail: str, head: str, arrow: str) -> str:
    """An edge as yEd draws it."""
    arrows = f'<y:Edge><y:Arrows source="none" target="{arrow}"/></y:Edge>'
    return f'<edge source="{tail}" target="{head}"><data key="d">{arrows}</data></edge>'


YED = f"""\
<graphml xmlns:y="http://www.yworks.com/xml/graphml"><key for="edge" id="d"/><graph edgedefault="directed">
<node id="a"/><node id="b"/><node id="c"/>
{drawn("a", "b", "none")}{drawn("b", "c", "none")}{drawn("c", "a", "delta")}
</graph></graphml>
"""


def test_graphml_without_arrows_can_be_undirected() -> None:
    assert (told := read("graphml", YED, bandwidth=GB)).topology.n_links == 3
    bare = "2 edges of one direction drawn without arrows; see --undirected"
    assert [str(finding) for finding in told.warnings] == [bare]
    both = read("graphml", YED, bandwidth=GB, undirected=True)
    assert (both.topology.n_links, both.warnings, algbw(both.topology)) == (6, (), 3 * GB)
    assert "--undirected means nothing to edge-list" in refusal("edge-list", EDGES, undirected=True)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("25GB/s", "25", "has no unit"),
        ("25GB/s", "", "edge 'a' to 'hub' has no bandwidth; say it by --bandwidth"),
        ('target="hub"', 'target="hob"', "unknown node 'hob'"),
        (' edgedefault="undirected"', "", "<graph> has no edgedefault"),
        ('<node id="a"/>', '<node id="a"/><node id="a"/>', ":7: node 'a' stands here a second time"),
        ('<node id="a"/>', '<node id="a"><graph/></node>', "within a node is not read"),
        ('<data key="d2">', '<data key="d9">', "unknown key 'd9'"),
        ("switch", "router", "kind 'router'"),
        ('<key id="d0"', '<!DOCTYPE x [<!ENTITY a "b">]><key id="d0"', "declarations of its own"),
        ("<graph id", "<hyperedge/><graph id", ""),
    ],
)
def test_wrong_graphml_is_named(old: str, new: str, says: str) -> None:
    assert old in GRAPHML
    changed = GRAPHML.replace(old, new, 1)
    if not says:
        assert read("graphml", changed).topology == read("graphml", GRAPHML).topology
        return
    assert says in refusal("graphml", changed)


def test_edge_lists_take_their_direction_from_a_comment() -> None:
    assert read("edge-list", EDGES).topology.n_links == 4
    plain = "a b 2GB/s\nb c 3GB/s\n"
    found = read("edge-list", plain)
    assert found.topology.n_links == 4
    assert "edges are links each way" in str(found.defaulted[0])
    assert read("edge-list", "# undirected\n" + plain + "b a 1GB/s\n").topology.n_links == 6
    assert "stand in both orders; write # directed or # undirected first" in refusal(
        "edge-list", plain + "b a"
    )


@pytest.mark.parametrize(
    ("text", "options", "says"),
    [
        ("a b\nb c\n", {}, "edge 'a' to 'b' has no bandwidth; say it by --bandwidth"),
        ("a b 2\nb c 3\n", {}, "has a weight"),
        ("a b c d e\n", {}, "such as a b 25GB/s or a,b,25GB/s; found 'a b c d e'"),
        ("# only\n", {}, "has no edge"),
        ("a b {'weight': [1,\n", {}, "expected an edge"),
        ("a b {1: 2 3}\n", {}, "expected attributes"),
        ("a b 1GB/s\n# directed\n", {}, ":2: # directed must appear once, before all edges"),
        ("# node a switch fast\na b 1GB/s\n", {}, "'fast' of a node is unknown"),
        ("a b 1GB/s\n# node a switch\n", {}, ":2: node 'a' stands here a second time"),
        ('"a\\qb" c 1GB/s\n', {}, "malformed name"),
    ],
)
def test_wrong_edge_lists_are_named(text: str, options: dict[str, Any], says: str) -> None:
    assert says in refusal("edge-list", text, **options)


def test_weights_are_multiples() -> None:
    assert read("edge-list", "a b 2\nb c 0.5\n", bandwidth=10).topology.bandwidths.tolist() == [20, 20, 5, 5]


@pytest.mark.parametrize(
    "text",
    [
        "0,100,100,100\n100,0,100,100\n100,100,0,100\n100,100,100,0\n",
        "0;100;100;100\n100;0;100;100\n100;100;0;100\n100;100;100;0\n",
        "a,b,c,d\n100,100,100,100\n100,100,100,100\n100,100,100,100\n100,100,100,100\n",
        ",100GB/s,100GB/s,100GB/s\n100GB/s,,100GB/s,100GB/s\n100GB/s,100GB/s,,1e2\n100GB/s,100GB/s,100GB/s,\n",
    ],
)
def test_matrices_of_every_dress(text: str) -> None:
    found = read("csv-matrix", text, bandwidth=GB)
    assert algbw(found.topology) == 400 * GB
    assert bool(found.warnings) == text.startswith("a,b")


def test_rows_are_tails() -> None:
    found = read("csv-matrix", "0,5B/s\n0,0\n").topology
    assert (found.tails.tolist(), found.heads.tolist()) == ([0], [1])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (MATRIX, "has a weight, which is a multiple of a bandwidth; say it by --bandwidth"),
        ("1,2,3\n4,5,6\n", "3 cells in a matrix of 2 rows"),
        ("0,1GB/s\n1GB/s,zero\n0,0,0\n", "cells in a matrix"),
        ("0,1GB/s\nmuch,0\n", "expected a number or a bandwidth, found 'much'"),
        (",a,b\na,0,1GB/s\nc,1GB/s,0\n", "row 'c' and its column have other names"),
        ("0,0\n0,0\n", "has no link"),
        ("hello\n", "expected rows of cells"),
        ("0,-1\n1,0\n", "column 2: expected a number or a bandwidth, found '-1'"),
    ],
)
def test_wrong_matrices_are_named(text: str, says: str) -> None:
    assert says in refusal("csv-matrix", text)


def test_export_by_name_and_by_extension(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for file, words in (("f.graphml", []), ("f.edges", []), ("f.txt", ["--to", "edge-list"]), ("f.json", [])):
        path = tmp_path / file
        assert main(["topology", "export", "dgx_h100:2", "-o", str(path), *words]) == 0
        assert parse(str(path)) == replace(dgx_h100(2), name="x")
    assert main(["topology", "export", "ring:3", "--to", "edge-list"]) == 0
    assert capsys.readouterr().out.startswith("# name: ring(3)\n# directed\n# node n0 compute")
    assert main(["topology", "export", "ring:3", "--to", "dot"]) == 2
    assert "--to 'dot': expected one of json, graphml, edge-list" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["0,1,1\n1,0\n", "a,b,c\n1,w,v\n", "0,1,1\n", "a,b\nc,d\n"])
def test_what_is_no_matrix_is_not_taken_for_one(text: str) -> None:
    """Rows of different lengths, words among the cells, one row alone."""
    assert not matrix.is_matrix(text)
    assert matrix.is_matrix("0,1,1\n1,0,1\n")
