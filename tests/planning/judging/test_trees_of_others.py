"""Spanning trees that files name, as schedules of ours: turned round, put on links, or refused."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import pytest

from treadle.inputs.problem import Problem, make_problem
from treadle.program.foreign.traffic import NamedTree, NamedTrees
from treadle.schedulers.third_party.foreign_trees import forest_of_trees
from treadle.schedules.trees.forest import ForestSchedule
from treadle.topologies import Topology, TopologyBuilder
from treadle.verification.schedules import verify


def tree(root: int, parents: dict[int, int], *, units: int = 1) -> NamedTree:
    return NamedTree(root, units, parents, dict.fromkeys(parents, ()), f"tree {root}")


def trees(*found: NamedTree) -> NamedTrees:
    return NamedTrees(("a", "b", "c"), found)


# along a path of three: from each end, and both ways from the middle
FROM = {0: {1: 0, 2: 1}, 1: {0: 1, 2: 1}, 2: {1: 2, 0: 1}}
ALL = trees(*(tree(root, parents) for root, parents in FROM.items()))


def path() -> Topology:
    """Links of 2 bytes/s away from a, of 3 towards it."""
    builder = TopologyBuilder("path")
    names = [builder.compute(name) for name in "abc"]
    for one, other in pairwise(names):
        builder.link(one, other, 2)
        builder.link(other, one, 3)
    return builder.build()


def judged(found: NamedTrees, problem: Problem) -> Fraction | None:
    made = forest_of_trees(found, problem)
    assert isinstance(made, tuple), made
    schedule, _ = made
    assert isinstance(schedule, ForestSchedule)
    report = verify(problem.topology, problem.collective, schedule)
    assert report.violations == ()
    return report.algbw


@pytest.mark.parametrize(
    ("kind", "root", "algbw"),
    [
        # away from a the busiest link has the shards of a and b, of three: 2 bytes/s over two thirds
        ("allgather", None, Fraction(3)),
        # turned round, links away from a carry sums for c and b: two of three at 2 bytes/s again
        ("reduce-scatter", None, Fraction(3)),
        ("broadcast", 0, Fraction(2)),
        ("broadcast", 2, Fraction(3)),
        ("broadcast", 1, Fraction(2)),
        ("reduce", 0, Fraction(3)),
        ("reduce", 2, Fraction(2)),
        # both: from a to b two sums and a shard, from b to c one and two, of three
        ("allreduce", None, Fraction(2)),
    ],
)
def test_trees_serve_collectives_as_they_are_or_turned_round(
    kind: str, root: int | None, algbw: Fraction
) -> None:
    found = judged(ALL, make_problem(path(), kind, root=root))
    assert found == algbw


def test_units_are_shares_of_a_shard() -> None:
    """Two thirds by the first tree, one by the other: on a triangle each link of the first is busier."""
    builder = TopologyBuilder("triangle")
    names = [builder.compute(name) for name in "abc"]
    for one, other in ((0, 1), (1, 2), (2, 0)):
        builder.duplex(names[one], names[other], 1)
    fabric = builder.build()
    both = trees(tree(0, {1: 0, 2: 1}, units=2), tree(0, {2: 0, 1: 2}, units=1))
    assert judged(both, make_problem(fabric, "broadcast", root=0)) == Fraction(3, 2)
    assert judged(both, make_problem(fabric, "reduce", root=0)) == Fraction(3, 2)


@pytest.mark.parametrize(
    ("kind", "root", "faults"),
    [
        ("alltoall", None, ("it holds spanning trees, asked for is alltoall",)),
        ("broadcast", 1, ("it has no trees of root 1",)),
        ("reduce", 2, ("it has no trees of root 2",)),
    ],
)
def test_trees_that_serve_something_else(kind: str, root: int | None, faults: tuple[str, ...]) -> None:
    found = forest_of_trees(trees(tree(0, FROM[0])), make_problem(path(), kind, root=root))
    assert not isinstance(found, tuple)
    assert found.faults == faults


def test_links_that_are_not_there() -> None:
    """A tree of direct edges from a to c, where only b joins them."""
    found = forest_of_trees(trees(tree(0, {1: 0, 2: 0})), make_problem(path(), "broadcast", root=0))
    assert not isinstance(found, tuple)
    assert found.faults == (
        "rank 0 sends to rank 2 (1 messages), and no way leads through switches from a to c of path",
    )
