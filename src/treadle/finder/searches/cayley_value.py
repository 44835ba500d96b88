"""Exact cost of breadth-first-broadcast on a Cayley digraph, from one node.

Left translations move any node to any other, so node 0 stands for all of them. At step t it has to receive
the sources at distance t; a source v may use the in-links from s with v at distance t - 1 from s. The least
load of the busiest in-link is the largest of (sources whose usable links lie inside P) / |P| over sets P of
links (dissertation, Theorem 19).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import lcm

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int64Array
from treadle.errors import TopologyError
from treadle.topologies.catalogue.cayley import CayleyGraph

MAX_DEGREE = 12
"""Largest degree: the work per step grows with 2^d."""


@dataclass(frozen=True)
class CayleyValue:
    """Steps and loads of the best breadth-first-broadcast schedules in both directions.

    Parameters
    ----------
    n_nodes, degree : int
        N and d.
    distance_counts : tuple of int, length T_L + 1
        Nodes at distance 0, 1, ... from any node; the same in both directions.
    allgather_loads, reduce_scatter_loads : tuple of Fraction, length T_L
        Shards on the busiest link at each step of the allgather; and of the allgather on the transpose, which
        reversed is the reduce-scatter.
    """

    n_nodes: int
    degree: int
    distance_counts: tuple[int, ...]
    allgather_loads: tuple[Fraction, ...]
    reduce_scatter_loads: tuple[Fraction, ...]

    @property
    def t_l(self) -> int:
        """T_L in steps, the diameter; both directions."""
        return len(self.distance_counts) - 1

    @property
    def allgather_t_b(self) -> Fraction:
        """T_B of the allgather, in M/B."""
        return sum(self.allgather_loads, Fraction(0)) * self.degree / self.n_nodes

    @property
    def reduce_scatter_t_b(self) -> Fraction:
        """T_B of the reduce-scatter, in M/B."""
        return sum(self.reduce_scatter_loads, Fraction(0)) * self.degree / self.n_nodes

    @property
    def t_b(self) -> Fraction:
        """The larger of the two T_B, in M/B."""
        return max(self.allgather_t_b, self.reduce_scatter_t_b)


def cayley_value(graph: CayleyGraph) -> CayleyValue:
    """Return T_L, T_B and loads of breadth-first-broadcast on a Cayley digraph and on its transpose.

    Raises
    ------
    TopologyError
        If the degree is above 12.

    Notes
    -----
    O(N d + T_L 2^d d) after the group's multiplications.

    Examples
    --------
    >>> from treadle.topologies.catalogue.cayley import cayley_graph
    >>> value = cayley_value(cayley_graph("metacyclic_cayley(8, 2, 3, 2, 3)"))
    >>> value.t_l, str(value.t_b)
    (4, '15/16')
    """
    d, n = graph.degree, graph.n_nodes
    if d > MAX_DEGREE:
        raise TopologyError(f"{graph.expression}: degree {d}; the value routine takes at most {MAX_DEGREE}")
    distance = _distances(graph)
    undo = graph.group.inverse(graph.generators)
    nodes = np.arange(n)
    counts = np.bincount(distance)
    # Distance from v to s is that of s^-1 v to the identity; with all links turned round, that of v s^-1.
    ahead = [distance[graph.group.multiply(s, nodes)] for s in undo]
    behind = [distance[graph.group.multiply(nodes, s)] for s in undo]
    allgather, reduce_scatter = (
        tuple(
            Fraction(int(load), load_scale(d))
            for load in scaled_loads(link_set_counts(distance, np.stack(lengths)))[1:]
        )
        for lengths in (ahead, behind)
    )
    return CayleyValue(n, d, tuple(counts.tolist()), allgather, reduce_scatter)


def _distances(graph: CayleyGraph) -> Int64Array:
    """Return the distance from every node to node 0, by levels."""
    distance = np.full(graph.n_nodes, -1, dtype=np.int64)
    generators = np.array(sorted(set(graph.generators)))
    level, frontier = 0, np.zeros(1, dtype=np.int64)
    distance[0] = 0
    while frontier.size:
        level += 1
        reached = np.unique(graph.group.multiply(frontier[:, None], generators))
        frontier = reached[distance[reached] < 0]
        distance[frontier] = level
    return distance


def load_scale(degree: int) -> int:
    """Return the common denominator of all loads: lcm(1, ..., d)."""
    return lcm(*range(1, degree + 1))


def link_set_counts(distance: NDArray[np.integer], lengths: NDArray[np.integer]) -> Int64Array:
    """Number of sources per distance and set of usable links.

    Parameters
    ----------
    distance : array of int, shape (N,)
        Of each source.
    lengths : array of int, shape (d, N)
        Distance of each source to the tail of each in-link.

    Returns
    -------
    array of int64, shape (T_L + 1, 2^d)
        Bit i of the second index stands for link i.
    """
    d = len(lengths)
    usable = (lengths == distance - 1) & (distance > 0)
    key = (usable << np.arange(d)[:, None]).sum(axis=0) + (distance.astype(np.int64) << d)
    steps = int(distance.max()) + 1
    return np.bincount(key, minlength=steps << d).reshape(steps, 1 << d).astype(np.int64)


def scaled_loads(counts: Int64Array) -> Int64Array:
    """Return the least load of the busiest link times lcm(1, ..., d).

    Parameters
    ----------
    counts : array of int64, shape (..., 2^d)
        Sources per set of usable links.

    Returns
    -------
    array of int64, shape (...)
    """
    d = counts.shape[-1].bit_length() - 1
    inside = counts.copy()
    for bit in range(d):
        # Subset sums: afterwards entry P counts the sources whose sets lie inside P.
        halves = inside.reshape(*counts.shape[:-1], -1, 2, 1 << bit)
        halves[..., 1, :] += halves[..., 0, :]
    sizes = np.bitwise_count(np.arange(1, 1 << d)).astype(np.int64)
    # The empty set is left out: only the node itself, at distance 0, has no usable link.
    loads: Int64Array = (inside[..., 1:] - inside[..., :1]) * (load_scale(d) // sizes)
    busiest: Int64Array = loads.max(axis=-1)
    return busiest
