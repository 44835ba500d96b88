"""Growth and rewiring move by move on small fabrics, and everything that is refused."""

from __future__ import annotations

import csv
import io
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from harness.summaries import growth_summary
from treadle.errors import FormatError
from treadle.finder.building import growth, rewiring
from treadle.finder.building.growth import grow
from treadle.finder.building.rewiring import (
    _changes,
    reconfigure,
)
from treadle.finder.cabling import CableMove, cables
from treadle.topologies import parse
from treadle.topologies.catalogue.direct import from_arcs


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


def test_names_that_are_taken() -> None:
    ring = from_arcs("ring", [0, 1, 2], [1, 2, 0], n=3, node_names=("n3", "n4", "a"))
    assert grow(ring, 5).topology.node_names == ("n3", "n4", "a", "n5", "n6")


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
