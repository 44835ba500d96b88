"""Linear programs of flows over links."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int64Array
from treadle.context import TimeLimitError
from treadle.errors import ScheduleError
from treadle.math.lp import Entries, Program
from treadle.synthesis.alltoall.rate.flow_instance import FloatArray, FlowInstance

TOLERANCE = 1e-9
"""Tolerance of feasibility and optimality."""

_SIMPLEX_VARIABLES = 8_000
"""Beyond this an interior point with crossover is quicker; both end in a basic solution."""


def check_variables(what: str, variables: int, limit: int, remedy: str) -> None:
    """Reject a program of too many variables."""
    if variables > limit:
        raise ScheduleError(f"{what}: {variables} flow variables, expected at most {limit}; {remedy}")


def solve_flow_program(
    what: str,
    costs: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    entries: Sequence[Entries],
    *,
    maximise: bool = False,
    time_limit_s: float | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return an optimal basic solution, and what one more unit of each row's limit is worth.

    Parameters
    ----------
    what : str
        Names the program in errors.
    costs : array of float64, shape (columns,)
    lower, upper : arrays of float64, shape (rows,)
        Infinite where a row has no such side.
    entries : sequence of Entries
    maximise : bool
    time_limit_s : float, optional

    Raises
    ------
    TimeLimitError
        If time is up.
    InfeasibleError
        If no optimum was found.
    """
    if time_limit_s is not None and time_limit_s <= 0:  # some versions start all the same
        raise TimeLimitError(what)
    method = "simplex" if len(costs) <= _SIMPLEX_VARIABLES else "ipm"
    limit = np.inf if time_limit_s is None else time_limit_s
    lp = Program(what, maximise=maximise, tolerance=TOLERANCE, solver=method, time_limit=limit)
    lp.load(costs, lower, upper, entries)
    values, duals = lp.solve()
    return np.maximum(values, 0.0), np.abs(duals)


def flow_entries(
    instance: FlowInstance,
    used: NDArray[np.integer],
    starts: NDArray[np.integer],
    ends: NDArray[np.integer] | None,
    first: int,
) -> list[Entries]:
    """Coefficients of some flows over the links in use: a row per link, then one per flow and node.

    The row of a node is what arrives less what is passed on. What comes back to a flow's start, or leaves its
    end again, is useless and is left out.

    Parameters
    ----------
    instance : FlowInstance
    used : array of int, shape (k,)
        Places among the instance's links.
    starts, ends : arrays of int, shape (flows,)
        Nodes; a flow without an end may stop anywhere.
    first : int
        Column of the first flow over the first link.
    """
    n, k = instance.topology.n_nodes, len(used)
    flow, place = (part.ravel() for part in np.meshgrid(np.arange(len(starts)), np.arange(k), indexing="ij"))
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


def largest_rate(
    what: str,
    instance: FlowInstance,
    starts: NDArray[np.integer],
    ends: NDArray[np.integer] | None,
    demands: tuple[Int64Array, Int64Array],
    time_limit_s: float | None,
) -> tuple[FloatArray, FloatArray]:
    """Columns F and each flow over each link, in units of the largest bandwidth, and lengths, shape (m,).

    Parameters
    ----------
    what : str
        For errors.
    instance : FlowInstance
    starts, ends : arrays of int, shape (flows,)
        As `flow_entries` takes them.
    demands : arrays of int64, shape (pairs,)
        Row of the demands and node of every pair, in the order of the flows.
    time_limit_s : float, optional
    """
    flows, n, k = len(starts), instance.topology.n_nodes, len(instance.links)
    row, node = demands
    flow = row if ends is None else np.arange(flows)
    entries = [
        *flow_entries(instance, np.arange(k), starts, ends, 1),
        (k + flow * n + node, np.zeros(len(row), dtype=np.int64), -instance.demands[row, node].astype(float)),
    ]
    costs = np.zeros(1 + flows * k)
    costs[0] = 1.0
    # a node may keep more than it is due: that harms nobody, and spares equations
    lower = np.concatenate([np.full(k, -np.inf), np.zeros(flows * n)])
    upper = np.concatenate([instance.bandwidths / instance.bandwidths.max(), np.full(flows * n, np.inf)])
    values, prices = solve_flow_program(
        what, costs, lower, upper, entries, maximise=True, time_limit_s=time_limit_s
    )
    lengths = np.zeros(instance.topology.n_links)
    lengths[instance.links] = prices[:k]
    return values, lengths
