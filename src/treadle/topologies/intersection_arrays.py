"""Intersection arrays: whether a graph is distance-regular, and with which parameters."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from treadle.arrays import Int64Array
from treadle.errors import TopologyError
from treadle.notebook import displayed
from treadle.topologies.distances import distance_matrix
from treadle.topologies.topology import Topology


@displayed(lambda array: [str(array), f"{sum(array.at_distance())} nodes"])
@dataclass(frozen=True)
class IntersectionArray:
    """Parameters of a distance-regular graph of diameter D.

    Parameters
    ----------
    b : tuple of int, length D
        b[i]: neighbours, at distance i + 1 from a node, of any node at distance i from it.
    c : tuple of int, length D
        c[i]: neighbours, at distance i from a node, of any node at distance i + 1 from it.
    """

    b: tuple[int, ...]
    c: tuple[int, ...]

    def __str__(self) -> str:
        return f"{{{','.join(map(str, self.b))};{','.join(map(str, self.c))}}}"

    def at_distance(self) -> tuple[int, ...]:
        """Nodes at each distance from a node, itself first; rounded down where no graph has the array."""
        ratios = zip(self.b, self.c, strict=True)
        return tuple(accumulate(ratios, lambda count, ratio: count * ratio[0] // ratio[1], initial=1))

    def records(self) -> list[dict[str, int]]:
        """A row for each distance: nodes there, and neighbours of one of them farther, as far, and closer."""
        rows = zip(self.at_distance(), (*self.b, 0), (0, *self.c), strict=True)
        return [
            {"distance": place, "nodes": k, "b": b, "a": self.b[0] - b - c, "c": c}
            for place, (k, b, c) in enumerate(rows)
        ]


def intersection_array(topology: Topology) -> IntersectionArray:
    """Return the intersection array of a distance-regular graph, counted at every pair of nodes.

    Parameters
    ----------
    topology : Topology
        Compute nodes only. Bandwidths and latencies do not count.

    Raises
    ------
    TopologyError
        If it is not distance-regular; the message says why.
    InfeasibleError
        If it is not connected.

    Notes
    -----
    O(N^2 d) time.

    Examples
    --------
    >>> from treadle.topologies.catalogue.graphs import hypercube
    >>> print(intersection_array(hypercube(3)))
    {3,2,1;1,2,3}
    """
    neighbours = _neighbours(topology)
    distances = distance_matrix(topology)
    closer = np.zeros_like(distances)
    farther = np.zeros_like(distances)
    for column in neighbours.T:
        beside = distances[column]
        closer += beside < distances
        farther += beside > distances
    b: list[int] = []
    c: list[int] = []
    for distance in range(int(distances.max()) + 1):
        here = distances == distance
        for counts, found, letter in ((farther, b, "b"), (closer, c, "c")):
            values = np.unique(counts[here])
            if len(values) != 1:
                differs = f"is {values[0]} for a pair of nodes, {values[-1]} for another"
                fault = f"not distance-regular: {letter}_{distance} {differs}"
                raise TopologyError(f"{topology.name}: {fault}")
            found.append(int(values[0]))
    return IntersectionArray(tuple(b[:-1]), tuple(c[1:]))


def _neighbours(topology: Topology) -> Int64Array:
    """Return neighbours of each node, shape (N, d); reject anything but a simple regular undirected graph."""
    n = topology.n_nodes
    arcs = topology.tails.astype(np.int64) * n + topology.heads
    reversed_arcs = topology.heads.astype(np.int64) * n + topology.tails
    degrees = np.bincount(topology.tails, minlength=n)
    if not topology.is_compute.all():
        fault = "has switches"
    elif not np.array_equal(np.sort(arcs), np.sort(reversed_arcs)):
        fault = "has links in one direction only"
    elif len(np.unique(arcs)) != len(arcs) or (topology.tails == topology.heads).any():
        fault = "has parallel links or self-loops"
    elif not len(arcs) or degrees.min() != degrees.max():
        fault = "has nodes of different degrees or no links"
    else:
        return np.sort(arcs).reshape(n, -1) % n
    raise TopologyError(f"{topology.name}: not distance-regular: it {fault}")
