"""Optima of one root by contraction next to those by flows."""

import random

import pytest

import treadle
from treadle.errors import InfeasibleError, TopologyError
from treadle.inputs.problem import make_problem
from treadle.synthesis.trees.instance import instance_of
from treadle.synthesis.trees.one_root import contraction
from treadle.synthesis.trees.one_root.contraction import contracted_optimum
from treadle.synthesis.trees.optimality import instance_optimum


def random_fabric(rng):
    builder = treadle.TopologyBuilder("random")
    n = rng.randint(2, 8)
    names = [builder.compute(f"g{i}") for i in range(n)]
    names += [builder.switch(f"s{i}") for i in range(rng.randint(0, 4))]
    both = rng.random() < 0.6
    for i, one in enumerate(names):
        for j, other in enumerate(names):
            if both and i < j and rng.random() < 0.45:
                builder.duplex(one, other, rng.choice([1, 2, 3, 5, 8, 13]))
            elif not both and i != j and rng.random() < 0.35:
                builder.link(one, other, rng.choice([1, 2, 3, 5, 8]))
    return builder.build(), rng.randrange(n)


@pytest.mark.parametrize("kind", ["broadcast", "reduce"])
def test_random_fabrics_have_the_optimum_of_flows(kind) -> None:
    rng, decided = random.Random(7), 0
    for _ in range(150):
        try:
            fabric, root = random_fabric(rng)
        except TopologyError:  # a switch without a link
            continue
        problem = make_problem(fabric, kind, root=root)
        instance = instance_of(problem.topology, problem.collective)
        found = contracted_optimum(instance)
        try:
            expected = instance_optimum(instance)
        except InfeasibleError:
            assert found is None
            continue
        assert found.algbw == expected.algbw
        assert found.certificate.bound(problem.topology, problem.collective) == found.algbw
        decided += 1
    assert decided > 80


@pytest.mark.parametrize("fabric", ["dgx_h100:200", "rail_optimized(200)", "gb200_nvl72:20"])
def test_failed_ranks_contract_without_flows(fabric, monkeypatch) -> None:
    monkeypatch.setattr(contraction, "_by_flows", lambda *_: pytest.fail("flows were needed"))
    box = "rack" if fabric.startswith("gb") else "box"
    problem = make_problem(fabric, "broadcast", without=[f"{box}{3 * i + 1}.gpu{i}" for i in range(6)])
    found = contracted_optimum(instance_of(problem.topology, problem.collective))
    assert found.algbw == (950 if box == "rack" else 350) * 10**9


def test_of_two_neighbours_that_share_a_nodes_links_one_is_chosen() -> None:
    """A relay may go with either side, but both sides together would hide the cut between them."""
    builder = treadle.TopologyBuilder("two halves")
    names = [builder.compute(name) for name in ("a0", "a1", "b0", "b1")]
    relay = builder.switch("relay")
    for one, other, bandwidth in ((0, 1, 10), (2, 3, 10)):
        builder.duplex(names[one], names[other], bandwidth)
    for name in names[1:3]:
        builder.duplex(name, relay, 1)
    problem = make_problem(builder.build(), "broadcast")
    assert contracted_optimum(instance_of(problem.topology, problem.collective)).algbw == 1
