"""Every baseline on small fabrics: accepted by the verifier, never above the optimum, published values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from samples.table import BASELINES
from treadle.errors import InfeasibleError, ScheduleError
from treadle.schedules.collective import SPANNING_KINDS, Collective, CollectiveKind, on_all_ranks
from treadle.schedules.trees.forest import Forest, ForestSchedule
from treadle.schedules.trees.forest_cost import algbw
from treadle.synthesis.trees.baselines.blink import blink
from treadle.synthesis.trees.baselines.boxes import find_boxes, hamiltonian_order
from treadle.synthesis.trees.baselines.double_binary_tree import double_tree
from treadle.synthesis.trees.baselines.ring import ring_orders
from treadle.synthesis.trees.optimality import Optimum, optimum
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

KINDS = {
    "ring": set(SPANNING_KINDS),
    "double-binary-tree": {K.ALLREDUCE, K.BROADCAST, K.REDUCE},
    "halving-doubling": {K.ALLGATHER, K.REDUCE_SCATTER, K.ALLREDUCE},
    "hierarchical-ring": {K.ALLGATHER, K.REDUCE_SCATTER, K.ALLREDUCE},
    "multitree": {K.ALLGATHER, K.REDUCE_SCATTER, K.ALLREDUCE},
    "blink": {K.ALLGATHER, K.REDUCE_SCATTER, K.ALLREDUCE, K.BROADCAST, K.REDUCE},
}


def collective_of(topology: Topology, kind: CollectiveKind) -> Collective:
    return on_all_ranks(topology, kind, root=1 if kind.is_rooted else None)


@cache
def best_of(fabric: str, kind: CollectiveKind) -> Optimum:
    topology = FABRICS[fabric]()
    return optimum(topology, collective_of(topology, kind))


def solve(name: str, topology: Topology, kind: CollectiveKind) -> ForestSchedule:
    return BASELINES[name](topology, collective_of(topology, kind))


def test_every_baseline_is_registered() -> None:
    assert set(BASELINES) == set(KINDS)


@pytest.mark.parametrize(
    ("name", "fabric"),
    [(name, one) for i, name in enumerate(BASELINES) for j, one in enumerate(FABRICS) if (i + j) % 2 == 0],
)
def test_schedules_are_valid_and_below_the_optimum(name: str, fabric: str) -> None:
    topology = FABRICS[fabric]()
    for kind in sorted(KINDS[name]):
        collective = collective_of(topology, kind)
        n = collective.n_ranks
        sizes = {len(box) for box in find_boxes(topology, collective)}
        if (name == "halving-doubling" and n & (n - 1)) or (name == "hierarchical-ring" and len(sizes) > 1):
            with pytest.raises(ScheduleError, match="use ring instead"):
                BASELINES[name](topology, collective)
            continue
        schedule = BASELINES[name](topology, collective)
        best = best_of(fabric, kind)
        certificate = None if kind is K.ALLREDUCE else best.certificate
        report = verify(topology, collective, schedule, certificate=certificate)
        assert report.violations == (), f"{kind} on {fabric}"
        reached = algbw(topology, schedule)
        assert report.algbw == reached
        assert 0 < reached <= best.algbw
        if kind.is_rooted:
            assert schedule.total_units == schedule.root_multiplicity[1]
        elif kind is not K.ALLREDUCE:
            assert len(set(schedule.root_multiplicity.tolist())) == 1


@pytest.mark.parametrize("name", BASELINES)
def test_unknown_kinds_are_refused(name: str) -> None:
    topology = graphs.complete(4)
    for kind in set(K) - KINDS[name]:
        with pytest.raises(ScheduleError, match=f"{name}: {kind} is not supported"):
            solve(name, topology, kind)


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


@pytest.mark.parametrize("kind", [K.ALLGATHER, K.REDUCE_SCATTER])
@pytest.mark.parametrize("build", [platforms.dgx_a100, platforms.dgx_a100_flat])
def test_ring_on_two_a100_boxes(build: Callable[[int], Topology], kind: CollectiveKind) -> None:
    """Preprint, section 5.3: 640/3 GB/s = 16/15 of eight NICs' 25 GB/s; the PCIe switches change nothing."""
    topology = build(2)
    assert algbw(topology, solve("ring", topology, kind)) == Fraction(640, 3) * GB


def test_ring_behind_shared_pcie_switches() -> None:
    topology = platforms.dgx_a100(2, pcie=True)
    assert algbw(topology, solve("ring", topology, K.ALLGATHER)) == Fraction(640, 3) * GB


@pytest.mark.parametrize("boxes", [2, 3, 4, 5])
def test_rings_use_all_nics_whatever_the_number_of_boxes(boxes: int) -> None:
    topology = platforms.dgx_a100(boxes)
    n = 8 * boxes
    assert algbw(topology, solve("ring", topology, K.ALLGATHER)) == Fraction(n, n - 1) * 200 * GB


def test_rings_of_one_box() -> None:
    """All of a port's 300 GB/s: 2400/7, the published optimum."""
    topology = platforms.dgx_a100_flat(1)
    assert algbw(topology, solve("ring", topology, K.ALLGATHER)) == Fraction(2400, 7) * GB


@pytest.mark.parametrize(
    ("topology", "value"),
    [
        (graphs.ring(6), Fraction(12, 5)),
        (graphs.complete(5), Fraction(5)),
        (graphs.torus(3, 3), Fraction(9, 2)),
        (graphs.torus(4, 4), Fraction(64, 15)),
        (graphs.hypercube(4), Fraction(64, 15)),
    ],
    ids=lambda value: str(value),
)
def test_hamiltonian_rings_attain_the_optimum(topology: Topology, value: Fraction) -> None:
    """These graphs are unions of link-disjoint Hamiltonian cycles: degree * N/(N-1)."""
    assert algbw(topology, solve("ring", topology, K.ALLGATHER)) == value


@pytest.mark.parametrize("fabric", FABRICS)
def test_rings_visit_every_rank_once(fabric: str) -> None:
    topology = FABRICS[fabric]()
    collective = on_all_ranks(topology, K.ALLGATHER)
    for order in ring_orders(topology, collective):
        assert sorted(order) == list(range(collective.n_ranks))


def test_boxes() -> None:
    def sizes(topology: Topology) -> list[int]:
        return [len(box) for box in find_boxes(topology, on_all_ranks(topology, K.ALLGATHER))]

    assert sizes(platforms.dgx_a100(3)) == [8, 8, 8]
    assert sizes(platforms.dgx_a100(2, pcie=True)) == [8, 8]
    assert sizes(platforms.mi250(2)) == [16, 16]
    assert sizes(platforms.mi250(2, 8)) == [8, 8]
    assert sizes(platforms.dgx1_v100()) == [8]
    assert sizes(fat_tree(4)) == [16]
    assert sizes(subset(platforms.dgx_a100_flat(2, 4), *range(7))) == [4, 3]


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


def test_parts_of_a_box_do_not_become_boxes() -> None:
    """Pairs under PCIe switches, a processor above, two GPUs lost: the boxes are unequal, and stay whole."""
    builder = TopologyBuilder("PCIe trees")
    network = builder.switch("ib")
    for box, pairs in enumerate((2, 3)):
        processor = builder.switch(f"box{box}.cpu")
        for pair in range(pairs):
            riser = builder.switch(f"box{box}.pcie{pair}")
            builder.duplex(riser, processor, 16 * GB)
            builder.duplex(riser, network, 12 * GB)
            for gpu in range(2):
                builder.duplex(builder.compute(f"box{box}.gpu{pair}.{gpu}"), riser, 25 * GB)
    topology = builder.build()
    assert find_boxes(topology, on_all_ranks(topology, K.ALLGATHER)) == ((0, 1, 2, 3), (4, 5, 6, 7, 8, 9))


def test_halving_doubling_crosses_boxes_once_per_shard() -> None:
    """Four A100 boxes: each NIC carries 3 of 32 shards, so 800/3 GB/s, here the published optimum."""
    topology = platforms.dgx_a100_flat(4)
    assert algbw(topology, solve("halving-doubling", topology, K.ALLGATHER)) == Fraction(800, 3) * GB


def test_hierarchical_ring_on_two_boxes() -> None:
    """The first ring loads a NIC with one shard, the second an NVSwitch port with 14 of 16."""
    topology = platforms.dgx_a100_flat(2)
    assert algbw(topology, solve("hierarchical-ring", topology, K.ALLGATHER)) == Fraction(2400, 7) * GB


@pytest.mark.parametrize("n", range(1, 18))
def test_double_trees_span_and_complement(n: int) -> None:
    trees = double_tree(n)
    for parent in trees:
        assert parent.count(-1) == 1
        for v in range(n):
            seen, at = set(), v
            while at >= 0:
                assert at not in seen
                seen.add(at)
                at = parent[at]
            assert len(seen) <= n.bit_length() + 1
        assert max((parent.count(v) for v in range(n)), default=0) <= 2
    inner = [{v for v in parent if v >= 0} for parent in trees]
    assert len(inner[0] & inner[1]) <= 2


def test_blink_broadcast_attains_the_least_cut() -> None:
    """Edmonds: a packing from one root reaches the least cut that separates it from a rank."""
    for fabric in ("a100_flat", "dgx1", "odd_torus"):
        topology = FABRICS[fabric]()
        for kind in (K.BROADCAST, K.REDUCE):
            collective = collective_of(topology, kind)
            schedule = BASELINES["blink"](topology, collective)
            assert algbw(topology, schedule) == optimum(topology, collective).algbw


def test_blink_allreduce_is_at_least_half_a_broadcast() -> None:
    """Reducing and broadcasting one after the other on MI250 16+16: half of 256 GB/s."""
    topology = platforms.mi250(2)
    best = optimum(topology, collective_of(topology, K.BROADCAST)).algbw
    assert algbw(topology, solve("blink", topology, K.ALLREDUCE)) >= best / 2 == 128 * GB


def test_blink_takes_another_packer() -> None:
    asked = []

    def pack(topology: Topology, broadcast: Collective) -> Forest:
        asked.append((topology.name, broadcast.kind, broadcast.root))
        forest = BASELINES["ring"](topology, broadcast).broadcast
        assert forest is not None
        return forest

    topology = graphs.ring(4)
    collective = on_all_ranks(topology, K.ALLREDUCE)
    schedule = blink(topology, collective, pack=pack)
    assert verify(topology, collective, schedule).violations == ()
    assert asked == [("ring(4)", K.BROADCAST, 0), ("transpose(ring(4))", K.BROADCAST, 0)]


def test_multitree_matches_the_bound_as_boxes_grow() -> None:
    """Section 4.6.5: on A100 MultiTree approaches ForestColl with scale."""
    ratios = []
    for boxes in (2, 4, 16):
        topology = platforms.dgx_a100_flat(boxes)
        best = optimum(topology, on_all_ranks(topology, K.ALLGATHER)).algbw
        ratios.append(algbw(topology, solve("multitree", topology, K.ALLGATHER)) / best)
    assert ratios == [Fraction(90, 91), 1, 1]


def test_the_verifier_sees_a_wrong_parent() -> None:
    """A baseline's tree with one edge turned to another rank must not pass."""
    topology = graphs.complete(4)
    collective = on_all_ranks(topology, K.ALLGATHER)
    forest = BASELINES["multitree"](topology, collective).broadcast
    assert forest is not None
    parent = np.array(forest.parent)
    parent[0, 1] = 2
    mutant = ForestSchedule(K.ALLGATHER, broadcast=replace(forest, parent=parent))
    assert verify(topology, collective, mutant).violations


@pytest.mark.parametrize("name", BASELINES)
def test_results_repeat(name: str) -> None:
    topology = platforms.dgx_a100(2, 4)
    assert solve(name, topology, K.ALLREDUCE) == solve(name, topology, K.ALLREDUCE)


def test_hamiltonian_search() -> None:
    square = {0: [1, 3], 1: [0, 2], 2: [1, 3], 3: [2, 0]}
    assert hamiltonian_order(square, 0) == (0, 1, 2, 3)
    assert hamiltonian_order(square, 0, 3) == (0, 1, 2, 3)
    assert hamiltonian_order(square, 0, 2) is None
    assert hamiltonian_order({0: [1], 1: [0, 2], 2: [1]}, 0) is None
