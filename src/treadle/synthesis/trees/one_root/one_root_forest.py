"""Trees of one root with smaller height: box by box, or more trees, if other methods give a larger height."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from treadle.context import TimeLimitError, context, under
from treadle.errors import InfeasibleError
from treadle.schedules.collective import Collective
from treadle.schedules.trees.forest_cost import height_max
from treadle.synthesis.result import Result
from treadle.synthesis.trees.instance import Instance, instance_of
from treadle.synthesis.trees.one_root.box_by_box import BoxForest, pack_box_by_box
from treadle.synthesis.trees.optimality import instance_optimum
from treadle.synthesis.trees.packers.packed import Packer, PackingAttempt
from treadle.synthesis.trees.tree_budget import TreeBudget, lower_number
from treadle.synthesis.trees.tree_synthesis import preferred, tree_result
from treadle.topologies.topology import Topology
from treadle.unsupported import Unsupported

SEARCHED_RANKS = 1024
"""Number of ranks up to which trees of one root are searched by all methods, not only box by box."""

Pipeline = Callable[[Instance, Collective, TreeBudget, Packer | None], Result]
"""Solver of a forest of any roots."""


def synthesise_box_by_box(
    topology: Topology, collective: Collective, *, budget: TreeBudget
) -> Result | PackingAttempt:
    """Return a forest of one root of any number of boxes, or why there is none.

    Parameters, errors: see `treadle.synthesis.trees.synthesise`.
    """
    return _from_boxes(instance_of(topology, collective), collective, budget)


def lower_of_one_root(
    usual: Pipeline,
    problem: Instance,
    collective: Collective,
    budget: TreeBudget,
    packer: Packer | None,
) -> Result:
    """Return the forest of smallest height: box by box, the usual one, or the usual one with more trees."""
    others: list[Result] = []
    attempts: tuple[PackingAttempt, ...] = ()
    if packer in (None, Packer.BOX_BY_BOX):
        boxed = _from_boxes(problem, collective, budget)
        if isinstance(boxed, PackingAttempt):
            attempts = (boxed,)
        elif packer or len(problem.terminals) > SEARCHED_RANKS:
            return boxed
        else:
            others.append(boxed)
    found = usual(problem, collective, budget, packer)
    number = lower_number(budget, problem.weights, found.trees_per_root or 1)
    if number is not None and height_max(found.trees) > (found.height_bound or 0):
        with suppress(TimeLimitError, InfeasibleError):  # then the other forests remain
            more = usual(problem, collective, TreeBudget(trees=number), packer)
            others.append(replace(more, exact_trees_per_root=found.exact_trees_per_root))
    for each in others:
        if (-each.algbw, height_max(each.trees)) < (-found.algbw, height_max(found.trees)):
            found = preferred(each, found)
    return replace(found, packing=(*attempts, *found.packing))


def _from_boxes(problem: Instance, collective: Collective, budget: TreeBudget) -> Result | PackingAttempt:
    """Return the forest of one root box by box, or why there is none."""
    found: BoxForest | Unsupported
    try:
        with context().stage("box_by_box"):
            found = pack_box_by_box(problem, budget)
    except InfeasibleError as error:  # other packers may need fewer units; if none succeeds, they raise it
        found = Unsupported(str(error))
    if isinstance(found, Unsupported):
        return PackingAttempt(Packer.BOX_BY_BOX, f"failed: {found}")
    best = found.best
    if found.units.fixed.algbw != best.algbw:  # a cut that no forest attains is only a bound
        with under(context().unlimited):
            best = instance_optimum(problem)
    packer = Packer.BOX_BY_BOX
    packing = (PackingAttempt(packer, f"made the forest: {found.outcome}"),)
    return tree_result(problem, collective.kind, found.forest, best, found.units, packing, packer)
