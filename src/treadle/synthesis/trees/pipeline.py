"""ForestColl end to end: optimum, number of trees, switch removal, packing.

The steps follow one another: the optimum gives x*, x* and the bandwidths a number of trees and whole
capacities, edge splitting a graph on the ranks alone, and Edmonds' theorem spanning trees in it, whose arcs
are mapped back to paths of links. Each step keeps the cut condition, so each exists if the one before did.
Source: dissertation, chapter 4 and appendix B.5; docs/proofs/forestcoll.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import partial
from math import lcm

import numpy as np

from treadle.context import TimeLimitError, context, under
from treadle.errors import InfeasibleError
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.trees.forest import Forest, ForestSchedule
from treadle.schedules.trees.forest_cost import height_max
from treadle.schedules.trees.forest_transforms import MOST_UNITS, equalised
from treadle.synthesis.result import Bound, Result
from treadle.synthesis.trees.fixed_trees import FixedTreesOptimum, floor_capacities
from treadle.synthesis.trees.heights import smallest_height
from treadle.synthesis.trees.instance import Instance, find_violated_cut, instance_of
from treadle.synthesis.trees.one_root.one_root_forest import lower_of_one_root
from treadle.synthesis.trees.optimality import instance_optimum
from treadle.synthesis.trees.packers.improvement import local_search, reduce_height, route_trees
from treadle.synthesis.trees.packers.packed import Packed, Packer, PackingAttempt
from treadle.synthesis.trees.packers.packers import pack_smallest_height
from treadle.synthesis.trees.packers.tree_packing import to_forest
from treadle.synthesis.trees.packers.vertex_matching import height_bound
from treadle.synthesis.trees.switch_removal import remove_switches
from treadle.synthesis.trees.tight_cuts.decompose import decompose
from treadle.synthesis.trees.tree_budget import MAX_TREES, TreeBudget, is_dyadic
from treadle.synthesis.trees.tree_parts import schedule_of
from treadle.synthesis.trees.tree_synthesis import preferred, tree_result
from treadle.synthesis.trees.tree_units import (
    TreeUnits,
    common_number,
    exact_number,
    first_possible,
    tree_choices,
)
from treadle.topologies.topology import Topology
from treadle.unsupported import Unsupported

FEW_RANKS = 256
"""Number of ranks up to which components give way to the packers of the logical graph, and fabrics without
switches are packed both by subproblems and undivided."""


def synthesise(
    topology: Topology,
    collective: Collective,
    *,
    budget: TreeBudget | None = None,
    packer: Packer | None = None,
) -> Result:
    """A throughput-optimal forest schedule, or the best one within a tree budget.

    Parameters
    ----------
    topology : Topology
        Switches (and forwarders) need equal ingress and egress.
    collective : Collective
        An allreduce is solved as reduce-scatter on the transpose followed by allgather; see
        `treadle.synthesis.trees.allreduce` for what is better than that.
    budget : TreeBudget, optional
    packer : Packer, optional
        Only this one, and incremental packing if it fails; default: see
        `treadle.synthesis.trees.packers.packers`.

    Raises
    ------
    InfeasibleError
        If a rank cannot be reached, or a switch is not Eulerian.

    Notes
    -----
    Source: chapter 4 and B.5 of the dissertation.
    """
    budget = budget or TreeBudget()
    if collective.kind is CollectiveKind.ALLREDUCE:
        return _two_phases(topology, collective, budget, packer)
    problem = instance_of(topology, collective)
    if packer is Packer.BOX_BY_BOX or (len(problem.relays) and np.count_nonzero(problem.weights) == 1):
        return lower_of_one_root(_choose_forest, problem, collective, budget, packer)
    return _choose_forest(problem, collective, budget, packer)


def _choose_forest(
    problem: Instance, collective: Collective, budget: TreeBudget, packer: Packer | None
) -> Result:
    if packer not in (None, Packer.TIGHT_CUTS):
        return _solve_whole(problem, collective, budget, packer, ())
    found = _solve_by_tight_cuts(problem, collective, budget, packer)
    if isinstance(found, PackingAttempt):
        return _solve_whole(problem, collective, budget, packer, (found,))
    if packer:
        return found
    # without switches the entire fabric is packed quickly, often with less height than by subproblems
    whole: Result | None = None
    if not len(problem.relays) and len(problem.terminals) <= FEW_RANKS:
        with suppress(TimeLimitError):
            whole = _solve_whole(problem, collective, budget, packer, ())
    wants_dyadic = bool(budget.lossy_numbers(problem.weights.tolist()))
    if whole is not None and _cost(whole, wants_dyadic) <= (*_loss(found, wants_dyadic), whole.height_bound):
        return preferred(whole, found)
    lowered = _reduce_height(found, problem)
    if whole is None:
        return lowered
    return preferred(*sorted((whole, lowered), key=partial(_cost, wants_dyadic=wants_dyadic)))


def _loss(made: Result, wants_dyadic: bool) -> tuple[bool, Fraction]:
    """Return the sort key: chunks other than a power of two, if wanted, then throughput, negated."""
    return wants_dyadic and not is_dyadic(made.trees.total_units), -made.algbw


def _cost(made: Result, wants_dyadic: bool) -> tuple[bool, Fraction, int]:
    """Return the sort key: loss, then height."""
    return *_loss(made, wants_dyadic), height_max(made.trees)


def _solve_whole(
    problem: Instance,
    collective: Collective,
    budget: TreeBudget,
    packer: Packer | None,
    skipped: tuple[PackingAttempt, ...],
) -> Result:
    """Pack the entire fabric: optimum, capacities, switch removal, packing."""
    with context().stage("optimum"), under(context().unlimited):
        best = instance_optimum(problem)
    with context().stage("trees_per_root"), under(context().unlimited):
        units = first_possible(problem, tree_choices(problem, best, budget))
    forest, used, attempts = _build(problem, units, packer)
    with context().stage("height_bound"):
        return tree_result(problem, collective.kind, forest, best, units, (*skipped, *attempts), used)


def _solve_by_tight_cuts(
    problem: Instance, collective: Collective, budget: TreeBudget, packer: Packer | None
) -> Result | PackingAttempt:
    """Return the forest by tight cuts, written out, or why there is none."""
    with context().stage("tight_cuts"):  # its height is reduced later
        found = decompose(problem.topology, collective, budget=budget, lower=False)
    if isinstance(found, Unsupported):
        return PackingAttempt(Packer.TIGHT_CUTS, f"failed: {found}")
    if packer is None and found.n_layers > 1 and len(problem.terminals) <= FEW_RANKS:
        reason = "one of its layers sends to the ranks of the same box over the network outside"
        return PackingAttempt(Packer.TIGHT_CUTS, f"not taken: {reason}")
    with context().stage("paths"):
        schedule = found.schedule.explicit()
    roots = problem.terminals[problem.weights > 0]
    lowest = height_bound(problem.n_nodes, problem.tails, problem.heads, problem.terminals, roots)
    exact = found.exact_trees  # without it the optimum of the decomposition may be a loose bound
    with under(context().unlimited):
        best = found.optimum if exact else instance_optimum(problem)
    return Result(
        schedule,
        Bound(best.algbw, best.certificate),
        algbw=found.algbw,
        trees_per_root=found.trees_per_root,
        exact_trees_per_root=exact or exact_number(problem, best),
        packer=Packer.TIGHT_CUTS,
        packing=(PackingAttempt(Packer.TIGHT_CUTS, f"made the forest: {found.summary}"),),
        height_bound=lowest,
    )


def _reduce_height(found: Result, problem: Instance) -> Result:
    """Return the result with trees of smaller height, if any are found."""
    before = found.trees
    (forest,) = before.forests
    capacities = floor_capacities(problem.bandwidths, before.total_units / found.algbw)
    with context().stage("lower_forest"):
        forest, packer, attempts = reduce_height(
            problem, forest, capacities, Packer(str(found.packer)), found.packing, height=height_max(before)
        )
    lowest = smallest_height(problem, forest.root_multiplicity, capacities)
    schedule = schedule_of(before.kind, forest)
    return replace(found, schedule=schedule, packer=packer, packing=attempts, height_bound=lowest)


def _two_phases(
    topology: Topology, collective: Collective, budget: TreeBudget, packer: Packer | None
) -> Result:
    kinds = (CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALLGATHER)
    directions = [replace(collective, kind=kind) for kind in kinds]

    def results_of(budget: TreeBudget) -> list[Result]:
        return [synthesise(topology, one, budget=budget, packer=packer) for one in directions]

    scatter, gather = results_of(budget)
    # unit tree i of a root is followed by tree i of the other direction: both need equally many
    needed = lcm(scatter.trees_per_root or 1, gather.trees_per_root or 1)
    most, limit = (budget.max_trees or MAX_TREES), (MOST_UNITS - 1) // collective.n_ranks
    if budget.trees is not None or needed <= (limit if budget.exact else most):
        return _join_phases(scatter, gather)
    problems = [instance_of(topology, one) for one in directions]
    with under(context().unlimited):
        common = common_number(problems, most)
    joined = _join_phases(*results_of(TreeBudget(trees=common)))
    if not budget.exact:
        return joined
    note = f"reduce-scatter and allgather that lose nothing need {needed} trees per root, which are too many"
    return replace(joined, notes=(note,))


def _join_phases(scatter: Result, gather: Result) -> Result:
    """Return both phases as one allreduce; the caller sets its bound, `rs_ag` is that of two phases."""
    reduce, broadcast = equalised(*scatter.trees.forests, *gather.trees.forests)
    assert scatter.bound is not None
    assert gather.bound is not None
    return Result(
        ForestSchedule(CollectiveKind.ALLREDUCE, reduce=reduce, broadcast=broadcast),
        # the phases run one after the other, so their times per byte add up
        algbw=1 / (1 / scatter.algbw + 1 / gather.algbw),
        rs_ag=1 / (1 / scatter.bound.algbw + 1 / gather.bound.algbw),
        trees_per_root=int(reduce.root_multiplicity[0]),
        exact_trees_per_root=lcm(scatter.exact_trees_per_root or 1, gather.exact_trees_per_root or 1),
        notes=gather.notes or scatter.notes,
        packer=" + ".join(dict.fromkeys((str(scatter.packer), str(gather.packer)))),
        packing=scatter.packing + gather.packing,
        height_bound=max(scatter.height_bound or 0, gather.height_bound or 0),
    )


def _build(
    problem: Instance, units: TreeUnits, packer: Packer | None
) -> tuple[Forest, Packer, tuple[PackingAttempt, ...]]:
    """Return the trees, their packer, and the outcome of every packer."""
    multiplicities = problem.weights * units.fixed.trees
    skipped: tuple[PackingAttempt, ...] = ()
    if packer in (None, Packer.HEIGHT_FIRST):
        with context().stage("height_first"):
            packed = route_trees(problem, units.capacities, multiplicities, asked=packer is not None)
        if isinstance(packed, Packed):
            if packer is None:
                with context().stage("local_search"):
                    packed = local_search(packed, problem, units.capacities)
            with context().stage("paths"):
                return to_forest(problem, packed.graph, packed.packing), packed.packer, packed.attempts
        skipped = (packed,)
    with context().stage("switch_removal"):
        graph = remove_switches(problem, units.capacities, multiplicities)
    with context().stage("tree_packing"):
        packed = pack_smallest_height(
            problem, graph, multiplicities, packer=packer, capacities=units.capacities
        )
    with context().stage("paths"):
        forest = to_forest(problem, packed.graph, packed.packing)
    return forest, packed.packer, (*skipped, *packed.attempts)


def pack_forest(topology: Topology, collective: Collective, root_multiplicity: Sequence[int]) -> Forest:
    """Pack r(v) trees at each rank into a fabric whose bandwidths are capacities in trees.

    Parameters
    ----------
    topology : Topology
        `bandwidths` are numbers of trees; switches balanced.
    collective : Collective
        Gives ranks and forwarders, and by its kind the direction: in-trees for reduce-scatter and reduce.
    root_multiplicity : sequence of int, length N

    Raises
    ------
    InfeasibleError
        If a cut cannot carry the trees, or a switch is not balanced.
    """
    oriented = instance_of(topology, collective)
    problem = replace(oriented, weights=np.array(root_multiplicity, dtype=np.int64))
    with under(context().unlimited):
        violated = find_violated_cut(problem, problem.bandwidths)
    if violated is not None:
        raise InfeasibleError(f"{topology.name}: a cut of {len(violated[1])} nodes cannot carry the trees")
    with under(context().unlimited):
        units = first_possible(problem, iter([FixedTreesOptimum(1, Fraction(1), Fraction(0))]))
    with under(replace(context(), clock=None)):  # counted as one stage by the caller
        return _build(problem, units, None)[0]
