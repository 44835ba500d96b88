"""Results of trees that are written out, and the choice between two."""

from __future__ import annotations

from dataclasses import replace

from treadle.schedules.collective import CollectiveKind
from treadle.schedules.trees.forest import Forest
from treadle.schedules.trees.forest_cost import height_max
from treadle.synthesis.result import Bound, Result
from treadle.synthesis.trees.heights import smallest_height
from treadle.synthesis.trees.instance import Instance
from treadle.synthesis.trees.optimality import Optimum
from treadle.synthesis.trees.packers.packed import Packer, PackingAttempt
from treadle.synthesis.trees.tree_parts import schedule_of
from treadle.synthesis.trees.tree_units import TreeUnits, exact_number


def tree_result(
    problem: Instance,
    kind: CollectiveKind,
    forest: Forest,
    best: Optimum,
    units: TreeUnits,
    packing: tuple[PackingAttempt, ...],
    packer: Packer,
) -> Result:
    """Return the result of a forest with these units, its bounds, and how it was packed."""
    fixed = units.fixed
    return Result(
        schedule_of(kind, forest),
        Bound(best.algbw, best.certificate),
        algbw=fixed.algbw,
        trees_per_root=fixed.trees,
        exact_trees_per_root=fixed.trees if fixed.algbw == best.algbw else exact_number(problem, best),
        notes=(units.note,) if units.note else (),
        packer=packer,
        packing=packing,
        height_bound=smallest_height(problem, problem.weights * fixed.trees, units.capacities),
    )


def preferred(taken: Result, other: Result) -> Result:
    """Return the first, with the height of the other among its packing attempts."""
    beaten = PackingAttempt(Packer(str(other.packer)), f"not taken: height {height_max(other.trees)}")
    return replace(taken, packing=(beaten, *taken.packing))
