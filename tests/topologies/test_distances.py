"""Distances against networkx, and the bounds that follow from them."""

from fractions import Fraction

import pytest

from treadle.errors import TopologyError
from treadle.topologies import (
    all_to_all_bound,
    circulant,
    de_bruijn,
    diameter,
    distance_matrix,
    mean_distance,
    path,
    ring,
)


@pytest.mark.parametrize(("n", "offsets"), [(90, (9, 10)), (50, (1, 7, 20))])
def test_one_source_says_everything_on_a_vertex_transitive_graph(n, offsets):
    topology = circulant(n, *offsets)
    for function in (diameter, mean_distance, all_to_all_bound):
        assert function(topology, sources=[0]) == function(topology)


def test_self_loops_carry_nothing_in_the_bound():
    topology = de_bruijn(2, 2)
    assert topology.n_links == 8
    assert all_to_all_bound(topology) == Fraction(6, int(distance_matrix(topology).sum()))


@pytest.mark.parametrize("sources", [[5], [-1], [0, 7]])
def test_unknown_sources(sources):
    with pytest.raises(TopologyError, match="is not a rank; expected 0 to 4"):
        distance_matrix(ring(5), sources=sources)


def test_no_sources_and_no_pairs():
    with pytest.raises(TopologyError, match="expected at least one source"):
        diameter(ring(5), sources=[])
    assert distance_matrix(path(1)).tolist() == [[0]]
    for function in (mean_distance, all_to_all_bound):
        with pytest.raises(TopologyError, match="at least two compute nodes, found 1"):
            function(path(1))
