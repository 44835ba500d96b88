"""Fabrics from graphs: networkx's own, GraphML, edge lists and matrices; and back without loss."""

from __future__ import annotations

import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import networkx
import pytest
from hypothesis import given, settings

import treadle
from samples.readers.reader_texts import GB, GRAPHML, MATRIX
from samples.strategies import dressed_topologies
from treadle.cli.main import main
from treadle.errors import FormatError, MissingDependencyError
from treadle.planning import bound
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


def test_petersen_and_the_full_mesh() -> None:
    assert algbw(treadle.from_networkx(networkx.petersen_graph(), bandwidth="25GB/s")) == Fraction(
        250 * GB, 3
    )
    assert algbw(read("csv-matrix", MATRIX, bandwidth=GB).topology) == 400 * GB


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


def test_networkx_is_optional(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'treadle\[networkx\]'"):
        ring(3).to_networkx()


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
