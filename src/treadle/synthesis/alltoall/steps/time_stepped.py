"""Time-stepped multi-commodity flow, (15)-(20): an all-to-all in a given number of steps, in minimum time.

The fabric is expanded over time: data at a node wait there in a step or move to a neighbour. Each step lasts
as long as its fullest link. All data of one source are one commodity. Source: Basu et al., section 3.1.3
(programs (15) to (20)); docs/how-it-works/all-to-all.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import BoolArray, Float64Array, Int64Array, mask_of, positions_of
from treadle.errors import InfeasibleError, ScheduleError
from treadle.math.graphs import hops
from treadle.math.lp import Entries, Program
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.resolution import Resolution, resolution
from treadle.topologies.topology import Topology

MAX_VARIABLES = 2**23

EXACT_VARIABLES = 2**14
"""Variables up to which an interior point with crossover is fast; basic solutions have few paths."""

_ACCURACY = 1e-6  # of the first-order method, as a share


@dataclass(frozen=True, eq=False)
class TimeSteppedFlow:
    """A flow in steps, and the minimum time that it proves or nearly proves.

    Parameters
    ----------
    by_step : array of float64, shape (T, N, m)
        Units of demand of source rank s that cross link e in step t.
    step_times : array of float64, shape (T,)
        U_t: seconds per unit of demand that each step takes.
    is_exact : bool
        A basic solution, to 1e-9 (1e-5 where bandwidths are far apart, `resolution`); else within about 1e-6
        of the optimum and of conservation.
    """

    by_step: Float64Array
    step_times: Float64Array
    is_exact: bool

    @property
    def time(self) -> float:
        """Sum of U_t: seconds per unit of demand, at least 1/F; no schedule of T steps takes less."""
        return float(self.step_times.sum())


def time_stepped_flow(topology: Topology, collective: Collective, n_steps: int) -> TimeSteppedFlow:
    """Solve the linear program over the time-expanded fabric.

    Parameters
    ----------
    topology : Topology
        Every compute node stores and forwards; switches and self-loops are not used. Hosts may have injection
        caps.
    collective : Collective
        An all-to-all.
    n_steps : int
        T, at least the largest distance between ranks with demand.

    Returns
    -------
    TimeSteppedFlow

    Raises
    ------
    InfeasibleError
        If T steps do not reach every rank.
    ScheduleError
        If the program would be too large.
    TimeLimitError
        If the deadline passed.

    Notes
    -----
    As published, with two changes that keep the optimum: all data of one source are one commodity (the
    time-expanded graph has no cycles, so its flow can be decomposed by targets afterwards), and (16) weighs
    links by their bandwidths. Source s needs variables only for links that it can reach before step t. HiGHS:
    interior point with crossover up to 2**14 variables, else its first-order method. CPU time: torus 3x3x3 in
    3 steps 0.3 s, generalized Kautz of degree 4 with 64 nodes in 4 steps 1 s.

    Examples
    --------
    >>> from treadle.schedules.collective import CollectiveKind, on_all_ranks
    >>> from treadle.topologies.catalogue.graphs import hypercube
    >>> cube = hypercube(3)
    >>> round(time_stepped_flow(cube, on_all_ranks(cube, CollectiveKind.ALLTOALL), 3).time, 9)
    4.0
    """
    distance = _reach(topology, collective, n_steps)
    if (size := _program_size(topology, collective, n_steps, distance)) > MAX_VARIABLES:
        raise _too_large(topology, size)
    ranks = np.array(collective.ranks, dtype=np.int64)
    demands = collective.pair_demands.between
    scale, resolved = float(demands.max()), resolution(topology, collective, n_steps=n_steps)
    step = np.arange(n_steps)[:, None, None]
    usable = mask_of(topology.n_links, _usable(topology))
    into_source = topology.heads[None, :] == ranks[:, None]
    flows = np.nonzero((distance[:, topology.tails] <= step) & (usable & ~into_source))
    is_source = np.arange(topology.n_nodes)[None, :] == ranks[:, None]
    # Data at node u at the end of step t stay there (but for the last step) or go on.
    places = (distance <= step + 1) & ~is_source
    conserved, first_time = conservation(topology, flows, places)
    wanted = np.zeros((n_steps, len(ranks), topology.n_nodes))
    wanted[-1][:, ranks] = demands / scale
    right = wanted[places]
    loads = _capacities(topology, resolved, flows, len(right), first_time)
    n_loads = int(max(rows.max() for rows, _, _ in (conserved, loads))) + 1 - len(right)
    cost = np.repeat([0.0, 1.0], [first_time, n_steps])
    lower, upper = (np.concatenate([right, np.full(n_loads, limit)]) for limit in (-np.inf, 0.0))
    is_small = len(cost) <= EXACT_VARIABLES
    lp = Program("time-stepped flow", solver="ipm" if is_small else "pdlp")
    if not is_small:
        lp.set_options(pdlp_optimality_tolerance=_ACCURACY)
    lp.load(cost, lower, upper, (conserved, loads))
    found = lp.optimum(least_s=0.0)
    if found is None:
        # Presolving and interior points fail first where numbers are far apart.
        lp.set_options(solver="simplex", presolve="off")
        lp.solver.clearSolver()
        found = lp.solve(least_s=0.0, bandwidths=topology.bandwidths)
    values = np.maximum(found[0], 0.0) * scale
    by_step = np.zeros((n_steps, len(ranks), topology.n_links))
    by_step[flows] = values[: len(flows[0])]
    return TimeSteppedFlow(by_step, values[-n_steps:] / resolved.unit, is_small)


def conservation(
    topology: Topology, flows: tuple[NDArray[np.int64], ...], places: BoolArray
) -> tuple[Entries, int]:
    """Return the coefficients of (17)-(19), by which data at a node go on or are held, and the columns."""
    number = positions_of(places.shape, places)
    step, source, link = flows
    n_flows = len(step)
    flow = np.arange(n_flows)
    into = number[step, source, topology.heads[link]]
    # Data that leave in step t were there at the end of the step before, except at the source.
    out = np.full(n_flows, -1, dtype=np.int64)
    later = step > 0
    out[later] = number[step[later] - 1, source[later], topology.tails[link[later]]]
    held_step, held_source, node = np.nonzero(places[:-1])
    hold = n_flows + np.arange(len(node))
    kept = number[held_step, held_source, node]
    back = number[held_step + 1, held_source, node]
    going = out >= 0
    rows = np.concatenate([into, out[going], kept, back])
    columns = np.concatenate([flow, flow[going], hold, hold])
    values = np.repeat([1.0, -1.0, 1.0], [n_flows, int(going.sum()) + len(hold), len(hold)])
    return (rows, columns, values), n_flows + len(hold)


def _capacities(
    topology: Topology,
    resolved: Resolution,
    flows: tuple[NDArray[np.int64], ...],
    first_row: int,
    first_time: int,
) -> Entries:
    """Return the coefficients of (16) for links, and likewise for hosts with an injection cap."""
    step, _, link = flows
    caps = topology.injection_bytes_per_s
    groups: list[tuple[NDArray[Any], Int64Array]] = [(link, topology.bandwidths)]
    if caps.any():
        groups += [(ends[link], caps) for ends in (topology.tails, topology.heads)]
    entries: list[tuple[NDArray[Any], ...]] = []
    for member, capacity in groups:
        limited = capacity[member] > 0
        key = step[limited] * len(capacity) + member[limited]
        used, row = np.unique(key, return_inverse=True)
        rates = resolved.of(capacity[used % len(capacity)])
        entries.append((first_row + row, np.flatnonzero(limited), np.ones(len(row))))
        entries.append((first_row + np.arange(len(used)), first_time + used // len(capacity), -rates))
        first_row += len(used)
    rows, columns, values = map(np.concatenate, zip(*entries, strict=True))
    return rows, columns, values


def least_steps(topology: Topology, collective: Collective) -> int:
    """Return the largest distance over compute nodes between ranks with demand.

    Raises
    ------
    InfeasibleError
        If a rank cannot be reached over compute nodes.
    """
    distance = _distances(topology, np.array(collective.ranks))
    between = distance[:, list(collective.ranks)]
    wanted = collective.pair_demands.between > 0
    for source, target in np.argwhere(wanted & (between < 0))[:1].tolist():
        names = [topology.node_names[collective.ranks[rank]] for rank in (source, target)]
        raise InfeasibleError(
            f"{topology.name}: no path over compute nodes leads from {names[0]!r} to {names[1]!r}; steps "
            f"store and forward, which switches cannot: use routes"
        )
    return int(between[wanted].max())


def _distances(topology: Topology, sources: Int64Array) -> Int64Array:
    """Return the hops over compute nodes from each source to every node, -1 if unreachable."""
    usable = _usable(topology)
    tails, heads = topology.tails[usable], topology.heads[usable]
    return hops(topology.n_nodes, tails, heads, sources)


def _usable(topology: Topology) -> Int64Array:
    """Return the links between two different compute nodes."""
    is_direct = topology.is_compute[topology.tails] & topology.is_compute[topology.heads]
    return np.flatnonzero(is_direct & (topology.tails != topology.heads))


def _reach(topology: Topology, collective: Collective, n_steps: int) -> Int64Array:
    """Return the hops from each rank to every node, more than T if unreachable; check that T suffices."""
    least = least_steps(topology, collective)
    if n_steps < least:
        raise InfeasibleError(
            f"{topology.name}: steps: {n_steps} do not reach every rank; expected at least {least} (--steps)"
        )
    if n_steps > MAX_VARIABLES:  # a time for each
        raise _too_large(topology, n_steps)
    distance = _distances(topology, np.array(collective.ranks))
    distance[distance < 0] = n_steps + 1
    return distance


def program_size(topology: Topology, collective: Collective, n_steps: int) -> int:
    """Return the number of variables of the linear program in `n_steps` steps.

    Raises
    ------
    InfeasibleError
        If the steps do not reach every rank.
    ScheduleError
        If there would be far too many.
    """
    return _program_size(topology, collective, n_steps, _reach(topology, collective, n_steps))


def _program_size(topology: Topology, collective: Collective, n_steps: int, distance: Int64Array) -> int:
    usable, ranks = _usable(topology), np.array(collective.ranks)
    steps = np.maximum(n_steps - distance, 0)  # in which data of s can leave u
    leaves = topology.heads[usable][None, :] != ranks[:, None]
    n_flows = int((steps[:, topology.tails[usable]] * leaves).sum())
    n_holds = int(steps.sum()) - n_steps * len(ranks)  # nothing is held at its source
    return n_flows + n_holds + n_steps


def _too_large(topology: Topology, n_variables: int) -> ScheduleError:
    return ScheduleError(
        f"{topology.name}: the time-stepped program would have {str(n_variables)[:20]} variables or more, at "
        f"most {MAX_VARIABLES} are practical; use fewer steps, or --algorithm pipelined"
    )
