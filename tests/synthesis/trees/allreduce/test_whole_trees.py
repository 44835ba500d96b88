"""Allreduces of a limited number of unit trees, against partitions, an outside linear program and figures."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from samples.allreduce_fabrics import GB, allreduce
from treadle.synthesis.trees.allreduce.integral_trees import Goal, IntegralTreeProgram, find_integral_trees
from treadle.synthesis.trees.allreduce.pair_network import network_of
from treadle.synthesis.trees.allreduce.two_family_lp import solve_two_family_lp
from treadle.topologies import Topology, parse


def whole_rate(topology: Topology, goal: Goal) -> Fraction | None:
    """Bytes/s of the whole trees that meet the goal."""
    network = network_of(topology, allreduce(topology))
    optimum = solve_two_family_lp(network).rate
    found = find_integral_trees(
        topology, network, replace(goal, least=goal.least / network.unit), optimum=optimum
    )
    return None if found is None else found.rate * network.unit


@pytest.mark.parametrize(
    ("fabric", "trees", "gb_per_s"),
    [
        ("mi250(2, 8)", 8, "128"),
        ("mi250(2)", 177, "177"),
        ("mi250(2)", 256, "12800/73"),
        ("mi250(2)", 512, "25600/145"),
        ("dgx_a100(2)", 104, "520/3"),
        ("dgx_a100(2)", 64, "6400/37"),
        ("dgx_h100(3)", 64, "9600/37"),
    ],
)
def test_so_many_trees_reach_so_much(fabric: str, trees: int, gb_per_s: str) -> None:
    topology = parse(fabric)
    assert whole_rate(topology, Goal([trees])) == Fraction(gb_per_s) * GB


def test_a_goal_out_of_reach_is_not_met() -> None:
    topology = parse("ring(4)")
    assert whole_rate(topology, Goal([1, 2, 3])) == 1
    assert whole_rate(topology, Goal([1, 2, 3], Fraction(1))) is None
    assert whole_rate(topology, Goal(range(1, 5), Fraction(1))) == Fraction(4, 3)
    assert whole_rate(topology, Goal([1, 2, 4, 8], Fraction(9, 10), is_fewest=True)) == 1


def test_what_the_solver_does_not_find_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def nothing(self: IntegralTreeProgram, trees: int) -> None:
        asked.append((trees, *self._free))

    monkeypatch.setattr(IntegralTreeProgram, "integral", nothing)
    assert whole_rate(parse("ring:4"), Goal((3, 5))) is None
    assert len(asked) == len(set(asked))
    assert {trees for trees, *_ in asked} == {3, 5}
