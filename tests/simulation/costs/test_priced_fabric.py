"""What messages cost as links and one alpha: along any way, what the simulator takes for a message of it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import networkx
import numpy as np
import pytest

from treadle.planning import simulate, solve
from treadle.simulation.costs.cost_model import ClassCost, Protocol
from treadle.simulation.costs.link_classes import CLASSES, link_classes
from treadle.simulation.costs.priced_fabric import priced_fabric
from treadle.topologies import parse
from treadle.topologies.topology import Topology

COSTS = Protocol(
    "p",
    box=ClassCost(1000, 50, 7, Fraction(1, 2)),
    network=ClassCost(5000, 200, 11, Fraction(3, 4)),
    hop=ClassCost(300, 20, 500),
)


def dearest_ns(fabric: Topology, links: list[int]) -> int:
    """A message over links: the most of their classes' alpha and g, and the latency of each."""
    costs = [COSTS.of(CLASSES[number]) for number in link_classes(fabric)[links].tolist()]
    return max(one.alpha_ns + one.occupancy_ns for one in costs) + sum(one.hop_ns for one in costs)


@pytest.mark.parametrize(
    "words",
    [
        "dgx_a100:2",
        "dgx_h100:2",
        "gb200_nvl72:2",
        "leaf_spine:4,2",
        "torus:3,3",
        "mi250:2",
        "dgx_a100_flat:2",
    ],
)
def test_the_nearest_ways_cost_what_a_message_does(words: str) -> None:
    fabric = parse(words)
    priced, alpha_ns = priced_fabric(fabric, COSTS)
    graph = networkx.DiGraph()
    for link, (tail, head) in enumerate(zip(fabric.tails.tolist(), fabric.heads.tolist(), strict=True)):
        graph.add_edge(tail, head, link=link)
    ranks = fabric.compute_nodes.tolist()
    through = [node for node in range(fabric.n_nodes) if not fabric.is_compute[node]]
    for source in ranks[:2]:
        for target in ranks:
            between = graph.subgraph([*through, source, target])
            if source == target or not networkx.has_path(between, source, target):
                continue
            nodes = networkx.shortest_path(between, source, target)
            links = [graph.edges[one, two]["link"] for one, two in pairwise(nodes)]
            assert alpha_ns + int(priced.latencies_ns[links].sum()) == dearest_ns(fabric, links)


def test_shares_of_bandwidths_and_ceilings() -> None:
    fabric = parse("dgx_a100:2")
    priced, _ = priced_fabric(fabric, COSTS)
    classes = link_classes(fabric)
    for number, name in enumerate(CLASSES):
        share = COSTS.of(name).efficiency
        expected = fabric.bandwidths[classes == number] * share.numerator // share.denominator
        assert np.array_equal(priced.bandwidths[classes == number], expected)
    narrow, _ = priced_fabric(fabric, replace(COSTS, channels=2, channel_bytes_per_s=10**9))
    leaves = fabric.is_compute[fabric.tails]
    assert set(narrow.bandwidths[leaves].tolist()) == {2 * 10**9}
    assert np.array_equal(narrow.bandwidths[~leaves], priced.bandwidths[~leaves])


def test_what_a_way_passes_pays_no_alpha() -> None:
    """The formula of two links through another rank: alpha once, as in the simulator."""
    plan = solve('generalized_kautz(4, 64, bandwidth="12.5GB/s")', "allgather", algorithm="routed-direct")
    (row,) = simulate(plan, "64B", cost_model="reference-hosts").rows
    assert row.alpha_beta is not None
    assert float(row.alpha_beta) == pytest.approx(8.2e-6, rel=1e-3)
    assert float(row.time) == pytest.approx(8.2e-6 + 15 * 0.2e-6, rel=0.05)
