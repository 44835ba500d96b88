"""Table A.2 of Efficient Direct-Connect Topologies: intersection arrays, sizes, diameters."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from treadle import topologies as family
from treadle.errors import InfeasibleError, TopologyError
from treadle.topologies.catalogue.direct import from_arcs, from_edges
from treadle.topologies.catalogue.distance_regular import distance_regular
from treadle.topologies.catalogue.finite_field import finite_field, prime_power
from treadle.topologies.catalogue.graphs import ring, star, torus
from treadle.topologies.distances import diameter
from treadle.topologies.intersection_arrays import IntersectionArray, intersection_array
from treadle.topologies.topology import Topology

# Size: (intersection array, T_L, T_L*, T_L**). The arrays are those of Brouwer, Cohen and Neumaier,
# Distance-Regular Graphs, chapter 14 and of Brouwer and Koolen, The distance-regular graphs of valency
# four; the other columns are table A.2's.
TABLE = {
    6: ("{4,1;1,4}", 2, 2, 2),
    9: ("{4,2;1,2}", 2, 2, 2),
    10: ("{4,3,1;1,3,4}", 3, 2, 2),
    14: ("{4,3,2;1,2,4}", 3, 2, 2),
    15: ("{4,2,1;1,1,4}", 3, 2, 2),
    16: ("{4,3,2,1;1,2,3,4}", 4, 2, 2),
    21: ("{4,2,2;1,1,2}", 3, 2, 3),
    26: ("{4,3,3;1,1,4}", 3, 3, 3),
    32: ("{4,3,3,1;1,1,3,4}", 4, 3, 3),
    35: ("{4,3,3;1,1,2}", 3, 3, 3),
    45: ("{4,2,2,2;1,1,1,2}", 4, 3, 3),
    70: ("{4,3,3,2,2,1,1;1,1,2,2,3,3,4}", 7, 3, 4),
    80: ("{4,3,3,3;1,1,1,4}", 4, 3, 4),
    189: ("{4,2,2,2,2,2;1,1,1,1,1,2}", 6, 4, 5),
    728: ("{4,3,3,3,3,3;1,1,1,1,1,4}", 6, 5, 6),
}


def _least_steps(n: int, branching: list[int]) -> int:
    """Steps until nodes that are reached in the numbers 1, b[0], b[0] b[1], ... may be all n."""
    reached = level = 1
    for step, b in enumerate(branching, start=1):
        level *= b
        reached += level
        if reached >= n:
            return step
    raise AssertionError(n)


@pytest.mark.parametrize("n", TABLE)
def test_table_a2(n: int) -> None:
    graph = distance_regular(4, n)
    array, steps, least, least_bidirectional = TABLE[n]
    assert str(intersection_array(graph)) == array
    assert graph.n_nodes == n
    assert diameter(graph) == steps
    assert _least_steps(n, [4] * 9) == least
    assert _least_steps(n, [4] + [3] * 9) == least_bidirectional
    assert graph.name == f"distance_regular(4, {n})"


def test_intersection_array_agrees_with_networkx() -> None:
    graph = distance_regular(4, 45)
    peer = nx.Graph(list(zip(graph.tails.tolist(), graph.heads.tolist(), strict=True)))
    found = intersection_array(graph)
    assert (list(found.b), list(found.c)) == nx.intersection_array(peer)


@pytest.mark.parametrize(
    ("graph", "array"),
    [
        (family.projective_plane(2), "{3,2,2;1,1,3}"),
        (family.projective_plane(4), "{5,4,4;1,1,5}"),
        (family.affine_plane(3), "{3,2,2,1;1,1,2,3}"),
        (family.generalized_quadrangle(2), "{3,2,2,2;1,1,1,3}"),
        (family.generalized_quadrangle(4), "{5,4,4,4;1,1,1,5}"),
        (family.generalized_hexagon(2), "{3,2,2,2,2,2;1,1,1,1,1,3}"),
        (family.odd_graph(3), "{3,2;1,1}"),
        (family.doubled_odd_graph(3), "{3,2,2,1,1;1,1,2,2,3}"),
        (family.paley(13), "{6,3;1,3}"),
        (family.paley(25), "{12,6;1,6}"),
        (family.crown(4), "{3,2,1;1,2,3}"),
    ],
)
def test_other_members_of_the_families(graph: Topology, array: str) -> None:
    assert str(intersection_array(graph)) == array


@pytest.mark.parametrize(
    ("graph", "reason"),
    [
        (torus(3, 4), "b_1 is"),
        (star(4), "different degrees"),
        (ring(4, bidirectional=False), "one direction"),
        (from_edges("pair", [(0, 1), (0, 1)], n=2), "parallel links"),
        (from_arcs("loop", [0], [0], n=1), "self-loops"),
    ],
)
def test_what_is_not_distance_regular_is_refused(graph: Topology, reason: str) -> None:
    with pytest.raises(TopologyError, match=f"not distance-regular: .*{reason}"):
        intersection_array(graph)


def test_disconnected_graphs_have_no_array() -> None:
    with pytest.raises(InfeasibleError, match="cannot be reached"):
        intersection_array(from_edges("two", [(0, 1), (2, 3)], n=4))


def test_rings_have_the_arrays_of_polygons() -> None:
    assert intersection_array(ring(7)) == IntersectionArray((2, 1, 1), (1, 1, 1))
    assert intersection_array(ring(6)) == IntersectionArray((2, 1, 1), (1, 1, 2))


def test_bandwidth_and_latency_reach_the_links() -> None:
    graph = distance_regular(4, 14, bandwidth=5, latency=7)
    assert set(graph.bandwidths.tolist()) == {5}
    assert set(graph.latencies_ns.tolist()) == {7}
    assert graph.name == 'distance_regular(4, 14, bandwidth="5B/s", latency="7ns")'
    assert graph == family.heawood_distance_3(bandwidth=5, latency=7)


def test_sizes_that_the_table_lacks_are_refused() -> None:
    for d, n in ((4, 7), (3, 14)):
        with pytest.raises(TopologyError, match=f"no graph of degree {d} with {n} nodes"):
            distance_regular(d, n)
    with pytest.raises(TopologyError, match="prime power, found 6"):
        family.projective_plane(6)
    with pytest.raises(TopologyError, match="1 modulo 4, found 7"):
        family.paley(7)
    with pytest.raises(TopologyError, match="at most 4"):
        family.generalized_hexagon(5)


@pytest.mark.parametrize("q", [q for q in range(2, 33) if prime_power(q)])
def test_fields_obey_the_axioms(q: int) -> None:
    field = finite_field(q)
    sums, products = field.sums, field.products
    assert (sums == sums.T).all()
    assert (products == products.T).all()
    assert (sums[0] == range(q)).all()
    assert (products[1] == range(q)).all()
    assert (sums[range(q), field.negatives] == 0).all()
    assert sorted(field.powers.tolist()) == list(range(1, q))
    a, b, c = np.ogrid[:q, :q, :q]
    assert (sums[sums[a, b], c] == sums[a, sums[b, c]]).all()
    assert (products[products[a, b], c] == products[a, products[b, c]]).all()
    assert (products[a, sums[b, c]] == sums[products[a, b], products[a, c]]).all()


def test_no_field_of_other_orders() -> None:
    for q in (0, 1, 6, 2048):
        with pytest.raises(TopologyError, match="prime power"):
            finite_field(q)
