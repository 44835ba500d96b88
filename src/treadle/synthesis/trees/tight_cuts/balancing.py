"""Lower capacities so that the sets of a family become exactly tight.

Only tight sets separate a problem into subproblems, and at the optimum few sets are tight by themselves. A
forest for lower capacities is one for the given ones, so spare units that enter a set are taken away, in
proportion, as far as the cuts that are known allow (Lemma 7). Whether the rest still holds trees is decided
by the subproblems (Theorem 5), not here. Source: docs/proofs/decomposition.md, section 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from treadle.arrays import BoolArray, Int32Array, Int64Array, mask_of, sums_of
from treadle.synthesis.runs import run_starts, sums_before
from treadle.synthesis.trees.instance import Instance
from treadle.synthesis.trees.tight_cuts.family import Family
from treadle.synthesis.trees.tight_cuts.proportion import in_proportion

_ROUNDS = 8
"""Rounds in which reductions that some links cannot take are moved to others."""


@dataclass(frozen=True)
class BalancedCapacities:
    """Outcome of balancing.

    Parameters
    ----------
    capacities : array of int64, shape (m,)
    failed : array of bool, shape (s,)
        Sets that could not be made tight.
    """

    capacities: Int64Array
    failed: BoolArray


def balance_capacities(
    problem: Instance,
    family: Family,
    capacities: Int64Array,
    multiplicities: Int64Array,
    guarded: Sequence[Sequence[int]] = (),
) -> BalancedCapacities:
    """Reduce links that enter sets until R - r(X) units enter each set X; at least as many must at first.

    Guarded sets Y, given by their nodes, keep R - r(Y) entering units. At a relay both directions of a pair
    of links are reduced by the same amount, which keeps it balanced. Links that enter a set that is tight
    already are left alone, and both of a pair if one of them does. No more is taken off than single ranks,
    sets around and within, and guarded sets can spare, nor so much that ranks or sets could not send their
    own trees out. Whether the rest suffices is decided by the subproblems. Sets are treated from the inside
    out; if that fails for some, and for fewer from the outside in, then that way.
    """
    depths = range(1, int(family.depth.max(initial=0)) + 1)
    cuts = _cuts(problem, family, multiplicities, guarded)
    found = [_trimmed(problem, family, cuts, capacities, depths[::-1])]
    if found[0].failed.any() and len(depths) > 1:
        found.append(_trimmed(problem, family, cuts, capacities, depths))
    return min(found, key=lambda each: each.failed.sum())


@dataclass(frozen=True, eq=False)
class _Cuts:
    """Disjoint sets that must keep some of the units that enter them, or that leave them.

    Parameters
    ----------
    depth : int
        Of a family's sets that are to be made tight; else 0.
    row : array of int32, shape (n,)
        The set that holds each node, or -1.
    need : array of int64
        Units that must enter (leave) each set.
    leaving : bool
    """

    def across(self, tails: Int32Array, heads: Int32Array) -> tuple[Int32Array, Int64Array]:
        """Return the sets that links enter (leave), and the positions of these links."""
        inner, outer = self.row[tails if self.leaving else heads], self.row[heads if self.leaving else tails]
        crossing = np.flatnonzero((inner >= 0) & (inner != outer))
        return inner[crossing], crossing

    depth: int
    row: Int32Array
    need: Int64Array
    leaving: bool = False


def _cuts(
    problem: Instance, family: Family, multiplicities: Int64Array, guarded: Sequence[Sequence[int]]
) -> list[_Cuts]:
    """Return the family's sets by depth, single ranks, the egress of both, and guarded sets."""
    weight = sums_of(problem.n_nodes, problem.terminals, multiplicities)
    total, own = multiplicities.sum(), family.sums(weight)
    single = np.full(problem.n_nodes, -1, dtype=np.int32)
    single[problem.terminals] = problem.terminals
    cuts = [_Cuts(0, single, total - weight), _Cuts(0, single, weight, leaving=True)]
    for depth, row in enumerate(family.ancestors[1:], 1):
        cuts += [_Cuts(depth, row, total - own), _Cuts(0, row, own, leaving=True)]
    for nodes in guarded:
        row = np.full(problem.n_nodes, -1, dtype=np.int32)
        row[list(nodes)] = 0
        cuts.append(_Cuts(0, row, np.array([total - weight[list(nodes)].sum()])))
    return cuts


def _trimmed(
    problem: Instance, family: Family, cuts: list[_Cuts], capacities: Int64Array, depths: Sequence[int]
) -> BalancedCapacities:
    state = _State.of(problem, family, cuts, capacities)
    for depth in depths:
        row = family.ancestors[depth]
        tail, head = row[problem.tails], row[problem.heads]
        shared = state.paired & (tail >= 0) & (head >= 0) & (tail != head)
        sets = np.flatnonzero(family.depth == depth)
        # two sets that share a pair of links would reduce each other's: one at a time
        for group in [sets] if not shared.any() else [sets[i : i + 1] for i in range(len(sets))]:
            chosen = mask_of(family.n_sets + 1, group)
            links = np.flatnonzero(chosen[head] & (head != tail))  # head -1 is the last, never chosen
            _trim_group(state, head[links], links, depth)
            good = chosen & ~np.append(state.failed, True)
            # a set that is tight now keeps its ingress; mates stay equal to it, since a relay has to balance
            state.fixed[(tail != head) & (good[head] | (state.paired & good[tail]))] = True
    return BalancedCapacities(state.capacities, state.failed)


@dataclass(frozen=True, eq=False)
class _State:
    """Capacities while they are reduced, in place.

    Parameters
    ----------
    problem : Instance
    cuts : list of _Cuts
    capacities : array of int64, shape (m,)
    failed : array of bool, shape (s,)
    mates : array of int64, shape (m,)
        The reverse link that is reduced equally, -1 without one.
    paired, fixed : array of bool, shape (m,)
        Links at relays; links that must stay as they are.
    """

    problem: Instance
    cuts: list[_Cuts]
    capacities: Int64Array
    failed: BoolArray
    mates: Int64Array
    paired: BoolArray
    fixed: BoolArray

    @staticmethod
    def of(problem: Instance, family: Family, cuts: list[_Cuts], capacities: Int64Array) -> _State:
        is_relay = ~mask_of(problem.n_nodes, problem.terminals)
        paired = is_relay[problem.tails] | is_relay[problem.heads]
        mates = np.where(paired, _mates(problem, capacities), -1)
        failed = np.zeros(family.n_sets, dtype=bool)
        return _State(problem, cuts, capacities.copy(), failed, mates, paired, paired & (mates < 0))

    def spared(self, links: Int64Array, reduced: Int64Array, depth: int) -> Int64Array:
        """Return the reduction that links can take without violating other cuts."""
        reduced = reduced.copy()
        # a mate is reduced with its link, and crosses other cuts
        back = self.paired[links]
        heads = np.concatenate([self.problem.heads[links], self.problem.tails[links[back]]])
        tails = np.concatenate([self.problem.tails[links], self.problem.heads[links[back]]])
        place = np.concatenate([np.arange(len(links)), np.flatnonzero(back)])
        for cuts in self.cuts:
            owner, at = cuts.across(tails, heads)
            if cuts.depth == depth or not len(at):
                continue
            of = place[at]
            crossed, crossing = cuts.across(self.problem.tails, self.problem.heads)
            spare = sums_of(len(cuts.need), crossed, self.capacities[crossing]) - cuts.need
            asked = sums_of(len(cuts.need), owner, reduced[of])
            # cuts that lack capacity already do not count: the set is dropped, or the rate is too high
            short = (asked[owner] > spare[owner]) & (spare[owner] >= 0)
            owner, of = owner[short], of[short]
            np.minimum.at(reduced, of, in_proportion(reduced[of], spare[owner], asked[owner]))
        return reduced


def _trim_group(state: _State, owner: Int32Array, links: Int64Array, depth: int) -> None:
    """Balance sets that share no link, in place; `owner` is the set that each link enters."""
    count = len(state.failed)
    whole = state.capacities[links]
    surplus = sums_of(count, owner, whole) - next(cuts.need for cuts in state.cuts if cuts.depth == depth)
    free = ~state.fixed[links] & (surplus[owner] > 0)
    reduced = np.zeros(len(links), dtype=np.int64)
    for _ in range(_ROUNDS):
        missing = np.maximum(surplus - sums_of(count, owner, reduced), 0)
        more = np.zeros(len(links), dtype=np.int64)
        more[free] = _spread(owner[free], links[free], (whole - reduced)[free], missing)
        spared = state.spared(links, reduced + more, depth)
        free &= spared == reduced + more  # the others take all that a cut can spare
        reduced = spared
        if np.all(sums_of(count, owner, reduced) >= surplus) or not free.any():
            break
    sets = np.unique(owner)
    state.failed[sets[sums_of(count, owner, reduced)[sets] != surplus[sets]]] = True
    chosen = np.flatnonzero((reduced > 0) & ~state.failed[owner])
    state.capacities[links[chosen]] -= reduced[chosen]
    both = links[chosen][state.mates[links[chosen]] >= 0]
    state.capacities[state.mates[both]] = state.capacities[both]


def _spread(owner: Int32Array, links: Int64Array, rooms: Int64Array, missing: Int64Array) -> Int64Array:
    """Divide each set's deficit among its links, in proportion to their free capacity."""
    count = len(missing)
    total = sums_of(count, owner, rooms)
    taken = np.minimum(missing, total)
    kept = in_proportion(rooms, (total - taken)[owner], np.maximum(total, 1)[owner])
    left = total - taken - sums_of(count, owner, kept)
    order = np.lexsort((links, owner))
    order = order[rooms[order] > 0]
    place = sums_before(owner[order], np.ones_like(order))
    kept[order] += place < left[owner[order]]  # there are fewer units left than links
    return rooms - kept


def _mates(problem: Instance, capacities: Int64Array) -> Int64Array:
    """The reverse link with equal capacity, -1 without one, shape (m,)."""
    sides = (problem.tails, problem.heads), (problem.heads, problem.tails), (capacities, capacities)
    if len(capacities) % 2 == 0 and all(np.array_equal(a[::2], b[1::2]) for a, b in sides):
        # most fabrics list both directions of a cable in turn, where sorting would find the same
        mates = np.arange(len(capacities)) ^ 1
        mates[problem.tails == problem.heads] = -1
        return mates
    links = np.flatnonzero(problem.tails != problem.heads)
    tails, heads = problem.tails[links].astype(np.int64), problem.heads[links].astype(np.int64)
    pair = np.minimum(tails, heads) * problem.n_nodes + np.maximum(tails, heads)
    onward = tails < heads
    # of a group of pair and capacity backward ones first
    order = np.lexsort((onward, capacities[links], pair))
    links, pair, onward = links[order], pair[order], onward[order]
    fresh = run_starts(pair, capacities[links])
    start = np.flatnonzero(fresh)
    group = np.cumsum(fresh) - 1
    backward = np.bincount(group[~onward], minlength=len(start))
    place = np.flatnonzero(onward)
    group = group[place]
    # in a group backward links come first: the k-th onward one goes with the k-th of them
    other = place - backward[group]
    matched = other < start[group] + backward[group]
    one, other = links[place[matched]], links[other[matched]]
    mates = np.full(len(capacities), -1, dtype=np.int64)
    mates[one], mates[other] = other, one
    return mates
