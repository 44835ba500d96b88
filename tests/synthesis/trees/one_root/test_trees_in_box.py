"""The trees of a single box: where it is entered, what leaves it, and what is kept for a tree."""

from __future__ import annotations

import numpy as np
import pytest

from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.synthesis.trees.instance import Instance, instance_of
from treadle.synthesis.trees.one_root.trees_in_box import BoxTrees, trees_of_box, trees_of_rank
from treadle.synthesis.trees.tight_cuts.family import Family
from treadle.synthesis.trees.tight_cuts.sets.detection import detect
from treadle.synthesis.trees.tight_cuts.subproblems import LocalSubproblem, cut
from treadle.topologies import parse


def pieces(name: str, unit: int) -> tuple[Instance, Family, list[LocalSubproblem]]:
    """The box of the root and another one; capacities in units of bandwidth."""
    topology = parse(name)
    problem = instance_of(topology, on_all_ranks(topology, CollectiveKind.BROADCAST, root=0))
    family = detect(problem)
    trees = {"dgx": 8, "gb2": 19}[name[:3]]
    capacities = problem.bandwidths // unit
    cutting = cut(problem, family, capacities, problem.weights * trees)
    kinds = [cutting.kinds[int(kind)] for kind in dict.fromkeys(cutting.kind[1:].tolist())]
    return problem, family, sorted(kinds, key=lambda kind: -int(kind.native.sum()))


@pytest.mark.parametrize(("name", "trees"), [("dgx_h100(3)", 8), ("gb200_nvl72(3)", 19)])
def test_trees_of_a_box(name: str, trees: int) -> None:
    _, _, kinds = pieces(name, 50 * 10**9)
    for kind in kinds:
        made = trees_of_box(kind)
        n, has_root = kind.n_children, bool(kind.native.any())
        assert made.parent.shape == made.path.shape == (trees, n)
        loads = np.zeros(len(kind.tails), dtype=np.int64)
        uses = [(path, 1) for path in made.path[made.path >= 0].tolist()]
        for path, units in (*uses, *zip(made.exit_path.tolist(), made.exit_units.tolist(), strict=True)):
            links = made.path_links[made.path_offset[path] : made.path_offset[path + 1]]
            np.add.at(loads, links, units)
        # all exits and all trees at once keep to the capacities
        assert np.all(loads <= kind.capacity)
        for tree in range(trees):
            for rank in range(n):
                path, parent = int(made.path[tree, rank]), int(made.parent[tree, rank])
                if path < 0:
                    assert has_root
                    assert kind.native[rank]
                    continue
                first, last = (int(link[0]) for link in made.ends(np.array([path], dtype=np.int32)))
                assert kind.heads[last] == rank
                assert kind.tails[first] == (kind.outside if parent < 0 else parent)
        assert np.array_equal(kind.tails[made.ends(made.exit_path)[0]], made.exit_rank)
        assert np.all(kind.heads[made.ends(made.exit_path)[1]] == kind.outside)
        kept = made.exit_tree[made.exit_tree >= 0]
        assert sorted(kept.tolist()) == (list(range(trees)) if has_root else [])
        # what is kept for a tree leaves from a part that holds the root
        root = int(np.argmax(kind.native))
        for number in np.flatnonzero(made.exit_tree >= 0).tolist():
            assert made.entry[made.exit_tree[number], made.exit_rank[number]] == root


def test_the_box_of_the_root_is_entered_only_if_it_must_be() -> None:
    """NVSwitches of a DGX box carry all trees of its ranks; those of an NVL72 rack lack one in nineteen."""
    names = ("dgx_h100(3)", "gb200_nvl72(3)")
    inside = [trees_of_box(pieces(name, 50 * 10**9)[2][0]) for name in names]
    assert [int(np.sum((made.parent < 0) & (made.path >= 0))) > 0 for made in inside] == [False, True]


def test_parts_and_depths() -> None:
    """A chain 1 -> 2 -> 0, and two parts: 0 alone, 1 below 2."""
    made = BoxTrees(
        np.array([[2, -1, 1], [-1, 2, -1]], dtype=np.int32),
        np.zeros((2, 3), dtype=np.int32),
        np.zeros(0, dtype=np.int32),
        np.zeros(0, dtype=np.int32),
        np.zeros(0, dtype=np.int32),
        np.zeros(0, dtype=np.int64),
        np.array([0, 1], dtype=np.int64),
        np.zeros(1, dtype=np.int32),
    )
    assert made.depth.tolist() == [[2, 0, 1], [0, 1, 0]]
    assert made.entry.tolist() == [[1, 1, 1], [0, 2, 2]]
    assert [column.tolist() for column in made.parts] == [[0, 1, 1], [1, 0, 2]]
    assert made.part.tolist() == [[0, 0, 0], [1, 2, 2]]
    assert made.heights.tolist() == [2, 0, 1]


def test_a_rank_by_itself() -> None:
    leaves, units = np.array([True, False, True, False]), np.array([2, 2, 1, 1], dtype=np.int64)
    made = trees_of_rank(leaves, units, 3, is_root=False)
    assert made.path.tolist() == [[1], [1], [3]]
    assert made.exit_path.tolist() == [0, 2]
    assert made.exit_units.tolist() == [2, 1]
    assert made.exit_tree.tolist() == [-1, -1]
    root = trees_of_rank(leaves, units, 2, is_root=True)
    assert root.path.tolist() == [[-1], [-1]]
    assert root.exit_tree.tolist() == [0, 1, -1]
    assert root.exit_units.tolist() == [1, 1, 1]


def test_a_rank_with_links_far_wider_than_its_trees() -> None:
    leaves, units = np.array([True, False]), np.array([2**40, 2**40], dtype=np.int64)
    root, other = (trees_of_rank(leaves, units, 2, is_root=is_root) for is_root in (True, False))
    assert (root.exit_tree.tolist(), root.exit_units.tolist()) == ([0, 1, -1], [1, 1, 2**40 - 2])
    assert other.path.tolist() == [[1], [1]]
    assert other.exit_units.tolist() == [2**40]
