"""The least times of a collective on a fabric, size by size."""

from __future__ import annotations

from collections.abc import Sequence

from treadle.planning.problem import Problem
from treadle.schedules.witness import Witness
from treadle.simulation.costs.cost_model import CostModel
from treadle.simulation.simulation_options import SimulationOptions, default_alpha_ns
from treadle.simulation.size_bounds.bound_at_size import BoundsBySize, protocols_of
from treadle.simulation.size_bounds.size_bound_check import check_size_bounds
from treadle.simulation.size_bounds.size_witness import SizeBound


def size_bounds(
    problem: Problem,
    witness: Witness | None,
    sizes: Sequence[int],
    *,
    options: SimulationOptions | None = None,
    cost_model: CostModel | None = None,
) -> tuple[SizeBound, ...]:
    """Times before which no schedule ends, under what messages cost in a simulation.

    Parameters
    ----------
    problem : Problem
    witness : Witness, optional
        Of the most that any schedule reaches (`find_bound`); None if nothing is known of it.
    sizes : sequence of int
        Bytes of the larger per-rank buffer, 1 or more.
    options : SimulationOptions, optional
        Of the simulation; default those of `simulate`.
    cost_model : CostModel, optional
        In place of the options' alpha.

    Returns
    -------
    tuple of SizeBound
        For each size, in order; each checked by code that shares nothing with what found it.

    Raises
    ------
    ScheduleError
        If a bound does not pass the check.
    """
    if options is None:
        alpha_ns = 0 if cost_model is not None else default_alpha_ns(problem.topology)
        options = SimulationOptions(alpha_ns=alpha_ns)
    topology, collective = problem.topology, problem.collective
    found = BoundsBySize(topology, collective, witness, options, cost_model).at(sizes)
    check_size_bounds(topology, collective, protocols_of(options, cost_model), found)
    return found


def size_bound_values(bound: SizeBound | None) -> dict[str, object]:
    """What JSON says of the bound of a size: seconds, and which kind of witness proves them."""
    return {} if bound is None else {"bound_s": float(bound.time), "bound_by": bound.reason}
