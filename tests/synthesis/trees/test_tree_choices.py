"""Numbers of trees in order of preference, and whole capacities that switches pass on evenly."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import islice
from typing import Any

import numpy as np
import pytest

from treadle.errors import InfeasibleError, ScheduleError
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.synthesis.trees import tree_units
from treadle.synthesis.trees.fixed_trees import (
    FixedTreesOptimum,
    exact_choices,
    fixed_trees_optimum,
    floor_capacities,
)
from treadle.synthesis.trees.instance import Instance, instance_of
from treadle.synthesis.trees.optimality import instance_optimum
from treadle.synthesis.trees.tree_budget import TreeBudget, is_dyadic, most_trees
from treadle.synthesis.trees.tree_units import (
    common_number,
    dyadic_alternative,
    exact_number,
    first_possible,
    tree_choices,
)
from treadle.topologies.topology import Topology, TopologyBuilder

LOSSY = TreeBudget(dyadic_loss=Fraction(1, 100))


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


def numbers(problem: Instance, budget: TreeBudget, most: int = 30) -> list[int]:
    best = instance_optimum(problem)
    return [one.trees for one in islice(tree_choices(problem, best, budget), most)]


def by_value(problem: Instance, most: int) -> list[int]:
    """Best first, then fewest."""
    best = instance_optimum(problem)
    each = [fixed_trees_optimum(problem, best, trees) for trees in range(1, most + 1)]
    return [one.trees for one in sorted(each, key=lambda one: (-one.algbw, one.trees))]


def test_numbers_that_are_asked_for() -> None:
    problem = pair(2, 3)
    assert numbers(problem, TreeBudget(trees=7)) == [7]
    assert numbers(problem, TreeBudget(exact=True)) == [5]
    assert numbers(problem, TreeBudget(max_trees=4)) == by_value(problem, 4)
    # the optimum is among five twice: as a number and as what is known
    assert list(dict.fromkeys(numbers(problem, TreeBudget(max_trees=5)))) == by_value(problem, 5)
    assert numbers(problem, TreeBudget(max_trees=5))[:2] == [5, 5]
    assert numbers(problem, TreeBudget()) == [5]


def test_limits_beyond_what_is_scanned(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number that attains the optimum counts up to the limit, others up to four."""
    monkeypatch.setattr(tree_units, "MOST_SCANNED", 4)
    problem = pair(3, 4)
    assert numbers(problem, TreeBudget(max_trees=7)) == [7, *by_value(problem, 4)]
    assert numbers(problem, TreeBudget(max_trees=6)) == by_value(problem, 4)
    assert numbers(problem, TreeBudget(max_trees=3)) == by_value(problem, 3)


@pytest.mark.parametrize(("bandwidth", "first"), [(65, 128), (66, 129)])
def test_the_default_limit_is_per_rank_on_average(bandwidth: int, first: int) -> None:
    """All trees are at one of two ranks: 128 are allowed, of which 63 + 65 are just so many."""
    found = numbers(pair(63, bandwidth), TreeBudget(), most=1)
    if first == 128:
        assert found == [128]
    else:
        assert found == by_value(pair(63, bandwidth), 64)[:1]


def test_powers_of_two_come_first() -> None:
    """1 + 127: 128 trees lose nothing, all others go over the wide link and lose 1/128."""
    assert numbers(pair(4, 4), LOSSY, most=3) == [2, 4, 8]
    problem = pair(1, 127)
    best = instance_optimum(problem)
    loss = {
        trees: 1 - fixed_trees_optimum(problem, best, trees).algbw / best.algbw
        for trees in (1, 2, 4, 32, 128)
    }
    assert loss[1] == loss[4] == loss[32] == Fraction(1, 128)
    assert loss[128] == 0
    # what loses nothing, then what loses little, then the optimum as it is by default
    assert numbers(problem, LOSSY) == [128, 1, 2, 4, 8, 16, 32, 128]
    exactly = TreeBudget(dyadic_loss=Fraction(1, 128))  # no less than that is given up
    assert numbers(problem, exactly) == [128, 128]


def test_losses_that_are_at_the_limit() -> None:
    """Of 2 + 3 bytes/s, by hand; as much as may be lost is too much."""
    problem = pair(2, 3)
    best = instance_optimum(problem)
    lost = {
        trees: 1 - fixed_trees_optimum(problem, best, trees).algbw / best.algbw
        for trees in (1, 2, 4, 8, 16, 32)
    }
    assert lost == {
        1: Fraction(2, 5),
        2: Fraction(1, 5),
        4: Fraction(1, 5),
        8: Fraction(1, 25),
        16: Fraction(1, 25),
        32: Fraction(1, 65),
    }
    near = [trees for trees in (1, 2, 4, 8, 16, 32) if lost[trees] < Fraction(1, 5)]
    assert numbers(problem, TreeBudget(dyadic_loss=Fraction(1, 5)))[: len(near)] == near


def test_the_fewest_that_lose_little() -> None:
    def alternative(*bandwidths: int) -> tuple[int, Fraction]:
        problem = pair(*bandwidths)
        return dyadic_alternative(
            problem.topology, Collective(CollectiveKind.ALLGATHER, (0, 1), weights=(1, 0))
        )

    assert alternative(1, 127) == (1, Fraction(1, 128))
    assert alternative(1, 99)[0] > 1 or alternative(1, 99) == (1, Fraction(1, 100))
    assert alternative(4, 4) == (2, Fraction(0))
    assert alternative(8, 8, 8, 8) == (4, Fraction(0))
    trees, loss = alternative(2, 3)
    problem = pair(2, 3)
    best = instance_optimum(problem)
    each = {k: 1 - fixed_trees_optimum(problem, best, k).algbw / best.algbw for k in (1, 2, 4, 8, 16)}
    assert loss == min(each.values()) >= Fraction(1, 100)
    assert trees == min(k for k, lost in each.items() if lost == loss)


def test_numbers_that_are_out_of_range() -> None:
    for trees in (1, 2**20):
        assert TreeBudget(trees=trees).trees == TreeBudget(max_trees=trees).max_trees == trees
    for name, value in (("trees", 0), ("max_trees", 2**20 + 1)):
        given: dict[str, Any] = {name: value}
        with pytest.raises(ScheduleError) as refused:
            TreeBudget(**given)
        assert str(refused.value) == f"{name}: expected 1 to 2**20, found {value}"
    several: list[dict[str, Any]] = [
        {"trees": 1, "max_trees": 1},
        {"trees": 1, "exact": True},
        {"max_trees": 1, "exact": True},
    ]
    for given in several:
        with pytest.raises(ScheduleError) as refused:
            TreeBudget(**given)
        assert str(refused.value) == "give at most one of trees, max_trees and exact"
    assert [
        one.is_default for one in (TreeBudget(), LOSSY, TreeBudget(trees=1), TreeBudget(max_trees=1))
    ] == [
        True,
        True,
        False,
        False,
    ]
    assert not TreeBudget(exact=True).is_default


def test_numbers_of_chunks() -> None:
    assert [number for number in range(1, 20) if is_dyadic(number)] == [1, 2, 4, 8, 16]
    assert [
        most_trees(ranks, weight) for ranks, weight in ((4, 1), (4, 4), (4, 5), (3, 7), (2, 200), (1, 1))
    ] == [
        64,
        64,
        51,
        27,
        1,
        64,
    ]
    assert LOSSY.lossy_numbers([1, 1]) == [1, 2, 4, 8, 16]
    assert LOSSY.lossy_numbers([1, 0]) == [1, 2, 4, 8, 16, 32]
    assert LOSSY.lossy_numbers([1, 1, 0]) == []  # three ranks
    assert LOSSY.dyadic_numbers([1, 1, 0], 16) == [1, 2, 4, 8, 16]  # 24 at most
    assert LOSSY.dyadic_numbers([1, 1, 0], 5) == [1, 2, 4]
    assert LOSSY.dyadic_numbers([2, 2], 16) == TreeBudget().dyadic_numbers([1, 1], 16) == []


def through(into: int, out: int, direct: int = 5) -> Topology:
    """a -> s -> b beside a -> b."""
    builder = TopologyBuilder("through")
    builder.compute("a")
    builder.switch("s")
    builder.compute("b")
    for tail, head, bandwidth in (("a", "s", into), ("s", "b", out), ("a", "b", direct), ("b", "a", 9)):
        builder.link(tail, head, bandwidth)
    return builder.build()


def broadcast(topology: Topology) -> Instance:
    return instance_of(topology, Collective(CollectiveKind.ALLGATHER, (0, 2), weights=(1, 0)))


def test_balanced_floors_are_taken_as_they_are() -> None:
    problem = broadcast(through(6, 6))
    best = instance_optimum(problem)
    units = first_possible(problem, iter([fixed_trees_optimum(problem, best, 3)]))
    # 1/5 a byte/s holds one of three, 1/3 does: 2 over the switch, 1 beside it
    assert units.fixed == FixedTreesOptimum(3, Fraction(1, 3), Fraction(9))
    assert units.note == ""
    assert units.capacities.tolist() == [2, 2, 1, 3]
    assert exact_number(problem, best) == next(exact_choices(problem, best)).trees == 11


def two_in(into: tuple[int, int], out: int) -> Instance:
    """a -> s twice, s -> b once: floors of the former may sum to less than that of the latter."""
    builder = TopologyBuilder("two in")
    builder.compute("a")
    builder.switch("s")
    builder.compute("b")
    for tail, head, bandwidth in (("a", "s", into[0]), ("a", "s", into[1]), ("s", "b", out), ("b", "a", 30)):
        builder.link(tail, head, bandwidth)
    return broadcast(builder.build())


def test_a_surplus_is_trimmed() -> None:
    """3 + 4 in, 7 out: one tree at 1/4 a byte/s has floors 0, 1 and 1; two at 1/3 have 1, 1 and 2."""
    problem = two_in((3, 4), 7)
    best = instance_optimum(problem)
    trimmed = "surplus of capacities floor(U b) was trimmed, without loss"
    wanted = {
        1: (Fraction(1, 4), [0, 1, 1, 7], ""),
        2: (Fraction(1, 3), [1, 1, 2, 10], ""),
        3: (Fraction(1, 2), [1, 2, 3, 15], ""),
        4: (Fraction(2, 3), [2, 2, 4, 20], ""),
    }
    for trees, (scale, capacities, note) in wanted.items():
        units = first_possible(problem, iter([fixed_trees_optimum(problem, best, trees)]))
        assert (units.fixed.scale, units.capacities.tolist(), units.note) == (scale, capacities, note)
    wide = two_in((5, 5), 10)
    best = instance_optimum(wide)
    units = first_possible(wide, iter([FixedTreesOptimum(1, Fraction(3, 10), Fraction(10, 3))]))
    # 1 and 1 in, 3 out: one of those out is a surplus
    assert (units.capacities.tolist(), units.note) == ([1, 1, 2, 9], trimmed)


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
