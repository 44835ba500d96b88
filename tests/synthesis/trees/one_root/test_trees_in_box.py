"""The trees of a single box: where it is entered, what leaves it, and what is kept for a tree."""

from __future__ import annotations

import numpy as np

from treadle.synthesis.trees.one_root.trees_in_box import trees_of_rank


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
