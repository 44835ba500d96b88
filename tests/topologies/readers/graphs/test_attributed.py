"""Graphs of every dress edge by edge: attributes at their limits, refusals in full, what is recognised."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from treadle.errors import FormatError, TopologyError, TreadleError
from treadle.topologies.readers.graphs import attributed, edge_list, graphml, matrix
from treadle.topologies.readers.graphs.attributed import AttributedGraph, GraphEdge
from treadle.topologies.readers.imported import Finding, Imported, ImportOptions, SourceFile
from treadle.topologies.topology import Topology


def error(message: str, line: int | None) -> TreadleError:
    return TopologyError(f"{line}: {message}")


def graph(bandwidth: int | None = 6, *, bare: bool = False) -> AttributedGraph:
    found = AttributedGraph(error, bandwidth, "--speed", bare_numbers=bare)
    for name in "ab":
        found.add_node(name, {})
    return found


def fabric(
    attributes: Mapping[str, Any], *, bandwidth: int | None = 6, both: bool = False, bare: bool = False
) -> Topology:
    return graph(bandwidth, bare=bare).fabric("g", [GraphEdge("a", "b", attributes, both, 9)])


def rows(topology: Topology) -> list[tuple[str, str, int, int]]:
    names = topology.node_names
    columns = (topology.tails, topology.heads, topology.bandwidths, topology.latencies_ns)
    return [
        (names[tail], names[head], speed, wait)
        for tail, head, speed, wait in zip(*(column.tolist() for column in columns), strict=True)
    ]


@pytest.mark.parametrize(
    ("attributes", "speed", "wait"),
    [
        ({}, 6, 0),
        ({"bandwidth": "", "weight": None, "latency": ""}, 6, 0),
        ({"weight": "0.5"}, 3, 0),
        ({"weight": 1.75}, 10, 0),
        ({"weight": np.float64(2.0), "latency": "3us"}, 12, 3000),
        ({"bandwidth": "2kB/s", "latency_ns": "7"}, 2000, 7),
        ({"bandwidth_bytes_per_s": "8", "latency_ns": 2**53, "latency": "9us"}, 8, 2**53),
        ({"bandwidth_bytes_per_s": 2**50}, 2**50, 0),
        ({"bandwidth_bytes_per_s": 1}, 1, 0),
        ({"bandwidth_bytes_per_s": "1e3"}, 1000, 0),
    ],
)
def test_what_edges_say(attributes: dict[str, Any], speed: int, wait: int) -> None:
    assert rows(fabric(attributes)) == [("a", "b", speed, wait)]
    assert rows(fabric(attributes, both=True)) == [("a", "b", speed, wait), ("b", "a", speed, wait)]


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"bandwidth": "1B/s", "weight": 2}, "has both bandwidth and weight; expected one of them"),
        (
            {"bandwidth_bytes_per_s": 1, "bandwidth": "1B/s"},
            "has both bandwidth_bytes_per_s and bandwidth; expected one of them",
        ),
        ({"bandwidth": 5}, "bandwidth '5' has no unit, as in 25GB/s"),
        ({"bandwidth_bytes_per_s": 0}, "expected 1 to 2**50 bytes/s, found 0"),
        ({"bandwidth_bytes_per_s": 2**50 + 1}, "expected 1 to 2**50 bytes/s, found 1.1259e+15"),
        (
            {"bandwidth_bytes_per_s": 2**63},
            "bandwidth_bytes_per_s '9223372036854775808'; expected a whole number below 2**63",
        ),
        ({"bandwidth_bytes_per_s": 1.5}, "bandwidth_bytes_per_s '1.5'; expected a whole number below 2**63"),
        ({"bandwidth_bytes_per_s": True}, "bandwidth_bytes_per_s 'True'; expected a number"),
        ({"weight": "0.1"}, "expected 1 to 2**50 bytes/s, found 0.6"),
        ({"weight": "x" * 60}, f"weight '{'x' * 49}...; expected a number"),
        ({"latency": 5}, "latency '5' has no unit, as in 5us"),
        ({"latency_ns": 2**63}, "latency_ns '9223372036854775808'; expected a whole number below 2**63"),
        ({"latency_ns": -1}, "latency_ns '-1'; expected a number"),
    ],
)
def test_edges_that_are_refused(attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(TopologyError) as refused:
        fabric(attributes)
    separator = " " if message.startswith("has ") and "both" not in message else ": "
    assert str(refused.value) == f"9: edge 'a' to 'b'{separator}{message}"


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({}, "has no bandwidth"),
        ({"weight": 1}, "has a weight, which is a multiple of a bandwidth"),
    ],
)
def test_edges_without_a_bandwidth_ask_for_one(attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(TopologyError) as refused:
        fabric(attributes, bandwidth=None)
    assert str(refused.value) == f"9: edge 'a' to 'b' {message}; say it by --speed"


def test_bare_numbers_are_bytes_per_second_where_they_may_be() -> None:
    assert rows(fabric({"bandwidth": 5.0}, bare=True)) == [("a", "b", 5, 0)]
    with pytest.raises(TopologyError) as refused:
        fabric({"bandwidth": 2.5}, bare=True)
    assert str(refused.value) == (
        "9: edge 'a' to 'b': bandwidth '2.5'; expected a whole number of bytes/s, or a text "
        "with a unit, such as 2.5GB/s"
    )


def test_edges_that_took_the_bandwidth_are_counted() -> None:
    found = graph()
    edges: list[dict[str, Any]] = [
        {},
        {},
        {"weight": 2},
        {"weight": 2},
        {"bandwidth": "1B/s"},
        {"bandwidth": "1B/s"},
        {"weight": [2]},
    ]
    with pytest.raises(TopologyError):
        found.fabric("g", [GraphEdge("a", "b", one, False) for one in edges])
    assert found.filled_in == 5
    found = graph()
    found.fabric("g", [GraphEdge("a", "b", one, False) for one in edges[:-1]])
    assert found.filled_in == 4


def test_loops_are_one_link_and_ends_must_be_known() -> None:
    assert rows(graph().fabric("g", [GraphEdge("a", "a", {}, True)])) == [("a", "a", 6, 0)]
    for tail, head, lost in (("z", "a", "z"), ("a", "z", "z")):
        with pytest.raises(TopologyError) as refused:
            graph().fabric("g", [GraphEdge(tail, head, {}, True, 4)])
        assert str(refused.value) == f"4: edge {tail!r} to {head!r}: there is no node {lost!r}"


def test_graphs_have_a_largest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (attributed.MAX_GRAPH_NODES, attributed.MAX_GRAPH_LINKS) == (2**16, 2**18)
    monkeypatch.setattr(attributed, "MAX_GRAPH_NODES", 2)
    with pytest.raises(TopologyError, match="5: more than 2 nodes, the most that are read"):
        graph().add_node("c", {}, 5)
    monkeypatch.setattr(attributed, "MAX_GRAPH_LINKS", 3)
    edges = [
        GraphEdge("a", "b", {}, True, 1),
        GraphEdge("b", "b", {}, True, 2),
        GraphEdge("a", "b", {}, False, 3),
    ]
    assert graph().fabric("g", edges[:2]).n_links == 3
    with pytest.raises(TopologyError, match="3: more than 3 directed links, the most that are read"):
        graph().fabric("g", edges)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"kind": "router"}, "kind 'router'; expected compute or switch"),
        ({"multicast": 1}, "a compute node neither multicasts nor aggregates; switches do"),
        ({"turns_round": "TRUE"}, "a compute node neither multicasts nor aggregates; switches do"),
        ({"aggregation": "yes"}, "aggregation 'yes'; expected true or false"),
        ({"injection_bytes_per_s": "x"}, "injection_bytes_per_s 'x'; expected a number"),
    ],
)
def test_nodes_that_are_refused(attributes: dict[str, Any], message: str) -> None:
    found = graph()
    found.add_node("n", attributes, 3)
    with pytest.raises(TopologyError) as refused:
        found.fabric("g", [])
    assert str(refused.value) == f"None: node 'n': {message}"


def test_names_of_nodes_are_new_and_one_line() -> None:
    for name, message in (
        ("", "node '': expected a name of one line"),
        ("a\n", "node 'a\\n': expected a name of one line"),
        ("a", "node 'a' stands here a second time"),
    ):
        with pytest.raises(TopologyError) as refused:
            graph().add_node(name, {}, 8)
        assert str(refused.value) == f"8: {message}"
    only = AttributedGraph(error, 1, "")
    only.add_node("s", {"kind": "switch"})
    with pytest.raises(TopologyError, match="None: has no compute node"):
        only.fabric("g", [])


def test_nodes_with_all_that_they_may_have() -> None:
    found = AttributedGraph(error, 6, "")
    found.add_node("a", {"injection_bytes_per_s": "3", "multicast": "0"})
    found.add_node(
        "s", {"kind": "switch", "multicast": np.bool_(True), "turns_round": "1", "aggregation": False}
    )
    made = found.fabric("g", [GraphEdge("a", "s", {}, True)])
    assert made.injection_bytes_per_s.tolist() == [3, 0]
    assert made.multicast.tolist() == made.turns_round.tolist() == [False, True]
    assert not made.aggregation.any()


def edges(text: str, bandwidth: int | None = None) -> Imported:
    return edge_list.read(SourceFile(text, "dir/e.edges"), ImportOptions(bandwidth=bandwidth))


def test_an_edge_list_with_all_it_may_say() -> None:
    text = """# name:  odd  name
# undirected
# node b switch multicast turns_round
# node "a b" compute injection_bytes_per_s=4
"a b" b 3B/s 2us
b c 2.5kB/s
"a b" c 2
c "a b" {'bandwidth_bytes_per_s': 7, 'colour': 1}
c c
"""
    found = edges(text, 5)
    assert rows(found.topology) == [
        *(("a b", "b", 3, 2000), ("b", "a b", 3, 2000), ("b", "c", 2500, 0), ("c", "b", 2500, 0)),
        *(("a b", "c", 10, 0), ("c", "a b", 10, 0), ("c", "a b", 7, 0), ("a b", "c", 7, 0), ("c", "c", 5, 0)),
    ]
    assert (found.format, found.topology.name, found.topology.node_names) == (
        "edge-list",
        "odd  name",
        ("b", "a b", "c"),
    )
    assert found.topology.injection_bytes_per_s.tolist() == [0, 4, 0]
    assert found.topology.multicast.tolist() == found.topology.turns_round.tolist() == [True, False, False]
    directed = edges("# directed\na b 1B/s\nb a 2B/s\n")
    assert rows(directed.topology) == [("a", "b", 1, 0), ("b", "a", 2, 0)]
    assert directed.topology.name == "e"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "a b 1B/s\nb a 1B/s",
            ":2: 'b' and 'a' stand in both orders; write # directed or # undirected first",
        ),
        ("a b 1B/s\n# directed", ":2: # directed stands once, before all edges"),
        ("# undirected\n# directed\na b 1B/s", ":2: # directed stands once, before all edges"),
        ("a b 1B/s x", ":1: expected an edge, such as a b 25GB/s or a,b,25GB/s; found 'a b 1B/s x'"),
        ("a b {'weight': }", ":1: expected attributes, found \"{'weight': }\""),
        ("a b {1, 2}", ":1: expected attributes, found '{1, 2}'"),
        (
            "# node a switch fast=3\n",
            ":1: 'fast=3' of a node is unknown; known are multicast, aggregation, turns_round, "
            "injection_bytes_per_s",
        ),
        ('"a\\q" b 1B/s', ":1: malformed name '\"a\\\\q\"'"),
        ("# node a switch\n# node a switch\n", ":2: node 'a' stands here a second time"),
        ("", ": has no edge"),
    ],
)
def test_edge_lists_that_are_refused(text: str, message: str) -> None:
    with pytest.raises(FormatError) as refused:
        edges(text)
    assert str(refused.value) == f"dir/e.edges{message}"


@pytest.mark.parametrize(
    ("head", "is_list", "has_commas"),
    [
        ("a b\nc d\n", True, False),
        ("a b\n", False, False),
        ("a b\nc d", True, False),
        ("a b\nc d\ne", True, False),  # the last line may be cut off
        ("a b\nc d\ne\n", False, False),
        ("a,b\nc,d\n", True, True),
        ("a,b\n", False, False),
        ("1,2\n3,4\n", False, False),
        ("1,b\n3,4\n", False, False),
        ("1,2,5GB/s\n3,4,5GB/s\n", True, True),
        ("x,y\n-,b\n", False, False),
        ("source,target\n1,2\n", True, True),
        ("source,target\n", False, False),
        ("a,b\nc d e f g\n", False, False),
    ],
)
def test_what_is_told_as_an_edge_list(head: str, is_list: bool, has_commas: bool) -> None:
    assert (edge_list.is_edge_list(head), edge_list.is_with_commas(head)) == (is_list, has_commas)


def cells(text: str, bandwidth: int | None = None) -> Imported:
    return matrix.read(SourceFile(text, "dir/m.csv"), ImportOptions(bandwidth=bandwidth))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("0,1B/s,2B/s\n3B/s,x,\n-,4B/s,0.0\n", ("node0", "node1", "node2")),
        ("a,b,c\n0,1B/s,2B/s\n3B/s,0,0\n0,4B/s,0\n", ("a", "b", "c")),
        (",a,b,c\na,0,1B/s,2B/s\nb,3B/s,0,0\nc,0,4B/s,0\n", ("a", "b", "c")),
        ("a,0,1B/s,2B/s\nb,3B/s,0,0\nc,0,4B/s,0\n", ("a", "b", "c")),
        ("\n a \t b \t c \n0\t1B/s\t2B/s\n3B/s\t0\t0\n0\t4B/s\t0\n", ("a", "b", "c")),
    ],
)
def test_matrices_cell_by_cell(text: str, names: tuple[str, ...]) -> None:
    found = cells(text)
    a, b, c = names
    assert found.topology.node_names == names
    assert rows(found.topology) == [(a, b, 1, 0), (a, c, 2, 0), (b, a, 3, 0), (c, b, 4, 0)]
    assert (found.format, found.topology.name, found.defaulted, found.warnings) == ("csv-matrix", "m", (), ())
    assert found.recognised == {"nodes": "3 compute", "links": "4 directed", "rank order": "rows"}


def test_multiples_and_the_diagonal_are_told() -> None:
    found = cells("5,2\n0.5,7B/s\n", 10)
    assert rows(found.topology) == [("node0", "node1", 20, 0), ("node1", "node0", 5, 0)]
    assert found.defaulted == (Finding("2 cells are multiples of --bandwidth"),)
    assert found.warnings == (Finding("2 cells of the diagonal, which are no links"),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hello", ": expected rows of cells with commas, semicolons or tabs between"),
        ("0,1\0,\n", ": a null character is not text"),
        ("0,0\n0,0\n", ": has no link"),
        ("0,1B/s\nx,1B/s,0\n", ":2: 3 cells in a matrix of 2 rows; expected as many"),
        ("0,much\n0,0\n", ":1: column 2: expected a number or a bandwidth, found 'much'"),
        (f"0,{'1' * 201}\n0,0\n", f":1: column 2: expected a number or a bandwidth, found '{'1' * 49}..."),
        (",a,b\na,0,1B/s\nc,1B/s,0\n", ":3: row 'c' and its column have other names"),
        (",".join("0" * 514), ": more than 512 columns, the most that are read"),
        ("0,0\n" * 514, ":514: more than 512 rows or columns"),
    ],
)
def test_matrices_that_are_refused(text: str, message: str) -> None:
    with pytest.raises(FormatError) as refused:
        cells(text)
    assert str(refused.value) == f"dir/m.csv{message}"


@pytest.mark.parametrize(
    ("head", "is_matrix"),
    [
        ("0,1\n2,0\n", True),
        ("a,b\nc,1\n", True),
        ("a,b,c\nd,e,1\n", False),
        ("0,1\n2,0,3\n", False),
        ("0,1\n", False),
        ("0 1\n2 0\n", False),
        ("{0,1\n2,0\n", False),
        ("[0,1\n2,0\n", False),
        ("<0,1\n2,0\n", False),
        ("#0,1\n2,0\n", False),
        ("a\tb\nX\t3GB/s\n", True),
        ("", False),
    ],
)
def test_what_is_told_as_a_matrix(head: str, is_matrix: bool) -> None:
    assert matrix.is_matrix(head) is is_matrix


def xml(inner: str, *, keys: str = "", graph: str = 'id="g" edgedefault="directed"') -> Imported:
    text = f"<graphml>\n{keys}\n<graph {graph}>\n{inner}\n</graph>\n</graphml>"
    return graphml.read(SourceFile(text, "dir/x.graphml"), ImportOptions(bandwidth=6))


NODES = '<node id="a"/><node id="b"/>'


def test_graphml_with_defaults_and_directions() -> None:
    keys = (
        '<key id="k" for="node" attr.name="kind"/><key id="w" attr.name="weight"><default> 2 </default></key>'
        '<key id="latency_ns" for="edge"/>'
    )
    inner = (
        '<node id="a"/><node id="s"><data key="k"> switch </data></node>'
        '<edge source="a" target="s"><data key="latency_ns">7</data></edge>'
        '<edge source="s" target="a" directed="false"><data key="w">3</data></edge>'
    )
    found = xml(inner, keys=keys)
    assert rows(found.topology) == [("a", "s", 12, 7), ("s", "a", 18, 0), ("a", "s", 18, 0)]
    assert (found.format, found.topology.name) == ("graphml", "g")
    assert found.recognised == {
        "nodes": "1 compute, 1 switch",
        "links": "3 directed, of a directed graph",
        "rank order": "nodes in the order of the file",
    }
    assert found.defaulted == (Finding("2 edges with the speed of --bandwidth"),)
    plain = xml(f'{NODES}<edge source="a" target="b"/>', graph='edgedefault="undirected"')
    assert (plain.topology.name, plain.topology.n_links) == ("x", 2)
    assert plain.recognised["links"] == "2 directed, of an undirected graph"


@pytest.mark.parametrize(
    ("inner", "keys", "message"),
    [
        ("<node/>", "", ":4: <node> lacks the attribute id"),
        (f'{NODES}<edge source="a"/>', "", ":4: <edge> lacks the attribute target"),
        (
            f'{NODES}<edge source="a" target="b" directed="maybe"/>',
            "",
            ":4: <edge> has directed='maybe'; expected it",
        ),
        ("<hyperedge/>", "", ":4: <hyperedge> is not read"),
        ("<port/>", "", ":4: <port> is not read"),
        ("<locator/>", "", ":4: <locator> is not read"),
        ('<node id="a"><port/></node>', "", ":4: <port> within a node is not read"),
        ('<node id="a"><data key="q">1</data></node>', "", ":4: <data> of the unknown key 'q'"),
        ('<node id="a"><data>1</data></node>', "", ":4: <data> lacks the attribute key"),
        (NODES, '<key id="k"/><key id="k"/>', ":2: <key> 'k' stands here a second time"),
        (NODES, "<key/>", ":2: <key> lacks the attribute id"),
        (NODES, '<graph edgedefault="directed"/>', ": has 2 graphs; expected one"),
    ],
)
def test_graphml_that_is_refused(inner: str, keys: str, message: str) -> None:
    with pytest.raises(FormatError) as refused:
        xml(inner, keys=keys)
    assert str(refused.value) == f"dir/x.graphml{message}"
