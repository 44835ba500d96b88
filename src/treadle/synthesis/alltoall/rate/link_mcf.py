"""All-to-all as one linear program with a variable per pair and link: (1)-(5) of the all-to-all paper.

The paper's plain form, for comparison: it has as many variables as pairs times links. Grouping pairs by
source (programs (6)-(9)) has the same optimum, since the data of one source can be distinguished by its
targets afterwards. Source: Basu et al., section 3.1.1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treadle.arrays import Int64Array, positions_of
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.rate.flow import ConcurrentFlow
from treadle.synthesis.alltoall.rate.flow_instance import (
    FloatArray,
    check_reachable,
    flow_instance,
)
from treadle.synthesis.alltoall.rate.flow_lp import check_variables, largest_rate
from treadle.topologies.topology import Topology

MAX_VARIABLES = 200_000
"""Pairs times links: 36 ranks of degree 4, in 15 CPU seconds and 300 MB; 27 of degree 6 with host links."""


@dataclass(frozen=True, eq=False)
class PairFlows:
    """Flows of every pair over every link at the rate F.

    Parameters
    ----------
    rate : float
        F, bytes/s per unit of demand.
    source, target : arrays of int64, shape (p,)
        Ranks of each pair that has something to send.
    flows : array of float64, shape (p, m)
        Bytes/s of each pair over each link of the fabric. At least rate * demand enters the target; (3)
        allows a node to drop what it cannot use.
    lengths : array of float64, shape (m,)
        Prices of (2): link lengths that bound F from above.
    """

    rate: float
    source: Int64Array
    target: Int64Array
    flows: FloatArray
    lengths: FloatArray

    def by_source(self, collective: Collective) -> ConcurrentFlow:
        """Flows of each rank's data at one unit of rate, as `check_flow` takes them."""
        total = np.zeros((collective.n_ranks, self.flows.shape[1]))
        np.add.at(total, self.source, self.flows / self.rate)
        return ConcurrentFlow(total)


def link_mcf(topology: Topology, collective: Collective, *, time_limit_s: float | None = None) -> PairFlows:
    """Solve formulation (1)-(5); for small fabrics.

    Parameters
    ----------
    topology : Topology
        Any fabric; every node forwards.
    collective : Collective
        An all-to-all; demand w_ij makes (4) require F * w_ij.
    time_limit_s : float, optional

    Raises
    ------
    ScheduleError
        If there are more than MAX_VARIABLES variables; the decomposed form has fewer.
    InfeasibleError
        If a rank has data for one that it cannot reach.
    TimeLimitError
        If time is up.

    Notes
    -----
    Section 3.1.1. Variables: pairs times links. Rows: (2) per link, (3) per pair and node between, (4) per
    pair. Flow back into a source or out of a target is left out, which loses nothing.

    Examples
    --------
    >>> from treadle.schedules.collective import CollectiveKind, on_all_ranks
    >>> from treadle.topologies.catalogue.graphs import complete_bipartite
    >>> graph = complete_bipartite(2, 2)
    >>> round(link_mcf(graph, on_all_ranks(graph, CollectiveKind.ALLTOALL)).rate, 9)
    0.5
    """
    instance = flow_instance(topology, collective)
    source, target = np.nonzero(instance.demands)
    p, k = len(source), len(instance.links)
    remedy = "solve the decomposed form or optimal_rate"
    check_variables(f"link MCF of {topology.name}", p * k, MAX_VARIABLES, remedy)
    check_reachable(instance)
    starts = instance.sources[source].astype(np.int64)
    values, lengths = largest_rate("link MCF", instance, starts, target, (source, target), time_limit_s)
    unit = float(instance.bandwidths.max())
    flows = np.zeros((p, topology.n_links))
    flows[:, instance.links] = values[1:].reshape(p, k) * unit
    rank_of = positions_of(topology.n_nodes, list(collective.ranks))
    return PairFlows(
        rate=float(values[0] * unit),
        source=instance.senders[source].astype(np.int64),
        target=rank_of[target],
        flows=flows,
        lengths=lengths,
    )
