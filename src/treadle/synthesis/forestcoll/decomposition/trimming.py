"""Lower capacities so that the sets of a family become exactly tight."""

from __future__ import annotations

from collections.abc import Sequence
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
    """Lower links that enter sets until R - r(X) units enter each set X.

    Parameters
    ----------
    problem : Instance
    family : Family
    capacities : array of int64, shape (m,)
        At least R - r(X) must enter each set.
    multiplicities : array of int64, shape (N,)

    Notes
    -----
    At a relay both directions of a pair of links are lowered by the same amount, which keeps it balanced.
    Links that enter a set that is tight already are left alone, and both of a pair if one of them does. No
    more is taken off than single ranks and sets around and within can spare. Whether what remains suffices
    is for the pieces to say. Sets are treated from the inside out; if that fails for some, and for fewer from
    the outside in, then that way.
    """
    depths = range(1, int(family.depth.max(initial=0)) + 1)
    inward = _trimmed(problem, family, capacities, multiplicities, depths[::-1])
    if not inward.failed.any() or len(depths) < 2:
        return inward
    outward = _trimmed(problem, family, capacities, multiplicities, depths)
    return outward if outward.failed.sum() < inward.failed.sum() else inward


def _trimmed(
    problem: Instance,
    family: Family,
    capacities: Int64Array,
    multiplicities: Int64Array,
    depths: Sequence[int],
) -> Trimmed:
    state = _State.of(problem, family, capacities, multiplicities)
    for depth in depths:
        row = family.ancestors[depth]
        tail, head = row[problem.tails], row[problem.heads]
        shared = state.paired & (tail >= 0) & (head >= 0) & (tail != head)
        sets = np.flatnonzero(family.depth == depth)
        for group in [sets] if not shared.any() else [sets[i : i + 1] for i in range(len(sets))]:
            chosen = np.zeros(family.n_sets + 1, dtype=bool)
            chosen[group] = True
            links = np.flatnonzero(chosen[head] & (head != tail))  # head -1 is the last, never chosen
            _trim_group(state, head[links], links, depth)
            good = chosen & ~np.append(state.failed, True)
            state.fixed[(tail != head) & (good[head] | (state.paired & good[tail]))] = True
    return Trimmed(state.capacities, state.failed)


@dataclass(frozen=True, eq=False)
class _State:
    """Capacities while they are lowered, in place.

    Parameters
    ----------
    problem : Instance
    family : Family
    capacities : array of int64, shape (m,)
    failed : array of bool, shape (s,)
    need : array of int64, shape (s,)
        R - r(X).
    demand : array of int64, shape (n,)
        R - r(v) of terminals; of relays 0.
    mates : array of int64, shape (m,)
        The link the other way that is lowered alike, -1 where there is none.
    paired, fixed : array of bool, shape (m,)
        Links at relays; links that must stay as they are.
    """

    problem: Instance
    family: Family
    capacities: Int64Array
    failed: BoolArray
    need: Int64Array
    demand: Int64Array
    mates: Int64Array
    paired: BoolArray
    fixed: BoolArray

    @staticmethod
    def of(problem: Instance, family: Family, capacities: Int64Array, multiplicities: Int64Array) -> _State:
        weight = np.zeros(problem.n_nodes, dtype=np.int64)
        weight[problem.terminals] = multiplicities
        demand = np.zeros(problem.n_nodes, dtype=np.int64)
        demand[problem.terminals] = multiplicities.sum() - multiplicities
        is_relay = np.ones(problem.n_nodes, dtype=bool)
        is_relay[problem.terminals] = False
        paired = is_relay[problem.tails] | is_relay[problem.heads]
        mates = np.where(paired, _mates(problem, capacities), -1)
        return _State(
            problem,
            family,
            capacities.copy(),
            np.zeros(family.n_sets, dtype=bool),
            multiplicities.sum() - family.sums(weight),
            demand,
            mates,
            paired,
            paired & (mates < 0),
        )

    def rooms(self, links: Int64Array, depth: int) -> Int64Array:
        """How far each link can be lowered: what it has, or its share of what a rank or set can spare."""
        rooms = self.capacities[links]
        whole = np.arange(self.problem.n_nodes, dtype=np.int32)
        single = np.where(self.demand > 0, whole, -1)
        rows = [(single, self.demand)]
        rows += [
            (row, self.need) for place, row in enumerate(self.family.ancestors) if place not in (0, depth)
        ]
        back = self.paired[links]
        heads = np.concatenate([self.problem.heads[links], self.problem.tails[links[back]]])
        tails = np.concatenate([self.problem.tails[links], self.problem.heads[links[back]]])
        place = np.concatenate([np.arange(len(links)), np.flatnonzero(back)])
        for row, need in rows:
            into = (row[heads] >= 0) & (row[heads] != row[tails])
            if not into.any():
                continue
            owner, of = row[heads[into]], place[into]
            spare = self._entering(row, len(need)) - need
            asked = np.zeros(len(need), dtype=np.int64)
            np.add.at(asked, owner, rooms[of])
            # what lacks capacity as it is has no say: it is dropped, or the rate is too high
            short = (asked[owner] > spare[owner]) & (spare[owner] >= 0)
            owner, of = owner[short], of[short]
            np.minimum.at(rooms, of, _shares(rooms[of], spare[owner], asked[owner]))
        return rooms

    def _entering(self, row: Int32Array, count: int) -> Int64Array:
        """Units that enter each set of a row."""
        head, tail = row[self.problem.heads], row[self.problem.tails]
        into = (head >= 0) & (head != tail)
        entering = np.zeros(count, dtype=np.int64)
        np.add.at(entering, head[into], self.capacities[into])
        return entering


def _trim_group(state: _State, owner: Int32Array, links: Int64Array, depth: int) -> None:
    """Trim sets that share no link with each other, in place; `owner` is the set that each link enters."""
    count = len(state.need)
    entering = np.zeros(count, dtype=np.int64)
    np.add.at(entering, owner, state.capacities[links])
    surplus = entering - state.need
    free = ~state.fixed[links] & (state.capacities[links] > 0) & (surplus[owner] > 0)
    rooms = np.zeros(len(links), dtype=np.int64)
    if free.any():
        rooms[free] = state.rooms(links[free], depth)
    movable = np.zeros(count, dtype=np.int64)
    np.add.at(movable, owner, rooms)
    sets = np.unique(owner)
    state.failed[sets[(surplus[sets] < 0) | (surplus[sets] > movable[sets])]] = True
    turn = (rooms > 0) & ~state.failed[owner]
    if not turn.any():
        return
    order = np.lexsort((links[turn], owner[turn]))
    chosen, of, room = links[turn][order], owner[turn][order], rooms[turn][order]
    target = movable - surplus
    left = _shares(room, target[of], movable[of])
    kept = np.zeros(count, dtype=np.int64)
    np.add.at(kept, of, left)
    starts = np.concatenate([[True], of[1:] != of[:-1]])
    place = np.arange(len(of)) - np.maximum.accumulate(np.where(starts, np.arange(len(of)), 0))
    left += place < (target - kept)[of]  # fewer units are missing than there are links
    state.capacities[chosen] -= room - left
    both = state.mates[chosen] >= 0
    state.capacities[state.mates[chosen[both]]] = state.capacities[chosen[both]]


def _shares(parts: Int64Array, given: Int64Array, total: Int64Array) -> Int64Array:
    """floor(part * given / total), the products beyond 64 bits too."""
    if not len(parts) or float(parts.max()) * float(given.max()) < _SAFE:
        return parts * given // total
    exact = zip(parts.tolist(), given.tolist(), total.tolist(), strict=True)
    return np.array([part * share // whole for part, share, whole in exact], dtype=np.int64)


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
