"""Circulant graphs: node i is linked to the nodes at fixed offsets from it."""

from __future__ import annotations

from math import gcd

from treadle.errors import TopologyError
from treadle.topologies.catalogue.direct import graph_of_steps
from treadle.topologies.limits import check_count, check_size
from treadle.topologies.topology import Topology


def circulant(n: int, *offsets: int, bandwidth: int = 1, latency: int = 0) -> Topology:
    """Circulant graph C(n, {a_1, ..., a_k}): node i has a link each way with i + a and i - a modulo n.

    Parameters
    ----------
    n : int
        Nodes, at least 2.
    *offsets : int
        Each from 1 to n - 1; n and all of them have no common factor. A repeated one makes parallel links.
    bandwidth, latency : int
        Of each link, bytes/s and nanoseconds.

    Raises
    ------
    TopologyError
        If an argument is out of range or the graph would be disconnected.

    Notes
    -----
    Definition 18 of the dissertation. Size n, degree 2k for k offsets, always: an offset
    of n / 2 joins i and i + n / 2 by two parallel links each way. For a single one see `directed_circulant`:
    the Moebius ladder is directed_circulant(8, 1, 7, 4).
    Links x * 2k + 2j and x * 2k + 2j + 1 leave x for x + a_j and x - a_j.
    Vertex-transitive and reverse-symmetric. For two different offsets below n / 2 a breadth-first broadcast
    is bandwidth-optimal (A.6.4), and {m, m + 1} with m = ceil((sqrt(2n - 1) - 1) / 2) has the least diameter,
    m, for n > 6 (theorem 22). With three or more offsets it may not be: conjecture 1 of the dissertation
    fails first at C(12, {1, 3, 4, 5}), where T_B = 1.

    Examples
    --------
    >>> circulant(16, 3, 4)
    <Topology circulant(16, 3, 4): 16 compute, 0 switches, 64 links>
    """
    _check_offsets("circulant", n, offsets, links_per_offset=2)
    steps = [step for offset in offsets for step in (offset, -offset)]
    return graph_of_steps(("circulant", n, *offsets), n, steps, bandwidth, latency)


def directed_circulant(n: int, *offsets: int, bandwidth: int = 1, latency: int = 0) -> Topology:
    """Circulant digraph: node i has a link to i + a modulo n for every offset a.

    Parameters
    ----------
    n : int
        Nodes, at least 2.
    *offsets : int
        Each from 1 to n - 1; n and all of them have no common factor. A repeated one makes parallel links.
    bandwidth, latency : int
        Of each link, bytes/s and nanoseconds.

    Raises
    ------
    TopologyError
        If an argument is out of range or the graph would be disconnected.

    Notes
    -----
    Size n, degree k for k offsets; link x * k + j leaves x for x + a_j. Vertex-transitive, reverse-symmetric
    (negate every node). The row "directed circulant" of table A.3 of the dissertation is
    n = d + 2 with the offsets 1 to d: diameter 2, Moore- and bandwidth-optimal by breadth-first broadcast.
    directed_circulant(8, 1, 3) (degree 2, diameter 3) meets both bounds as well.

    Examples
    --------
    >>> directed_circulant(6, 1, 2, 3, 4)
    <Topology directed_circulant(6, 1, 2, 3, 4): 6 compute, 0 switches, 24 links>
    """
    _check_offsets("directed_circulant", n, offsets, links_per_offset=1)
    return graph_of_steps(("directed_circulant", n, *offsets), n, offsets, bandwidth, latency)


def _check_offsets(function: str, n: int, offsets: tuple[int, ...], *, links_per_offset: int) -> None:
    check_count(function, "n", n, least=2)
    check_count(function, "number of offsets", len(offsets))
    check_count(function, "each offset", *offsets, most=n - 1)
    check_size(function, n, n * len(offsets) * links_per_offset)
    if (common := gcd(n, *offsets)) > 1:
        reason = f"node 1 cannot be reached from node 0, as n and every offset are multiples of {common}"
        raise TopologyError(f"{function}: {reason}; expected no common factor")
