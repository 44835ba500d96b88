"""What a figure is held against: rings by NCCL's rule, with fewer NICs, with sums in switches."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from samples.logs.gpu_boxes import GB, lone_gpus, nvswitch_boxes, v100_boxes
from treadle.diagnosis.limit_position import LimitPosition, limit_position_of, pcie_limit
from treadle.diagnosis.reference_bandwidths import (
    has_fast_links,
    least_cut,
    least_nics,
    optimum,
    ring_limit,
    with_nics,
    with_sums,
)
from treadle.schedules.collective import CollectiveKind
from treadle.topologies import (
    Topology,
    TopologyBuilder,
    dgx_a100,
    dgx_h100,
    gb200_nvl72,
    mi250,
    mi300x,
    parse,
)
from treadle.topologies.named_boxes import NETWORK, find_boxes, rank_boxes

ALLREDUCE = CollectiveKind.ALLREDUCE


def ring(topology: Topology, hosts: list[str] | None = None) -> float:
    return float(ring_limit(topology, find_boxes(topology, rank_boxes(topology, hosts or ()))).busbw / GB)


def best(topology: Topology) -> float:
    return float(optimum(topology, ALLREDUCE).busbw / GB)


@pytest.mark.parametrize(
    ("topology", "rings", "bound"),
    [
        (v100_boxes(4), 12.5, 16.15),
        (nvswitch_boxes(2, nics=1), 25, 46.88),
        (nvswitch_boxes(2), 100, 187.5),
        (nvswitch_boxes(12, nics=1), 25, 26.99),
        (nvswitch_boxes(2, nvlink=1648 * GB // 10, nics=8, nic=24 * GB), 164.8, 188.8),
        (dgx_h100(1), 450, 450),
        (dgx_h100(2), 400, 500),
        (lone_gpus(), 63, 63),
        (mi300x(1), 448, 448),
    ],
)
def test_figures_of_public_cases(topology: Topology, rings: float, bound: float) -> None:
    """Notes on importers: what NCCL's maintainers expect of rings, and the exact optimum, as busbw."""
    assert round(ring(topology), 2) == rings
    assert round(best(topology), 2) == bound


def brute_least_cut(topology: Topology) -> int:
    """The least cut that parts ranks, over all sets of nodes."""
    ranks = set(topology.compute_nodes.tolist())
    found = []
    for count in range(1, topology.n_nodes):
        for inside in combinations(range(topology.n_nodes), count):
            if ranks & set(inside) and ranks - set(inside):
                mask = np.isin(np.arange(topology.n_nodes), inside)
                found.append(int(topology.bandwidths[mask[topology.tails] & ~mask[topology.heads]].sum()))
    return min(found)


@pytest.mark.parametrize("seed", range(12))
def test_least_cuts_by_brute_force(seed: int) -> None:
    random = np.random.default_rng(seed)
    builder = TopologyBuilder("random")
    names = [builder.compute(f"n{i}") for i in range(4)] + [builder.switch(f"s{i}") for i in range(3)]
    for one, other in zip(names, names[1:] + names[:1], strict=True):
        builder.link(one, other, int(random.integers(1, 20)))
        builder.link(other, one, int(random.integers(1, 20)))
    for _ in range(6):
        one, other = random.choice(len(names), 2, replace=False)
        builder.link(names[one], names[other], int(random.integers(1, 20)))
    topology = builder.build()
    found = least_cut(topology)
    assert found.busbw == brute_least_cut(topology)
    assert found.capacity == found.busbw


def test_rings_pass_boxes_once_and_gpus_over_the_boxes_own_links() -> None:
    """The least cut of all would be a GPU's NVLink and NIC together; NCCL's rings use the NVLink alone."""
    fabric = nvswitch_boxes(2, nvlink=100 * GB, nics=8)
    assert least_cut(fabric).busbw == 125 * GB
    assert ring(fabric) == 100
    assert ring(nvswitch_boxes(2, nvlink=60 * GB)) == 60, (
        "GPUs that share a PCIe switch could use that as well"
    )


def test_gpus_without_links_of_their_own_use_pcie() -> None:
    builder = TopologyBuilder("PCIe alone")
    gpus = [builder.compute(f"box{number // 2}.gpu{number % 2}") for number in range(4)]
    bridges = [builder.switch(f"box{box}.pcie0") for box in range(2)]
    top = builder.switch("ib0")
    for number, gpu in enumerate(gpus):
        builder.duplex(gpu, bridges[number // 2], 12 * GB)
    for bridge in bridges:
        builder.duplex(bridge, top, 25 * GB)
    assert ring(builder.build()) == 12


def test_gpus_that_meet_in_the_network_only_have_the_least_cut() -> None:
    builder = TopologyBuilder("no links in boxes")
    gpus = [builder.compute(f"box{number // 2}.gpu{number % 2}") for number in range(4)]
    top = builder.switch("ib0")
    for gpu in gpus:
        builder.duplex(gpu, top, 10 * GB)
    assert ring(builder.build()) == 10


def test_hosts_of_the_log_say_what_a_box_is() -> None:
    rack = gb200_nvl72(1, 8)
    assert ring(rack, ["a"] * 4 + ["b"] * 4) == 900
    boxes = find_boxes(rack, rank_boxes(rack, ["a"] * 4 + ["b"] * 4))
    assert boxes.of_node[-1] == NETWORK
    assert with_sums(rack, boxes, nvls=True, sharp=False) is not None
    assert rank_boxes(parse("ring:4")) == (0, 0, 0, 0)
    assert rank_boxes(parse("ring:4"), ["a", "b", "a", "b"]) == (0, 1, 0, 1)


def test_ranks_dealt_out_over_hosts_leave_the_boxes_as_they_are() -> None:
    """mpirun --map-by node: rank 0 is on the first host, rank 1 on the second."""
    fabric = nvswitch_boxes(2)
    assert rank_boxes(fabric, ["a", "b"] * 8) == (0,) * 8 + (1,) * 8
    assert ring(fabric, ["a", "b"] * 8) == 100


def test_switches_belong_to_the_nearest_box() -> None:
    fabric = nvswitch_boxes(2)
    boxes = find_boxes(fabric, rank_boxes(fabric))
    names = [fabric.node_names[node] for node in np.flatnonzero(boxes.of_node == NETWORK)]
    assert names == ["ib0"]
    for node, box in enumerate(boxes.of_node.tolist()):
        if box != NETWORK:
            assert fabric.node_names[node].startswith(f"box{box}.")
    assert least_nics(fabric, boxes) == 4
    assert has_fast_links(fabric, boxes)
    assert not has_fast_links(lone_gpus(), find_boxes(lone_gpus(), (0, 1)))


def test_fewer_nics() -> None:
    fabric = nvswitch_boxes(2)
    boxes = find_boxes(fabric, rank_boxes(fabric))
    one = with_nics(fabric, boxes, 1)
    assert (ring(one), round(best(one), 2)) == (25, 46.88)
    assert not [name for name in one.node_names if name.endswith(("nic1", "pcie1"))]
    assert with_nics(fabric, boxes, 4) == fabric
    direct = dgx_h100(2)
    assert ring(with_nics(direct, find_boxes(direct, rank_boxes(direct)), 3)) == 150


@pytest.mark.parametrize(
    ("topology", "nvls", "sharp", "bound"),
    [(dgx_h100(1), True, False, 700), (dgx_h100(2), False, True, None), (mi250(2), True, False, 0)],
)
def test_sums_in_switches(topology: Topology, nvls: bool, sharp: bool, bound: int | None) -> None:
    capable = with_sums(topology, find_boxes(topology, rank_boxes(topology)), nvls=nvls, sharp=sharp)
    if bound == 0:
        assert capable is None
        return
    assert capable is not None
    if bound is None:
        assert capable == dgx_h100(2, sharp=True)
    else:
        assert capable == dgx_h100(1, nvls=True)
        assert best(capable) == bound


def test_places_in_words() -> None:
    for topology, place in (
        (v100_boxes(2), LimitPosition.NICS),
        (lone_gpus(), LimitPosition.PCIE),
        (dgx_h100(1), LimitPosition.BOX),
        (dgx_a100(2), LimitPosition.NICS),
        (nvswitch_boxes(2, pcie=5 * GB), LimitPosition.PCIE),
    ):
        boxes = find_boxes(topology, rank_boxes(topology))
        limit = ring_limit(topology, boxes)
        assert limit_position_of(topology, boxes, limit) is place, topology.name
        assert sum(int(topology.bandwidths[link]) for link in limit.links) == limit.capacity
    limit = ring_limit(lone_gpus(), boxes := find_boxes(lone_gpus(), (0, 1)))
    found = pcie_limit(lone_gpus(), boxes, limit)
    assert found is not None
    assert (found.bandwidth, found.nics, found.n_nics) == (63 * GB, 200 * GB, 4)
    spine = parse("pods(2, 2, oversubscription=8)")
    boxes = find_boxes(spine, rank_boxes(spine))
    assert limit_position_of(spine, boxes, ring_limit(spine, boxes)) is LimitPosition.NETWORK
    assert ring_limit(spine, boxes).busbw == Fraction(100 * GB)
