"""Search for numbers of trees per root whose runtime files support more sizes, and their costs."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from treadle.errors import TreadleError
from treadle.formats.selection.supported_sizes import FileFacts, Selector, supported_call_sizes
from treadle.lowering.lowered import FriendlierTrees
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.plan import Plan
from treadle.schedules.schedule import Schedule
from treadle.schedules.trees.forest import ForestSchedule
from treadle.synthesis.trees.fixed_trees import fixed_trees_optimum
from treadle.synthesis.trees.instance import instance_of
from treadle.synthesis.trees.optimality import instance_optimum

FEW = 17
"""Number of supported sizes, of 21 powers of two, below which other numbers of trees are considered."""
MOST_TREES = 16
_MAX_RANKS = 256


def friendlier_trees(
    plan: Plan, schedule: Schedule, facts: FileFacts, selector: Selector
) -> FriendlierTrees | None:
    """Return the fastest number of trees that supports `FEW` sizes, or as many as possible if fewer.

    The throughput with k trees is exact, by cuts; whether capacities are then balanced at the switches is
    found out only by ``solve``.

    Returns
    -------
    FriendlierTrees or None
        None if the runtime file supports enough sizes, if calls count no shards (then any number of chunks
        can be written), if roots have different numbers of trees, or if no number up to `MOST_TREES` supports
        more.
    """
    if not isinstance(schedule, ForestSchedule) or not facts.is_by_shard or facts.n_ranks > _MAX_RANKS:
        return None
    here = len(supported_call_sizes(facts, selector))
    if here >= FEW or len(np.unique(schedule.root_multiplicity)) > 1:
        return None
    counts = {
        trees: len(supported_call_sizes(replace(facts, n_chunks=trees * facts.n_ranks), selector))
        for trees in range(1, MOST_TREES + 1)
    }
    most = max(counts.values())
    if most <= here:
        return None
    numbers = [trees for trees, count in counts.items() if count >= min(FEW, most)]
    try:
        rates = _rates(plan, numbers)
    except TreadleError:  # Tree packing does not support the fabric.
        return None
    trees = max(numbers, key=lambda number: (rates[number], -number))
    return FriendlierTrees(trees, counts[trees], max(Fraction(0), 1 - rates[trees] / plan.algbw))


def _rates(plan: Plan, numbers: list[int]) -> dict[int, Fraction]:
    """Return the best algbw (bytes/s) for each number of trees per root."""
    # No other collective has one shard per rank and trees from or to all ranks.
    assert plan.collective.kind in (CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER)
    problem = instance_of(plan.topology, replace(plan.collective, weights=None))
    optimum = instance_optimum(problem)
    return {trees: fixed_trees_optimum(problem, optimum, trees).algbw for trees in numbers}
