"""A factored forest from tight cuts: a scale, a family of sets, balancing, subproblems; cuts learnt on the
way.

A family of sets is guessed and balanced; each subproblem is tested for the cut condition before any is solved
(Theorem 5 (b)). A violated cut of a subproblem, lifted to the fabric, either proves a smaller rate to restart
with, or it was violated by balancing and is guarded from then on; a guarded cut that is violated again costs
the sets of its subproblem. So guesses cost time, never the optimum (Corollary 6). Source:
docs/proofs/decomposition.md, sections 2 to 4.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import islice
from math import lcm
from operator import attrgetter

import numpy as np

from treadle.arrays import Int32Array, Int64Array, exact_sum, mask_of, sums_of
from treadle.context import TimeLimitError, context
from treadle.math.graphs import components
from treadle.schedules.certificate import BottleneckCut
from treadle.schedules.factored import FactoredForest, Layer
from treadle.synthesis.trees.fixed_trees import Cut, floor_capacities, scale_bound
from treadle.synthesis.trees.instance import UNIT_LIMIT, Instance
from treadle.synthesis.trees.optimality import Optimum
from treadle.synthesis.trees.switch_removal import unbalanced_relay
from treadle.synthesis.trees.tight_cuts.components import single_rate, single_tree_layer, split_layers
from treadle.synthesis.trees.tight_cuts.family import Family
from treadle.synthesis.trees.tight_cuts.layer_solution import (
    ClassReport,
    InfeasibleSubproblem,
    fitted_layer,
    solve_layer,
)
from treadle.synthesis.trees.tight_cuts.scales import cut_against, cut_classes
from treadle.synthesis.trees.tight_cuts.sets.detection import detect
from treadle.unsupported import Unsupported

_MOST_SCALES = 2**12
"""Numbers of trees that are tried for the optimum."""

_MOST_ROUNDS = 64
"""Largest number of learnt cuts and dropped sets."""


@dataclass(frozen=True)
class Decomposition:
    """A factored forest and what is proved of it.

    Parameters
    ----------
    forest : FactoredForest
    optimum : Optimum
    trees : int
        k, per unit of shard weight.
    scale : Fraction
        U: capacity units per byte/s.
    algbw : Fraction
        W k / U, bytes/s.
    kinds : tuple of ClassReport
    exact_trees : int
        A number of trees with which the optimum was attained, which proves it; 0: not known.
    """

    forest: FactoredForest
    optimum: Optimum
    trees: int
    scale: Fraction
    algbw: Fraction
    kinds: tuple[ClassReport, ...]
    exact_trees: int = 0

    @property
    def summary(self) -> str:
        """Subproblem classes and their solvers, in a line."""
        counts: Counter[tuple[int, str]] = Counter()
        for one in self.kinds:
            counts[one.children, one.packer] += one.count
        parts = (
            f"{count} of {children} children by {packer}" for (children, packer), count in counts.items()
        )
        return f"{len(self.kinds)} kinds of subproblems: " + ", ".join(parts)


def decompose_with(
    problem: Instance, trees: Sequence[int], *, share: Fraction | None = None, detected: Family | None = None
) -> Decomposition | Unsupported:
    """Return a factored forest by tight-cut decomposition, or why there is none.

    Parameters
    ----------
    problem : Instance
    trees : sequence of int
        Numbers of trees per unit of shard weight to choose from, rising.
    share : Fraction, optional
        Choose the fewest trees that reach this share of the optimum; 1: only the optimum, for which
        layers of any number of trees are tried too. Default: the best.
    detected : Family, optional
        Result of `detect`.

    Notes
    -----
    Source: docs/proofs/decomposition.md. The optimum is proved by one cut and the construction; a cut
    that a subproblem violates is a cut of the fabric too.
    """
    detected = detected or detect(problem)
    parts = components(problem.n_nodes, problem.tails, problem.heads)[problem.terminals]
    if np.any(parts != parts[0]):
        return Unsupported("some rank cannot be reached")
    if detected.n_sets == 1:
        return Unsupported("no set of several ranks is joined better within than to the rest")
    if unbalanced_relay(problem, problem.bandwidths) is not None:
        return Unsupported("a switch has unequal bandwidth in and out")
    known = _Known(detected)
    for _ in range(_MOST_ROUNDS):
        if context().is_late:
            raise TimeLimitError("tight cuts")
        classes = [*cut_classes(problem, known.family), *known.cuts]
        tightest = min(classes, key=attrgetter("rate"))
        if not tightest.rate:
            return Unsupported("some rank cannot be reached")
        found = _attempts(problem, known, classes, tightest, trees, share)
        if isinstance(found, Decomposition):
            return found
        if isinstance(found, _Known) and found.family.n_sets > 1:
            known = found
            continue
        why = found if isinstance(found, Unsupported) else Unsupported("no detected set can be made tight")
        if share != 1 or tightest.rate != single_rate(problem):
            return why
        layered = _superposed(problem, detected, optimum_of_cut(problem, tightest))
        return Unsupported(f"{why}; layers: {layered}") if isinstance(layered, Unsupported) else layered
    return Unsupported("too many cuts had to be learnt")


@dataclass(frozen=True)
class _Known:
    """Constraints of the search for a scale.

    Parameters
    ----------
    family : Family
    cuts : tuple of Cut
        Cuts that subproblems violated, which bound the rate or the capacities' floors.
    guarded : tuple of Cut
        Cuts that only balancing made too small, which it has to spare.
    """

    family: Family
    cuts: tuple[Cut, ...] = ()
    guarded: tuple[Cut, ...] = ()


def _attempts(
    problem: Instance,
    known: _Known,
    classes: list[Cut],
    tightest: Cut,
    trees: Sequence[int],
    share: Fraction | None,
) -> Decomposition | Unsupported | _Known:
    """Build the first number of trees that can be built; or return a better family, or more cuts."""
    best = optimum_of_cut(problem, tightest)
    family = with_hosts(problem, known.family)
    hosted = known if family is known.family else replace(known, family=family)
    for number, scale in _choices(classes, tightest, trees, share):
        built = _build(problem, hosted, best, number, scale)
        if hosted is not known and not isinstance(built, Decomposition):
            built = _build(problem, known, best, number, scale)
        if not isinstance(built, InfeasibleSubproblem):
            return built
        cuts = [cut for each in built.all if (cut := cut_against(problem, each.nodes)) is not None]
        # a cut below the assumed rate bounds the fabric itself: all scales were too high
        worse = [cut for cut in cuts if cut.rate < tightest.rate]
        if worse:
            return replace(known, cuts=(*known.cuts, *worse))
        floored = [cut for cut in cuts if cut.units(scale) < number * cut.demand]
        if floored and share == 1:
            continue  # rounding is at fault: with more trees it matters less
        if floored:
            return replace(known, cuts=(*known.cuts, *floored))
        # the fabric has enough capacity in this cut, so balancing violated it
        guarded = [cut for cut in cuts if cut not in known.guarded]
        if guarded:
            return replace(known, guarded=(*known.guarded, *guarded))
        # guarded and violated again: the sets of that subproblem cannot all be tight
        dropped = mask_of(known.family.n_sets, np.concatenate([each.blamed for each in built.all]))
        dropped[0] = False
        if not dropped.any():
            return Unsupported(f"a subproblem has no forest: {built.reason}")
        return replace(known, family=known.family.without(dropped))
    return Unsupported("no number of trees in reach attains the optimum")


def _choices(
    classes: list[Cut], tightest: Cut, trees: Sequence[int], share: Fraction | None
) -> Iterator[tuple[int, Fraction]]:
    """Yield numbers of trees and their scales: those that reach the share by number, else the best first."""
    rate = tightest.rate
    # at the optimum all units into the tightest cut are needed, so none of its floors may cut anything off
    step = lcm(*((b / rate).denominator for b in tightest.links)) if share == 1 else 1

    def scaled(number: int) -> tuple[int, Fraction]:
        if context().is_late:
            raise TimeLimitError("tight cuts")
        return number, scale_bound(rate, number, classes)

    is_counted = isinstance(trees, range) and trees.start == trees.step == 1
    multiples = trees[step - 1 :: step] if is_counted else (each for each in trees if each % step == 0)
    found = (scaled(number) for number in islice(multiples, _MOST_SCALES))
    if share is not None:
        yield from ((number, scale) for number, scale in found if number >= share * rate * scale)
    else:
        yield from sorted(found, key=lambda pair: (-pair[0] / pair[1], pair[0]))


def optimum_of_cut(problem: Instance, tightest: Cut) -> Optimum:
    """Return the bound of a cut as an optimum, which the construction has to prove."""
    outside = ~mask_of(problem.n_nodes, list(tightest.nodes))
    certificate = BottleneckCut(tuple(np.flatnonzero(outside).tolist()))
    return Optimum(tightest.rate, int(problem.weights.sum()) * tightest.rate, certificate)


def _build(
    problem: Instance, known: _Known, best: Optimum, number: int, scale: Fraction
) -> Decomposition | InfeasibleSubproblem | Unsupported:
    capacities = floor_capacities(problem.bandwidths, scale)
    multiplicities = problem.weights * number
    if exact_sum(capacities) + exact_sum(multiplicities) >= UNIT_LIMIT:
        return Unsupported("capacities of 2**61 units or more would be needed")
    if unbalanced_relay(problem, capacities) is not None:
        return Unsupported("rounded capacities leave a switch unbalanced")
    guarded = [cut.nodes for cut in known.guarded]
    lean = without_partial_relays(problem, known.family, capacities, multiplicities)
    for units in (capacities,) if lean is None else (lean, capacities):
        built = fitted_layer(problem, known.family, units, multiplicities, guarded)
        if isinstance(built, tuple):
            break
    if not isinstance(built, tuple):
        return built
    layer, reports = built
    forest = FactoredForest(problem.direction, multiplicities, (layer,))
    algbw = Fraction(int(problem.weights.sum()) * number) / scale
    return Decomposition(forest, best, number, scale, algbw, reports, number if algbw == best.algbw else 0)


def _superposed(problem: Instance, family: Family, best: Optimum) -> Decomposition | Unsupported:
    """Attain the optimum of boxes limited by ranks: components with tight boxes, and a flat one."""
    split = split_layers(problem, family)
    if isinstance(split, Unsupported):
        return split
    layers: list[Layer] = []
    reports: tuple[ClassReport, ...] = ()
    for part in split.parts:
        built = (
            solve_layer(problem, part.family, part.capacities, part.multiplicities)
            if part.parent is None
            else single_tree_layer(problem, part)
        )
        if not isinstance(built, tuple):
            return Unsupported(f"a layer has no forest: {built.reason}")
        layers.append(built[0])
        reports += built[1]
    forest = FactoredForest(problem.direction, problem.weights * split.trees, tuple(layers))
    return Decomposition(forest, best, split.trees, split.scale, best.algbw, reports, split.trees)


def without_partial_relays(
    problem: Instance, family: Family, capacities: Int64Array, multiplicities: Int64Array
) -> Int64Array | None:
    """Return capacities without outermost relays that some outermost child lacks; None if all are needed.

    This applies only if there are more relays than children. The remaining relays join all children, and
    children that have lost links to different relays become equivalent. The checks of subproblems decide
    whether that is feasible. Source: docs/proofs/decomposition.md, section 4.
    """
    if family.n_sets == 1:
        return None
    n, tails, heads = len(family.innermost), problem.tails, problem.heads
    child = family.ancestors[1].astype(np.int64)  # of the outermost subproblem; -1 for its relays
    alone = problem.terminals[child[problem.terminals] < 0]
    child[alone] = family.n_sets + np.arange(len(alone))
    children, place = np.unique(child, return_inverse=True)
    if children[0] >= 0:
        return None
    child = place.ravel() - 1
    crossing = (capacities > 0) & (child[tails] != child[heads])
    if np.any((capacities > 0) & (child[tails] < 0) & (child[heads] < 0)):
        return None
    partial, joined = np.zeros((2, n), dtype=bool)
    for relay, end in ((heads, tails), (tails, heads)):
        here = np.flatnonzero(crossing & (child[relay] < 0))
        pairs = np.unique(relay[here].astype(np.int64) * len(children) + child[end[here]])
        met = np.bincount(pairs // len(children), minlength=n)
        joined |= met > 0
        partial |= met < len(children) - 1
    partial &= joined
    if not partial.any() or np.count_nonzero(joined) < len(children):
        return None  # direct constructions support few relays as they are
    left = np.where(partial[tails] | partial[heads], 0, capacities)
    native = sums_of(len(children) - 1, child[problem.terminals], multiplicities)
    for end, needed in ((tails, native), (heads, native.sum() - native)):
        here = np.flatnonzero(crossing & (child[end] >= 0))
        if np.any(sums_of(len(native), child[end[here]], left[here]) < needed):
            return None
    return left


def with_hosts(problem: Instance, family: Family) -> Family:
    """Return the family with a set for each rank outside of all sets that has relays of its own.

    New sets come last; the same family is returned if there are none.

    A relay is a rank's own if it is in no set, and joined to that rank, to other relays outside of all sets,
    and to nothing else. A relay that joins a rank to several planes is then inside, and the children of the
    outermost subproblem are joined by planes alone.
    """
    if family.n_sets == 1:
        return family
    is_rank = mask_of(problem.n_nodes, problem.terminals)
    loose = family.innermost == 0
    tails, heads = problem.tails.astype(np.int64), problem.heads.astype(np.int64)
    relay = np.concatenate([tails, heads])
    other = np.concatenate([heads, tails])
    near = loose[relay] & ~is_rank[relay] & (relay != other)
    relay, other = relay[near], other[near]
    meets_set = mask_of(problem.n_nodes, relay[~loose[other]])
    at_rank = is_rank[other] & loose[other]
    pairs = np.unique(np.stack([relay[at_rank], other[at_rank]], axis=1), axis=0)
    counts = np.bincount(pairs[:, 0], minlength=problem.n_nodes)
    to_relay = mask_of(problem.n_nodes, relay[~is_rank[other]])
    own = pairs[(counts[pairs[:, 0]] == 1) & ~meets_set[pairs[:, 0]] & to_relay[pairs[:, 0]]]
    if not len(own):
        return family
    hosts, place = np.unique(own[:, 1], return_inverse=True)
    innermost = family.innermost.copy()
    innermost[hosts] = family.n_sets + np.arange(len(hosts))
    innermost[own[:, 0]] = family.n_sets + place.ravel()
    outer: Int32Array = np.concatenate([family.outer, np.zeros(len(hosts), dtype=np.int32)])
    return Family(outer, innermost)
