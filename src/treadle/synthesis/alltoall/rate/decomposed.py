"""All-to-all in two stages: flows by source, then each source's flow split by target.

The master program (6)-(9) and the children (10)-(14) of section 3.1.2 of the all-to-all paper.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treadle.arrays import Int64Array, positions_of
from treadle.context import context
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.rate.flow import ConcurrentFlow
from treadle.synthesis.alltoall.rate.flow_instance import (
    FloatArray,
    check_reachable,
    flow_instance,
)
from treadle.synthesis.alltoall.rate.flow_lp import (
    check_variables,
    flow_entries,
    largest_rate,
    solve_flow_program,
)
from treadle.synthesis.parallel import map_blocks
from treadle.topologies.topology import Topology

MAX_VARIABLES = 60_000
"""Sources times links, or targets of a source times links: 128 ranks of degree 4 by an interior point."""

_SLACK = 1e-9


@dataclass(frozen=True, eq=False)
class MasterFlow:
    """An optimum of the master program.

    Parameters
    ----------
    rate : float
        F, bytes/s per unit of demand.
    flow : ConcurrentFlow
        Per rank at one unit of rate; links at most full at F. (8) may drop data on the way.
    lengths : array of float64, shape (m,)
        Prices of (7): link lengths that bound F from above.
    """

    rate: float
    flow: ConcurrentFlow
    lengths: FloatArray


@dataclass(frozen=True, eq=False)
class ChildFlow:
    """A source's flow by target.

    Parameters
    ----------
    source : int
        Rank.
    targets : array of int64, shape (t,)
        Ranks that it has something for.
    flows : array of float64, shape (t, m)
        At one unit of rate: the demand for each target enters it.
    """

    source: int
    targets: Int64Array
    flows: FloatArray


def master_mcf(
    topology: Topology, collective: Collective, *, time_limit_s: float | None = None
) -> MasterFlow:
    """Solve the master program (6)-(9): the optimal rate and flows by source.

    Parameters
    ----------
    topology : Topology
        Any fabric; every node forwards.
    collective : Collective
        An all-to-all; demand w_ij makes (8) keep F * w_ij at rank j.
    time_limit_s : float, optional

    Raises
    ------
    ScheduleError
        If there are more than MAX_VARIABLES variables.
    InfeasibleError
        If a rank has data for one that it cannot reach.
    TimeLimitError
        If time is up.

    Notes
    -----
    Variables: sources times links. The simplex method for small fabrics, an interior point with crossover
    beyond. F is that of `link_mcf`: a source's flow splits by target without loss.

    Examples
    --------
    >>> from treadle.schedules.collective import CollectiveKind, on_all_ranks
    >>> from treadle.topologies.catalogue.graphs import hypercube
    >>> graph = hypercube(3)
    >>> round(master_mcf(graph, on_all_ranks(graph, CollectiveKind.ALLTOALL)).rate, 9)
    0.25
    """
    instance = flow_instance(topology, collective)
    s, k = instance.n_sources, len(instance.links)
    check_variables(
        f"master MCF of {topology.name}", s * k, MAX_VARIABLES, "use optimal_rate, which has no such limit"
    )
    check_reachable(instance)
    row, node = np.nonzero(instance.demands)
    starts = instance.sources.astype(np.int64)
    values, lengths = largest_rate("master MCF", instance, starts, None, (row, node), time_limit_s)
    by_source = np.zeros((collective.n_ranks, topology.n_links))
    by_source[instance.senders[:, None], instance.links] = values[1:].reshape(s, k) / values[0]
    rate = float(values[0] * float(instance.bandwidths.max()))
    return MasterFlow(rate, ConcurrentFlow(by_source), lengths)


def children_mcf(topology: Topology, collective: Collective, flow: ConcurrentFlow) -> tuple[ChildFlow, ...]:
    """Solve the child programs (10)-(14): each source's flow split by target with the fewest hops.

    Each on its own, on the workers there are.

    Parameters
    ----------
    topology, collective
    flow : ConcurrentFlow
        By source, such as the master's; its links' flows are the capacities of (11).

    Raises
    ------
    ScheduleError
        If a program has more than MAX_VARIABLES variables.
    InfeasibleError
        If a source's flow does not deliver its demands.
    TimeLimitError
        If the deadline passes.

    Notes
    -----
    Capacities are widened by 1e-9 of the source's demand, which a solver's rounding may have taken away.
    """
    instance = flow_instance(topology, collective)
    left = context().seconds_left
    blocks = [
        (topology, collective, source, flow.by_source[source], left) for source in instance.senders.tolist()
    ]
    return tuple(map_blocks("children", _solved, blocks))


def _solved(
    topology: Topology,
    collective: Collective,
    source: int,
    flow: FloatArray,
    time_limit_s: float | None,
) -> ChildFlow:
    """The child program of a source with this flow, shape (m,), in units of the source's whole demand."""
    instance = flow_instance(topology, collective)
    demands = instance.demands[int(np.searchsorted(instance.senders, source))]
    targets = np.flatnonzero(demands)
    total = float(demands.sum())
    used = np.flatnonzero(flow[instance.links] > 0)
    n, t, k = topology.n_nodes, len(targets), len(used)
    check_variables(f"child MCF of {topology.name}", t * k, MAX_VARIABLES, "peel paths off the flow instead")
    entries = flow_entries(instance, used, np.full(t, collective.ranks[source]), targets, 0)
    needed = np.zeros((t, n))
    needed[np.arange(t), targets] = demands[targets] / total
    lower = np.concatenate([np.full(k, -np.inf), needed.ravel()])
    upper = np.concatenate([flow[instance.links[used]] / total + _SLACK, np.full(t * n, np.inf)])
    values, _ = solve_flow_program(
        "child MCF", np.ones(t * k), lower, upper, entries, time_limit_s=time_limit_s
    )
    flows = np.zeros((t, topology.n_links))
    flows[:, instance.links[used]] = values.reshape(t, k) * total
    rank_of = positions_of(topology.n_nodes, list(collective.ranks))
    return ChildFlow(source, rank_of[targets], flows)
