"""Forests of smaller height at the same throughput: rerouted on the fabric, or by local search."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from treadle.arrays import Int64Array, sums_of
from treadle.engine import core, run_until
from treadle.schedules.trees.forest import Forest
from treadle.synthesis.core_values.tree_values import RoutedForest, SearchLimits
from treadle.synthesis.trees.heights import smallest_height
from treadle.synthesis.trees.instance import Instance
from treadle.synthesis.trees.packers.height_first import HEIGHTS, pack_height_first
from treadle.synthesis.trees.packers.local_search import (
    default_steps,
    from_routed_forest,
    link_units,
    packing_height,
    ranked_fabric,
    reduce_tree_heights,
    routed_forest,
)
from treadle.synthesis.trees.packers.packed import Packed, Packer, PackingAttempt
from treadle.synthesis.trees.packers.rebuilding import rebuild_trees
from treadle.synthesis.trees.packers.tree_packing import Packing, from_forest, to_forest
from treadle.synthesis.trees.switch_removal import LogicalGraph, remove_switches

_TRIED_STEPS = 2**24
"""Steps up to which local search is restarted with another seed, and ..."""

_MOST_TRIES = 8
"""... how often at most, while its height is above the bound."""

_SEARCHED_CELLS = 2**18
"""Trees times ranks up to which, without switches, local search beats rebuilding of trees."""

MAX_CELLS = 2**18
"""Trees times ranks up to which swaps are looked for: a second or two."""

_WORK_PER_CELL = 400


def reduce_height(
    problem: Instance,
    forest: Forest,
    capacities: Int64Array,
    packer: Packer,
    attempts: tuple[PackingAttempt, ...],
    *,
    height: int,
) -> tuple[Forest, Packer, tuple[PackingAttempt, ...]]:
    """Reduce the height of a forest: by height-first if that succeeds below its height, and by local search.

    `capacities` are units of every link, not less than the forest's loads. The forest has this height, comes
    from `packer`, and has `attempts` before it. It is returned itself if none has a smaller height.
    """
    multiplicities = forest.root_multiplicity
    if height <= smallest_height(problem, multiplicities, capacities):
        return forest, packer, attempts
    # routing with small height from the start gives a smaller height, and takes less time
    low = route_trees(problem, capacities, multiplicities, below=height)
    if isinstance(low, PackingAttempt):
        graph, packing = from_forest(problem, forest)
        if not len(problem.relays):  # all links, not only those in use
            graph = remove_switches(problem, capacities, multiplicities)
        packed = Packed(graph, packing, packer, (*attempts, low))
    else:
        beaten = [PackingAttempt(each.packer, f"not taken: height {height}") for each in attempts]
        packed = Packed(low.graph, low.packing, low.packer, (*beaten, *low.attempts))
    lower = local_search(packed, problem, capacities)
    if lower.packing is not packed.packing or lower.packer is not packer:
        forest = to_forest(problem, lower.graph, lower.packing)
    return forest, lower.packer, lower.attempts


def route_trees(
    problem: Instance,
    capacities: Int64Array,
    multiplicities: Int64Array,
    *,
    below: int | None = None,
    asked: bool = False,
) -> Packed | PackingAttempt:
    """Pack a forest by height-first on the fabric itself, or return why there is none.

    Only a height below `below` is useful. If the packer is `asked` for, it is tried even where it rarely
    succeeds.
    """
    entering = sums_of(problem.n_nodes, problem.heads, capacities)
    reason = ""
    if not len(problem.relays):
        reason = "the fabric has no switches"
    # where boundaries of sets are tight, paths chosen rank by rank overload them: height-first sees no sets
    elif np.all(entering[problem.terminals] > multiplicities.sum() - multiplicities):
        reason = "some set of several ranks is tight, and no single rank"
    if reason and not asked:
        return PackingAttempt(Packer.HEIGHT_FIRST, f"not tried: {reason}")
    lowest = smallest_height(problem, multiplicities, capacities)
    heights = range(lowest, min(lowest + HEIGHTS, lowest + HEIGHTS if below is None else below))
    found = pack_height_first(problem, capacities, multiplicities, heights=heights)
    attempt = PackingAttempt(Packer.HEIGHT_FIRST, found.outcome)
    if found.graph is None or found.packing is None:
        return attempt
    return Packed(found.graph, found.packing, Packer.HEIGHT_FIRST, (attempt,))


def local_search(
    packed: Packed, problem: Instance, capacities: Int64Array, *, steps: int | None = None
) -> Packed:
    """Reduce the height by local search within the capacities, then the number of different trees.

    Without switches trees are rebuilt first, in at most `steps`. Exchanges are not tried where they may
    take more. If no limit is given, short searches restart with other seeds.
    """
    multiplicities = sums_of(len(problem.terminals), packed.packing.root, packed.packing.multiplicity)
    lowest = smallest_height(problem, multiplicities, capacities)
    if not len(problem.relays):
        packed = _regrown(packed, problem, lowest, steps)
    needed = default_steps(packed.packing)
    is_small = len(problem.relays) or packed.packing.parent.size <= _SEARCHED_CELLS
    if is_small and (steps is None or needed <= steps):
        tries = max(1, min(_MOST_TRIES, _TRIED_STEPS // needed)) if steps is None else 1
        packed = _swapped(packed, problem, capacities, lowest, tries)
    graph, packing = gather_trees(problem, packed.graph, packed.packing)
    if packing is packed.packing:
        return packed
    outcome = f"trees {len(packed.packing.root)} -> {len(packing.root)}, as low"
    attempts = packed.attempts
    if attempts and attempts[-1].packer is Packer.LOCAL_SEARCH:
        attempts, outcome = attempts[:-1], f"{attempts[-1].outcome}; {outcome}"
    attempts = (*attempts, PackingAttempt(Packer.LOCAL_SEARCH, outcome))
    return Packed(graph, packing, packed.packer, attempts)


def _regrown(packed: Packed, problem: Instance, lowest: int, steps: int | None) -> Packed:
    """Rebuild the trees, one at a time."""
    if packing_height(packed.packing) <= lowest:
        return packed
    most = steps if steps is None else min(steps, default_steps(packed.packing))
    found = rebuild_trees(problem, packed.graph, packed.packing, lowest=lowest, max_work=most)
    outcome = (
        f"height {found.before} -> {found.after} (at least {lowest}): {found.regrown} trees grown anew, "
        f"{found.swaps} swaps, {found.splits} splits"
    )
    attempts = (*packed.attempts, PackingAttempt(Packer.LOCAL_SEARCH, outcome))
    return replace(packed, packing=found.packing, attempts=attempts)


def _swapped(packed: Packed, problem: Instance, capacities: Int64Array, lowest: int, tries: int) -> Packed:
    """Return the forest of smallest height among those of local searches with different seeds."""
    if packing_height(packed.packing) <= lowest:
        return packed
    found = None
    for seed in range(tries):
        tried = reduce_tree_heights(
            problem, packed.graph, packed.packing, capacities=capacities, lowest=lowest, seed=seed
        )
        found = tried if found is None or tried.after < found.after else found
        if found.after <= lowest or found.failure:
            break
    assert found is not None
    outcome = f"not tried: {found.failure}"
    if not found.failure:
        outcome = (
            f"height {found.before} -> {found.after} (at least {lowest}): {found.swaps} swaps, "
            f"{found.reversals} reversals, {found.rehangs} re-hangings"
        )
    attempts = (*packed.attempts, PackingAttempt(Packer.LOCAL_SEARCH, outcome))
    if found.after < found.before:
        return Packed(found.graph, found.packing, packed.packer, attempts)
    return replace(packed, attempts=attempts)


def gather_trees(problem: Instance, graph: LogicalGraph, packing: Packing) -> tuple[LogicalGraph, Packing]:
    """Return the forest with fewer different trees and no greater height, or the same graph and packing.

    First, swaps between trees of two roots (as in local search: no link's load changes) raise the sum over
    roots, nodes and parents of the squares of units: so a node has few different parents in the trees of a
    root. Then the trees of each root are made equal to one tree after another: the one whose rarest edge is
    most frequent, breadth-first and within the height. From its root down every node gets its parent from a
    tree that can take the parent it has.
    """
    n, roots = len(problem.terminals), len(np.unique(packing.root))
    if len(packing.root) == roots or len(packing.root) * n > MAX_CELLS:
        return graph, packing
    limits = SearchLimits(
        height=packing_height(packing),
        max_work=_WORK_PER_CELL * len(packing.root) * n,
        max_cells=2 * MAX_CELLS,
        seed=0,
    )
    fabric = ranked_fabric(problem, link_units(graph, len(problem.tails)))
    status, forest, _ = run_until(
        "equal trees",
        lambda control: core.gather_forest(fabric, routed_forest(problem, graph, packing), limits, control),
    )
    if status == 0:
        new_graph, gathered = from_routed_forest(problem, RoutedForest.of(forest))
        if len(gathered.root) < len(packing.root):
            return new_graph, gathered
    return graph, packing
