"""Reconfigurations against all relabellings of small fabrics, and replayed on ports."""

from __future__ import annotations

import csv
import io
from collections import Counter
from itertools import permutations

import networkx
import pytest

from treadle.errors import InfeasibleError
from treadle.finder.building.rewiring import RewiringPlan, reconfigure
from treadle.finder.cabling import cables
from treadle.topologies import Topology, parse, with_links


def links(topology: Topology) -> Counter[tuple[int, int]]:
    ends = zip(topology.tails.tolist(), topology.heads.tolist(), strict=True)
    return Counter(pair for pair in ends if pair[0] != pair[1])


def fewest(now: Topology, other: Topology) -> int:
    """Of all relabellings: directed links that are made."""
    have, want = links(now), links(other)
    return min(
        (Counter({(order[a], order[b]): count for (a, b), count in want.items()}) - have).total()
        for order in permutations(range(now.n_nodes))
    )


def replay(plan: RewiringPlan) -> None:
    now, names = plan.topology, plan.topology.node_names
    graph: Counter[tuple[str, str]] = Counter()
    ports: Counter[tuple[str, int, str]] = Counter()
    both = 1 + plan.is_duplex
    rows = [
        (wire.tail, wire.tail_port, wire.head, wire.head_port)
        for wire in cables(now)
        if wire.tail != wire.head
    ]
    if not plan.is_duplex:
        rows += [
            (wire.head, wire.head_port, wire.tail, wire.tail_port) for wire in cables(now) if wire.is_duplex
        ]
    moves = [((names[a], p), (names[b], q), 1) for a, p, b, q in rows]
    for row in csv.DictReader(io.StringIO(plan.csv())):
        ends = [(row[f"{side}_node"], int(row[f"{side}_port"])) for side in ("from", "to")]
        moves.append((ends[0], ends[1], 1 if row["action"] == "connect" else -1))
    for one, other, by in moves:
        for tail, head in ((one, other), (other, one))[:both]:
            graph[tail[0], head[0]] += by
            ports[(*tail, "sends")] += by
            ports[(*head, "receives")] += by
        assert set(ports.values()) <= {0, 1}
    want = Counter(
        {(names[plan.node[a]], names[plan.node[b]]): count for (a, b), count in links(plan.other).items()}
    )
    assert +graph == want


@pytest.mark.parametrize(
    ("now", "other"),
    [
        ("ring(6)", "circulant(6, 2, 3)"),
        ("torus(2, 3)", "complete_bipartite(3, 3)"),
        ("kautz(2, 1)", "directed_circulant(6, 1, 2)"),
        ("generalized_kautz(2, 7)", "directed_circulant(7, 2)"),
        ("directed_circulant(7, 2)", "circulant(7, 1)"),
    ],
)
def test_no_relabelling_changes_fewer(now: str, other: str) -> None:
    one, two = parse(now), parse(other)
    if one.n_links != two.n_links:
        with pytest.raises(InfeasibleError, match="differ"):
            reconfigure(one, two)
        return
    plan = reconfigure(one, two)
    replay(plan)
    assert plan.n_changed * (1 + plan.is_duplex) == fewest(one, two)
    assert plan.n_changed <= plan.n_in_order


def test_equal_fabrics_need_nothing() -> None:
    graph = networkx.relabel_nodes(networkx.hypercube_graph(4), {})
    assert graph.number_of_edges() == 32
    plan = reconfigure("hypercube(4)", "torus(4, 4)")
    assert plan.n_changed == 0
    assert plan.n_in_order > 0


def test_equal_fabrics_are_recognised_whatever_their_links_take() -> None:
    """A designed fabric carries its network's rate and delay, one by name has 1 byte/s."""
    order = "13,1,6,2,9,0,7,14,3,11,5,10,15,4,8,12"
    wanted = f'with_nodes_ordered(torus(4, 4), "{order}")'
    now = with_links(parse("torus(4, 4)"), bandwidth=3_125_000_000, latency=10_000)
    plan = reconfigure(now, wanted)
    assert plan.changes == ()
    assert plan.n_in_order > 0


def test_fabrics_that_are_no_two_states_of_one() -> None:
    with pytest.raises(InfeasibleError, match="as many nodes; found 4 and 5"):
        reconfigure("ring:4", "ring:5")
    with pytest.raises(InfeasibleError, match="no switches"):
        reconfigure("dgx_a100:1", "dgx_a100:1")
