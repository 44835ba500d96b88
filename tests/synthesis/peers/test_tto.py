"""TTO: three trees of a mesh that share no link, and the paper's corner that is left out."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import pytest

from treadle import planning
from treadle.inputs.problem import make_problem
from treadle.schedules.trees.forest import Forest
from treadle.synthesis.peers.tto import tto
from treadle.verification.schedules import verify


def loads(forest: Forest) -> Counter[int]:
    found: Counter[int] = Counter()
    for number, units in enumerate(forest.path_units().tolist()):
        for link in forest.path(number).tolist():
            found[link] += units
    return found


def corners(side: int) -> list[int]:
    return [0, side - 1, side * (side - 1), side * side - 1]


@pytest.mark.parametrize("side", [2, 3, 4, 5, 8])
def test_without_a_corner_the_trees_share_no_link(side: int) -> None:
    """The paper's claim, whichever corner forwards; both ways together a link carries two units of three."""
    for corner in corners(side):
        ranks = [node for node in range(side * side) if node != corner]
        problem = make_problem(f"mesh({side}, {side})", "allreduce", ranks=ranks, forward=True)
        schedule = tto(problem.topology, problem.collective)
        report = verify(problem.topology, problem.collective, schedule)
        assert report.violations == ()
        assert report.algbw == Fraction(3, 2) if side > 2 else report.algbw >= Fraction(3, 2)
        for forest in schedule.forests:
            assert forest.root_multiplicity.sum() == 3
            assert set(loads(forest).values()) == {1}
            assert len(set(forest.tree_root.tolist())) == 3


@pytest.mark.parametrize("side", [2, 3, 4, 6])
def test_with_all_ranks_the_corner_hangs_on_the_second_tree(side: int) -> None:
    found = planning.solve(f"mesh({side}, {side})", "allreduce", algorithm="tto")
    assert found.report.is_ok
    assert found.algbw == Fraction(6, 5)
    assert found.algbw <= found.optimal_algbw
