"""Linear programs of the all-to-all paper: link MCF (1)-(5), master (6)-(9) and children (10)-(14).

Link MCF has a variable per pair and link. The master program (6)-(9) groups pairs by source and has the same
optimum, since the data of one source can be split by targets afterwards: the child programs (10)-(14) do so
for each source. Source: Basu et al., sections 3.1.1 and 3.1.2. `rate.optimal_rate` is faster; these programs
are here for comparison.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Float64Array, Int64Array, sums_of
from treadle.context import TimeLimitError, context
from treadle.errors import ScheduleError
from treadle.math.lp import Entries, Program
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.rate.flow import ConcurrentFlow
from treadle.synthesis.alltoall.rate.flow_instance import FlowInstance, check_reachable, flow_instance
from treadle.synthesis.parallel import map_blocks
from treadle.topologies.topology import Topology

MAX_PAIR_VARIABLES = 200_000
"""Pairs times links: 36 ranks of degree 4, in 15 CPU seconds and 300 MB; 27 of degree 6 with host links."""

MAX_VARIABLES = 60_000
"""Sources times links, or targets of a source times links: 128 ranks of degree 4 by an interior point."""

TOLERANCE = 1e-9
"""Tolerance of feasibility and optimality."""

_SIMPLEX_VARIABLES = 8_000
"""Beyond this an interior point with crossover is faster; both end in a basic solution."""

_SLACK = 1e-9
"""Fraction of a source's demand by which a child's capacities exceed the master's flow."""


@dataclass(frozen=True, eq=False)
class LinkFlows:
    """An optimum of link MCF or of the master program.

    Parameters
    ----------
    rate : float
        F, bytes/s per unit of demand.
    flow : ConcurrentFlow
        Of each rank at one unit of rate. Nodes may drop data that they cannot use, by (3) and (8).
    lengths : array of float64, shape (m,)
        Dual prices of the capacities, (2) or (7): link lengths that bound F from above.
    """

    rate: float
    flow: ConcurrentFlow
    lengths: Float64Array


def link_mcf(topology: Topology, collective: Collective, *, time_limit_s: float | None = None) -> LinkFlows:
    """Solve formulation (1)-(5), with a variable per pair and link; for small fabrics.

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
        If there are more than MAX_PAIR_VARIABLES variables; the decomposed form has fewer.
    InfeasibleError
        If a rank has data for one that it cannot reach.
    TimeLimitError
        If the time limit is reached.

    Notes
    -----
    Rows: (2) per link, (3) per pair and node between, (4) per pair. Flow back into a source or out of a
    target is left out, which loses nothing.

    Examples
    --------
    >>> from treadle.schedules.collective import CollectiveKind, on_all_ranks
    >>> from treadle.topologies.catalogue.graphs import complete_bipartite
    >>> graph = complete_bipartite(2, 2)
    >>> round(link_mcf(graph, on_all_ranks(graph, CollectiveKind.ALLTOALL)).rate, 9)
    0.5
    """
    return _largest_rate(flow_instance(topology, collective), True, time_limit_s)


def master_mcf(topology: Topology, collective: Collective, *, time_limit_s: float | None = None) -> LinkFlows:
    """Solve the master program (6)-(9): the optimal rate and flows by source.

    Parameters and errors are those of `link_mcf`, with at most MAX_VARIABLES variables.

    Notes
    -----
    Simplex method for small fabrics, an interior point with crossover for others. F is that of `link_mcf`: a
    source's flow splits by target without loss.

    Examples
    --------
    >>> from treadle.schedules.collective import CollectiveKind, on_all_ranks
    >>> from treadle.topologies.catalogue.graphs import hypercube
    >>> graph = hypercube(3)
    >>> round(master_mcf(graph, on_all_ranks(graph, CollectiveKind.ALLTOALL)).rate, 9)
    0.25
    """
    return _largest_rate(flow_instance(topology, collective), False, time_limit_s)


def _largest_rate(instance: FlowInstance, by_pair: bool, time_limit_s: float | None) -> LinkFlows:
    """Maximize F over flows of pairs or of sources; bandwidths are in units of the largest."""
    topology, (row, node) = instance.topology, np.nonzero(instance.demands)
    starts = (instance.sources[row] if by_pair else instance.sources).astype(np.int64)
    flows, n, k = len(starts), topology.n_nodes, len(instance.links)
    what, limit, fix = "master MCF", MAX_VARIABLES, "use optimal_rate, which has no such limit"
    if by_pair:
        what, limit, fix = "link MCF", MAX_PAIR_VARIABLES, "solve the decomposed form or optimal_rate"
    _check_variables(f"{what} of {topology.name}", flows * k, limit, fix)
    check_reachable(instance)
    owner: Int64Array = np.arange(flows) if by_pair else row
    demand = (
        k + owner * n + node,
        np.zeros(len(row), dtype=np.int64),
        -instance.demands[row, node].astype(float),
    )
    entries = [*_flow_entries(instance, np.arange(k), starts, node if by_pair else None, 1), demand]
    # A node may keep more than its demand: that harms no other node, and needs no equations.
    lower = np.concatenate([np.full(k, -np.inf), np.zeros(flows * n)])
    upper = np.concatenate([instance.bandwidths / instance.bandwidths.max(), np.full(flows * n, np.inf)])
    costs = np.eye(1, 1 + flows * k)[0]
    values, prices = _solve(what, costs, lower, upper, entries, time_limit_s, maximise=True)
    flow = values[1:].reshape(flows, k) / values[0]
    if by_pair:
        flow = sums_of((instance.n_sources, k), row, flow, dtype=float)
    by_source = np.zeros((instance.collective.n_ranks, topology.n_links))
    by_source[instance.senders[:, None], instance.links] = flow
    lengths = np.zeros(topology.n_links)
    lengths[instance.links] = prices[:k]
    rate = float(values[0] * float(instance.bandwidths.max()))
    return LinkFlows(rate, ConcurrentFlow(by_source), lengths)


def children_mcf(topology: Topology, collective: Collective, flow: ConcurrentFlow) -> dict[int, Float64Array]:
    """Solve the child programs (10)-(14): split each source's flow by target with the fewest hops.

    Parameters
    ----------
    topology, collective
    flow : ConcurrentFlow
        By source, such as the master's; its links' flows are the capacities of (11).

    Returns
    -------
    dict of int to array of float64, shape (t, m)
        Of each source rank: flows for its targets, in order, at one unit of rate.

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
    Programs are solved in parallel (`synthesis.parallel`). Capacities are widened by 1e-9 of the source's
    demand, which a solver's rounding may have taken away.
    """
    senders, left = flow_instance(topology, collective).senders.tolist(), context().seconds_left
    blocks = [(topology, collective, row, flow.by_source[rank], left) for row, rank in enumerate(senders)]
    return dict(zip(senders, map_blocks("children", _split_by_target, blocks), strict=True))


def _split_by_target(
    topology: Topology, collective: Collective, row: int, flow: Float64Array, time_limit_s: float | None
) -> Float64Array:
    """Solve the child program of a sender with this flow, shape (m,), in units of its whole demand."""
    instance = flow_instance(topology, collective)
    demands = instance.demand_rows(np.array([row]))[0]
    targets = np.flatnonzero(demands)
    total = float(demands.sum())
    used = np.flatnonzero(flow[instance.links] > 0)
    n, t, k = topology.n_nodes, len(targets), len(used)
    _check_variables(f"child MCF of {topology.name}", t * k, MAX_VARIABLES, "peel paths off the flow instead")
    entries = _flow_entries(instance, used, np.full(t, instance.sources[row]), targets, 0)
    needed = np.zeros((t, n))
    needed[np.arange(t), targets] = demands[targets] / total
    lower = np.concatenate([np.full(k, -np.inf), needed.ravel()])
    upper = np.concatenate([flow[instance.links[used]] / total + _SLACK, np.full(t * n, np.inf)])
    values, _ = _solve("child MCF", np.ones(t * k), lower, upper, entries, time_limit_s)
    flows: Float64Array = np.zeros((t, topology.n_links))
    flows[:, instance.links[used]] = values.reshape(t, k) * total
    return flows


def _check_variables(what: str, variables: int, limit: int, fix: str) -> None:
    """Reject a program with too many variables."""
    if variables > limit:
        raise ScheduleError(f"{what}: {variables} flow variables, expected at most {limit}; {fix}")


def _solve(
    what: str,
    costs: Float64Array,
    lower: Float64Array,
    upper: Float64Array,
    entries: Sequence[Entries],
    time_limit_s: float | None,
    *,
    maximise: bool = False,
) -> tuple[Float64Array, Float64Array]:
    """Return an optimal basic solution, and the dual price of each row."""
    if time_limit_s is not None and time_limit_s <= 0:  # some versions of the solver start all the same
        raise TimeLimitError(what)
    method = "simplex" if len(costs) <= _SIMPLEX_VARIABLES else "ipm"
    limit = np.inf if time_limit_s is None else time_limit_s
    lp = Program(what, maximise=maximise, tolerance=TOLERANCE, solver=method, time_limit=limit)
    lp.load(costs, lower, upper, entries)
    values, duals = lp.solve()
    return np.maximum(values, 0.0), np.abs(duals)


def _flow_entries(
    instance: FlowInstance,
    used: NDArray[np.integer],
    starts: NDArray[np.integer],
    ends: NDArray[np.integer] | None,
    first: int,
) -> list[Entries]:
    """Return the coefficients of flows over links: a row per link, then one per flow and node.

    The row of a node is its ingress minus its egress. Flow back into a flow's start, or out of its end, is
    useless and left out.

    Parameters
    ----------
    instance : FlowInstance
    used : array of int, shape (k,)
        Positions among the instance's links.
    starts, ends : arrays of int, shape (flows,)
        Nodes; a flow without an end may stop anywhere.
    first : int
        Column of the first flow over the first link.
    """
    n, k = instance.topology.n_nodes, len(used)
    flow, place = np.divmod(np.arange(len(starts) * k), k)
    tail = instance.tails[used][place].astype(np.int64)
    head = instance.heads[used][place].astype(np.int64)
    useful = head != starts[flow]
    if ends is not None:
        useful &= tail != ends[flow]
    leaves = useful & (tail != starts[flow])
    column, row, one = first + flow * k + place, k + flow * n, np.ones(len(flow))
    return [
        (place[useful], column[useful], one[useful]),
        ((row + head)[useful], column[useful], one[useful]),
        ((row + tail)[leaves], column[leaves], -one[leaves]),
    ]
