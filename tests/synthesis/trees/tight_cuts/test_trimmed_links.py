"""Links lowered until sets are tight, by hand: in proportion, both ways at relays, as others can spare."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.synthesis.trees.instance import Instance, instance_of
from treadle.synthesis.trees.tight_cuts.balancing import balance_capacities
from treadle.synthesis.trees.tight_cuts.family import Family
from treadle.topologies.topology import TopologyBuilder

Link = tuple[str, str, int]


def problem_of(links: Sequence[Link], *, switches: str = "") -> Instance:
    """Nodes in the order of the alphabet."""
    builder = TopologyBuilder("odd")
    for name in sorted({name for one, other, _ in links for name in (one, other)}):
        if name in switches:
            builder.switch(name)
        else:
            builder.compute(name)
    for tail, head, bandwidth in links:
        builder.link(tail, head, bandwidth)
    topology = builder.build()
    return instance_of(topology, on_all_ranks(topology, CollectiveKind.ALLGATHER))


def family_of(n: int, *sets: Sequence[int], outer: Sequence[int] = ()) -> Family:
    innermost = np.zeros(n, dtype=np.int32)
    for number, nodes in enumerate(sets, 1):
        innermost[list(nodes)] = number
    around = outer or [0] * len(sets)
    return Family(np.array([-1, *around], dtype=np.int32), innermost)


DIRECT: list[Link] = [
    ("a", "b", 9),
    ("b", "a", 9),
    ("c", "d", 9),
    ("d", "c", 9),
    ("a", "c", 9),
    ("b", "d", 9),
]


def lowered(
    entering: Sequence[Link],
    trees: Sequence[int],
    *,
    inside: int = 9,
    onward: int = 9,
) -> tuple[list[int], bool]:
    """What is left of links into the set of a and b, and whether it could not be made tight; others stay."""
    links = [*DIRECT, *entering]
    problem = problem_of(links)
    held = np.array([inside, inside, onward, 9, 9, 9, *(width for _, _, width in entering)])
    before = held.copy()
    found = balance_capacities(problem, family_of(4, (0, 1)), held, np.array(trees))
    assert held.tolist() == before.tolist()
    assert found.capacities[:6].tolist() == before[:6].tolist()
    assert not found.failed[0]
    return found.capacities[6:].tolist(), bool(found.failed[1])


@pytest.mark.parametrize(
    ("widths", "trees", "left"),
    [
        # two of nine: 10 // 9, 6 // 9 and 2 // 9, and what is left to the first link
        ((5, 3, 1), (1, 1, 1, 1), [2, 0, 0]),
        # six of nine: 30 // 9, 18 // 9, 6 // 9, and one more
        ((5, 3, 1), (2, 2, 3, 3), [4, 2, 0]),
        # eight: 40 // 9, 24 // 9, 8 // 9, and one each to the first two
        ((5, 3, 1), (1, 1, 4, 4), [5, 3, 0]),
        ((5, 3, 1), (0, 0, 5, 4), [5, 3, 1]),
        ((1, 3, 5), (1, 1, 1, 1), [1, 0, 1]),
    ],
)
def test_in_proportion_to_what_links_hold(
    widths: Sequence[int], trees: Sequence[int], left: list[int]
) -> None:
    entering = [("c", "a", widths[0]), ("d", "b", widths[1]), ("c", "b", widths[2])]
    assert lowered(entering, trees, onward=20, inside=20) == (left, False)


def test_too_few_units_are_no_surplus() -> None:
    """Nine enter, ten are needed: nothing is lowered, and the set is not tight."""
    entering = [("c", "a", 5), ("d", "b", 3), ("c", "b", 1)]
    assert lowered(entering, (0, 0, 5, 5), onward=20, inside=20) == ([5, 3, 1], True)


def test_what_ranks_send_and_take_is_kept() -> None:
    """Of 5 and 3 units three are to enter: 2 and 1, but that d sends its two trees into the set alone."""
    entering = [("c", "a", 5), ("d", "b", 3)]
    assert lowered(entering, (1, 1, 1, 1)) == ([2, 0], False)
    links: list[Link] = [("a", "b", 9), ("b", "a", 9), ("c", "d", 9), ("a", "c", 9), ("b", "d", 9)]
    problem = problem_of([*links, ("c", "a", 5), ("d", "b", 3)])
    held = problem.bandwidths.copy()
    trees = np.array([1, 1, 1, 2])
    family = family_of(4, (0, 1))
    assert balance_capacities(problem, family, held, trees).capacities.tolist() == [9, 9, 9, 9, 9, 1, 2]
    # a takes in four: with two from b no less than two come from c, so that four enter in all
    held[1] = 2
    found = balance_capacities(problem, family, held, trees)
    assert found.failed.tolist() == [False, True]
    assert found.capacities.tolist() == held.tolist()
    held[1] = 3
    assert balance_capacities(problem, family, held, trees).capacities.tolist() == [9, 3, 9, 9, 9, 1, 2]


def relayed(*widths: int, loss: int = 0) -> Instance:
    """a, b and c, d joined pair by pair; all at relay p both ways, a's way to it narrower by `loss`."""
    links = [("a", "b", 20), ("b", "a", 20), ("c", "d", 20), ("d", "c", 20)]
    for name, width in zip("abcd", widths, strict=True):
        links += [(name, "p", width - (loss if name == "a" else 0)), ("p", name, width)]
    return problem_of(links, switches="p")


def test_both_ways_at_a_relay() -> None:
    problem, trees = relayed(6, 2, 4, 4), np.ones(4, dtype=np.int64)
    found = balance_capacities(problem, family_of(5, (0, 1)), problem.bandwidths, trees)
    assert found.capacities.tolist() == [20] * 4 + [2, 2, 0, 0, 4, 4, 4, 4]
    both = balance_capacities(problem, family_of(5, (0, 1), (2, 3)), problem.bandwidths, trees)
    assert both.capacities.tolist() == [20] * 4 + [2, 2, 0, 0, 1, 1, 1, 1]
    assert not both.failed.any()
    # the set sends six trees out: no less may leave it, and with it enter
    many = balance_capacities(problem, family_of(5, (0, 1)), problem.bandwidths, np.array([3, 3, 1, 1]))
    assert many.failed.tolist() == [False, True]
    assert many.capacities.tolist() == problem.bandwidths.tolist()


def test_links_at_a_relay_without_a_mate_stay() -> None:
    """a's two links are unequal, so b's have to give all: two of them at most."""
    problem, trees = relayed(6, 2, 4, 4, loss=1), np.ones(4, dtype=np.int64)
    found = balance_capacities(problem, family_of(5, (0, 1)), problem.bandwidths, trees)
    assert found.failed.tolist() == [False, True]
    narrow = relayed(2, 6, 4, 4, loss=1)
    found = balance_capacities(narrow, family_of(5, (0, 1)), narrow.bandwidths, np.array([1, 0, 1, 1]))
    assert found.failed.tolist() == [False, False]
    assert found.capacities.tolist() == [20] * 4 + [1, 2, 0, 0, 4, 4, 4, 4]


def test_parallel_links_go_with_those_of_their_width() -> None:
    """Of three pairs of links at a, told in any order, each is lowered with its like; a fourth has none."""
    links: list[Link] = [
        ("a", "b", 20),
        ("b", "a", 20),
        ("b", "p", 9),
        ("p", "b", 9),
        ("c", "p", 50),
        ("p", "c", 50),
    ]
    links += [
        ("a", "p", 3),
        ("p", "a", 5),
        ("p", "a", 3),
        ("a", "p", 5),
        ("p", "a", 3),
        ("a", "p", 3),
        ("a", "p", 4),
    ]
    problem = problem_of(links, switches="p")
    # 20 enter, 5 are to: 9 * 5 // 20, 5 * 5 // 20 and 3 * 5 // 20 are 2, 1, 0 and 0, and two are left over
    found = balance_capacities(problem, family_of(4, (0, 1)), problem.bandwidths, np.array([1, 1, 5]))
    assert not found.failed.any()
    assert found.capacities.tolist() == [20, 20, 3, 3, 50, 50, 0, 2, 0, 2, 0, 0, 4]


def test_nested_sets_from_the_inside_out() -> None:
    """Set 2 of a and b within set 1 of a, b and c: two of three units enter the former, one the latter."""
    links: list[Link] = [
        ("a", "b", 9),
        ("b", "a", 9),
        ("c", "a", 4),
        ("c", "b", 1),
        ("d", "a", 2),
        ("d", "c", 5),
    ]
    links += [("a", "d", 9), ("a", "c", 9)]
    problem = problem_of(links)
    family = Family(np.array([-1, 0, 1], dtype=np.int32), np.array([2, 2, 1, 0], dtype=np.int32))
    found = balance_capacities(problem, family, problem.bandwidths, np.ones(4, dtype=np.int64))
    assert not found.failed.any()
    entering = found.capacities
    assert entering[2] + entering[3] + entering[4] == 2
    assert entering[4] + entering[5] == 1
    assert entering[[0, 1, 6, 7]].tolist() == [9, 9, 9, 9]
