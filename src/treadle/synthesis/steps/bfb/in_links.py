"""A fabric as the compiled core takes it: in-links by head, and integer weights for their bandwidths."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

import numpy as np

from treadle.arrays import Int32Array, Int64Array, offsets_of
from treadle.engine import core, run_core
from treadle.errors import InfeasibleError, TopologyError
from treadle.synthesis.core_values.step_values import InLinks, StepRatios
from treadle.topologies.topology import Topology

MAX_NODES = 2**16 - 1
"""Most nodes of a fabric without symmetry: the distances between all pairs are kept, a byte each."""

MAX_WEIGHT = 2**62
"""Largest sum of the weights at a node."""

TRANSFORM_LIMIT = 10
"""Up to this many in-links a load is found by a sum over subsets (measured: faster than flows up to 10)."""

OK, VIOLATED, CANCELLED, STUCK = range(4)


@dataclass(frozen=True)
class InLinkRows:
    """In-links of every node in compressed rows, self-loops left out: they carry nothing.

    Parameters
    ----------
    topology : Topology
    offset : array of int64, shape (N + 1,)
        In-links of node u are offset[u] up to offset[u + 1].
    tail, link : arrays of int32, shape (m',)
        Tail and physical number of each in-link, ascending per node.
    weight : array of int64, shape (m',)
        Bandwidth of each in-link in units of `unit_bandwidth`.
    unit_bandwidth : int
        Greatest common divisor of the bandwidths, bytes/s.
    """

    topology: Topology
    offset: Int64Array
    tail: Int32Array
    link: Int32Array
    weight: Int64Array
    unit_bandwidth: int

    @property
    def n(self) -> int:
        """Number of nodes N."""
        return len(self.offset) - 1

    @property
    def in_links(self) -> InLinks:
        """The in-links as the core takes them."""
        return InLinks(self.offset, self.tail)

    @property
    def is_uniform(self) -> bool:
        """Whether all links that carry something are equally fast."""
        return bool(np.all(self.weight == 1))


def link_rows(topology: Topology) -> InLinkRows:
    """The instance of a direct-connect fabric.

    Raises
    ------
    TopologyError
        If the fabric has switches, fewer than 2 nodes or more than 65,535, or if the fastest
        link, in units that divide all bandwidths, times the most links into a node is 2**62 or more.
    """
    n = topology.n_nodes
    if not bool(topology.is_compute.all()):
        raise TopologyError(f"{topology.name}: breadth-first broadcast is for fabrics without switches")
    if n < 2:
        raise TopologyError(f"{topology.name}: breadth-first broadcast needs at least 2 nodes, found {n}")
    if n > MAX_NODES:
        raise TopologyError(f"{topology.name}: {n} nodes, breadth-first broadcast takes at most {MAX_NODES}")
    order = np.argsort(topology.heads, kind="stable").astype(np.int32)
    link = np.ascontiguousarray(order[topology.tails[order] != topology.heads[order]])
    offset = offsets_of(np.bincount(topology.heads[link], minlength=n))
    bandwidths = topology.bandwidths[link]
    unit = gcd(*(int(b) for b in np.unique(bandwidths))) or 1
    weight = bandwidths // unit
    if int(weight.max(initial=1)) * int(np.diff(offset).max()) >= MAX_WEIGHT:
        raise TopologyError(
            f"{topology.name}: bandwidths differ too much: the fastest times the links into a node is over "
            f"2**62 units of {unit} bytes/s"
        )
    return InLinkRows(topology, offset, topology.tails[link], link, weight, unit)


def unreachable(topology: Topology, source: int, target: int) -> InfeasibleError:
    """The error for a pair without a path."""
    names = topology.node_names
    return InfeasibleError(f"{topology.name}: there is no path from {names[source]!r} to {names[target]!r}")


def core_loads(instance: InLinkRows, *, transform_limit: int = TRANSFORM_LIMIT) -> StepRatios:
    """Loads of all steps; InfeasibleError if some node does not reach another."""
    status, ratios, failure = run_core(
        "bfb loads",
        lambda control: core.bfb_loads(instance.in_links, instance.weight, transform_limit, control),
    )
    if status == VIOLATED:
        raise unreachable(instance.topology, *failure)
    assert status == OK, status
    return StepRatios(*ratios)
