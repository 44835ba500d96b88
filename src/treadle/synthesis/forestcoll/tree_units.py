"""How many trees per root, and the capacities in trees that the pipeline can work with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from treadle.arrays import Int64Array
from treadle.errors import InfeasibleError
from treadle.synthesis.engine import Progress
from treadle.synthesis.forestcoll.budget import DEFAULT_SCAN, MAX_EXACT_TREES, TreeBudget
from treadle.synthesis.forestcoll.fixed_trees import (
    FixedTreesOptimum,
    best_first,
    exact_scale,
    floor_capacities,
)
from treadle.synthesis.forestcoll.instance import Instance, check_units, find_violated_cut
from treadle.synthesis.forestcoll.optimality import Optimum
from treadle.synthesis.forestcoll.switch_removal import check_balance, unbalanced_relay
from treadle.topologies.balance import balanced_capacities


def tree_choices(
    problem: Instance, best: Optimum, budget: TreeBudget, progress: Progress | None
) -> Iterator[FixedTreesOptimum]:
    """Numbers of trees to try, the best first."""
    exact = exact_scale(problem, best)
    if budget.trees is not None:
        return best_first(problem, best, [budget.trees], progress=progress)
    # The default limits are per rank on average: a broadcast has all its trees at one root.
    ranks, weight = len(problem.terminals), int(problem.weights.sum())
    if budget.exact or (budget.max_trees is None and exact.trees * weight <= MAX_EXACT_TREES * ranks):
        return iter([exact])
    limit = budget.max_trees or min(MAX_EXACT_TREES, max(1, DEFAULT_SCAN * ranks // weight))
    known = [exact] if exact.trees <= limit else []
    return best_first(problem, best, range(1, limit + 1), known, progress=progress)


@dataclass(frozen=True)
class TreeUnits:
    """Capacities in trees that the pipeline can work with.

    Parameters
    ----------
    fixed : FixedTreesOptimum
    capacities : array of int64, shape (m,)
    was_trimmed : bool
        floor(U b) left some relay unbalanced, and its surplus has been taken off.
    """

    fixed: FixedTreesOptimum
    capacities: Int64Array
    was_trimmed: bool


def first_possible(
    problem: Instance, choices: Iterator[FixedTreesOptimum], progress: Progress | None
) -> TreeUnits:
    """The first choice whose capacities are balanced, or stay sufficient when they are trimmed.

    Raises
    ------
    InfeasibleError
        If a relay is not balanced, or no choice will do.
    """
    check_balance(problem, problem.bandwidths)
    preferred = 0
    for fixed in choices:
        preferred = preferred or fixed.trees
        capacities = floor_capacities(problem.bandwidths, fixed.scale)
        check_units(capacities.tolist(), [fixed.trees * int(problem.weights.sum())])
        if unbalanced_relay(problem, capacities) is None:
            return TreeUnits(fixed, capacities, was_trimmed=False)
        trimmed = balanced_capacities(problem.tails, problem.heads, capacities, problem.relays.tolist())
        if find_violated_cut(problem, trimmed, multiplicity=fixed.trees, progress=progress) is None:
            return TreeUnits(fixed, trimmed, was_trimmed=True)
    raise InfeasibleError(
        f"{problem.topology.name}: with {preferred} trees per root the capacities floor(U b) are not "
        f"Eulerian at the switches and trimming them costs throughput; "
        f"use another number of trees, or --exact"
    )
