"""The best throughput with so many trees, against all cuts and all scales one by one."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import combinations, islice, product
from math import ceil, lcm

import numpy as np
import pytest

from treadle.schedules.collective import Collective, CollectiveKind
from treadle.synthesis.trees import fixed_trees
from treadle.synthesis.trees.fixed_trees import (
    Cut,
    FixedTreesOptimum,
    best_first,
    exact_choices,
    exact_scale,
    fixed_trees_optimum,
    floor_capacities,
    known_cuts,
    least_scale,
    scale_bound,
)
from treadle.synthesis.trees.instance import UNIT_LIMIT, Instance, instance_of
from treadle.synthesis.trees.optimality import instance_optimum
from treadle.topologies.topology import TopologyBuilder


def odd_mesh(seed: int, weights: tuple[int, ...] = (1, 1, 1, 1), *, factor: int = 1) -> Instance:
    """Four ranks out of order, a duplex ring and some links more, all of different bandwidths; a loop."""
    chance, builder = np.random.default_rng(seed), TopologyBuilder("odd")
    for name in "abcd":
        builder.compute(name)
    pairs = [(i, (i + step) % 4) for i in range(4) for step in (1, 3)]
    pairs += [(0, 2), (1, 3), (0, 2), (2, 2)]
    for one, other in pairs:
        builder.link("abcd"[one], "abcd"[other], factor * int(chance.integers(3, 24)))
    return instance_of(builder.build(), Collective(CollectiveKind.ALLGATHER, (2, 0, 3, 1), weights=weights))


def all_cuts(problem: Instance) -> list[Cut]:
    weight_of = dict(zip(problem.terminals.tolist(), problem.weights.tolist(), strict=True))
    found = []
    for size in range(1, 4):
        for nodes in combinations(range(4), size):
            rows = zip(
                problem.tails.tolist(), problem.heads.tolist(), problem.bandwidths.tolist(), strict=True
            )
            out = Counter(b for tail, head, b in rows if tail in nodes and head not in nodes)
            found.append(Cut(out, sum(weight_of[node] for node in nodes)))
    return found


def holds(cuts: list[Cut], trees: int, scale: Fraction) -> bool:
    """Whether floors of links times the scale hold so many trees in every cut."""
    return all(
        sum(count * (b * scale.numerator // scale.denominator) for b, count in cut.links.items())
        >= trees * cut.demand
        for cut in cuts
    )


def least_of_all(problem: Instance, trees: int) -> Fraction:
    """The least breakpoint j / b that holds them in all cuts."""
    cuts = all_cuts(problem)
    points = {Fraction(j, b) for b in set(problem.bandwidths.tolist()) for j in range(1, 12 * trees)}
    return min(point for point in points if holds(cuts, trees, point))


@pytest.mark.parametrize("weights", [(1, 1, 1, 1), (3, 0, 1, 2)])
@pytest.mark.parametrize("seed", range(4))
def test_the_least_scale_that_holds_the_trees(seed: int, weights: tuple[int, ...]) -> None:
    problem = odd_mesh(seed, weights)
    best, total = instance_optimum(problem), sum(weights)
    assert best.rate == min(
        Fraction(sum(b * count for b, count in cut.links.items()), cut.demand)
        for cut in all_cuts(problem)
        if cut.demand
    )
    for trees in (1, 2, 3):
        scale = least_of_all(problem, trees)
        assert fixed_trees_optimum(problem, best, trees) == FixedTreesOptimum(
            trees, scale, Fraction(total * trees) / scale
        )
        known: list[Cut] = []
        assert fixed_trees_optimum(problem, best, trees, known).scale == scale
        assert scale_bound(best.rate, trees, known) == scale  # the cuts met on the way say as much
        assert trees / best.rate <= scale_bound(best.rate, trees, known_cuts(problem, best)) <= scale


def test_scales_of_a_cut() -> None:
    """Against rising breakpoints, one by one; never below the one given."""
    for crossing, demand in product(({3: 2, 7: 1}, {5: 1}, {2: 1, 3: 1, 11: 2}), range(1, 9)):
        points = sorted({Fraction(j, b) for b in crossing for j in range(60)} | {Fraction(5, 13)})
        cut = [Cut(Counter(crossing), demand)]
        least = next(point for point in points if holds(cut, 1, point))
        assert least_scale(Counter(crossing), demand, Fraction(0)) == least
        assert least_scale(Counter(crossing), demand, Fraction(5, 13)) == max(least, Fraction(5, 13))


def test_cuts_that_are_known() -> None:
    """First the bottleneck, then around each rank, whoever needs most of its links first; loops are none."""
    problem = odd_mesh(1, (1, 5, 2, 1))
    best = instance_optimum(problem)
    cuts = known_cuts(problem, best)
    inside = set(best.certificate.nodes)
    rows = list(zip(problem.tails.tolist(), problem.heads.tolist(), problem.bandwidths.tolist(), strict=True))
    weight_of = dict(zip(problem.terminals.tolist(), problem.weights.tolist(), strict=True))
    assert cuts[0].links == Counter(b for tail, head, b in rows if tail in inside and head not in inside)
    assert cuts[0].demand == sum(weight_of[node] for node in inside)
    around = []
    for node in range(4):
        links = Counter(b for tail, head, b in rows if head == node != tail)
        need = Fraction(9 - weight_of[node], sum(b * count for b, count in links.items()))
        around.append((-need, Cut(links, 9 - weight_of[node])))
    assert cuts[1:] == [cut for _, cut in sorted(around, key=lambda one: one[0])]
    only = odd_mesh(1, (0, 1, 0, 0))
    assert len(known_cuts(only, instance_optimum(only))) == 4  # the rank with all there is has none


def test_floors() -> None:
    bandwidths = np.array([7, 3, 7, 2**50, 10])
    assert floor_capacities(bandwidths, Fraction(2, 3)).tolist() == [4, 2, 4, 2**51 // 3, 6]
    assert floor_capacities(bandwidths, Fraction(2**11)).tolist()[3] == UNIT_LIMIT == 2**61
    assert floor_capacities(bandwidths, Fraction(2**11 - 1)).tolist()[3] == 2**61 - 2**50
    assert floor_capacities(bandwidths, Fraction(2**13)).tolist() == [
        7 * 2**13,
        3 * 2**13,
        7 * 2**13,
        2**61,
        81920,
    ]


@pytest.mark.parametrize("factor", [1, 6, 35])
@pytest.mark.parametrize("seed", range(4))
def test_the_scale_that_makes_all_whole(seed: int, factor: int) -> None:
    """The least k for which k / x* times every bandwidth is whole."""
    problem = odd_mesh(seed, (1, 1, 2, 1), factor=factor)
    best = instance_optimum(problem)
    trees = lcm(*((b / best.rate).denominator for b in problem.bandwidths.tolist()))
    assert exact_scale(problem, best) == FixedTreesOptimum(trees, trees / best.rate, best.algbw)


@pytest.mark.parametrize("seed", [0, 3, 8, 14, 21, 31])
def test_numbers_of_trees_that_attain_the_optimum(seed: int) -> None:
    """All that do up to the last, of the first few; the last alone on large problems."""
    problem = odd_mesh(seed)
    best, cuts = instance_optimum(problem), all_cuts(problem)
    last = exact_scale(problem, best)
    rows = zip(problem.tails.tolist(), problem.heads.tolist(), problem.bandwidths.tolist(), strict=True)
    inside = best.certificate.nodes
    full = [b for tail, head, b in rows if tail in inside and head not in inside]
    step = lcm(*((b / best.rate).denominator for b in full))  # the links of the bottleneck are full
    wanted = [trees for trees in range(1, last.trees) if holds(cuts, trees, trees / best.rate)]
    assert all(trees % step == 0 for trees in wanted)
    found = list(exact_choices(problem, best))
    assert [one.trees for one in found] == [*(trees for trees in wanted if trees <= 8 * step), last.trees]
    assert all(one == FixedTreesOptimum(one.trees, one.trees / best.rate, best.algbw) for one in found)


def test_large_problems_try_the_last_number_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the limit of terminals times arcs, here 48, and one below."""
    problem = odd_mesh(3)
    best = instance_optimum(problem)
    several = [one.trees for one in exact_choices(problem, best)]
    assert len(several) > 1
    monkeypatch.setattr(fixed_trees, "_QUICK", 49)
    assert [one.trees for one in exact_choices(problem, best)] == several
    monkeypatch.setattr(fixed_trees, "_QUICK", 48)
    assert [one.trees for one in exact_choices(problem, best)] == several[-1:]


@pytest.mark.parametrize("seed", range(4))
def test_the_best_come_first(seed: int) -> None:
    """Then the fewest trees; what is known takes part, and each number comes once."""
    problem = odd_mesh(seed, (2, 1, 1, 0))
    best = instance_optimum(problem)
    each = [fixed_trees_optimum(problem, best, trees) for trees in range(1, 9)]
    order = sorted(each, key=lambda one: (-one.algbw, one.trees))
    assert list(best_first(problem, best, range(1, 9))) == order
    known = exact_scale(problem, best)
    with_known = list(best_first(problem, best, [3, 1, 2], [known]))
    assert with_known == sorted([known, *each[:3]], key=lambda one: (-one.algbw, one.trees))
    assert next(best_first(problem, best, range(1, 9))) == order[0]
    assert list(islice(best_first(problem, best, [5]), 2)) == [each[4]]


def test_one_tree_over_links_that_are_no_multiples() -> None:
    """a -> b over 3 and 5 bytes/s and back over 4: one tree fits at 1/5, two at 1/3, three at 2/5."""
    builder = TopologyBuilder("pair")
    builder.compute("a")
    builder.compute("b")
    for tail, head, bandwidth in (("a", "b", 3), ("a", "b", 5), ("b", "a", 4)):
        builder.link(tail, head, bandwidth)
    problem = instance_of(builder.build(), Collective(CollectiveKind.ALLGATHER, (0, 1), weights=(1, 0)))
    best = instance_optimum(problem)
    assert best.rate == 8
    scales = [fixed_trees_optimum(problem, best, trees).scale for trees in range(1, 9)]
    least = [Fraction(1, 5), Fraction(1, 3), Fraction(2, 5), Fraction(3, 5), Fraction(2, 3)]
    assert scales == [*least, Fraction(4, 5), Fraction(1), Fraction(1)]
    assert [ceil(8 * scale) for scale in scales] == [2, 3, 4, 5, 6, 7, 8, 8]
