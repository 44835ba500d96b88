"""Optima on classes of equivalent nodes next to those of the whole fabric."""

from fractions import Fraction

import pytest

import treadle
from treadle.errors import InfeasibleError
from treadle.inputs.problem import make_problem
from treadle.synthesis.class_optima import class_problem
from treadle.topologies.families import Families, LinkFamily, NodeFamily

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


@pytest.mark.parametrize(
    ("collective", "options"),
    [
        ("allgather", {"weights": [1, 2, 1, 1, 1, 1]}),
        ("allgather", {"ranks": "0-3", "forward": True}),
        ("allgather", {"without": "box0.gpu1"}),
        ("allreduce", {"mesh": "2,3", "axes": "0"}),
    ],
)
def test_unequal_ranks_have_no_classes(collective, options) -> None:
    problem = make_problem("dgx_h100(2, 3)", collective, **options)
    assert class_problem(problem.topology, problem.collective) is None


def test_fabrics_in_parts_or_of_many_indices_have_no_classes() -> None:
    """Distances of classes that are not reached, and orders of many indices, are no problems of classes."""
    gpu, switch = NodeFamily("g{i}.{j}", is_compute=True), NodeFamily("s{i}")
    apart = Families({"i": 2, "j": 3}, (gpu, switch), (LinkFamily(gpu, switch, 1),)).build("apart")
    with pytest.raises(InfeasibleError, match=r"g0\.\d' cannot reach"):
        treadle.bound(apart, "allreduce")
    many = NodeFamily("g{a}{b}{c}{d}{e}{f}{g}", is_compute=True)
    hub = NodeFamily("hub")
    wide = Families(dict.fromkeys("abcdefg", 2), (many, hub), (LinkFamily(many, hub, 1),)).build("wide")
    for fabric in (apart, wide):
        assert class_problem(fabric, make_problem(fabric, "allreduce").collective) is None


@pytest.mark.parametrize(
    ("fabric", "kind", "expected"),
    [
        ("dgx_h100:131072", "allgather", Fraction(400 * 131072, 131071)),
        ("dgx_h100:131072", "alltoall", Fraction(50 * 1048576, 1048568)),
        ("gb200_nvl72:8192", "allgather", Fraction(950 * 589824, 589823)),
        ("gb200_nvl72:8192", "broadcast", Fraction(950)),
        ("pods(4096, 32, oversubscription=2)", "allreduce", Fraction(200 * 131072, 131071)),
    ],
)
def test_a_million_ranks(fabric, kind, expected) -> None:
    """By arithmetic: a box's or rack's 8 or 72 network cards carry all that its ranks do not have."""
    found = treadle.bound(fabric, kind)
    assert found.algbw == expected * 10**9
    assert found.bound.is_tight
