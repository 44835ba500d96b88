"""Lower trees of one root: box by box, or more of them, where other ways lead to higher ones."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from treadle.context import TimeLimitError, context, under
from treadle.errors import InfeasibleError
from treadle.schedules.collective import Collective
from treadle.schedules.trees.forest_cost import height_max
from treadle.synthesis.result import Bound, Result
from treadle.synthesis.trees.heights import smallest_height
from treadle.synthesis.trees.instance import Instance, instance_of
from treadle.synthesis.trees.one_root.box_by_box import BoxForest, pack_box_by_box
from treadle.synthesis.trees.optimality import instance_optimum
from treadle.synthesis.trees.packers.packed import Packer, PackingAttempt
from treadle.synthesis.trees.tree_budget import TreeBudget, lower_number
from treadle.synthesis.trees.tree_synthesis import preferred, schedule_of
from treadle.synthesis.trees.tree_units import exact_number
from treadle.topologies.topology import Topology
from treadle.unsupported import Unsupported

SEARCHED_RANKS = 1024
"""Up to so many ranks trees of one root are sought in every way, and not just box by box."""

Pipeline = Callable[[Instance, Collective, TreeBudget, Packer | None], Result]
"""How a forest of any roots is made."""


def synthesise_box_by_box(
    topology: Topology, collective: Collective, *, budget: TreeBudget
) -> Result | PackingAttempt:
    """A forest of one root of any number of boxes, or why it is not made so.

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
    """The lower one of a forest made box by box and of the usual one; also of more trees, if these are lower.

    Parameters
    ----------
    usual : Pipeline
    problem, collective, budget, packer
        As it takes them.
    """
    made: list[Result] = []
    told: tuple[PackingAttempt, ...] = ()
    if packer in (None, Packer.BOX_BY_BOX):
        boxed = _from_boxes(problem, collective, budget)
        if isinstance(boxed, PackingAttempt):
            told = (boxed,)
        elif packer or len(problem.terminals) > SEARCHED_RANKS:
            return boxed
        else:
            made.append(boxed)
    found = usual(problem, collective, budget, packer)
    number = lower_number(budget, problem.weights, found.trees_per_root or 1)
    if number is not None and height_max(found.trees) > (found.height_bound or 0):
        with suppress(TimeLimitError, InfeasibleError):  # then what there is stays
            more = usual(problem, collective, TreeBudget(trees=number), packer)
            made.append(replace(more, exact_trees_per_root=found.exact_trees_per_root))
    for each in made:
        if (-each.algbw, height_max(each.trees)) < (-found.algbw, height_max(found.trees)):
            found = preferred(each, found)
    return replace(found, packing=(*told, *found.packing))


def _from_boxes(problem: Instance, collective: Collective, budget: TreeBudget) -> Result | PackingAttempt:
    """The forest of one root box by box; or why there is none."""
    found: BoxForest | Unsupported
    try:
        with context().stage("box_by_box"):
            found = pack_box_by_box(problem, budget)
    except InfeasibleError as error:  # other ways may need fewer units; what none can do, they say
        found = Unsupported(str(error))
    if isinstance(found, Unsupported):
        return PackingAttempt(Packer.BOX_BY_BOX, f"failed: {found}")
    best, fixed, is_best = found.best, found.units.fixed, found.units.fixed.algbw == found.best.algbw
    if not is_best:  # a cut that nothing attains is no more than a bound
        with under(context().unlimited):
            best = instance_optimum(problem)
    return Result(
        schedule_of(collective.kind, found.forest),
        Bound(best.algbw, best.witness),
        algbw=fixed.algbw,
        trees_per_root=fixed.trees,
        exact_trees_per_root=fixed.trees if is_best else exact_number(problem, best),
        notes=(found.units.note,) if found.units.note else (),
        packer=Packer.BOX_BY_BOX,
        packing=(PackingAttempt(Packer.BOX_BY_BOX, f"made the forest: {found.outcome}"),),
        height_bound=smallest_height(problem, found.forest.root_multiplicity, found.units.capacities),
    )
