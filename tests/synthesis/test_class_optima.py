"""Optima on classes of equivalent nodes next to those of the whole fabric."""

import pytest

import treadle
from treadle.inputs.problem import make_problem
from treadle.synthesis.class_optima import class_problem

FABRICS = (
    "dgx_h100:3",
    "gb200_nvl72(3, 5)",
    "dgx_h100(1, 3)",
    "leaf_spine(3, 2)",
    'leaf_spine(4, 3, gpus_per_leaf=5, oversubscription=2, nic_bandwidth="7B/s")',
    "fat_tree(4)",
    "rail_optimized(4, 3, spines=2)",
    "rail_optimized(2, 2, oversubscription=2, spines=1)",
    "pods(3, 2, gpus_per_box=2)",
    "pods(2, 3, gpus_per_box=4, oversubscription=3)",
)


@pytest.mark.parametrize("fabric", FABRICS)
@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter", "broadcast", "reduce"])
def test_cuts_by_classes_are_the_optimum(fabric, kind) -> None:
    root = {"root": 1} if kind in ("broadcast", "reduce") else {}
    problem = make_problem(fabric, kind, **root)
    found = class_problem(problem.topology, problem.collective).cut_optimum()
    assert found.algbw == treadle.bound(fabric, kind, **root).algbw
    assert found.certificate.bound(problem.topology, problem.collective) == found.algbw


@pytest.mark.parametrize("fabric", FABRICS)
def test_lengths_by_classes_are_the_optimum_of_an_allreduce(fabric) -> None:
    problem = make_problem(fabric, "allreduce")
    algbw, certificate = class_problem(problem.topology, problem.collective).allreduce_bound()
    assert algbw == treadle.bound(fabric, "allreduce").algbw
    assert certificate.bound(problem.topology, problem.collective) == algbw


@pytest.mark.parametrize("fabric", FABRICS)
def test_flows_by_classes_are_the_optimum_of_an_alltoall(fabric) -> None:
    problem = make_problem(fabric, "alltoall")
    found = class_problem(problem.topology, problem.collective).alltoall_rate()
    expected = treadle.bound(fabric, "alltoall").rate
    assert found.exact == expected.exact
    assert found.certificate.pair_rate_bound(problem.topology, problem.collective) == found.exact
    # some flow at this rate loads no link beyond its bandwidth, and fills one
    fullness = found.rate * found.loads / problem.topology.bandwidths
    assert fullness.max() == pytest.approx(1)
