"""The decomposition end to end: both directions, and how many trees are worth it.

An allgather is decomposed as it is, a reduce-scatter on the transpose; an allreduce is one of each. Source:
docs/proofs/decomposition.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from math import lcm

import numpy as np

from treadle.context import TimeLimitError, context
from treadle.errors import ScheduleError
from treadle.schedules.collective import MAX_WEIGHT, Collective, CollectiveKind
from treadle.schedules.factored import FactoredForest, FactoredSchedule, Subproblem, expand, no_crossings
from treadle.schedules.group_certificate import GroupDualCertificate
from treadle.synthesis.trees.fixed_trees import floor_capacities
from treadle.synthesis.trees.heights import smallest_height
from treadle.synthesis.trees.instance import Instance, instance_of
from treadle.synthesis.trees.optimality import Optimum
from treadle.synthesis.trees.packers.rebuilding import rebuild_trees
from treadle.synthesis.trees.packers.tree_packing import from_forest, to_forest
from treadle.synthesis.trees.switch_removal import remove_switches
from treadle.synthesis.trees.tight_cuts.family import Family
from treadle.synthesis.trees.tight_cuts.layer_solution import ClassReport, layer_of
from treadle.synthesis.trees.tight_cuts.sets.detection import detect
from treadle.synthesis.trees.tight_cuts.subproblem_tables import local_instance, table_of
from treadle.synthesis.trees.tight_cuts.subproblems import cut
from treadle.synthesis.trees.tight_cuts.tight_cuts import Decomposition, decompose_with
from treadle.synthesis.trees.tree_budget import (
    MAX_TREES,
    MOST_SCANNED,
    TreeBudget,
    lower_number,
    most_trees,
)
from treadle.synthesis.trees.tree_units import exact_number
from treadle.topologies.topology import Topology
from treadle.unsupported import Unsupported
from treadle.verification.factored.height import forest_height

_MOST_RANKS = 1536
"""Beyond, trees written out take too much time and memory."""

_MOST_TREES = 2**20
"""Most trees per unit of weight, if the optimum is requested however many it takes."""


@dataclass(frozen=True)
class FactoredSynthesis:
    """A factored schedule with what was learnt on the way.

    Parameters
    ----------
    schedule : FactoredSchedule
    algbw : Fraction
        Bytes/s that the construction guarantees (the verifier measures it again).
    optimum : Optimum
        Of the allgather half, if there are two. Where `algbw` falls short of it, a bound that may be loose.
    trees_per_root : int
        k, per unit of shard weight.
    exact_trees : int
        k that attains the optimum, which proves it; 0: not known.
    parts : tuple of Decomposition
        One a direction.
    """

    schedule: FactoredSchedule
    algbw: Fraction
    optimum: Optimum
    trees_per_root: int
    exact_trees: int
    parts: tuple[Decomposition, ...]

    @property
    def n_layers(self) -> int:
        """Components of the forest, the most of the two directions."""
        return max(len(part.forest.layers) for part in self.parts)

    @property
    def summary(self) -> str:
        """Subproblem classes and their solvers, in a line."""
        return " / ".join(dict.fromkeys(part.summary for part in self.parts))


def decompose(
    topology: Topology, collective: Collective, *, budget: TreeBudget | None = None, lower: bool = True
) -> FactoredSynthesis | Unsupported:
    """Return a throughput-optimal forest schedule in factored form, or why tight cuts give none.

    Parameters
    ----------
    topology : Topology
    collective : Collective
        An allreduce is reduce-scatter followed by allgather, with equal trees per root.
    budget : TreeBudget, optional
        As in `treadle.synthesis.trees.synthesise`: never fewer bytes/s than the pipeline's answer.
    lower : bool
        Without switches, reduce the height of undivided forests of more than twice the height bound.

    Raises
    ------
    ScheduleError, InfeasibleError
        If ranks and fabric do not fit together.
    TimeLimitError
        When the deadline passed.

    Notes
    -----
    Source: docs/proofs/decomposition.md.
    """
    budget = budget or TreeBudget()
    if collective.kind is CollectiveKind.ALLREDUCE:
        return _two_phases(topology, collective, None, budget, lower)
    problem = instance_of(topology, collective)
    found = _within_budget(problem, budget)
    if isinstance(found, Unsupported):
        return found
    found = _of_more_trees(problem, found, budget)
    if lower:
        found = _reduce_height(problem, found)
    side = "reduce" if collective.kind.reduces else "broadcast"
    schedule = FactoredSchedule(collective.kind, **{side: found.forest})
    return FactoredSynthesis(schedule, found.algbw, found.optimum, found.trees, found.exact_trees, (found,))


@dataclass(frozen=True)
class UnequalShards:
    """An allreduce with unrestricted roots, and its bound.

    Parameters
    ----------
    found : FactoredSynthesis
    weights : tuple of int
        Shards of the roots, in lowest terms.
    bound : Fraction
        No allreduce is faster, bytes/s.
    certificate : GroupDualCertificate
        Proves that.
    """

    found: FactoredSynthesis
    weights: tuple[int, ...]
    bound: Fraction
    certificate: GroupDualCertificate


def decompose_allreduce(
    topology: Topology, collective: Collective, *, budget: TreeBudget | None = None, lower: bool = True
) -> UnequalShards | Unsupported:
    """Return an allreduce as reduce-scatter and allgather of the shards that suit the fabric, with a bound.

    Parameters, errors: see `decompose`; `budget.max_trees` is per rank, and a fixed number of trees is for
    equal shards.

    Notes
    -----
    Where no box and no rank has more bandwidth than others the shards are equal. Source: `root_weights`.
    """
    # these bring a solver
    from treadle.synthesis.class_optima import class_problem
    from treadle.synthesis.trees.tight_cuts.root_weights import root_weights

    budget = budget or TreeBudget()
    even = (1,) * collective.n_ranks
    if (classes := class_problem(topology, collective)) and (proved := classes.allreduce_bound()):
        # ranks are equivalent, so equal shards are best if they reach the bound
        equal = decompose(topology, collective, budget=budget, lower=lower)
        if not isinstance(equal, Unsupported) and equal.algbw == proved[0]:
            return UnequalShards(equal, even, *proved)
    problem = instance_of(topology, replace(collective, kind=CollectiveKind.ALLGATHER))
    choices = root_weights(problem, detect(problem))
    if not choices:
        return Unsupported("sets of ranks that differ are too many")
    best = choices[0]
    try:
        bound = best.certificate.bound(topology, collective)
    except ScheduleError as error:
        return Unsupported(f"no bound by link lengths: {error}")
    for shares in choices:
        found = _of_shares(topology, collective, shares.weights, budget, lower)
        if not isinstance(found, Unsupported) and found.algbw == shares.rate:
            return UnequalShards(found, shares.weights, bound, best.certificate)
    equal = decompose(topology, collective, budget=budget, lower=lower)
    if isinstance(found, Unsupported) or (not isinstance(equal, Unsupported) and equal.algbw >= found.algbw):
        return (
            equal if isinstance(equal, Unsupported) else UnequalShards(equal, even, bound, best.certificate)
        )
    return UnequalShards(found, shares.weights, bound, best.certificate)


def _of_shares(
    topology: Topology, collective: Collective, weights: tuple[int, ...], budget: TreeBudget, lower: bool
) -> FactoredSynthesis | Unsupported:
    """Return reduce-scatter and allgather of these shards; `max_trees` per rank limits their average."""
    if max(weights) == 1 == min(weights):
        return _two_phases(topology, collective, None, budget, lower)
    if max(weights) > MAX_WEIGHT:
        return Unsupported(f"shards are in proportions of more than 1 to {MAX_WEIGHT}")
    if budget.trees is not None:
        return Unsupported("the number of trees is for equal shards")
    if budget.max_trees is None:
        return _two_phases(topology, collective, weights, replace(budget, dyadic_loss=Fraction(0)), lower)
    most = budget.max_trees * len(weights) // sum(weights)
    if not most:
        return Unsupported("not enough trees for the shards")
    return _two_phases(topology, collective, weights, TreeBudget(max_trees=most), lower)


def _two_phases(
    topology: Topology,
    collective: Collective,
    weights: tuple[int, ...] | None,
    budget: TreeBudget,
    lower: bool,
) -> FactoredSynthesis | Unsupported:
    kinds = (CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER)
    one, other = (instance_of(topology, replace(collective, kind=kind, weights=weights)) for kind in kinds)
    gather = _within_budget(one, budget)
    if isinstance(gather, Unsupported):
        return gather
    scatter = alone = _within_budget(other, budget)
    if isinstance(alone, Unsupported) or alone.trees != gather.trees:
        # the trees of both halves meet at their roots, so the second takes as many as the first
        scatter = _within_budget(other, TreeBudget(trees=gather.trees))
    if isinstance(scatter, Unsupported):
        return scatter
    is_faster_alone = isinstance(alone, Unsupported) or alone.algbw > scatter.algbw
    if scatter.algbw != scatter.optimum.algbw and is_faster_alone:
        return Unsupported("the two directions need different numbers of trees")
    if lower:
        gather, scatter = _reduce_height(one, gather), _reduce_height(other, scatter)
    schedule = FactoredSchedule(CollectiveKind.ALLREDUCE, reduce=scatter.forest, broadcast=gather.forest)
    # one half runs after the other, so their times per byte add up
    algbw = 1 / (1 / scatter.algbw + 1 / gather.algbw)
    exact = lcm(gather.exact_trees, scatter.exact_trees)
    return FactoredSynthesis(schedule, algbw, gather.optimum, gather.trees, exact, (scatter, gather))


def _of_more_trees(problem: Instance, found: Decomposition, budget: TreeBudget) -> Decomposition:
    """Return more trees of a single root if their height is smaller at the same rate."""
    number = lower_number(budget, problem.weights, found.trees)
    if number is None or not len(problem.relays):
        return found
    try:
        more = decompose_with(problem, [number])
    except TimeLimitError:  # then the forest remains
        return found
    if isinstance(more, Unsupported) or more.algbw < found.algbw:
        return found
    before, after = (forest_height(each.forest.layers).hops for each in (found, more))
    return replace(more, exact_trees=found.exact_trees) if before > after else found


def _reduce_height(problem: Instance, found: Decomposition) -> Decomposition:
    forest, kinds = rebuild_undivided(problem, found.forest, found.kinds, found.scale)
    return replace(found, forest=forest, kinds=kinds)


def _within_budget(problem: Instance, budget: TreeBudget) -> Decomposition | Unsupported:
    """The same preferences as the pipeline's: a power of two, the optimum with a small number of trees, the
    best limited number."""
    context().announce("tight cuts")
    detected = detect(problem)
    search = partial(decompose_with, problem, detected=detected)
    if budget.trees is not None or detected.n_sets == 1:
        return search([budget.trees or 1])
    if budget.exact:
        return search(range(1, _MOST_TREES + 1), share=Fraction(1))
    if budget.max_trees is not None:
        return search(range(1, min(budget.max_trees, MOST_SCANNED) + 1))
    ranks, weight = len(problem.terminals), int(problem.weights.sum())
    exact = search(range(1, MAX_TREES * ranks // weight + 1), share=Fraction(1))
    preferred = _dyadic(problem, budget, search, exact)
    if preferred is not None or not isinstance(exact, Unsupported):
        return preferred or exact
    found = search(range(1, most_trees(ranks, weight) + 1))
    if isinstance(found, Unsupported) or found.exact_trees:
        return found
    needed = exact_number(problem, found.optimum)
    if needed * weight <= MAX_TREES * ranks:  # the pipeline attains the optimum
        return Unsupported(
            f"{needed} trees per unit of weight attain the optimum, but not by these sets ({exact})"
        )
    return found


def _dyadic(
    problem: Instance,
    budget: TreeBudget,
    search: Callable[..., Decomposition | Unsupported],
    exact: Decomposition | Unsupported,
) -> Decomposition | None:
    """Return a number of trees with a power of two of chunks: without loss, else the fewest that lose
    little."""
    weights: list[int] = problem.weights.tolist()
    numbers = budget.dyadic_numbers(weights, MAX_TREES)
    few = budget.lossy_numbers(weights)
    if not isinstance(exact, Unsupported):
        if exact.trees in numbers:
            return exact
        found = search(numbers, share=Fraction(1)) if numbers else exact
        if not isinstance(found, Unsupported) and found.trees in numbers:
            return found
    found = search(few, share=1 - budget.dyadic_loss) if few else Unsupported("no number loses little")
    if isinstance(found, Unsupported) or found.algbw <= found.optimum.algbw * (1 - budget.dyadic_loss):
        return None
    if isinstance(exact, Unsupported):
        return found
    return replace(found, optimum=exact.optimum, exact_trees=found.exact_trees or exact.exact_trees)


def rebuild_undivided(
    problem: Instance,
    forest: FactoredForest,
    kinds: tuple[ClassReport, ...],
    scale: Fraction,
    *,
    times: int = 2,
) -> tuple[FactoredForest, tuple[ClassReport, ...]]:
    """Return a factored forest of one subproblem, the entire fabric, if that of several has a large height.

    `kinds` report the solvers of the subproblems, and `scale` is in capacity units per byte/s. The same
    forest is returned if its height is at most `times` the bound, if no height is smaller, or if the fabric
    has relays or too many ranks.

    The constraint of every subproblem, that its boundary be tight, does not apply here: trees
    are rebuilt in all of the fabric's capacity.
    """
    n = len(problem.terminals)
    if len(problem.relays) or n > _MOST_RANKS:
        return forest, kinds
    capacities = floor_capacities(problem.bandwidths, scale)
    lowest = smallest_height(problem, forest.root_multiplicity, capacities)
    if forest_height(forest.layers).hops <= times * lowest:
        return forest, kinds
    cutting = cut(problem, Family.from_levels(problem.n_nodes, ()), capacities, forest.root_multiplicity)
    (local,) = cutting.kinds
    fabric = local_instance(local)
    graph = remove_switches(fabric, local.capacity, local.native)
    _, packing = from_forest(problem, expand(forest, range(n)))
    found = rebuild_trees(fabric, graph, packing, lowest=lowest)
    if found.after >= found.before:
        return forest, kinds
    table = table_of(to_forest(fabric, graph, found.packing), np.zeros(len(local.tails), dtype=np.int64))
    solution = Subproblem(local.capacity, local.native, table, no_crossings(), no_crossings())
    packers = " and ".join(dict.fromkeys(kind.packer for kind in kinds))
    layers = (layer_of(cutting, [solution]),)
    report = ClassReport(1, n, 0, f"{packers}, grown anew")
    return FactoredForest(forest.direction, forest.root_multiplicity, layers), (report,)
