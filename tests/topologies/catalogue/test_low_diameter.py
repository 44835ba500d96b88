"""SlimFly and dragonfly: sizes, degrees and diameters as their papers state."""

from __future__ import annotations

import numpy as np
import pytest

from treadle.topologies.catalogue.low_diameter import dragonfly, slimfly
from treadle.topologies.distances import diameter
from treadle.topologies.intersection_arrays import intersection_array
from treadle.topologies.properties import is_symmetric
from treadle.topologies.topology import Topology


def _degree(graph: Topology) -> int:
    """Degree of a simple regular graph, counted at every node."""
    pairs = set(zip(graph.tails.tolist(), graph.heads.tolist(), strict=True))
    assert len(pairs) == graph.n_links
    assert all(tail != head for tail, head in pairs)
    assert is_symmetric(graph)
    (degree,) = set(np.bincount(graph.tails, minlength=graph.n_nodes).tolist())
    return int(degree)


# Besta and Hoefler, Slim Fly, section II-B: 2 q^2 routers of network radix (3q - delta) / 2, diameter 2.
@pytest.mark.parametrize("q", [3, 4, 5, 7, 8, 9, 11, 13, 16, 17, 19, 23, 25, 27])
def test_slimfly(q: int) -> None:
    graph = slimfly(q)
    delta = {0: 0, 1: 1, 3: -1}[q % 4]
    assert graph.n_nodes == 2 * q * q
    assert 2 * _degree(graph) == 3 * q - delta
    assert diameter(graph) == 2


def test_slimfly_of_5_is_the_hoffman_singleton_graph() -> None:
    """The only graph with this array (Hoffman and Singleton 1960): the Moore graph of degree 7."""
    assert str(intersection_array(slimfly(5))) == "{7,6;1,1}"


def test_names_rebuild_them() -> None:
    assert slimfly(4, bandwidth=3).name == 'slimfly(4, bandwidth="3B/s")'
    assert dragonfly(4, 2, latency=5).name == 'dragonfly(4, 2, latency="5ns")'
