"""Numbers of trees in order of preference, and whole capacities that switches pass on evenly."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest

from treadle.errors import InfeasibleError
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.synthesis.trees import tree_units
from treadle.synthesis.trees.fixed_trees import (
    FixedTreesOptimum,
    fixed_trees_optimum,
    floor_capacities,
)
from treadle.synthesis.trees.instance import Instance, instance_of
from treadle.synthesis.trees.optimality import instance_optimum
from treadle.synthesis.trees.tree_units import (
    common_number,
    first_possible,
)
from treadle.topologies.topology import Topology, TopologyBuilder


def pair(*bandwidths: int, back: int = 1) -> Instance:
    """All data are at a, which has links of these bandwidths to b; algbw is their sum at best."""
    builder = TopologyBuilder("pair")
    builder.compute("a")
    builder.compute("b")
    for bandwidth in bandwidths:
        builder.link("a", "b", bandwidth)
    builder.link("b", "a", back)
    collective = Collective(CollectiveKind.ALLGATHER, (0, 1), weights=(1, 0))
    return instance_of(builder.build(), collective)


def broadcast(topology: Topology) -> Instance:
    return instance_of(topology, Collective(CollectiveKind.ALLGATHER, (0, 2), weights=(1, 0)))


def two_in(into: tuple[int, int], out: int) -> Instance:
    """a -> s twice, s -> b once: floors of the former may sum to less than that of the latter."""
    builder = TopologyBuilder("two in")
    builder.compute("a")
    builder.switch("s")
    builder.compute("b")
    for tail, head, bandwidth in (("a", "s", into[0]), ("a", "s", into[1]), ("s", "b", out), ("b", "a", 30)):
        builder.link(tail, head, bandwidth)
    return broadcast(builder.build())


def test_choices_are_tried_in_order() -> None:
    """The first that can be balanced; what follows is not asked for."""
    problem = two_in((3, 4), 7)
    asked = []

    def choices() -> Iterator[FixedTreesOptimum]:
        # at 1/5 nothing holds a tree; at 1/4 one does
        for trees, scale in ((1, Fraction(1, 5)), (1, Fraction(1, 4)), (7, Fraction(1))):
            asked.append(scale)
            yield FixedTreesOptimum(trees, scale, trees / scale)

    units = first_possible(problem, choices())
    assert units.fixed.scale == Fraction(1, 4)
    assert asked == [Fraction(1, 5), Fraction(1, 4)]


def test_the_next_scale_that_will_do() -> None:
    """At 1/5 floors of 3, 4 and 7 are 0, 0 and 1: one tree needs 1/4, two need 1/3."""
    problem = two_in((3, 4), 7)
    for trees, scale, capacities in ((1, Fraction(1, 4), [0, 1, 1, 7]), (2, Fraction(1, 3), [1, 1, 2, 10])):
        asked = FixedTreesOptimum(trees, Fraction(1, 5), Fraction(5 * trees))
        units = first_possible(problem, iter([asked]))
        assert units.fixed == FixedTreesOptimum(trees, scale, trees / scale)
        assert units.capacities.tolist() == capacities
        cost = 1 - units.fixed.algbw / asked.algbw
        assert units.note == (
            f"no capacities up to floor(U b) of {trees} trees per root pass every switch evenly; the next "
            f"larger ones that do cost {float(cost):.2%}"
        )


def test_units_beyond_64_bits() -> None:
    problem = two_in((3, 4), 7)
    most = Fraction(2**61, 44)
    assert floor_capacities(problem.bandwidths, most).sum() < 2**61
    with pytest.raises(InfeasibleError, match="the schedule needs capacities of 2\\*\\*61 units or more"):
        first_possible(problem, iter([FixedTreesOptimum(2**58, most, Fraction(1))]))
    with pytest.raises(InfeasibleError, match="switch 's' is not Eulerian: 6 in, 7 out"):
        first_possible(two_in((3, 3), 7), iter([]))


def test_a_common_number_of_two_problems() -> None:
    """Times of both, one after the other, are least; the fewest of equals."""
    problems = [pair(2, 3), pair(5, 2)]
    optima = [instance_optimum(problem) for problem in problems]

    def time(trees: int) -> Fraction:
        pairs = zip(problems, optima, strict=True)
        return sum((fixed_trees_optimum(p, best, trees).scale for p, best in pairs), Fraction(0)) / trees

    for limit in (1, 3, 6, 12, 40):
        assert common_number(problems, limit) == min(range(1, limit + 1), key=time)
    assert common_number(problems, 40) == 35
    assert common_number([pair(4, 4)], 9) == 2


def test_limits_of_common_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_units, "MOST_SCANNED", 6)
    assert common_number([pair(4, 3)], 7) == 5  # at 3/4 trees per byte/s they hold 3 + 2
    monkeypatch.setattr(tree_units, "MOST_SCANNED", 7)
    assert common_number([pair(4, 3)], 7) == 7
    assert np.array_equal(floor_capacities(np.array([4, 3]), Fraction(1)), [4, 3])
