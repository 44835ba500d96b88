"""Parts of the making of routes: whole shares, orders, layers, cycles, paths of flows; by definition."""

from __future__ import annotations

import numpy as np

from treadle.synthesis.alltoall.routes.cycles import _trimmed, cancel_cycles
from treadle.synthesis.alltoall.routes.link_orders import (
    layers_of,
)
from treadle.synthesis.alltoall.routes.path_sets import from_lists
from treadle.topologies.catalogue.direct import from_arcs


def test_layers_whose_order_paths_climb() -> None:
    """Links in the orders 0 1 2 3 and 3 1 0 2: paths 0 1, 1 0, 3 1 2, 2 1 and a single link."""
    paths = from_lists([(0, 1, [0, 1]), (0, 2, [1, 0]), (0, 3, [3, 1, 2]), (1, 0, [2, 1]), (1, 2, [3])])
    orders = np.array([[0, 1, 2, 3], [3, 1, 0, 2]])
    assert layers_of(paths, orders).tolist() == [0, 1, 1, -1, 0]


def test_links_between_no_two_cycles_are_trimmed() -> None:
    """0 to 1 to 2 and back to 1, then 3: only links 1 and 2 stay, of the first source."""
    tails, heads = np.array([0, 1, 2, 2]), np.array([1, 2, 1, 3])
    used = np.array([[True] * 4, [True, True, False, True]])
    assert _trimmed(tails, heads, used, 4).tolist() == [[False, True, True, False], [False] * 4]
    assert used.all(axis=1).tolist() == [True, False]
    graph = from_arcs("graph", tails.tolist(), heads.tolist(), n=4)
    flows = np.array([[3.0, 5.0, 2.0, 3.0], [1.0, 1.0, 0.0, 1e-13]])
    assert cancel_cycles(graph, flows).tolist() == [[3, 3, 0, 3], [1, 1, 0, 0]]
    assert flows[0].tolist() == [3, 5, 2, 3]
    looped = from_arcs("looped", [0, 0], [0, 1], n=2)
    assert cancel_cycles(looped, np.array([[4.0, 1.0]])).tolist() == [[0, 1]]
