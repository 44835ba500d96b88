"""Bounds of heights on small odd fabrics, by hand: distances, narrow roots, sets entered once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest

from treadle.schedules.collective import Collective, CollectiveKind
from treadle.synthesis.trees import heights as module
from treadle.synthesis.trees.heights import smallest_height
from treadle.synthesis.trees.instance import Instance, instance_of
from treadle.topologies.topology import TopologyBuilder

Link = tuple[str, str, int]


def problem_of(links: Sequence[Link], *, switches: str = "", ranks: str = "") -> Instance:
    """Duplex links; nodes in the order of the alphabet, ranks as told."""
    builder = TopologyBuilder("odd")
    names = sorted({name for one, other, _ in links for name in (one, other)})
    for name in names:
        if name in switches:
            builder.switch(name)
        else:
            builder.compute(name)
    for one, other, bandwidth in links:
        builder.duplex(one, other, bandwidth)
    order = ranks or [name for name in names if name not in switches]
    return instance_of(
        builder.build(), Collective(CollectiveKind.ALLGATHER, tuple(names.index(name) for name in order))
    )


def lowest(problem: Instance, multiplicities: Sequence[int], scale: int = 1) -> int:
    return smallest_height(problem, np.array(multiplicities), problem.bandwidths * scale)


def test_distances_of_roots_that_have_trees() -> None:
    """On a line of five: from the end 4 hops, from the middle 2; ranks without trees count for nothing."""
    line = problem_of([("a", "b", 9), ("b", "c", 9), ("c", "d", 9), ("d", "e", 9)], ranks="cabde")
    assert lowest(line, [1, 1, 1, 1, 1]) == 4
    assert lowest(line, [3, 0, 0, 0, 0]) == 2
    assert lowest(line, [1, 0, 1, 0, 0]) == 3
    switched = problem_of([("a", "s", 9), ("s", "t", 9), ("t", "b", 9), ("b", "c", 9)], switches="st")
    assert lowest(switched, [1, 0, 0]) == 2


@pytest.mark.parametrize(
    ("links", "multiplicities", "height"),
    [
        # all pairs of three: each link holds the two trees of a root, or does not
        ([("a", "b", 2), ("b", "c", 2), ("c", "a", 2)], [2, 2, 2], 1),
        ([("a", "b", 2), ("b", "c", 2), ("c", "a", 1)], [2, 2, 2], 2),
        ([("a", "b", 2), ("b", "c", 2), ("c", "a", 1)], [1, 2, 1], 1),
        ([("a", "b", 2), ("b", "c", 2), ("c", "a", 1)], [2, 0, 0], 2),
        # parallel links add up, loops carry nothing
        ([("a", "b", 2), ("b", "c", 2), ("c", "a", 1), ("c", "a", 1)], [2, 2, 2], 1),
        ([("a", "b", 2), ("b", "c", 2), ("c", "a", 1), ("a", "a", 9)], [2, 0, 0], 2),
        # at a switch a root sends its trees twice: three links up of 2 hold one tree each
        ([("a", "s", 2), ("b", "s", 2), ("c", "s", 2)], [1, 1, 1], 1),
        ([("a", "s", 2), ("b", "s", 2), ("c", "s", 2)], [2, 1, 1], 2),
        ([("a", "s", 4), ("b", "s", 2), ("c", "s", 2)], [2, 1, 1], 1),
        # a link serves no more than what leads on behind it: s to b alone
        ([("a", "s", 9), ("b", "s", 9), ("c", "a", 1), ("c", "b", 9)], [2, 0, 0], 2),
        ([("a", "s", 9), ("b", "s", 9), ("c", "a", 2), ("c", "b", 9)], [2, 0, 0], 1),
        # two switches in a row lead to b and c
        ([("a", "s", 3), ("s", "t", 9), ("t", "b", 9), ("t", "c", 9)], [1, 0, 0], 1),
        ([("a", "s", 3), ("s", "t", 9), ("t", "b", 9), ("t", "c", 9)], [2, 0, 0], 2),
    ],
)
def test_roots_that_cannot_reach_all_at_once(
    links: list[Link], multiplicities: list[int], height: int
) -> None:
    assert lowest(problem_of(links, switches="st"), multiplicities) == height


def test_many_relays_are_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """All others are then taken to be behind each: a valid bound, if a lower one."""
    narrow = problem_of([("a", "s", 9), ("b", "s", 9), ("c", "a", 1), ("c", "b", 9)], switches="s")
    assert lowest(narrow, [2, 0, 0]) == 2
    monkeypatch.setattr(module, "_MOST_RELAY_STEPS", 3)  # one relay, three ranks
    assert lowest(narrow, [2, 0, 0]) == 2
    monkeypatch.setattr(module, "_MOST_RELAY_STEPS", 2)
    assert lowest(narrow, [2, 0, 0]) == 1


def fast_line(size: int, slow: int, *, others: int = 2) -> Instance:
    """A line of fast links, whose ranks all have slow links to a switch, as two more ranks have."""
    names = "abcdefgh"[:size]
    links = [(one, other, 90) for one, other in pairwise(names)]
    links += [(name, "z", slow) for name in names]
    links += [(name, "z", 40) for name in "xy"[:others]]
    return problem_of(links, switches="z")


@pytest.mark.parametrize(
    ("size", "slow", "trees", "height"),
    [
        # x and y have 2 trees each: 5 slow links hold 5 < 8 units, so some tree comes in once
        (5, 1, 2, 3),
        (5, 2, 2, 1),  # 10 units
        (4, 2, 2, 1),  # 8 units are enough
        (4, 1, 2, 3),  # radius 2
        (3, 1, 2, 2),  # radius 1
        (2, 1, 2, 1),  # two ranks are no set
        (7, 1, 4, 4),
    ],
)
def test_sets_that_some_tree_enters_once(size: int, slow: int, trees: int, height: int) -> None:
    problem = fast_line(size, slow)
    multiplicities = [0] * size + [trees] * 2
    # roots x and y reach everybody at once by links that are wide enough
    wide = np.where(problem.bandwidths == 40, 10**6, problem.bandwidths)
    assert smallest_height(problem, np.array(multiplicities), wide) == height


def test_large_sets_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = fast_line(5, 1)
    wide = np.where(problem.bandwidths == 40, 10**6, problem.bandwidths)
    for most, height in ((5, 3), (4, 1)):
        monkeypatch.setattr(module, "_LARGEST_SET", most)
        assert smallest_height(problem, np.array([0] * 5 + [2, 2]), wide) == height


def test_of_very_many_ranks_some_roots_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of six roots on a line, every second: 0, 2, 4, of which 0 is 5 hops from the end; every third: 0, 3."""
    line = problem_of([(one, other, 9) for one, other in pairwise("abcdef")], ranks="cabdef")
    assert lowest(line, [1] * 6) == 5
    monkeypatch.setattr(module, "_MANY_RANKS", 6)
    assert lowest(line, [1] * 6) == 5
    monkeypatch.setattr(module, "_MANY_RANKS", 5)
    for few, height in ((1, 3), (2, 3), (3, 4), (6, 5)):  # c; c and d; c, b and e; all
        monkeypatch.setattr(module, "_FEW_ROOTS", few)
        assert lowest(line, [1] * 6) == height
    assert smallest_height(line, np.array([0, 0, 1, 0, 0, 0]), line.bandwidths) == 4


def test_a_rank_alone_has_no_height() -> None:
    problem = problem_of([("a", "b", 3)])
    assert lowest(problem, [1, 1]) == 1
    assert lowest(problem, [4, 0]) == 2  # too narrow for all at once, if that were of any use
