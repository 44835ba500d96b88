"""Lower capacities so that the sets of a family become exactly tight."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treadle.arrays import BoolArray, Int32Array, Int64Array
from treadle.synthesis.forestcoll.decomposition.family import Family
from treadle.synthesis.forestcoll.instance import Instance

_SAFE = 2.0**62


@dataclass(frozen=True)
class Trimmed:
    """What trimming came to.

    Parameters
    ----------
    capacities : array of int64, shape (m,)
    failed : array of bool, shape (s,)
        Sets that could not be made tight.
    """

    capacities: Int64Array
    failed: BoolArray


def trim(problem: Instance, family: Family, capacities: Int64Array, multiplicities: Int64Array) -> Trimmed:
    """Lower links that enter sets, and their counterparts alike, until R - r(X) units enter each set X.

    Parameters
    ----------
    problem : Instance
    family : Family
    capacities : array of int64, shape (m,)
        At least R - r(X) must enter each set.
    multiplicities : array of int64, shape (N,)

    Notes
    -----
    Both directions of a pair of links are lowered by the same amount, which keeps relays balanced; links that
    cross a set that is tight already are left alone. Whether what remains suffices is for the pieces to say.
    """
    trimmed = capacities.copy()
    failed = np.zeros(family.n_sets, dtype=bool)
    weight = np.zeros(problem.n_nodes, dtype=np.int64)
    weight[problem.terminals] = multiplicities
    need = multiplicities.sum() - family.sums(weight)
    mates = _mates(problem, capacities)
    fixed = mates < 0
    for depth in range(int(family.depth.max()), 0, -1):
        row = family.ancestors[depth]
        tail, head = row[problem.tails], row[problem.heads]
        shared = (tail >= 0) & (head >= 0) & (tail != head)
        sets = np.flatnonzero(family.depth == depth)
        for group in [sets] if not shared.any() else [sets[i : i + 1] for i in range(len(sets))]:
            chosen = np.zeros(family.n_sets + 1, dtype=bool)
            chosen[group] = True
            links = np.flatnonzero(chosen[head] & (head != tail))  # head -1 is the last, never chosen
            _trim_group(trimmed, failed, head[links], links, need, fixed, mates)
            good = chosen & ~np.append(failed, True)
            fixed |= (tail != head) & (good[tail] | good[head])
    return Trimmed(trimmed, failed)


def _trim_group(
    capacities: Int64Array,
    failed: BoolArray,
    owner: Int32Array,
    links: Int64Array,
    need: Int64Array,
    fixed: BoolArray,
    mates: Int64Array,
) -> None:
    """Trim sets that share no link with each other, in place; `owner` is the set that each link enters."""
    entering = np.zeros(len(need), dtype=np.int64)
    np.add.at(entering, owner, capacities[links])
    surplus = entering - need
    free = ~fixed[links] & (capacities[links] > 0)
    movable = np.zeros(len(need), dtype=np.int64)
    np.add.at(movable, owner[free], capacities[links[free]])
    sets = np.unique(owner)
    failed[sets[(surplus[sets] < 0) | (surplus[sets] > movable[sets])]] = True
    turn = free & ~failed[owner] & (surplus[owner] > 0)
    if not turn.any():
        return
    order = np.lexsort((links[turn], owner[turn]))
    chosen, of = links[turn][order], owner[turn][order]
    target = movable - surplus
    old = capacities[chosen]
    if float(old.max()) * float(target[of].max()) < _SAFE:
        new = old * target[of] // movable[of]
    else:
        exact = zip(old.tolist(), target[of].tolist(), movable[of].tolist(), strict=True)
        new = np.array([c * t // m for c, t, m in exact], dtype=np.int64)
    kept = np.zeros(len(need), dtype=np.int64)
    np.add.at(kept, of, new)
    starts = np.concatenate([[True], of[1:] != of[:-1]])
    place = np.arange(len(of)) - np.maximum.accumulate(np.where(starts, np.arange(len(of)), 0))
    new += place < (target - kept)[of]  # fewer units are missing than there are links
    capacities[chosen] = new
    capacities[mates[chosen]] = new


def _mates(problem: Instance, capacities: Int64Array) -> Int64Array:
    """The link the other way with equal capacity, -1 where there is none, shape (m,)."""
    links = np.flatnonzero(problem.tails != problem.heads)
    tails, heads = problem.tails[links].astype(np.int64), problem.heads[links].astype(np.int64)
    pair = np.minimum(tails, heads) * problem.n_nodes + np.maximum(tails, heads)
    onward = tails < heads
    order = np.lexsort(
        (onward, capacities[links], pair)
    )  # of a group of pair and capacity backward ones first
    links, pair, onward = links[order], pair[order], onward[order]
    fresh = np.ones(len(links), dtype=bool)
    fresh[1:] = (pair[1:] != pair[:-1]) | (capacities[links[1:]] != capacities[links[:-1]])
    start = np.flatnonzero(fresh)
    group = np.cumsum(fresh) - 1
    backward = np.bincount(group[~onward], minlength=len(start))
    place = np.flatnonzero(onward)
    group = group[place]
    other = place - backward[group]
    matched = other < start[group] + backward[group]
    one, other = links[place[matched]], links[other[matched]]
    mates = np.full(len(capacities), -1, dtype=np.int64)
    mates[one], mates[other] = other, one
    return mates
