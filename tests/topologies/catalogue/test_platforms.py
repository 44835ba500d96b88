from fractions import Fraction

import numpy as np
import pytest

from reference.optimum import cut_rate, optimal_algbw, optimal_rate, optimal_rate_by_all_cuts
from treadle.errors import TopologyError
from treadle.topologies import (
    are_ranks_connected,
    complete,
    dgx1_v100,
    dgx_a100,
    dgx_a100_flat,
    dgx_b200,
    dgx_h100,
    fat_tree,
    gb200_nvl72,
    has_switches,
    hypercube,
    is_eulerian,
    is_regular,
    is_symmetric,
    leaf_spine,
    mesh,
    mi250,
    mi300x,
    parse,
    path,
    pods,
    rail_optimized,
    ring,
    star,
    torus,
)

GB = 10**9

# (fabric, ranks, links)
CATALOGUE = [
    (dgx_a100(1), 8, 16),
    (dgx_a100(2), 16, 96),
    (dgx_a100(2, pcie=True), 16, 128),
    (dgx_a100(2, 1), 2, 12),
    (dgx_a100(3, 3, pcie=True), 9, 72),
    (dgx_a100_flat(1), 8, 16),
    (dgx_a100_flat(4), 32, 128),
    (dgx_h100(1, nvls=True), 8, 16),
    (dgx_h100(2, nvls=True, sharp=True), 16, 64),
    (dgx_b200(2, nvls=True), 16, 64),
    (dgx1_v100(), 8, 32),
    (mi250(1), 16, 56),
    (mi250(2), 32, 176),
    (mi250(2, gpus_per_box=8), 16, 76),
    (mi300x(1), 8, 56),
    (mi300x(2), 16, 144),
    (gb200_nvl72(1), 72, 144),
    (gb200_nvl72(2), 144, 576),
    (leaf_spine(4, 2), 32, 80),
    (leaf_spine(3, 2, gpus_per_leaf=4, oversubscription=2), 12, 36),
    (fat_tree(2), 2, 12),
    (fat_tree(4), 16, 96),
    (rail_optimized(4), 32, 128),
    (rail_optimized(4, 2, spines=2, oversubscription=2), 8, 40),
    (rail_optimized(1), 8, 16),
    (pods(1, 2), 16, 64),
    (pods(2, 2, gpus_per_box=4, oversubscription=2), 16, 68),
    (ring(2), 2, 2),
    (ring(5), 5, 10),
    (path(4), 4, 6),
    (path(1), 1, 0),
    (star(4), 4, 6),
    (complete(5), 5, 20),
    (torus(3, 3, 2), 18, 90),
    (mesh(3, 2), 6, 14),
    (hypercube(4), 16, 64),
]


@pytest.mark.parametrize(
    ("fabric", "ranks", "links"), CATALOGUE, ids=lambda value: getattr(value, "name", "")
)
def test_every_fabric_is_eulerian_symmetric_connected_and_of_the_stated_size(fabric, ranks, links):
    assert is_eulerian(fabric)
    assert is_symmetric(fabric)
    assert are_ranks_connected(fabric)
    assert (len(fabric.compute_nodes), fabric.n_links) == (ranks, links)


@pytest.mark.parametrize(
    ("fabric", "ranks", "links"), CATALOGUE, ids=lambda value: getattr(value, "name", "")
)
def test_every_name_is_the_expression_that_makes_the_fabric(fabric, ranks, links):
    assert parse(fabric.name) == fabric


def test_names_tell_changed_bandwidths():
    fabric = dgx_a100(2, nic_bandwidth=24_300_000_000)
    assert fabric.name == 'dgx_a100(2, nic_bandwidth="24300000000B/s")'
    assert parse(fabric.name) == fabric
    assert parse(ring(4, bandwidth=3, latency=5).name) == ring(4, bandwidth=3, latency=5)


def test_one_way_ring_has_half_the_links():
    fabric = ring(5, bidirectional=False)
    assert fabric.n_links == 5
    assert is_eulerian(fabric)
    assert not is_symmetric(fabric)
    assert parse(fabric.name) == fabric


def test_torus_of_twos_is_the_hypercube():
    for d in range(1, 5):
        assert torus(*(2,) * d) == hypercube(d)


def test_torus_is_the_product_of_rings():
    fabric = torus(3, 4)
    links = set(zip(fabric.tails.tolist(), fabric.heads.tolist(), strict=True))
    expected = set()
    for i in range(3):
        for j in range(4):
            for di, dj in ((1, 0), (2, 0), (0, 1), (0, 3)):
                expected.add((4 * i + j, 4 * ((i + di) % 3) + (j + dj) % 4))
    assert links == expected
    assert fabric.n_links == len(expected)
    assert fabric.node_names[5] == "n1_1"
    assert torus(1, 5).n_links == torus(5).n_links == ring(5).n_links
    assert is_regular(fabric)
    assert not is_regular(mesh(3, 4))


def test_ranks_go_box_by_box():
    for fabric in (dgx_a100(2), dgx_a100_flat(2), dgx_h100(2), mi300x(2)):
        names = [fabric.node_names[v] for v in fabric.compute_nodes]
        assert names == [f"box{b}.gpu{i}" for b in range(2) for i in range(8)]


def test_a100_rails_by_nic_parity():
    fabric = dgx_a100(2)
    rails = {
        fabric.node_names[tail]: fabric.node_names[head]
        for tail, head in zip(fabric.tails, fabric.heads, strict=True)
        if fabric.node_names[head].startswith("ib")
    }
    assert rails == {f"box{b}.nic{i}": f"ib{i % 2}" for b in range(2) for i in range(8)}


def test_a100_pcie_switch_is_shared_by_two_gpus_and_two_nics():
    fabric = dgx_a100(2, pcie=True)
    switch = fabric.node_index("box1.pcie3")
    neighbours = {fabric.node_names[v] for v in fabric.heads[fabric.tails == switch]}
    assert neighbours == {"box1.gpu6", "box1.gpu7", "box1.nic6", "box1.nic7"}


def test_a_single_box_has_no_network():
    for fabric in (dgx_a100(1), dgx_a100(1, pcie=True), dgx_a100_flat(1), dgx_h100(1), gb200_nvl72(1)):
        assert len(fabric.switches) == 1
    for fabric in (mi250(1), mi300x(1), dgx1_v100()):
        assert not has_switches(fabric)


def test_capabilities_are_where_they_were_asked_for():
    fabric = dgx_h100(2, nvls=True)
    assert [fabric.node_names[v] for v in np.flatnonzero(fabric.multicast)] == [
        "box0.nvswitch",
        "box1.nvswitch",
    ]
    assert np.array_equal(fabric.multicast, fabric.aggregation)
    top = dgx_h100(2, sharp=True)
    assert [top.node_names[v] for v in np.flatnonzero(top.aggregation)] == ["ib0"]
    # NVSwitches work for GPUs that ask, InfiniBand switches by themselves
    for fabric in (dgx_h100(2, nvls=True, sharp=True), gb200_nvl72(2, nvls=True, sharp=True)):
        assert fabric.multicast.tolist() == fabric.aggregation.tolist() == (~fabric.is_compute).tolist()
        assert [fabric.node_names[v] for v in np.flatnonzero(fabric.turns_round)] == ["ib0"]


def test_published_totals_per_gpu():
    # Dissertation 4.6.2: seven 50 GB/s links per MI250 GPU, 256 GB/s out of a box.
    assert mi250(1).egress_bytes_per_s().tolist() == [350 * GB] * 16
    assert mi250(2).egress_bytes_per_s()[-1] == 2 * 256 * GB
    # White paper: six NVLinks per V100.
    assert dgx1_v100().egress_bytes_per_s().tolist() == [150 * GB] * 8
    assert mi300x(1).egress_bytes_per_s().tolist() == [448 * GB] * 8


def test_oversubscription_divides_the_uplinks():
    fabric = pods(2, 2, gpus_per_box=4, oversubscription=4, nic_bandwidth=50 * GB)
    assert fabric.ingress_bytes_per_s()[fabric.node_index("spine0")] == 2 * 8 * 50 * GB // 4
    leaves = leaf_spine(4, 2, oversubscription=2)
    assert leaves.ingress_bytes_per_s()[leaves.node_index("spine0")] == 4 * 8 * 50 * GB // 4


# Exact optima of the feasibility study (GB/s); dissertation figure 4.14 and table 4.1 give the rounded ones.
@pytest.mark.parametrize(
    ("fabric", "algbw"),
    [
        (dgx_a100(1), Fraction(2400, 7)),
        (dgx_a100(2), Fraction(1040, 3)),
        (dgx_a100(2, pcie=True, pcie_bandwidth=25 * GB), Fraction(1040, 3)),
        (dgx_a100(2, pcie=True), Fraction(332 * 16, 15)),  # one GPU: 300 + 32 in, 15 shards to get
        (dgx_a100_flat(2), Fraction(1040, 3)),
        (dgx_a100_flat(4), Fraction(800, 3)),
        (mi250(1), Fraction(2400, 7)),
        (mi250(2, gpus_per_box=8), Fraction(208)),
        (mi250(2), Fraction(5312, 15)),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_exact_optima(fabric, algbw):
    assert optimal_algbw(fabric) == algbw * GB


@pytest.mark.parametrize(
    "fabric",
    [
        ring(5),
        star(4),
        path(3),
        torus(2, 3),
        dgx1_v100(),
        fat_tree(2),
        leaf_spine(2, 1, gpus_per_leaf=2),
        pods(2, 1, gpus_per_box=2, oversubscription=3),
    ],
    ids=lambda fabric: fabric.name,
)
def test_the_two_references_agree(fabric):
    rate, cut = optimal_rate(fabric)
    assert rate == optimal_rate_by_all_cuts(fabric)
    assert cut_rate(fabric, cut) == rate


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: dgx_a100(0), "boxes must be at least 1"),
        (lambda: dgx_a100(-3), "boxes must be at least 1"),
        (lambda: dgx_a100(True), "boxes must be an integer"),
        (lambda: dgx_a100(2.0), "boxes must be an integer"),
        (lambda: dgx_a100(2, 0), "gpus_per_box must be at least 1"),
        (lambda: dgx_a100(2, nic_bandwidth=0), "bandwidth 0"),
        (lambda: dgx_a100(2, nic_bandwidth=2**63), "expected 1 to 2"),
        (lambda: dgx_a100(2 * 10**5), "the catalogue builds at most"),
        (lambda: dgx_h100(1, sharp=True), "sharp needs at least 2 boxes"),
        (lambda: gb200_nvl72(1, sharp=True), "sharp needs at least 2 racks"),
        (lambda: gb200_nvl72(0), "racks must be at least 1"),
        (lambda: mi250(1, 12), "8 or 16"),
        (lambda: mi300x(1, 9), "at most 8"),
        (lambda: fat_tree(3), "even"),
        (lambda: fat_tree(10**6), "the catalogue builds at most"),
        (lambda: leaf_spine(2, 0), "spines must be at least 1"),
        (lambda: leaf_spine(2, 2, nic_bandwidth=1, oversubscription=100), "less than 1 byte/s"),
        (lambda: rail_optimized(2, oversubscription=2), "needs spines"),
        (lambda: pods(2, 2, oversubscription=0), "oversubscription must be at least 1"),
        (lambda: hypercube(60), "d must be at most"),
        (lambda: hypercube(10**9), "d must be at most"),
        (lambda: torus(10**9), "each dimension must be at most"),
        (lambda: torus(), "number of dimensions"),
        (lambda: torus(*(2,) * 40), "number of dimensions"),
        (lambda: torus(10**4, 10**4), "number of nodes"),
        (lambda: complete(3001), "the catalogue builds at most"),
        (lambda: ring(1), "at least 2"),
        (lambda: ring(4, bandwidth=0), "bandwidth must be at least 1"),
        (lambda: ring(4, latency=-1), "latency must be at least 0"),
        (lambda: path(1 << 20000), "about 2\\*\\*20000"),
    ],
)
def test_bad_arguments_are_refused_before_building(make, message):
    with pytest.raises(TopologyError, match=message):
        make()


@pytest.mark.parametrize("make", [dgx_a100, dgx_h100, dgx_b200, gb200_nvl72, mi250, mi300x])
def test_switches_add_and_copy_only_where_that_is_asked_for(make) -> None:
    fabric = make(2)
    assert not fabric.multicast.any()
    assert not fabric.aggregation.any()
