"""Concurrent flows by source, and a check of them that shares nothing with the solvers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Float64Array, frozen
from treadle.errors import ScheduleError
from treadle.schedules.collective import Collective
from treadle.topologies.topology import Topology

TOLERANCE = 1e-9
"""Fraction of a source's total demand that rounding may create or lose at a node."""


@dataclass(frozen=True, eq=False)
class ConcurrentFlow:
    """Amount of each rank's data over each link, at one unit of rate per unit of demand.

    Parameters
    ----------
    by_source : array of float64, shape (N, m)
        Row i: the flow of rank i's data, w_ij of which stays at each rank j. Not negative, 0 on self-loops.

    Raises
    ------
    ScheduleError
        If it is not a matrix of finite numbers of at least 0.
    """

    by_source: Float64Array

    def __post_init__(self) -> None:
        flow = np.asarray(self.by_source)
        if flow.ndim != 2 or flow.dtype != np.float64:
            raise ScheduleError(f"flow: expected a matrix of float64, found {flow.dtype}, shape {flow.shape}")
        if not (np.isfinite(flow).all() and (flow >= 0).all()):
            raise ScheduleError("flow: expected finite numbers of at least 0")
        kept = flow if not flow.flags.writeable and flow.flags.c_contiguous else frozen(flow, np.float64)
        object.__setattr__(self, "by_source", kept)

    @cached_property
    def loads(self) -> Float64Array:
        """Load of each link, shape (m,)."""
        return frozen(self.by_source.sum(axis=0), np.float64)

    def rate(self, topology: Topology) -> float:
        """Largest F at which the fullest link holds, bytes/s per unit of demand."""
        return float(1 / (self.loads / topology.bandwidths).max())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ConcurrentFlow):
            return NotImplemented
        return np.array_equal(self.by_source, other.by_source)

    def __hash__(self) -> int:
        return hash(self.by_source.tobytes())


def check_flow(
    topology: Topology, collective: Collective, flow: ConcurrentFlow, *, tolerance: float = TOLERANCE
) -> float:
    """The rate that a flow certifies: every demand is delivered, and no link is overfull at it.

    Parameters
    ----------
    topology, collective
    flow : ConcurrentFlow
    tolerance : float
        Of a source's whole demand: what may appear from nowhere at a node, or be missing.

    Returns
    -------
    float
        Bytes/s per unit of demand; lower than the loads allow by the share that is missing of any demand.

    Raises
    ------
    ScheduleError
        If something is not delivered, comes from nowhere, or uses a self-loop.
    """
    n_ranks, by_source = collective.n_ranks, flow.by_source
    if by_source.shape != (n_ranks, topology.n_links):
        expected = (n_ranks, topology.n_links)
        raise ScheduleError(f"flow: expected shape {expected} on {topology.name}, found {by_source.shape}")
    if by_source[:, topology.tails == topology.heads].any():
        raise ScheduleError("flow: a self-loop carries data")
    served = delivered_fraction(topology, collective, np.arange(n_ranks), by_source, tolerance=tolerance)
    # what rounding took from a demand is taken from the certified rate
    return float(served / (by_source.sum(axis=0) / topology.bandwidths).max())


def delivered_fraction(
    topology: Topology,
    collective: Collective,
    senders: NDArray[np.integer],
    by_source: Float64Array,
    *,
    tolerance: float = TOLERANCE,
) -> float:
    """The least share, at most 1, of a demand that the flows of some ranks deliver.

    Parameters
    ----------
    topology, collective
    senders : array of int, shape (S,)
        Ranks.
    by_source : array of float64, shape (S, m)
        Their flows.
    tolerance : float
        As `check_flow` takes it.

    Raises
    ------
    ScheduleError
        If something is not delivered, or comes from nowhere.
    """
    ranks = np.array(collective.ranks)
    stays = _sums(by_source, topology.heads, topology.n_nodes)
    stays -= _sums(by_source, topology.tails, topology.n_nodes)
    wanted = np.zeros_like(stays)
    wanted[:, ranks] = collective.pair_demands.rows(senders)
    stays[np.arange(len(senders)), ranks[senders]] = 0
    short = stays < wanted - tolerance * wanted.sum(axis=1, keepdims=True)
    if short.any():
        row, node = np.argwhere(short)[0]
        raise ScheduleError(
            f"flow of rank {senders[row]}: leaves {stays[row, node]:.9g} at {topology.node_names[node]!r}, "
            f"expected {wanted[row, node]:.9g}"
        )
    return min(1.0, float((stays[wanted > 0] / wanted[wanted > 0]).min(initial=1.0)))


def _sums(by_source: Float64Array, ends: NDArray[np.int32], n_nodes: int) -> Float64Array:
    """Row sums over the links of each node, shape (N, n)."""
    total = np.zeros((len(by_source), n_nodes))
    order = np.argsort(ends, kind="stable")
    nodes, starts = np.unique(ends[order], return_index=True)
    if len(nodes):
        total[:, nodes] = np.add.reduceat(
            by_source if (order[1:] > order[:-1]).all() else by_source[:, order], starts, axis=1
        )
    return total
