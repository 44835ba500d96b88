"""Searches in graphs, against networkx."""

from __future__ import annotations

import numpy as np

from treadle.math import graphs


def test_long_paths_and_several_starts() -> None:
    tails = np.arange(99)
    assert graphs.reached(100, tails, tails + 1, 7).tolist() == [node >= 7 for node in range(100)]
    assert graphs.reached(100, tails + 1, tails, np.array([3, 5])).tolist() == [n <= 5 for n in range(100)]
    assert graphs.hops(100, tails, tails + 1, np.array([98])).tolist() == [[-1] * 98 + [0, 1]]
