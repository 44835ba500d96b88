"""Trees cut so that every edge takes one path, and ranks from the root outwards."""

from __future__ import annotations

from treadle.schedules.trees.forest import Direction, TreeSpec, forest_from_trees
from treadle.synthesis.trees.tree_parts import breadth_first, single_path_trees


def test_a_tree_is_cut_wherever_an_edge_changes_its_path() -> None:
    """Seven units: rank 0's edge changes after 2, rank 2's after 2 and 5, rank 1's never."""
    paths = {
        0: [((3,), 2), ((4, 5), 5)],
        1: [((6,), 7)],
        2: [((7,), 2), ((8,), 3), ((9, 1), 2)],
    }
    whole = TreeSpec(3, 7, [3, 0, 3, -1], paths)
    other = TreeSpec(0, 1, [-1, 0, 1, 2], {1: [((6,), 1)], 2: [((2,), 1)], 3: [((0,), 1)]})
    forest = forest_from_trees(Direction.BROADCAST, 4, [whole, other])
    found = [(one.root, one.multiplicity, list(one.parent), one.paths) for one in single_path_trees(forest)]
    assert found == [
        (0, 1, [-1, 0, 1, 2], {1: [((6,), 1)], 2: [((2,), 1)], 3: [((0,), 1)]}),
        (3, 2, [3, 0, 3, -1], {0: [((3,), 2)], 1: [((6,), 2)], 2: [((7,), 2)]}),
        (3, 3, [3, 0, 3, -1], {0: [((4, 5), 3)], 1: [((6,), 3)], 2: [((8,), 3)]}),
        (3, 2, [3, 0, 3, -1], {0: [((4, 5), 2)], 1: [((6,), 2)], 2: [((9, 1), 2)]}),
    ]


def test_ranks_from_the_root_outwards() -> None:
    """1 and 4 below the root, 0 and 5 below 1, 3 below 4, 2 below 5."""
    spec = TreeSpec(6, 1, [1, 6, 5, 4, 6, 1, -1], {})
    assert list(breadth_first(spec)) == [1, 4, 0, 5, 3, 2]
