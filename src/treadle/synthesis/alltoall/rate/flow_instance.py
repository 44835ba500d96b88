"""An all-to-all on a fabric as arrays: who sends how much to which node, over links of what capacity."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int32Array, Int64Array
from treadle.errors import InfeasibleError
from treadle.math.graphs import reached
from treadle.schedules.collective import Collective, check_membership
from treadle.topologies.topology import Topology


@dataclass(frozen=True, eq=False)
class FlowInstance:
    """A maximum concurrent flow problem by source.

    Parameters
    ----------
    topology : Topology
    collective : Collective
    links : array of int32, shape (k,)
        Links that carry something: all but self-loops.
    tails, heads : array of int32, shape (k,)
        Their ends.
    bandwidths : array of int64, shape (k,)
        Bytes/s.
    senders : array of int32, shape (S,)
        Ranks that have something for others.
    sources : array of int32, shape (S,)
        Their nodes.
    """

    topology: Topology
    collective: Collective
    links: Int32Array
    tails: Int32Array
    heads: Int32Array
    bandwidths: Int64Array
    senders: Int32Array
    sources: Int32Array

    @property
    def n_sources(self) -> int:
        """S."""
        return len(self.senders)

    @cached_property
    def demands(self) -> Int64Array:
        """Demands of each sender for each node, shape (S, n); 0 at its own node and outside the ranks."""
        return self.demand_rows(np.arange(self.n_sources))

    def demand_rows(self, rows: NDArray[np.integer]) -> Int64Array:
        """Some rows of `demands`, which many senders leave no memory for, shape (len(rows), n)."""
        found = np.zeros((len(rows), self.topology.n_nodes), dtype=np.int64)
        found[:, list(self.collective.ranks)] = self.collective.pair_demands.rows(self.senders[rows])
        return found

    def unreachable(self, sender: int, node: int) -> InfeasibleError:
        """Return the error that no path carries the demand of row `sender` for `node`."""
        names = self.topology.node_names
        return InfeasibleError(
            f"{self.topology.name}: {names[self.sources[sender]]!r} has data for {names[node]!r}, but no "
            f"path leads there; add links, or leave one of them out of the ranks"
        )


def flow_instance(topology: Topology, collective: Collective) -> FlowInstance:
    """The arrays of an all-to-all.

    Raises
    ------
    ScheduleError
        If the collective is not an all-to-all, or does not fit the fabric.
    """
    check_membership(topology, collective)
    senders = collective.pair_demands.senders.astype(np.int32)
    ranks = np.array(collective.ranks, dtype=np.int32)
    links = np.flatnonzero(topology.tails != topology.heads).astype(np.int32)
    return FlowInstance(
        topology=topology,
        collective=collective,
        links=links,
        tails=topology.tails[links],
        heads=topology.heads[links],
        bandwidths=topology.bandwidths[links],
        senders=senders,
        sources=ranks[senders],
    )


def check_reachable(instance: FlowInstance, rows: NDArray[np.integer] | None = None) -> None:
    """Raise InfeasibleError if a demand, or one of some rows, has no path."""
    for row in np.arange(instance.n_sources) if rows is None else rows:
        found = reached(instance.topology.n_nodes, instance.tails, instance.heads, int(instance.sources[row]))
        demands = instance.demand_rows(np.array([row]))[0]
        for node in np.flatnonzero((demands > 0) & ~found)[:1].tolist():
            raise instance.unreachable(int(row), node)
