"""Bounds from the number of nodes and the degree alone: how near, and how evenly, nodes can be.

Section A.3 of the dissertation. A node of degree d has at most d nodes at distance 1,
d^2 at distance 2 and so on, or d(d - 1)^(t-1) at distance t if every link is bidirectional: the Moore bound.
"""

from __future__ import annotations

from fractions import Fraction

from treadle.errors import TopologyError


def moore_bound(d: int, k: int, *, bidirectional: bool = False) -> int:
    """Return the most nodes of a graph of degree `d` and diameter `k` (definition 9).

    Parameters
    ----------
    d : int
        Links out of each node, at least 1.
    k : int
        Diameter, at least 0; -1 gives 0.
    bidirectional : bool
        True if every link is paired with its reverse.

    Returns
    -------
    int
        M_{d,k} = 1 + d + ... + d^k, or 1 + d + d(d - 1) + ... + d(d - 1)^(k - 1).

    Examples
    --------
    >>> moore_bound(4, 2), moore_bound(3, 2, bidirectional=True)
    (21, 10)
    """
    _check("moore_bound", "d", d, 1)
    _check("moore_bound", "k", k, -1)
    if k < 1:
        return k + 1
    ratio, first = (d - 1, d) if bidirectional else (d, d)
    if ratio == 0:
        return 1 + first
    series = k if ratio == 1 else (ratio**k - 1) // (ratio - 1)
    return 1 + first * series


def moore_steps(n: int, d: int, *, bidirectional: bool = False) -> int:
    """Return the least T_L that the Moore bound allows: T_L*(n, d), or T_L** of table A.2 if bidirectional.

    Parameters
    ----------
    n : int
        Nodes, at least 1.
    d : int
        Links out of each node, at least 1.
    bidirectional : bool
        True if every link is paired with its reverse.

    Returns
    -------
    int
        The k with M_{d,k-1} < n <= M_{d,k} (definition 10).

    Raises
    ------
    TopologyError
        If no connected graph has this size and degree (bidirectional, d = 1, n > 2).

    Examples
    --------
    >>> moore_steps(1024, 4), moore_steps(1024, 4, bidirectional=True)
    (5, 6)
    """
    return len(ideal_distribution(n, d, bidirectional=bidirectional)) - 1


def is_moore_optimal(n: int, d: int, steps: int, *, bidirectional: bool = False) -> bool:
    """Whether a schedule of `steps` steps on `n` nodes of degree `d` meets the Moore bound (definition 10).

    Examples
    --------
    >>> is_moore_optimal(8, 4, 2), is_moore_optimal(21, 4, 3)
    (True, False)
    """
    return steps == moore_steps(n, d, bidirectional=bidirectional)


def bandwidth_optimum(n: int) -> Fraction:
    """Return T_B* of reduce-scatter and allgather on `n` nodes, in M/B: (n - 1) / n (theorem 4).

    Examples
    --------
    >>> bandwidth_optimum(8)
    Fraction(7, 8)
    """
    _check("bandwidth_optimum", "n", n, 1)
    return Fraction(n - 1, n)


def ideal_distribution(n: int, d: int, *, bidirectional: bool = False) -> tuple[int, ...]:
    """Return the largest numbers of nodes at each distance: as many as possible as near as possible.

    Parameters
    ----------
    n : int
        Nodes, at least 1.
    d : int
        Links out of each node, at least 1.
    bidirectional : bool
        True if every link is paired with its reverse.

    Returns
    -------
    tuple of int
        Entry t counts the nodes at distance t; the sum is `n`.

    Raises
    ------
    TopologyError
        If no connected graph has this size and degree.

    Examples
    --------
    >>> ideal_distribution(32, 4)
    (1, 4, 16, 11)
    """
    _check("ideal_distribution", "n", n, 1)
    _check("ideal_distribution", "d", d, 1)
    if bidirectional and d == 1 and n > 2:
        raise TopologyError(f"no connected bidirectional graph of degree 1 has {n} nodes; expected at most 2")
    if d == 1:
        return (1,) * n
    if bidirectional and d == 2:
        return (1, *([2] * ((n - 1) // 2)), *([1] * ((n - 1) % 2)))
    counts, left, level = [1], n - 1, d
    while left:
        counts.append(min(level, left))
        left -= counts[-1]
        level *= d - 1 if bidirectional else d
    return tuple(counts)


def least_mean_distance(n: int, d: int, *, bidirectional: bool = False) -> Fraction:
    """Lower bound of the mean distance between two different nodes.

    Examples
    --------
    >>> least_mean_distance(32, 4)
    Fraction(69, 31)
    """
    _check("least_mean_distance", "n", n, 2)
    return Fraction(_distance_sum(n, d, bidirectional=bidirectional), n - 1)


def all_to_all_limit(n: int, d: int, *, bidirectional: bool = False) -> Fraction:
    """Upper bound of the all-to-all rate between two nodes, in link bandwidths, for any graph of this size.

    Parameters
    ----------
    n : int
        Nodes, at least 2.
    d : int
        Links out of each node, at least 1.
    bidirectional : bool
        True if every link is paired with its reverse.

    Returns
    -------
    Fraction
        f <= d / (sum of the distances from a node in the ideal distribution): a unit of flow over distance t
        takes t units of capacity, and all links together have n d.

    Examples
    --------
    >>> float(all_to_all_limit(32, 4))  # table A.1: 5.80e-2
    0.057971014492753624
    """
    _check("all_to_all_limit", "n", n, 2)
    return Fraction(d, _distance_sum(n, d, bidirectional=bidirectional))


def _distance_sum(n: int, d: int, *, bidirectional: bool) -> int:
    counts = ideal_distribution(n, d, bidirectional=bidirectional)
    return sum(distance * count for distance, count in enumerate(counts))


def _check(function: str, key: str, value: int, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise TopologyError(f"{function}: {key} must be an integer of at least {least}, found {value!r}")
