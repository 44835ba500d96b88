"""All-to-all on meshes as fast as the bisection allows, after Scott."""

from __future__ import annotations

from treadle.errors import ScheduleError
from treadle.refusal import Refusal
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.baselines.grid_phases import grid_exchange
from treadle.synthesis.alltoall.baselines.grids import GridFabric, find_grid
from treadle.synthesis.scheduler import refusal_of
from treadle.topologies.topology import Topology

_NAME = "mesh-exchange"


def mesh_in_row_major_order(topology: Topology, _: Collective) -> Refusal | None:
    """Just the links of such a fabric."""
    return refusal_of(_grid, topology)


def mesh_exchange(topology: Topology, collective: Collective) -> ExchangeSchedule:
    """Exchanges along rows and columns at once, farthest first, each with a part of the data; then swapped.

    Parameters
    ----------
    topology : Topology
        A mesh, nodes in row-major order, links in any order.
    collective : Collective
        An all-to-all.

    Raises
    ------
    ScheduleError
        If the fabric is no such mesh.

    Notes
    -----
    Exact cost for equal demands on all N nodes, longest side a, n axes: N floor(a^2 / 4) / a units of demand
    over the middle links, which for even a is what the bisection asks for: a^3 / 4 on a square mesh. With
    equal sides T_L = n g(a), g = 1, 2, 3, 5, 6, 8, 10 for a = 2 to 8, about 1.8 a beyond; else n times the
    largest N floor(a_k^2 / 4) / a_k in units of N / a, rounded up.

    Source: Scott, Efficient all-to-all communication patterns in hypercube and mesh topologies (DMCC 1991),
    whose a^3 / 4 phases send single messages over whole paths at once, which takes wormhole routing. This is
    the store-and-forward equivalent: same busy links, data of many pairs in a message, one hop per step.

    Examples
    --------
    >>> from treadle.schedules.collective import CollectiveKind, on_all_ranks
    >>> from treadle.schedules.alltoall.exchange_cost import exchange_algbw
    >>> from treadle.topologies.catalogue.graphs import mesh
    >>> fabric = mesh(4, 4)
    >>> everyone = on_all_ranks(fabric, CollectiveKind.ALLTOALL)
    >>> schedule = mesh_exchange(fabric, everyone)
    >>> schedule.n_steps, 16 / exchange_algbw(fabric, everyone, schedule)
    (6, Fraction(16, 1))
    """
    grid = _grid(topology)
    return grid_exchange(_NAME, grid, collective)


def _grid(topology: Topology) -> GridFabric:
    """The mesh; ScheduleError for any other fabric."""
    grid = find_grid(topology, _NAME)
    if any(grid.wraps):
        raise ScheduleError(f"{_NAME}: {topology.name} wraps around, expected a mesh; use torus-exchange")
    return grid
