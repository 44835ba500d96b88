"""All-to-all on tori with few steps and optimal bandwidth, after Suh and Yalamanchili."""

from __future__ import annotations

from treadle.errors import ScheduleError
from treadle.refusal import Refusal
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.baselines.grid_phases import grid_exchange
from treadle.synthesis.alltoall.baselines.grids import GridFabric, find_grid
from treadle.synthesis.scheduler import refusal_of
from treadle.topologies.topology import Topology

_NAME = "torus-exchange"


def torus_in_row_major_order(topology: Topology, _: Collective) -> Refusal | None:
    """Just the links of such a fabric."""
    return refusal_of(_grid, topology)


def torus_exchange(topology: Topology, collective: Collective) -> ExchangeSchedule:
    """Exchanges along the rings of one axis after another, with combined messages, on n rotated orders.

    Parameters
    ----------
    topology : Topology
        A torus, nodes in row-major order, links in any order; axes of side 2 have one link each way.
    collective : Collective
        An all-to-all.

    Raises
    ------
    ScheduleError
        If the fabric is no such torus.

    Notes
    -----
    Exact cost for equal demands on all N nodes, n axes of side a: T_L = n floor(a / 2), the diameter, and
    N (a^2 - a mod 2) / (8 a) units of demand over every link, both optimal. With unequal sides the bandwidth
    is that of the longest one, still optimal where that side is even, in more steps.

    Source: Suh and Yalamanchili, All-to-all communication with minimum start-up costs in 2D/3D tori and
    meshes (IEEE TPDS 9, 1998): messages combined by ring, O(a) start-ups instead of O(a^2). Their sides are
    powers of two, nodes have one port, and data crosses up to a / 2 links in a step, which takes wormhole
    routing or virtual cut-through. This is the store-and-forward equivalent with all ports: any sides,
    messages combined by ring and direction, one hop per step.

    Examples
    --------
    >>> from treadle.schedules.collective import CollectiveKind, on_all_ranks
    >>> from treadle.schedules.alltoall.exchange_cost import exchange_algbw
    >>> from treadle.topologies.catalogue.graphs import torus
    >>> fabric = torus(3, 3, 3)
    >>> everyone = on_all_ranks(fabric, CollectiveKind.ALLTOALL)
    >>> schedule = torus_exchange(fabric, everyone)
    >>> schedule.n_steps, 27 / exchange_algbw(fabric, everyone, schedule)
    (3, Fraction(9, 1))
    """
    grid = _grid(topology)
    return grid_exchange(_NAME, grid, collective)


def _grid(topology: Topology) -> GridFabric:
    """The torus; ScheduleError for any other fabric."""
    grid = find_grid(topology, _NAME)
    if any(side > 2 and not wraps for side, wraps in zip(grid.sides, grid.wraps, strict=True)):
        raise ScheduleError(f"{_NAME}: {topology.name} does not wrap on every axis; use mesh-exchange")
    return grid
