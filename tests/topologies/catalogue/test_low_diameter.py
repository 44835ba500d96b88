"""SlimFly and dragonfly: sizes, degrees and diameters as their papers state."""

from __future__ import annotations

import numpy as np
import pytest

from treadle.errors import TopologyError
from treadle.topologies.catalogue.low_diameter import dragonfly, slimfly
from treadle.topologies.distances import diameter
from treadle.topologies.intersection_arrays import intersection_array
from treadle.topologies.isomorphism import find_isomorphism
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


# Kim et al., Technology-driven, highly-scalable dragonfly topology, section 3.1: g = a h + 1, diameter 3.
@pytest.mark.parametrize(("a", "h"), [(2, 1), (4, 2), (6, 3), (3, 4), (8, 4)])
def test_dragonfly(a: int, h: int) -> None:
    graph = dragonfly(a, h)
    groups = a * h + 1
    assert graph.n_nodes == a * groups
    assert _degree(graph) == a - 1 + h
    assert diameter(graph) == 3
    tail_groups, head_groups = graph.tails // a, graph.heads // a
    between = {
        (one, other)
        for one, other in zip(tail_groups.tolist(), head_groups.tolist(), strict=True)
        if one != other
    }
    assert len(between) == groups * (groups - 1) == int((tail_groups != head_groups).sum())


def test_degenerate_dragonflies() -> None:
    assert diameter(dragonfly(1, 4)) == 1
    assert find_isomorphism(dragonfly(1, 4), dragonfly(1, 4, latency=1)) is None


def test_names_rebuild_them() -> None:
    assert slimfly(4, bandwidth=3).name == 'slimfly(4, bandwidth="3B/s")'
    assert dragonfly(4, 2, latency=5).name == 'dragonfly(4, 2, latency="5ns")'


def test_bad_arguments_are_refused() -> None:
    for q in (6, 12, 15):
        with pytest.raises(TopologyError, match=f"prime power .* found {q}"):
            slimfly(q)
    with pytest.raises(TopologyError, match="at least 3"):
        slimfly(2)
    with pytest.raises(TopologyError, match="builds at most"):
        slimfly(149)
    with pytest.raises(TopologyError, match="builds at most"):
        dragonfly(1000, 1000)
    with pytest.raises(TopologyError, match="h must be at least 1"):
        dragonfly(2, 0)
