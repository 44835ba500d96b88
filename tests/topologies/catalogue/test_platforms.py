import pytest

from treadle.errors import TopologyError
from treadle.topologies import (
    complete,
    dgx_a100,
    dgx_b200,
    dgx_h100,
    fat_tree,
    gb200_nvl72,
    hypercube,
    leaf_spine,
    mi250,
    mi300x,
    path,
    pods,
    rail_optimized,
    ring,
    torus,
)


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
