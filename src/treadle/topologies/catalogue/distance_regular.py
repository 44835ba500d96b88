"""Distance-regular graphs: bidirectional, and the numbers of shortest paths depend on distances only.

A breadth-first broadcast on any of them is bandwidth-optimal (theorem 18 and A.6.3 of the
dissertation). Every graph is constructed from its definition; links are sorted by tail, then by head.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from math import comb
from types import MappingProxyType

import numpy as np

from treadle.arrays import BoolArray, Int64Array, mask_of
from treadle.errors import TopologyError
from treadle.topologies.catalogue.direct import Call, graph_name, graph_of_edges
from treadle.topologies.catalogue.finite_field import finite_field, prime_power
from treadle.topologies.catalogue.graphs import hypercube
from treadle.topologies.catalogue.incidence import (
    affine_plane_incidence,
    projective_plane_incidence,
    split_cayley_hexagon_incidence,
    symplectic_quadrangle_incidence,
)
from treadle.topologies.limits import check_count, check_counts, check_size
from treadle.topologies.topology import Topology


def _undirected(call: Call, adjacent: BoolArray, bandwidth: int, latency: int) -> Topology:
    return graph_of_edges(call, np.argwhere(np.triu(adjacent, k=1)), len(adjacent), bandwidth, latency)


def _incidence_graph(call: Call, incidence: BoolArray, bandwidth: int, latency: int) -> Topology:
    """Return the graph of points, then lines; incident ones are linked."""
    edges = np.argwhere(incidence) + np.array([0, len(incidence)])
    return graph_of_edges(call, edges, sum(incidence.shape), bandwidth, latency)


def _flags(incidence: BoolArray) -> BoolArray:
    """Return the adjacency of the incident (point, line) pairs that share the point or the line."""
    points, lines = np.nonzero(incidence)
    return np.asarray((points[:, None] == points) ^ (lines[:, None] == lines))


def _check_order(function: str, q: int, most: int) -> None:
    check_count(function, "q", q, least=2, most=most)
    if prime_power(q) is None:
        raise TopologyError(f"{function}: q must be a prime power, found {q}")


def octahedron(*, bandwidth: int = 1, latency: int = 0) -> Topology:
    """Octahedron, the Johnson graph J(4, 2): pairs out of four, linked if they share an element.

    Notes
    -----
    6 nodes, degree 4, diameter 2; both Moore- and bandwidth-optimal.
    """
    sets = _subsets(4, 2)
    return _undirected(("octahedron",), sets @ sets.T == 1, bandwidth, latency)


def paley(q: int, *, bandwidth: int = 1, latency: int = 0) -> Topology:
    """Paley graph: the elements of GF(q), linked if their difference is a non-zero square.

    Parameters
    ----------
    q : int
        Prime power, 1 modulo 4.
    bandwidth, latency : int
        Of each link, bytes/s and nanoseconds.

    Raises
    ------
    TopologyError
        If `q` is not.

    Notes
    -----
    q nodes, degree (q - 1) / 2, diameter 2 (1 for none). paley(9) is the Hamming graph H(2, 3).

    Examples
    --------
    >>> paley(9)
    <Topology paley(9): 9 compute, 0 switches, 36 links>
    """
    _check_order("paley", q, 1024)
    if q % 4 != 1:
        raise TopologyError(f"paley: q must be 1 modulo 4, found {q}; else x - y and y - x differ")
    field = finite_field(q)
    is_square = mask_of(q, field.powers[::2])
    return _undirected(("paley", q), is_square[field.sums[:, field.negatives]], bandwidth, latency)


def crown(n: int, *, bandwidth: int = 1, latency: int = 0) -> Topology:
    """Complete bipartite graph K(n, n) minus a perfect matching: i and n + j are linked if i != j.

    Parameters
    ----------
    n : int
        Half of the nodes, at least 3.
    bandwidth, latency : int
        Of each link, bytes/s and nanoseconds.

    Notes
    -----
    2n nodes, degree n - 1, diameter 3. crown(5) is K5,5-I of table A.2.
    """
    check_count("crown", "n", n, least=3)
    check_size("crown", 2 * n, 2 * n * (n - 1))
    return _incidence_graph(("crown", n), ~np.eye(n, dtype=np.bool_), bandwidth, latency)


def heawood_distance_3(*, bandwidth: int = 1, latency: int = 0) -> Topology:
    """Distance-3 graph of the Heawood graph: points and lines of PG(2, 2), linked if not incident.

    Notes
    -----
    14 nodes, degree 4, diameter 3.
    """
    return _incidence_graph(("heawood_distance_3",), ~projective_plane_incidence(2), bandwidth, latency)


def petersen_line(*, bandwidth: int = 1, latency: int = 0) -> Topology:
    """Line graph of the Petersen graph: its edges, linked if they share a node.

    Notes
    -----
    15 nodes, degree 4, diameter 3. In the Petersen graph pairs out of five are joined if disjoint.
    """
    pairs = _subsets(5, 2)
    ends = np.argwhere(np.triu(pairs @ pairs.T == 0))
    shared = (ends[:, None, :, None] == ends[None, :, None, :]).sum(axis=(2, 3))
    return _undirected(("petersen_line",), shared == 1, bandwidth, latency)


def projective_plane(q: int, *, bandwidth: int = 1, latency: int = 0) -> Topology:
    """Incidence graph of the projective plane PG(2, q).

    Parameters
    ----------
    q : int
        Prime power, at most 32.
    bandwidth, latency : int
        Of each link, bytes/s and nanoseconds.

    Notes
    -----
    2(q^2 + q + 1) nodes, degree q + 1, diameter 3; meets the bidirectional Moore bound of bipartite graphs.
    projective_plane(2) is the Heawood graph.
    """
    _check_order("projective_plane", q, 32)
    incidence = projective_plane_incidence(q)
    return _incidence_graph(("projective_plane", q), incidence, bandwidth, latency)


def affine_plane(q: int, *, bandwidth: int = 1, latency: int = 0) -> Topology:
    """Incidence graph of the affine plane AG(2, q) minus a parallel class.

    Parameters
    ----------
    q : int
        Prime power, at most 32.
    bandwidth, latency : int
        Of each link, bytes/s and nanoseconds.

    Notes
    -----
    2 q^2 nodes, degree q, diameter 4. Point (x, y) is node x q + y, line y = m x + c is q^2 + m q + c.
    """
    _check_order("affine_plane", q, 32)
    return _incidence_graph(("affine_plane", q), affine_plane_incidence(q), bandwidth, latency)


def generalized_quadrangle(q: int, *, bandwidth: int = 1, latency: int = 0) -> Topology:
    """Incidence graph of the generalized quadrangle GQ(q, q) of symplectic type, W(q).

    Parameters
    ----------
    q : int
        Prime power, at most 9.
    bandwidth, latency : int
        Of each link, bytes/s and nanoseconds.

    Notes
    -----
    2(q + 1)(q^2 + 1) nodes, degree q + 1, diameter 4. generalized_quadrangle(2) is Tutte's 8-cage.
    """
    _check_order("generalized_quadrangle", q, 9)
    incidence = symplectic_quadrangle_incidence(q)
    return _incidence_graph(("generalized_quadrangle", q), incidence, bandwidth, latency)


def generalized_hexagon(q: int, *, bandwidth: int = 1, latency: int = 0) -> Topology:
    """Incidence graph of the generalized hexagon GH(q, q), the split Cayley hexagon H(q).

    Parameters
    ----------
    q : int
        Prime power, at most 4.
    bandwidth, latency : int
        Of each link, bytes/s and nanoseconds.

    Notes
    -----
    2(q^6 - 1) / (q - 1) nodes, degree q + 1, diameter 6. generalized_hexagon(2) is Tutte's 12-cage.
    """
    _check_order("generalized_hexagon", q, 4)
    incidence = split_cayley_hexagon_incidence(q)
    return _incidence_graph(("generalized_hexagon", q), incidence, bandwidth, latency)


def heawood_line(*, bandwidth: int = 1, latency: int = 0) -> Topology:
    """Line graph of the Heawood graph: flags of PG(2, 2), linked if they share the point or the line.

    Notes
    -----
    21 nodes, degree 4, diameter 3.
    """
    return _undirected(("heawood_line",), _flags(projective_plane_incidence(2)), bandwidth, latency)


def tutte_8_cage_line(*, bandwidth: int = 1, latency: int = 0) -> Topology:
    """Line graph of Tutte's 8-cage: flags of GQ(2, 2), linked if they share the point or the line.

    Notes
    -----
    45 nodes, degree 4, diameter 4.
    """
    flags = _flags(symplectic_quadrangle_incidence(2))
    return _undirected(("tutte_8_cage_line",), flags, bandwidth, latency)


def tutte_12_cage_line(*, bandwidth: int = 1, latency: int = 0) -> Topology:
    """Line graph of Tutte's 12-cage: flags of GH(2, 2), linked if they share the point or the line.

    Notes
    -----
    189 nodes, degree 4, diameter 6.
    """
    flags = _flags(split_cayley_hexagon_incidence(2))
    return _undirected(("tutte_12_cage_line",), flags, bandwidth, latency)


def odd_graph(k: int, *, bandwidth: int = 1, latency: int = 0) -> Topology:
    """Odd graph O_k: subsets of k - 1 out of 2k - 1 elements, linked if disjoint.

    Parameters
    ----------
    k : int
        Degree, from 2 to 8.
    bandwidth, latency : int
        Of each link, bytes/s and nanoseconds.

    Notes
    -----
    C(2k - 1, k - 1) nodes, degree k, diameter k - 1. odd_graph(3) is the Petersen graph.
    """
    check_count("odd_graph", "k", k, least=2, most=8)
    sets = _subsets(2 * k - 1, k - 1)
    return _undirected(("odd_graph", k), sets @ sets.T == 0, bandwidth, latency)


def doubled_odd_graph(k: int, *, bandwidth: int = 1, latency: int = 0) -> Topology:
    """Doubled odd graph D(O_k): subsets of k - 1 and of k out of 2k - 1 elements, linked by inclusion.

    Parameters
    ----------
    k : int
        Degree, from 2 to 8.
    bandwidth, latency : int
        Of each link, bytes/s and nanoseconds.

    Notes
    -----
    2 C(2k - 1, k) nodes, the smaller subsets first; degree k, diameter 2k - 1.
    """
    check_count("doubled_odd_graph", "k", k, least=2, most=8)
    check_size("doubled_odd_graph", 2 * comb(2 * k - 1, k), 2 * k * comb(2 * k - 1, k))
    small, large = _subsets(2 * k - 1, k - 1), _subsets(2 * k - 1, k)
    included = small @ large.T == k - 1
    return _incidence_graph(("doubled_odd_graph", k), included, bandwidth, latency)


def _subsets(n: int, k: int) -> Int64Array:
    """Return indicator rows of the k-subsets of n elements, in lexicographic order."""
    members = np.array(list(combinations(range(n), k)), dtype=np.int64)
    rows = np.zeros((len(members), n), dtype=np.int64)
    np.put_along_axis(rows, members, 1, axis=1)
    return rows


_DEGREE_4 = MappingProxyType[int, tuple[Callable[..., Topology], tuple[int, ...]]](
    {
        6: (octahedron, ()),
        9: (paley, (9,)),
        10: (crown, (5,)),
        14: (heawood_distance_3, ()),
        15: (petersen_line, ()),
        16: (hypercube, (4,)),
        21: (heawood_line, ()),
        26: (projective_plane, (3,)),
        32: (affine_plane, (4,)),
        35: (odd_graph, (4,)),
        45: (tutte_8_cage_line, ()),
        70: (doubled_odd_graph, (4,)),
        80: (generalized_quadrangle, (3,)),
        189: (tutte_12_cage_line, ()),
        728: (generalized_hexagon, (3,)),
    }
)


def distance_regular(d: int, n: int, *, bandwidth: int = 1, latency: int = 0) -> Topology:
    """Distance-regular graph by degree and size: DistReg(d, n) of the dissertation's table A.2.

    Parameters
    ----------
    d : int
        Degree; the table has 4 only.
    n : int
        Nodes: 6, 9, 10, 14, 15, 16, 21, 26, 32, 35, 45, 70, 80, 189 or 728.
    bandwidth, latency : int
        Of each link, bytes/s and nanoseconds.

    Returns
    -------
    Topology
        Equal to the named graph: octahedron, paley(9), crown(5), heawood_distance_3, petersen_line,
        hypercube(4), heawood_line, projective_plane(3), affine_plane(4), odd_graph(4), tutte_8_cage_line,
        doubled_odd_graph(4), generalized_quadrangle(3), tutte_12_cage_line or generalized_hexagon(3).

    Raises
    ------
    TopologyError
        If the table has no such graph.

    Notes
    -----
    Bandwidth-optimal and reverse-symmetric, all of them.

    Examples
    --------
    >>> distance_regular(4, 32)
    <Topology distance_regular(4, 32): 32 compute, 0 switches, 128 links>
    """
    check_counts("distance_regular", d=d, n=n)
    if d != 4 or n not in _DEGREE_4:
        known = ", ".join(map(str, _DEGREE_4))
        reason = f"table A.2 has no graph of degree {d} with {n} nodes"
        raise TopologyError(f"distance_regular: {reason}; degree 4 has {known}")
    make, arguments = _DEGREE_4[n]
    name = graph_name("distance_regular", d, n, bandwidth=bandwidth, latency=latency)
    return make(*arguments, bandwidth=bandwidth, latency=latency).renamed(name)
