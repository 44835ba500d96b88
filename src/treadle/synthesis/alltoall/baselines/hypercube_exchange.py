"""Johnsson and Ho's all-to-all on hypercubes, all ports at once."""

from __future__ import annotations

from treadle.errors import ScheduleError
from treadle.refusal import Refusal
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.baselines.grid_phases import grid_exchange
from treadle.synthesis.alltoall.baselines.grids import GridFabric, find_grid
from treadle.synthesis.scheduler import refusal_of
from treadle.topologies.topology import Topology

_NAME = "hypercube-exchange"


def hypercube_in_order_of_addresses(topology: Topology, _: Collective) -> Refusal | None:
    """Just the links of such a fabric."""
    return refusal_of(_grid, topology)


def hypercube_exchange(topology: Topology, collective: Collective) -> ExchangeSchedule:
    """One dimension after another, d orders at once: part c of every shard takes dimension c + t in step t.

    Parameters
    ----------
    topology : Topology
        A hypercube of 2^d nodes in the order of their addresses, links in any order.
    collective : Collective
        An all-to-all.

    Returns
    -------
    ExchangeSchedule
        Of d steps, d chunks a shard.

    Raises
    ------
    ScheduleError
        If the fabric is no such hypercube.

    Notes
    -----
    Exact cost for equal demands on all N nodes: T_L = d, and each step brings N / (2 d) units of demand over
    every link, N / 2 in all: optimal, as is each on its own. Source: Johnsson and Ho, Optimum broadcasting
    and personalized communication in hypercubes (IEEE TC 38, 1989), section on all-to-all personalised
    communication with n ports.

    Examples
    --------
    >>> from treadle.schedules.collective import CollectiveKind, on_all_ranks
    >>> from treadle.schedules.alltoall.exchange_cost import exchange_algbw
    >>> from treadle.topologies.catalogue.graphs import hypercube
    >>> cube = hypercube(3)
    >>> everyone = on_all_ranks(cube, CollectiveKind.ALLTOALL)
    >>> schedule = hypercube_exchange(cube, everyone)
    >>> schedule.n_steps, exchange_algbw(cube, everyone, schedule)
    (3, Fraction(2, 1))
    """
    grid = _grid(topology)
    return grid_exchange(_NAME, grid, collective)


def _grid(topology: Topology) -> GridFabric:
    """The hypercube; ScheduleError for any other fabric."""
    grid = find_grid(topology, _NAME)
    if set(grid.sides) != {2}:
        raise ScheduleError(f"{_NAME}: {topology.name} has sides {grid.sides}, expected 2 everywhere")
    return grid
