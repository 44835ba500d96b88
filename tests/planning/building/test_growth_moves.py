"""Growth and rewiring move by move on small fabrics, and everything that is refused."""

from __future__ import annotations

import csv
import io
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from harness.summaries import growth_summary, rewiring_summary
from treadle.errors import FormatError, InfeasibleError
from treadle.finder.building import growth, rewiring
from treadle.finder.building.growth import _Search, grow
from treadle.finder.building.rewiring import (
    _changes,
    _ends,
    _port,
    reconfigure,
)
from treadle.finder.cabling import Cable, CableMove, cables, unidirectional_cables
from treadle.synthesis.steps.bfb import bfb_reduce_scatter_value, bfb_value
from treadle.topologies import Topology, TopologyBuilder, parse
from treadle.topologies.catalogue.direct import from_arcs


def test_a_ring_grows_by_one() -> None:
    """A ring of four: two steps, and three quarters of the data over two links a node."""
    plan = grow("ring:3", 4)
    assert growth_summary(plan) == {
        "nodes": 4,
        "stages": 1,
        "cut": 1,
        "added": 2,
        "steps": 2,
        "t_b_exact": "3/4",
        "connected": True,
        "duplex": True,
    }
    assert plan.topology.name == "ring(3), grown to 4"
    assert plan.topology.node_names == ("n0", "n1", "n2", "n3")
    assert set(plan.topology.bandwidths.tolist()) == set(plan.before.bandwidths.tolist())


def test_links_stay_what_they_are() -> None:
    plan = grow("ring(5, bandwidth='3GB/s', latency='70ns')", 6)
    assert set(plan.topology.bandwidths.tolist()) == {3 * 10**9}
    assert set(plan.topology.latencies_ns.tolist()) == {70}
    assert len(plan.topology.tails) == 12


@pytest.mark.parametrize(
    ("name", "nodes", "ports", "stages"),
    [
        # of degree 3, duplex: a cable is cut for each of two, and a third joins them
        ("hypercube(3)", 10, {0, 1, 2}, [3, 3, 1]),
        ("torus(3, 4)", 13, {0, 1, 2, 3}, [3, 3]),
        ("generalized_kautz(2, 7)", 8, {0, 1}, [3, 3]),
    ],
)
def test_ports_and_stages(name: str, nodes: int, ports: set[int], stages: list[int]) -> None:
    """A stage pulls one cable and adds two; the ends of the one that was pulled keep their ports."""
    plan = grow(name, nodes)
    rows = list(csv.DictReader(io.StringIO(plan.csv())))
    assert list(rows[0]) == ["stage", "action", "from_node", "from_port", "to_node", "to_port", "duplex"]
    two_way = all(wire.is_duplex for wire in cables(parse(name)))
    assert {row["duplex"] for row in rows} == {"yes" if two_way else "no"}
    counted = Counter(int(row["stage"]) for row in rows)
    assert list(counted) == list(range(1, len(counted) + 1))
    assert sorted(counted.values(), reverse=True) == sorted(stages, reverse=True)
    assert growth_summary(plan)["stages"] == len(stages)
    for stage in counted:
        moves = [row for row in rows if int(row["stage"]) == stage]
        if len(moves) == 1:
            assert moves[0]["action"] == "add"
            continue
        pull, out, back = moves
        assert (pull["action"], out["action"], back["action"]) == ("pull", "add", "add")
        assert (out["from_node"], out["from_port"]) == (pull["from_node"], pull["from_port"])
        assert (back["to_node"], back["to_port"]) == (pull["to_node"], pull["to_port"])
        assert out["to_node"] == back["from_node"]
    new = {f"n{node}" for node in range(parse(name).n_nodes, nodes)} & {row["to_node"] for row in rows}
    for node in new or {row["to_node"] for row in rows if row["to_node"] not in parse(name).node_names}:
        used = [int(row["to_port"]) for row in rows if row["to_node"] == node and row["action"] == "add"]
        used += [int(row["from_port"]) for row in rows if row["from_node"] == node and row["action"] == "add"]
        assert set(used) == ports


def test_a_choice_is_worth_its_mean_and_its_steps() -> None:
    """T_B of both directions, and a twentieth for each step."""
    for name, duplex in (("torus(3, 4)", True), ("generalized_kautz(2, 7)", False)):
        fabric = parse(name)
        wires = list(cables(fabric)) if duplex else unidirectional_cables(cables(fabric))
        degree = fabric.n_links // fabric.n_nodes
        search = _Search(fabric.n_nodes, fabric.n_nodes + 1, degree, wires, duplex)
        lines = [place for place, wire in enumerate(wires) if wire.tail != wire.head]
        chosen = np.array([lines[1 : 1 + (degree // 2 if duplex else degree)]])
        tails, heads = search.ends(chosen)
        n = fabric.n_nodes + 1
        grown = Topology(
            name="grown",
            node_names=tuple(f"x{node}" for node in range(n)),
            is_compute=np.ones(n, dtype=np.bool_),
            tails=tails,
            heads=heads,
            bandwidths=np.ones(len(tails), dtype=np.int64),
        )
        values = [bfb_value(grown), bfb_reduce_scatter_value(grown)]
        wanted = sum(float(one.t_b) + 0.05 * one.diameter for one in values) / 2
        assert search.value(chosen) == pytest.approx(wanted, rel=1e-12)
        assert search.value(chosen) == search.known[chosen.tobytes()]


def test_a_choice_that_cuts_nodes_off_is_worse_than_any() -> None:
    builder = TopologyBuilder("dumbbell")
    names = [builder.compute(f"n{node}") for node in range(4)]
    for one, other in ((0, 1), (0, 1), (2, 3), (2, 3)):
        builder.duplex(names[one], names[other], 1)
    search = _Search(4, 5, 2, list(cables(builder.build())), True)
    assert search.value(np.array([[0]])) == 5 + 0.05 * 5


def test_new_nodes_of_odd_degree_are_joined_by_twos() -> None:
    wires = list(cables(parse("hypercube(3)")))
    assert _Search(8, 12, 3, wires, True).pairs() == [(8, 9), (10, 11)]
    assert _Search(8, 12, 4, wires, True).pairs() == []
    assert _Search(8, 12, 3, wires, False).pairs() == []


def test_names_that_are_taken() -> None:
    ring = from_arcs("ring", [0, 1, 2], [1, 2, 0], n=3, node_names=("n3", "n4", "a"))
    assert grow(ring, 5).topology.node_names == ("n3", "n4", "a", "n5", "n6")


def test_links_of_duplex_cables_one_by_one() -> None:
    wires = [Cable(0, 1, 2, 3, True, 4), Cable(5, 6, 7, 8, False, 9)]
    wanted = [Cable(0, 1, 2, 3, False, 4), Cable(2, 3, 0, 1, False, 4), Cable(5, 6, 7, 8, False, 9)]
    assert unidirectional_cables(wires) == wanted


@pytest.mark.parametrize(
    ("name", "nodes", "error", "said"),
    [
        ("dgx_a100:1", 9, InfeasibleError, "grow: dgx_a100(1) has switches, or nodes or links that differ"),
        ("path:3", 4, InfeasibleError, "grow: path(3) has switches, or nodes or links that differ"),
        ("ring:4", 4, FormatError, "grow: 4 nodes, expected 5 to 8: the fabric has 4"),
        ("ring:4", 9, FormatError, "grow: 9 nodes, expected 5 to 8: the fabric has 4"),
        (
            "complete:4",
            5,
            InfeasibleError,
            "grow: 5 nodes of 3 duplex cables have an odd number of ports; expected an even number of nodes",
        ),
        (
            "complete:2",
            4,
            InfeasibleError,
            "grow: complete(2) joins nodes by twos, and no node fits between",
        ),
    ],
)
def test_what_cannot_grow(name: str, nodes: int, error: type[Exception], said: str) -> None:
    with pytest.raises(error) as caught:
        grow(name, nodes)
    assert str(caught.value) == said


def test_the_most_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert growth.MAX_NODES == rewiring.MAX_NODES == 4096
    assert grow("ring:3", 6).topology.n_nodes == 6
    monkeypatch.setattr(growth, "MAX_NODES", 5)
    assert grow("ring:4", 5).topology.n_nodes == 5
    with pytest.raises(FormatError) as caught:
        grow("ring:4", 6)
    assert str(caught.value) == "grow: 6 nodes, expected 5 to 5: the fabric has 4"
    monkeypatch.setattr(rewiring, "MAX_NODES", 4)
    assert reconfigure("ring:4", "ring:4").n_changed == 0
    with pytest.raises(FormatError) as caught:
        reconfigure("ring:5", "ring:5")
    assert str(caught.value) == "reconfigure: 5 nodes, at most 4"


def test_time_that_is_up_leaves_a_choice_by_chance() -> None:
    quick, searched = grow("ring:5", 7, time_limit_s=0.0), grow("ring:5", 7)
    assert quick.topology.n_nodes == 7
    assert searched.t_b <= quick.t_b
    assert searched.t_b >= Fraction(6, 7)


def ring_of(*names: int) -> list[tuple[int, int]]:
    return [(one, other) for one, other in zip(names, (*names[1:], names[0]), strict=True)]


def fabric(name: str, pairs: list[tuple[int, int]], n: int, *, duplex: bool = True) -> Topology:
    builder = TopologyBuilder(name)
    nodes = [builder.compute(f"{name}{node}") for node in range(n)]
    for one, other in pairs:
        if duplex:
            builder.duplex(nodes[one], nodes[other], 1)
        else:
            builder.link(nodes[one], nodes[other], 1)
    return builder.build()


def test_a_ring_becomes_two_triangles() -> None:
    """Two of six cables are taken off and two made; ports that became free are used again."""
    six, two = fabric("a", ring_of(0, 1, 2, 3, 4, 5), 6), fabric("b", ring_of(0, 1, 2) + ring_of(3, 4, 5), 6)
    plan = reconfigure(six, two)
    assert rewiring_summary(plan) == {
        "other": "b",
        "changed": 2,
        "disconnected": 2,
        "changed_in_order": 2,
        "duplex": True,
    }
    in_order = _changes(six, two, np.arange(6, dtype=np.int32), True)
    ports = {(wire.tail, wire.head): (wire.tail_port, wire.head_port) for wire in cables(six)}
    gone = [(2, 3), (0, 5)] if (0, 5) in ports else [(2, 3), (5, 0)]
    taken = {(one.tail, one.head) for one in in_order if not one.is_added}
    assert {frozenset(pair) for pair in taken} == {frozenset(pair) for pair in gone}
    free = {
        node: port
        for one in in_order
        if not one.is_added
        for node, port in ((one.tail, one.tail_port), (one.head, one.head_port))
    }
    assert [one for one in in_order if one.is_added] == [
        CableMove(True, 0, free[0], 2, free[2]),
        CableMove(True, 3, free[3], 5, free[5]),
    ]


def test_commands_name_the_parts_that_ends_take() -> None:
    six = fabric("a", ring_of(0, 1, 2, 3, 4, 5), 6)
    turned = fabric("b", ring_of(0, 2, 4, 1, 3, 5), 6)
    plan = reconfigure(six, turned)
    assert plan.changes == ()
    assert plan.n_in_order > 0
    assert plan.csv() == "action,from_node,from_port,to_node,to_port,duplex,from_part,to_part\n"
    other = reconfigure(six, fabric("b", ring_of(0, 1, 2) + ring_of(3, 4, 5), 6))
    rows = list(csv.DictReader(io.StringIO(other.csv())))
    assert [row["action"] for row in rows] == ["disconnect"] * 2 + ["connect"] * 2
    assert {row["duplex"] for row in rows} == {"yes"}
    part = {f"a{node}": f"b{place}" for place, node in enumerate(other.node.tolist())}
    for row in rows:
        assert (part[row["from_node"]], part[row["to_node"]]) == (row["from_part"], row["to_part"])
    for row, change in zip(rows, other.changes, strict=True):
        assert (row["from_node"], row["to_node"]) == (f"a{change.tail}", f"a{change.head}")
        assert (int(row["from_port"]), int(row["to_port"])) == (change.tail_port, change.head_port)


def test_one_way_links_have_two_sides() -> None:
    """A circle of five turned round: all links go, and the ports that sent send again."""
    now, back = (
        fabric("a", ring_of(0, 1, 2, 3, 4), 5, duplex=False),
        fabric("b", ring_of(4, 3, 2, 1, 0), 5, duplex=False),
    )
    made = [one for one in _changes(now, back, np.arange(5, dtype=np.int32), False) if one.is_added]
    assert made == [CableMove(True, tail, 0, head, 0) for tail, head in sorted(ring_of(4, 3, 2, 1, 0))]
    plan = reconfigure(now, back)
    assert (plan.n_changed, plan.n_in_order, plan.is_duplex) == (0, 5, False)


def test_ports() -> None:
    free, used = [3, 1], {0, 1, 3}
    assert [_port(free, used), _port(free, used)] == [3, 1]
    assert (_port(free, used), _port(free, used), _port(free, used)) == (2, 4, 5)
    assert _port([], set()) == 0
    assert (_ends(3, 1, True), _ends(3, 1, False), _ends(1, 3, True)) == ((1, 3), (3, 1), (1, 3))


@pytest.mark.parametrize(
    ("now", "other", "said"),
    [
        (
            "ring:4",
            "ring:5",
            "reconfigure: ring(4) and ring(5) must have no switches and as many nodes; found 4 and 5",
        ),
        (
            "ring:8",
            "dgx_a100:1",
            "reconfigure: ring(8) and dgx_a100(1) must have no switches and as many nodes; found 8 and 9",
        ),
        (
            "ring:4",
            "complete:4",
            "reconfigure: links out of nodes differ; expected the same at all, in both fabrics",
        ),
        (
            "path:4",
            "path:4",
            "reconfigure: links out of nodes differ; expected the same at all, in both fabrics",
        ),
    ],
)
def test_what_cannot_be_rewired(now: str, other: str, said: str) -> None:
    with pytest.raises(InfeasibleError) as caught:
        reconfigure(now, other)
    assert str(caught.value) == said


def test_links_into_nodes_are_alike_too() -> None:
    even = fabric("a", ring_of(0, 1, 2), 3, duplex=False)
    odd = fabric("b", [(0, 1), (1, 2), (2, 1)], 3, duplex=False)
    with pytest.raises(InfeasibleError) as caught:
        reconfigure(even, odd)
    assert str(caught.value) == (
        "reconfigure: links into nodes differ; expected the same at all, in both fabrics"
    )


def test_ports_that_loops_have_left_empty_are_used() -> None:
    """Every node has a link onwards at port 0 and one to itself at port 1, which others take."""
    now = from_arcs("a", [0, 1, 2, 0, 1, 2], [1, 2, 0, 0, 1, 2], n=3)
    other = from_arcs("b", [0, 1, 2, 0, 1, 2], [1, 2, 0, 2, 0, 1], n=3)
    found = _changes(now, other, np.arange(3, dtype=np.int32), False)
    assert found == tuple(CableMove(True, tail, 1, (tail + 2) % 3, 1) for tail in range(3))
    back = _changes(other, now, np.arange(3, dtype=np.int32), False)
    assert {(one.is_added, one.tail, one.head) for one in back} == {
        (False, tail, (tail + 2) % 3) for tail in range(3)
    }
