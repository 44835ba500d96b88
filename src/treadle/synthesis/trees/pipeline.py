"""ForestColl end to end: optimum, number of trees, switch removal, packing.

The steps follow one another: the optimum gives x*, x* and the bandwidths a number of trees and whole
capacities, edge splitting a graph on the ranks alone, and Edmonds' theorem spanning trees in it, whose arcs
are mapped back to paths of links. Each step keeps condition C, so each exists if the one before did. Source:
dissertation, chapter 4 and appendix B.5; docs/algorithms/forestcoll.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from math import lcm
from typing import TypeVar

import numpy as np

from treadle.context import TimeLimitError, context, under
from treadle.errors import InfeasibleError
from treadle.refusal import Refusal
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.trees.forest import Forest, ForestSchedule
from treadle.schedules.trees.forest_cost import height_max
from treadle.schedules.trees.forest_transforms import MOST_UNITS, equalised
from treadle.synthesis.trees.fixed_trees import FixedTreesOptimum, floor_capacities
from treadle.synthesis.trees.heights import lowest_height
from treadle.synthesis.trees.instance import Instance, find_violated_cut, instance_of
from treadle.synthesis.trees.one_root.one_root_forest import lower_of_one_root
from treadle.synthesis.trees.optimality import instance_optimum
from treadle.synthesis.trees.packers.improvement import lower_forest, route_low, search_lower
from treadle.synthesis.trees.packers.packed import Packed, Packer, PackingAttempt
from treadle.synthesis.trees.packers.packers import pack_lowest
from treadle.synthesis.trees.packers.tree_packing import to_forest
from treadle.synthesis.trees.packers.vertex_matching import height_bound
from treadle.synthesis.trees.switch_removal import remove_switches
from treadle.synthesis.trees.tight_cuts.decompose import decompose
from treadle.synthesis.trees.tree_budget import MAX_TREES, TreeBudget, is_dyadic
from treadle.synthesis.trees.tree_synthesis import StageClock, Synthesis, preferred, schedule_of
from treadle.synthesis.trees.tree_units import (
    TreeUnits,
    common_number,
    exact_number,
    first_possible,
    tree_choices,
)
from treadle.topologies.topology import Topology

FEW_RANKS = 256
"""Up to so many ranks superposed layers give way to the packers of the logical graph, and fabrics without
switches are packed both in pieces and as a whole."""


def synthesise(
    topology: Topology,
    collective: Collective,
    *,
    budget: TreeBudget | None = None,
    packer: Packer | None = None,
) -> Synthesis:
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
        Just this one, and growth should it fail; default: see `treadle.synthesis.trees.packers.packers`.

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
    clock = StageClock()
    if packer is Packer.BOX_BY_BOX or (len(problem.relays) and np.count_nonzero(problem.weights) == 1):
        return lower_of_one_root(_of_any_roots, problem, collective, budget, packer, clock)
    return _of_any_roots(problem, collective, budget, packer, clock)


def _of_any_roots(
    problem: Instance, collective: Collective, budget: TreeBudget, packer: Packer | None, clock: StageClock
) -> Synthesis:
    if packer not in (None, Packer.TIGHT_CUTS):
        return _from_whole(problem, collective, budget, packer, (), clock)
    found = _from_pieces(problem, collective, budget, packer, clock)
    if isinstance(found, PackingAttempt):
        return _from_whole(problem, collective, budget, packer, (found,), clock)
    if packer:
        return found
    # where there are no switches to remove, a forest of the whole is quick, and often lower than its pieces'
    whole: Synthesis | None = None
    if not len(problem.relays) and len(problem.terminals) <= FEW_RANKS:
        with suppress(TimeLimitError):
            whole = _from_whole(problem, collective, budget, packer, (), clock)
    wants_dyadic = bool(budget.lossy_numbers(problem.weights.tolist()))
    if whole is not None and _cost(whole, wants_dyadic) <= (*_loss(found, wants_dyadic), whole.height_bound):
        return preferred(whole, found)
    lowered = _lowered(found, problem, clock)
    if whole is None:
        return lowered
    return preferred(*sorted((whole, lowered), key=partial(_cost, wants_dyadic=wants_dyadic)))


def _loss(made: Synthesis, wants_dyadic: bool) -> tuple[bool, Fraction]:
    """What is to be low first: chunks other than a power of two, if wanted, and throughput, negated."""
    return wants_dyadic and not is_dyadic(made.schedule.total_units), -made.algbw


def _cost(made: Synthesis, wants_dyadic: bool) -> tuple[bool, Fraction, int]:
    """What is to be low: the loss, then the height."""
    return *_loss(made, wants_dyadic), height_max(made.schedule)


def _from_whole(
    problem: Instance,
    collective: Collective,
    budget: TreeBudget,
    packer: Packer | None,
    skipped: tuple[PackingAttempt, ...],
    clock: StageClock,
) -> Synthesis:
    """The forest of the whole fabric: optimum, capacities, switch removal, packing."""
    with under(context().unlimited):
        best = instance_optimum(problem)
    clock.stop("optimum")
    with under(context().unlimited):
        units = first_possible(problem, tree_choices(problem, best, budget))
    fixed = units.fixed
    clock.stop("trees_per_root")
    built = _build(problem, units, clock, packer)
    schedule = schedule_of(collective.kind, built.forest)
    needed = fixed.trees if fixed.algbw == best.algbw else exact_number(problem, best)
    lowest = lowest_height(problem, problem.weights * fixed.trees, units.capacities)
    clock.stop("height_bound")
    return Synthesis(
        schedule,
        fixed.algbw,
        best,
        fixed.trees,
        needed,
        best.algbw,
        clock.seconds,
        built.details,
        units.note,
        built.packer,
        (*skipped, *built.attempts),
        lowest,
    )


def _from_pieces(
    problem: Instance, collective: Collective, budget: TreeBudget, packer: Packer | None, clock: StageClock
) -> Synthesis | PackingAttempt:
    """The forest by tight cuts, written out; or why there is none."""
    found = decompose(  # made lower later
        problem.topology, collective, budget=budget, lower=False
    )
    clock.stop("tight_cuts")
    if isinstance(found, Refusal):
        return PackingAttempt(Packer.TIGHT_CUTS, f"failed: {found}")
    if packer is None and found.n_layers > 1 and len(problem.terminals) <= FEW_RANKS:
        reason = "one of its layers sends to the ranks of the same box over the network outside"
        return PackingAttempt(Packer.TIGHT_CUTS, f"not taken: {reason}")
    context().announce("paths")
    schedule = found.schedule.explicit()
    clock.stop("paths")
    roots = problem.terminals[problem.weights > 0]
    lowest = height_bound(problem.n_nodes, problem.tails, problem.heads, problem.terminals, roots)
    exact = found.exact_trees  # without them their optimum may be a loose bound
    with under(context().unlimited):
        best = found.optimum if exact else instance_optimum(problem)
    return Synthesis(
        schedule,
        found.algbw,
        best,
        found.trees_per_root,
        exact or exact_number(problem, best),
        best.algbw,
        clock.seconds,
        packer=Packer.TIGHT_CUTS,
        attempts=(PackingAttempt(Packer.TIGHT_CUTS, f"made the forest: {found.summary}"),),
        height_bound=lowest,
    )


def _lowered(found: Synthesis, problem: Instance, clock: StageClock) -> Synthesis:
    """Those trees made lower."""
    (forest,) = found.schedule.forests
    capacities = floor_capacities(problem.bandwidths, found.schedule.total_units / found.algbw)
    forest, packer, attempts = lower_forest(
        problem, forest, capacities, Packer(found.packer), found.attempts, height=height_max(found.schedule)
    )
    clock.stop("lower_forest")
    lowest = lowest_height(problem, forest.root_multiplicity, capacities)
    schedule = schedule_of(found.schedule.kind, forest)
    return replace(found, schedule=schedule, packer=packer, attempts=attempts, height_bound=lowest)


def _two_phases(
    topology: Topology, collective: Collective, budget: TreeBudget, packer: Packer | None
) -> Synthesis:
    kinds = (CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALLGATHER)
    directions = [replace(collective, kind=kind) for kind in kinds]

    def made(budget: TreeBudget) -> list[Synthesis]:
        return [synthesise(topology, one, budget=budget, packer=packer) for one in directions]

    scatter, gather = made(budget)
    # unit tree i of a root in the one direction is followed by that of the other: both need as many
    needed = lcm(scatter.trees_per_root, gather.trees_per_root)
    most, limit = (budget.max_trees or MAX_TREES), (MOST_UNITS - 1) // collective.n_ranks
    if budget.trees is not None or needed <= (limit if budget.exact else most):
        return _joined(scatter, gather)
    problems = [instance_of(topology, one) for one in directions]
    with under(context().unlimited):
        common = common_number(problems, most)
    joined = _joined(*made(TreeBudget(trees=common)))
    if not budget.exact:
        return joined
    note = f"reduce-scatter and allgather that lose nothing need {needed} trees per root, which are too many"
    return replace(joined, note=note)


def _joined(scatter: Synthesis, gather: Synthesis) -> Synthesis:
    """Both phases as one allreduce."""
    assert scatter.schedule.reduce is not None
    assert gather.schedule.broadcast is not None
    reduce, broadcast = equalised(scatter.schedule.reduce, gather.schedule.broadcast)
    return Synthesis(
        schedule=ForestSchedule(CollectiveKind.ALLREDUCE, reduce=reduce, broadcast=broadcast),
        # one phase runs after the other, so their times per byte add up
        algbw=1 / (1 / scatter.algbw + 1 / gather.algbw),
        optimum=gather.optimum,
        trees_per_root=int(reduce.root_multiplicity[0]),
        exact_trees_per_root=lcm(scatter.exact_trees_per_root, gather.exact_trees_per_root),
        exact_algbw=1 / (1 / scatter.exact_algbw + 1 / gather.exact_algbw),
        seconds=_added(scatter.seconds, gather.seconds),
        details=_added(scatter.details, gather.details),
        note=gather.note or scatter.note,
        packer=" + ".join(dict.fromkeys((scatter.packer, gather.packer))),
        attempts=scatter.attempts + gather.attempts,
        height_bound=max(scatter.height_bound, gather.height_bound),
    )


_Number = TypeVar("_Number", int, float)


def _added(one: Mapping[str, _Number], other: Mapping[str, _Number]) -> dict[str, _Number]:
    """Sums by key."""
    return {key: one.get(key, 0) + other.get(key, 0) for key in (*one, *other)}


@dataclass(frozen=True)
class _Built:
    """A forest and what `Synthesis` says of its making."""

    forest: Forest
    details: dict[str, int]
    packer: Packer
    attempts: tuple[PackingAttempt, ...]


def _build(problem: Instance, units: TreeUnits, clock: StageClock, packer: Packer | None) -> _Built:
    multiplicities = problem.weights * units.fixed.trees
    skipped: tuple[PackingAttempt, ...] = ()
    if packer in (None, Packer.HEIGHT_FIRST):
        low = route_low(problem, units.capacities, multiplicities, asked=packer is not None)
        clock.stop("height_first")
        if isinstance(low, Packed):
            low = low if packer else search_lower(low, problem, units.capacities)
            clock.stop("local_search")
            context().announce("paths")
            return _Built(to_forest(problem, low.graph, low.packing), {}, low.packer, low.attempts)
        skipped = (low,)
    graph = remove_switches(problem, units.capacities, multiplicities)
    clock.stop("switch_removal")
    packed = pack_lowest(problem, graph, multiplicities, packer=packer, capacities=units.capacities)
    clock.stop("tree_packing")
    context().announce("paths")
    forest = to_forest(problem, packed.graph, packed.packing)
    clock.stop("paths")
    details = {
        "logical_arcs": len(graph.tails),
        "cuts_mended": graph.cuts_mended,
        "exact_splits": graph.exact_splits,
        "speculative_trees": packed.packing.speculative,
        "exact_trees": packed.packing.exact,
    }
    return _Built(forest, details, packed.packer, (*skipped, *packed.attempts))


def pack_forest(topology: Topology, collective: Collective, root_multiplicity: Sequence[int]) -> Forest:
    """Pack r(v) trees at each rank into a fabric whose bandwidths are capacities in trees.

    Parameters
    ----------
    topology : Topology
        `bandwidths` are numbers of trees; switches balanced.
    collective : Collective
        Tells ranks and forwarders, and by its kind the direction: in-trees for reduce-scatter and reduce.
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
    return _build(problem, units, StageClock(), None).forest
