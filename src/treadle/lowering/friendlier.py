"""Numbers of trees per root whose texts serve more sizes, and what they cost."""

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
"""Sizes served of the 21 powers of two below which other numbers of trees are looked at."""
MOST_TREES = 16
_MAX_RANKS = 256


def friendlier_trees(
    plan: Plan, schedule: Schedule, facts: FileFacts, selector: Selector
) -> FriendlierTrees | None:
    """The best number of trees that serves `FEW` sizes, or else the one that serves the most.

    Parameters
    ----------
    plan : Plan
    schedule : Schedule
        Of the plan, as it is written.
    facts : FileFacts
        Of the text.
    selector : Selector

    Returns
    -------
    FriendlierTrees or None
        None where the text serves enough, where calls count no shards (any chunks can be written then), where
        the trees are not equally many at every root, or where no number up to `MOST_TREES` serves more.

    Notes
    -----
    The throughput with k trees is exact, by cuts; whether the capacities are balanced at the switches then is
    for ``solve`` to find out.
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
    fitting = [trees for trees, count in counts.items() if count >= min(FEW, most)]
    try:
        rates = _rates(plan, fitting)
    except TreadleError:  # fabrics that forests are not made for
        return None
    trees = max(fitting, key=lambda number: (rates[number], -number))
    loss = 1 - rates[trees] / plan.algbw
    return FriendlierTrees(trees, counts[trees], max(Fraction(0), loss))


def _rates(plan: Plan, numbers: list[int]) -> dict[int, Fraction]:
    """Best algbw with so many trees per root, bytes/s."""
    kind = plan.collective.kind
    assert kind in (CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER)
    problem = instance_of(plan.topology, replace(plan.collective, weights=None))
    best = instance_optimum(problem)
    return {trees: fixed_trees_optimum(problem, best, trees).algbw for trees in numbers}
