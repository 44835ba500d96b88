"""Every baseline on small fabrics: accepted by the verifier, never above the optimum, published values."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest

from samples.table import BASELINES
from treadle.errors import InfeasibleError, ScheduleError
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.schedules.trees.forest import ForestSchedule
from treadle.schedules.trees.forest_cost import algbw
from treadle.synthesis.trees.baselines.boxes import find_boxes
from treadle.synthesis.trees.baselines.ring import ring_orders
from treadle.topologies.catalogue import graphs, platforms
from treadle.topologies.catalogue.clusters import fat_tree
from treadle.topologies.topology import Topology, TopologyBuilder
from treadle.topologies.transforms.changes import subset, with_failed_links
from treadle.verification.schedules import verify

GB = 10**9
K = CollectiveKind

FABRICS: dict[str, Callable[[], Topology]] = {
    "a100_pcie": lambda: platforms.dgx_a100(2, pcie=True),
    "a100_three": lambda: platforms.dgx_a100(3, 2),
    "a100_flat": lambda: platforms.dgx_a100_flat(2, 4),
    "a100_unequal": lambda: subset(platforms.dgx_a100_flat(2, 4), *range(7)),
    "a100_failed_nic": lambda: with_failed_links(platforms.dgx_a100_flat(2, 4), "box0.gpu1--ib0"),
    "mi250_8": lambda: platforms.mi250(2, 8),
    "dgx1": lambda: platforms.dgx1_v100(),
    "fat_tree": lambda: fat_tree(4),
    "torus": lambda: graphs.torus(4, 4),
    "odd_torus": lambda: graphs.torus(3, 3),
    "hypercube": lambda: graphs.hypercube(3),
    "complete": lambda: graphs.complete(5),
    "path": lambda: graphs.path(4),
    "one_way_ring": lambda: graphs.ring(5, bidirectional=False),
    "star": lambda: graphs.star(5),
    "pair": lambda: graphs.complete(2),
}


def collective_of(topology: Topology, kind: CollectiveKind) -> Collective:
    return on_all_ranks(topology, kind, root=1 if kind.is_rooted else None)


def solve(name: str, topology: Topology, kind: CollectiveKind) -> ForestSchedule:
    return BASELINES[name](topology, collective_of(topology, kind))


@pytest.mark.parametrize("name", BASELINES)
def test_a_disconnected_fabric_is_infeasible(name: str) -> None:
    builder = TopologyBuilder("apart")
    for node in "abcd":
        builder.compute(node)
    builder.duplex("a", "b", 1)
    builder.duplex("c", "d", 1)
    with pytest.raises(InfeasibleError, match="apart"):
        solve(name, builder.build(), K.ALLREDUCE)


@pytest.mark.parametrize("name", BASELINES)
def test_every_compute_node_must_take_part(name: str) -> None:
    topology = graphs.complete(4)
    with pytest.raises(ScheduleError, match="neither a rank nor a forwarder"):
        BASELINES[name](topology, Collective(K.ALLREDUCE, (0, 1)))


@pytest.mark.parametrize("name", BASELINES)
def test_forwarders_pass_data_on(name: str) -> None:
    """Ranks at both ends of a path, a forwarder between them."""
    topology = graphs.path(3)
    collective = Collective(K.ALLREDUCE, (0, 2), forwarders=(1,))
    schedule = BASELINES[name](topology, collective)
    assert verify(topology, collective, schedule).violations == ()
    assert algbw(topology, schedule) in (Fraction(1, 2), Fraction(1))


@pytest.mark.parametrize("name", ["ring", "halving-doubling", "hierarchical-ring", "multitree"])
def test_weighted_shards(name: str) -> None:
    topology = platforms.dgx_a100_flat(2, 4)
    collective = on_all_ranks(topology, K.ALLGATHER, weights=(3, 0, 1, 1, 2, 1, 0, 5))
    schedule = BASELINES[name](topology, collective)
    assert verify(topology, collective, schedule).violations == ()
    share = schedule.root_multiplicity * 13 // schedule.total_units
    assert share.tolist() == [3, 0, 1, 1, 2, 1, 0, 5]


@pytest.mark.parametrize("fabric", FABRICS)
def test_rings_visit_every_rank_once(fabric: str) -> None:
    topology = FABRICS[fabric]()
    collective = on_all_ranks(topology, K.ALLGATHER)
    for order in ring_orders(topology, collective):
        assert sorted(order) == list(range(collective.n_ranks))


def boxes_with_cards(*speeds: int, leaves: int = 1, gpus: int = 4) -> Topology:
    """Boxes around a switch of 300 GB/s; every GPU has a card of its box's speed to the network."""
    builder = TopologyBuilder("mixed cards")
    network = [builder.switch(f"leaf{leaf}") for leaf in range(leaves)]
    if leaves > 1:
        spine = builder.switch("spine")
        for leaf in network:
            builder.duplex(leaf, spine, 200 * GB)
    for box, speed in enumerate(speeds):
        inner = builder.switch(f"box{box}.nvswitch")
        for gpu in range(gpus):
            name = builder.compute(f"box{box}.gpu{gpu}")
            builder.duplex(name, inner, 300 * GB)
            builder.duplex(name, network[box % leaves], speed * GB)
    return builder.build()


@pytest.mark.parametrize("leaves", [1, 2])
@pytest.mark.parametrize("speeds", [(50, 50), (50, 50, 12), (50, 12, 50, 12), (12, 50, 50, 25, 25, 25)])
def test_boxes_with_faster_cards_stay_boxes(speeds: tuple[int, ...], leaves: int) -> None:
    topology = boxes_with_cards(*speeds, leaves=leaves)
    boxes = find_boxes(topology, on_all_ranks(topology, K.ALLGATHER))
    assert boxes == tuple(tuple(range(4 * box, 4 * box + 4)) for box in range(len(speeds)))


@pytest.mark.parametrize("name", BASELINES)
def test_results_repeat(name: str) -> None:
    topology = platforms.dgx_a100(2, 4)
    assert solve(name, topology, K.ALLREDUCE) == solve(name, topology, K.ALLREDUCE)
