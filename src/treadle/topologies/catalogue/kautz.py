"""Shift digraphs: Kautz, de Bruijn and relatives, whose diameter is logarithmic in their size."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from treadle.errors import TopologyError
from treadle.topologies.catalogue.direct import graph, graph_of_heads
from treadle.topologies.limits import check_count, check_counts, check_size
from treadle.topologies.topology import Topology

_MAX_LETTERS = 20


def kautz(d: int, n: int, *, bandwidth: int = 1, latency: int = 0) -> Topology:
    """Kautz digraph K(d, n) = L^n(K_{d+1}): words without equal neighbours, shifted by one symbol.

    Parameters
    ----------
    d : int
        Degree, at least 1.
    n : int
        Line-graph expansions of the complete graph on d + 1 nodes, at least 0.
    bandwidth, latency : int
        Of each link, bytes/s and nanoseconds.

    Notes
    -----
    Size d^n (d + 1), diameter n + 1 (1 for d = 1); no self-loops. Nodes are the words of
    n + 1 symbols out of d + 1 in which neighbouring symbols differ, in lexicographic order.
    Link x * d + k leaves x: its head drops the first symbol and appends the one that is k-th among those
    allowed. So the line graph of kautz(d, n) is kautz(d, n + 1) node by node and link by link.
    Moore-optimal always, bandwidth-optimal for n = 0 (table A.3 of the dissertation);
    reverse-symmetric.

    Examples
    --------
    >>> kautz(2, 2)
    <Topology kautz(2, 2): 12 compute, 0 switches, 24 links>
    """
    check_count("kautz", "d", d)
    check_count("kautz", "n", n, least=0, most=_MAX_LETTERS)
    size = d**n * (d + 1)
    check_size("kautz", size, d * size)
    nodes = np.arange(size, dtype=np.int64)
    if n == 0:
        # The complete graph: every letter but the node's own.
        heads = np.arange(d) + (np.arange(d) >= nodes[:, None])
    else:
        top = d**n
        first, rest = np.divmod(nodes, top)
        second, tail = np.divmod(rest, top // d)
        # Every letter but the first is written as its rank among those that differ from its predecessor.
        stems = (second + (second >= first)) * top + tail * d
        heads = stems[:, None] + np.arange(d)
    return graph_of_heads(("kautz", d, n), heads, bandwidth, latency)


def generalized_kautz(d: int, m: int, *, bandwidth: int = 1, latency: int = 0) -> Topology:
    """Generalized Kautz digraph of Imase and Itoh: a low diameter for every size and degree.

    Parameters
    ----------
    d : int
        Degree, at least 2.
    m : int
        Nodes, at least 2.
    bandwidth, latency : int
        Of each link, bytes/s and nanoseconds.

    Notes
    -----
    Definition 16 of the dissertation: node x has links to -d x - a modulo m, a = 1 to d;
    link x * d + a - 1 is that one. Self-loops where m is not a multiple of d + 1; parallel links where m < d.
    For m = d^n (d + 1) it is the Kautz digraph K(d, n). Diameter at most T_L*(m, d) + 1 (theorem 21); T_B of
    breadth-first broadcast at most 2 T_B* for m <= 2000 and d = 2, 4, 8, 16 (figure A.7), equal to T_B* for
    m = d + 1. Not reverse-symmetric in general.

    Examples
    --------
    >>> generalized_kautz(2, 5)
    <Topology generalized_kautz(2, 5): 5 compute, 0 switches, 10 links>
    """
    check_counts("generalized_kautz", least=2, d=d, m=m)
    check_size("generalized_kautz", m, d * m)
    heads = (-d * np.arange(m, dtype=np.int64)[:, None] - np.arange(1, d + 1)) % m
    return graph_of_heads(("generalized_kautz", d, m), heads, bandwidth, latency)


def de_bruijn(d: int, n: int, *, bandwidth: int = 1, latency: int = 0) -> Topology:
    """De Bruijn digraph DBJ(d, n): words of `n` symbols out of `d`, shifted by one symbol.

    Parameters
    ----------
    d : int
        Degree and size of the alphabet, at least 2.
    n : int
        Symbols of a word, at least 1.
    bandwidth, latency : int
        Of each link, bytes/s and nanoseconds.

    Notes
    -----
    Size d^n, diameter n. Node x has links to d x + a modulo d^n, a = 0 to d - 1; link x * d + a is that one.
    The d words of one repeated symbol have a self-loop, which uses a port and carries nothing.
    Moore-optimal and reverse-symmetric (table A.3 of the dissertation). Breadth-first broadcast has
    T_B = d (d^n - 1) / (d^n (d - 1)); with the loops in the degree that is optimal for no n, though the table
    says so for n = 1.

    Examples
    --------
    >>> de_bruijn(2, 3)
    <Topology de_bruijn(2, 3): 8 compute, 0 switches, 16 links>
    """
    check_count("de_bruijn", "d", d, least=2)
    check_count("de_bruijn", "n", n, most=_MAX_LETTERS)
    size = d**n
    check_size("de_bruijn", size, d * size)
    heads = (d * np.arange(size, dtype=np.int64)[:, None] + np.arange(d)) % size
    return graph_of_heads(("de_bruijn", d, n), heads, bandwidth, latency)


_ADDED_CYCLES: Mapping[tuple[int, int], tuple[int, ...]] = MappingProxyType(
    {
        (2, 3): (0, 2, 5, 7),
        (2, 4): (0, 5, 10, 15),
        (3, 2): (0, 8, 1, 7, 6, 3, 5, 2, 4),
        (4, 2): (0, 7, 11, 3, 5, 8, 12, 4, 10, 13, 1, 9, 15, 2, 6, 14),
    }
)
"""Cycle through the ports that de Bruijn's self-loops and 2-cycles leave free, per (d, n)."""


def modified_de_bruijn(d: int, n: int, *, bandwidth: int = 1, latency: int = 0) -> Topology:
    """Modified de Bruijn digraph DBJMod(d, n): self-loops and 2-cycles rewired into one long cycle.

    Parameters
    ----------
    d, n : int
        (2, 3), (2, 4), (3, 2) or (4, 2): the graphs with a known bandwidth-optimal schedule.
    bandwidth, latency : int
        Of each link, bytes/s and nanoseconds.

    Notes
    -----
    Size d^n, degree d. Links: those of `de_bruijn` in its order without the deleted ones, then the cycle's.
    Diameter, and T_L of a bandwidth-optimal schedule (table A.3 of the dissertation):

    ======  ========  ===
    (d, n)  diameter  T_L
    ======  ========  ===
    (2, 3)  3         4
    (2, 4)  4         5
    (3, 2)  3         3
    (4, 2)  3         3
    ======  ========  ===

    Those schedules are not breadth-first broadcasts. The dissertation draws only DBJMod(2, 3) (figure A.9);
    the cycles here were found by search, so that the table's values hold.

    Raises
    ------
    TopologyError
        For other parameters.
    """
    check_counts("modified_de_bruijn", d=d, n=n)
    cycle = _ADDED_CYCLES.get((d, n))
    if cycle is None:
        known = ", ".join(f"({a}, {b})" for a, b in _ADDED_CYCLES)
        raise TopologyError(f"modified_de_bruijn: no cycle is known for ({d}, {n}); expected one of {known}")
    size = d**n
    tails = np.repeat(np.arange(size), d)
    heads = (d * np.arange(size)[:, None] + np.arange(d)).ravel() % size
    # A 2-cycle is an arc whose reverse is there too; a self-loop is its own reverse.
    keep = ~np.isin(tails * size + heads, heads * size + tails)
    ends = np.append(tails[keep], cycle), np.append(heads[keep], np.roll(cycle, -1))
    return graph(("modified_de_bruijn", d, n), ends, size, bandwidth, latency)


_DIAMOND = "01 02 12 14 23 27 34 36 40 45 53 56 61 67 70 75"


def diamond(*, bandwidth: int = 1, latency: int = 0) -> Topology:
    """Diamond: eight nodes of degree 2 that are both Moore- and bandwidth-optimal.

    Parameters
    ----------
    bandwidth, latency : int
        Of each link, bytes/s and nanoseconds.

    Notes
    -----
    Size 8, degree 2, diameter 3. An allgather of two chunks per shard meets both bounds (T_L = 3, T_B = 7/8;
    table A.3 of the dissertation), which its breadth-first broadcast does not; it comes
    from exact synthesis. The dissertation's figure A.8 is a drawing; these arcs were found by search
    and reach its values. Links are ordered by tail, then by head. Not reverse-symmetric.
    """
    heads = np.array([int(arc[1]) for arc in _DIAMOND.split()]).reshape(8, 2)
    return graph_of_heads(("diamond",), heads, bandwidth, latency)
