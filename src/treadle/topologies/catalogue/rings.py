"""Rings with parallel links, unions of rings, unions of trees: baselines of direct-connect fabrics."""

from __future__ import annotations

from math import gcd

import numpy as np

from treadle.arrays import Int32Array
from treadle.errors import TopologyError
from treadle.topologies.catalogue.direct import graph, graph_of_steps
from treadle.topologies.limits import check_count, check_size
from treadle.topologies.topology import Topology


def uni_ring(d: int, m: int, *, bandwidth: int = 1, latency: int = 0) -> Topology:
    """Unidirectional ring UniRing(d, m): `d` parallel links from every node to the next.

    Parameters
    ----------
    d : int
        Degree, at least 1.
    m : int
        Nodes, at least 2.
    bandwidth, latency : int
        Of each link, bytes/s and nanoseconds.

    Notes
    -----
    Diameter m - 1; bandwidth-optimal with T_L = m - 1; reverse-symmetric (table A.3 of the
    dissertation). Links x * d to x * d + d - 1 leave node x.
    """
    check_count("uni_ring", "d", d)
    check_count("uni_ring", "m", m, least=2)
    check_size("uni_ring", m, d * m)
    return graph_of_steps(("uni_ring", d, m), m, [1] * d, bandwidth, latency)


def bi_ring(d: int, m: int, *, bandwidth: int = 1, latency: int = 0) -> Topology:
    """Bidirectional ring BiRing(d, m): d / 2 parallel links from every node to either neighbour.

    Parameters
    ----------
    d : int
        Degree, even.
    m : int
        Nodes, at least 3.
    bandwidth, latency : int
        Of each link, bytes/s and nanoseconds.

    Raises
    ------
    TopologyError
        If `d` is odd or an argument is out of range.

    Notes
    -----
    Diameter floor(m / 2); a breadth-first broadcast is bandwidth-optimal with T_L = floor(m / 2)
    (A.6.1 and table A.3 of the dissertation). Link x * d + k leaves node x for x + 1 where
    k is even, for x - 1 where it is odd.
    """
    check_count("bi_ring", "d", d, least=2)
    check_count("bi_ring", "m", m, least=3)
    if d % 2:
        raise TopologyError(f"bi_ring: d must be even (half of the links go each way), found {d}")
    check_size("bi_ring", m, d * m)
    return graph_of_steps(("bi_ring", d, m), m, [1, -1] * (d // 2), bandwidth, latency)


def shifted_ring(n: int, stride: int = 0, *, bandwidth: int = 1, latency: int = 0) -> Topology:
    """Two bidirectional Hamiltonian rings on the same nodes: neighbours at 1, and at `stride`.

    Parameters
    ----------
    n : int
        Nodes, at least 3.
    stride : int
        From 1 to n - 1 without a common factor with n; 0 (default) takes `default_stride`.
    bandwidth, latency : int
        Of each link, bytes/s and nanoseconds.

    Raises
    ------
    TopologyError
        If the stride does not visit every node or an argument is out of range.

    Notes
    -----
    The baseline ShiftedRing (3.8.2 of the dissertation, after TopoOpt): degree 4, each
    ring carries half of the data. Bandwidth-optimal; T_L = n - 1 with ring schedules, floor(n / 2) with
    breadth-first broadcast on each ring. The dissertation states no stride; its all-to-all time of 10738 us
    at n = 1024 (caption of table 3.4) is that of stride 3, which is the default there.
    Links 4x to 4x + 3 leave node x for x + 1, x - 1, x + stride, x - stride, as in circulant(n, 1, stride).

    Examples
    --------
    >>> shifted_ring(8)
    <Topology shifted_ring(8): 8 compute, 0 switches, 32 links>
    """
    check_count("shifted_ring", "n", n, least=3)
    check_count("shifted_ring", "stride", stride, least=0, most=n - 1)
    check_size("shifted_ring", n, 4 * n)
    call = ("shifted_ring", n, stride) if stride else ("shifted_ring", n)
    stride = stride or default_stride(n)
    if (common := gcd(stride, n)) > 1:
        reason = f"stride {stride} and n = {n} have the common factor {common}"
        raise TopologyError(f"shifted_ring: {reason}, so the second ring misses nodes; expected coprime ones")
    return graph_of_steps(call, n, [1, -1, stride, -stride], bandwidth, latency)


def default_stride(n: int) -> int:
    """The second ring's stride in `shifted_ring`: the least from 2 to n / 2 that is coprime to `n`.

    Where there is none (n = 3, 4 and 6) it is 1, and the two rings are parallel.

    Examples
    --------
    >>> [default_stride(n) for n in (5, 6, 12, 1024)]
    [2, 1, 5, 3]
    """
    return next((stride for stride in range(2, n // 2 + 1) if gcd(stride, n) == 1), 1)


def double_binary_tree(n: int, *, bandwidth: int = 1, latency: int = 0) -> Topology:
    """Two binary trees on the same nodes, joined by links each way; no node is interior in both.

    Parameters
    ----------
    n : int
        Nodes, at least 2.
    bandwidth, latency : int
        Of each link, bytes/s and nanoseconds.

    Notes
    -----
    Sanders, Speck and Traeff, Two-tree algorithms for full bandwidth broadcast, reduction and scan (Parallel
    Computing 35, 2009); the trees are those of `two_trees`. A node has at most 2 children and a parent in one
    tree and a parent in the other: degree at most 4, less at the roots, so the graph is not regular. Where
    both trees join the same two nodes the links are parallel. Diameter at most 2 floor(log2 n).
    Links: first tree, then second; in each, by child, the link from its parent before the one to its parent.

    Examples
    --------
    >>> double_binary_tree(8)
    <Topology double_binary_tree(8): 8 compute, 0 switches, 28 links>
    """
    check_count("double_binary_tree", "n", n, least=2)
    check_size("double_binary_tree", n, 4 * (n - 1))
    parents = two_trees(n)
    trees, children = np.nonzero(parents >= 0)
    parent = parents[trees, children]
    ends = np.stack([parent, children], axis=1)
    pair = ends.ravel(), ends[:, ::-1].ravel()
    return graph(("double_binary_tree", n), pair, n, bandwidth, latency)


def two_trees(n: int) -> Int32Array:
    """Parent of every node in each of two binary trees that share no interior node.

    Parameters
    ----------
    n : int
        Nodes, at least 2.

    Returns
    -------
    array of int32, shape (2, n)
        -1 at the roots.

    Notes
    -----
    The first tree is in order: counted from 1, node i stands as many levels above the leaves as 2 divides i,
    so the leaves are the odd numbers. The second mirrors it for even n and shifts it by one for odd n; either
    way its interior nodes are odd numbers. Depth floor(log2 n).

    Examples
    --------
    >>> two_trees(4).tolist()
    [[1, 3, 1, -1], [-1, 2, 0, 2]]
    """
    check_count("two_trees", "n", n, least=2)
    number = np.arange(1, n + 1, dtype=np.int64)
    level = number & -number
    # The parent is the neighbour one level up. Beyond n, climb to the next ancestor, always to the left.
    parent = (number - level) | 2 * level
    parent = np.where(parent > n, number - level, parent)
    first = parent - 1
    root = 1 << (n.bit_length() - 1)
    first[root - 1] = -1
    if n % 2 == 0:
        second = np.where(first < 0, -1, n - 1 - first)[::-1]
    else:
        second = np.roll(np.where(first < 0, -1, (first + 1) % n), 1)
    return np.stack([first, second]).astype(np.int32)
