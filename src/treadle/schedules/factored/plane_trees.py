"""Trees of an outermost subproblem by formula: direct sends over planes, some of them by a relay.

Source: docs/proofs/decomposition.md, proposition 14 and lemma 15.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from treadle.arrays import BoolArray, Int32Array, Int64Array, offsets_of, positions_of
from treadle.schedules.checks import UNIT_LIMIT
from treadle.schedules.factored.plane_pairs import PairwisePlanes, overlap
from treadle.schedules.factored.subproblem_trees import (
    EdgeUnits,
    SubproblemRows,
    TreeNumbers,
    check_roots,
    steady_runs,
)


@dataclass(frozen=True, eq=False)
class PlaneTrees(PairwisePlanes):
    """Every child sends its unit trees directly to all others, except for some that a third child delivers.

    The unit trees of a child have the *places* 0, 1, ...; g places are a block. Rows of relays list the
    blocks that reach a child over another one, to which the root sends them itself. Child x sends to y first
    those of its own trees that it delivers there, by places, then the blocks that it relays, by rows. Of
    these, n_0 go over plane 0, the next n_1 over plane 1, and so on.

    The egress units of a child are those of plane 0, then those of plane 1, and so on. Within a plane its own
    trees come first, by blocks, then by y in cyclic order from x on, then by places; the trees that it relays
    follow, by y and rows. Its ingress units are ordered by planes, then by senders, then as these send them.
    Children are in the order of groups.

    Parameters
    ----------
    native_units : array of int64, shape (n,)
        Unit trees of each child.
    block : int
        g, a divisor of all of these.
    place : array of int64, shape (r,)
        Place of each unit tree at children that have r of them, a permutation; at others, trees are in order.
    group : array of int32, shape (n,)
        Group of each child, all of which have equally many unit trees.
    group_units : array of int64, shape (groups, groups, planes)
        n_s(x, y) by the formula of `EvenAllocation`; summed over planes, the number of trees of x.
    pair_root, pair_child : arrays of int32, shape (e,)
        Pairs (x, y) that differ from the formula, at least those of relays; rising.
    pair_units : array of int64, shape (e, planes)
        n_s(x, y) of these.
    relay_root, relay_block, relay_child, relay_by : arrays of int32, int64, int32, int32, shape (m,)
        The trees in this block of places of a root reach a child by another one; rising by (root, child,
        block).
    """

    @cached_property
    def _steady(self) -> Int64Array:
        """Unit trees from each on, itself included, whose places follow each other."""
        return steady_runs(self.place)

    def _is_usual(self, roots: Int64Array) -> BoolArray:
        usual: BoolArray = self.native_units[roots] == len(self.place)
        return usual

    def _places(self, roots: Int64Array, units: Int64Array) -> Int64Array:
        usual = self._is_usual(roots)
        return np.where(usual, self.place[np.where(usual, units, 0)], units)

    @cached_property
    def _trees(self) -> Int64Array:
        """Unit tree at each place, at children that have r of them."""
        return positions_of(len(self.place), self.place)

    def _units_at(self, roots: Int64Array, places: Int64Array) -> Int64Array:
        usual = self._is_usual(roots)
        return np.where(usual, self._trees[np.where(usual, places, 0)], places)

    def rows(self, roots: Int64Array, units: Int64Array) -> SubproblemRows:
        """See `SubproblemTrees.rows`."""
        check_roots("plane trees", roots, units, self.root_units)
        n, g = self.n_children, self.block
        root, place = roots[:, None], self._places(roots, units)[:, None]
        number, within = np.divmod(place, g)
        even = self._even
        turn = even.order[(even.position[root] + np.arange(n)) % n]  # children from the root on
        row = self._relay_row(root, turn, number)
        shares = self._shares(root, turn)
        stop = np.cumsum(shares, axis=0)
        start = stop - shares
        begin = self._sent_before(root, turn, number)
        end = begin + np.where((row < 0) & (turn != root), g, 0)
        earlier = np.clip(begin - start, 0, shares)
        here = np.clip(end - start, 0, shares) - earlier
        exits = earlier.sum(axis=2)[:, :, None] + np.cumsum(here, axis=2) - here
        unit = begin + within
        plane, first, last = self._plane_of(unit, start, stop)
        exit_unit = np.take_along_axis(exits, plane[None], axis=0)[0] + unit - np.maximum(first, begin)
        exit_unit += self.egress_start[root, plane]
        entry = self.entry_start[turn, plane] + self._entered_before(root, turn, plane) + unit - first
        left = np.where(turn == root, UNIT_LIMIT, np.minimum(last - unit, g - within))
        parent = np.where(turn == root, -1, root)
        at = np.nonzero(row >= 0)
        if len(at[0]):
            columns = self._relayed_units(row[at], np.broadcast_to(within, row.shape)[at])
            parent[at], exit_unit[at], entry[at], left[at] = columns
        by_child = (even.position - even.position[root]) % n
        columns = (parent, exit_unit, entry)
        parent, exit_unit, entry = (np.take_along_axis(column, by_child, axis=1) for column in columns)
        exit_unit[parent < 0] = entry[parent < 0] = 0  # the root has no units, but `_rows` looks them up
        steady = np.where(self._is_usual(roots), self._steady[units % len(self.place)], UNIT_LIMIT)
        return self._rows(parent, exit_unit, entry, np.minimum(left.min(axis=1), steady))

    def _plane_of(self, unit: Int64Array, start: Int64Array, stop: Int64Array) -> EdgeUnits:
        """Return the plane of units that a child sends to another, and the first and last units on it."""
        plane = np.minimum((stop <= unit).sum(axis=0), self.n_planes - 1)
        first, last = (np.take_along_axis(part, plane[None], axis=0)[0] for part in (start, stop))
        return plane, first, last

    def _relayed_units(self, row: Int64Array, within: Int64Array) -> tuple[Int64Array, ...]:
        """Return sender, egress unit, the child's ingress unit, and how many follow, of relayed places."""
        by, child = self.relay_by[row].astype(np.int64), self.relay_child[row].astype(np.int64)
        first, before, total = self._relayed
        shares = self._shares(by, child)
        stop = np.cumsum(shares, axis=0)
        unit = first[row] + within
        plane, start, end = self._plane_of(unit, stop - shares, stop)
        exits = self.egress_start[by, plane + 1] - total[by, plane] + before[row, plane]
        exits += unit - np.maximum(start, first[row])
        entries = self.entry_start[child, plane] + self._entered_before(by, child, plane) + unit - start
        return by, exits, entries, np.minimum(end - unit, self.block - within)

    @cached_property
    def _by_distance(self) -> tuple[Int64Array, Int64Array]:
        """Pairs as x n + the positions from x to y, rising, and their order."""
        n, position = self.n_children, self._even.position
        key = self.pair_root.astype(np.int64) * n + (position[self.pair_child] - position[self.pair_root]) % n
        order = np.argsort(key)
        return key[order], order

    def _units_into(self, roots: Int64Array, units: Int64Array, child: int) -> EdgeUnits:
        g, place = self.block, self._places(roots, units)
        number, within = np.divmod(place, g)
        target = np.full_like(roots, child)
        shares = self._shares(roots, target)
        stop = np.cumsum(shares, axis=0)
        begin = self._sent_before(roots, target, number)
        unit = begin + within
        plane, first, _ = self._plane_of(unit, stop - shares, stop)
        exits = self.egress_start[roots, plane] + unit - np.maximum(first, begin)
        exits += self._left_before(roots, target, plane, number)
        entries = self.entry_start[child, plane] + unit - first + self._entered_before(roots, target, plane)
        senders = roots.copy()
        row = self._relay_row(roots, target, number)
        at = np.flatnonzero(row >= 0)
        senders[at], exits[at], entries[at], _ = self._relayed_units(row[at], within[at])
        return senders, exits, entries

    def _left_before(
        self, roots: Int64Array, child: Int64Array, plane: Int64Array, number: Int64Array
    ) -> Int64Array:
        """Return the units that leave a root over a plane before units of this block go to a child."""
        n, g, even = self.n_children, self.block, self._even
        zero = np.zeros_like(number)
        total = even.sent_nearer(roots, roots, plane, zero, number * g)
        total += even.sent_nearer(roots, child, plane, number * g, number * g + g)
        key, order = self._by_distance
        distance = (even.position[child] - even.position[roots]) % n
        here, root_at = np.searchsorted(key, roots * n + distance), np.searchsorted(key, np.arange(n + 1) * n)
        ends = self.pair_root[order].astype(np.int64), self.pair_child[order].astype(np.int64)
        odd, usual = self.pair_units[order].T, even.allocation(*ends)
        usual_stop, odd_stop = np.cumsum(usual, axis=0), np.cumsum(odd, axis=0)
        earlier = np.zeros((self.n_planes, n), dtype=np.int64)
        for low in range(int(number.max(initial=-1)) + 1 if len(key) else 0):
            sent = self._sent_before(*ends, np.full(len(key), low))
            after = self._sent_before(*ends, np.full(len(key), low + 1))
            for s in range(self.n_planes):
                more = overlap(odd_stop[s], odd[s], sent, after)
                more -= overlap(usual_stop[s], usual[s], low * g, low * g + g)
                changed = offsets_of(more)
                mine = np.flatnonzero((number == low) & (plane == s))
                total[mine] += earlier[s, roots[mine]]
                total[mine] += changed[here[mine]] - changed[root_at[roots[mine]]]
                earlier[s] += changed[root_at[1:]] - changed[root_at[:-1]]
        return total

    def trees_out_of(self, child: int) -> TreeNumbers:
        """See `FormulaTrees.trees_out_of`."""
        roots, units = super().trees_out_of(child)
        row = np.flatnonzero(self.relay_by == child)
        places = (self.relay_block[row][:, None] * self.block + np.arange(self.block)).ravel()
        relayed = np.repeat(self.relay_root[row].astype(np.int64), self.block)
        # a block may be relayed to several children
        trees = np.unique(np.stack([relayed, self._units_at(relayed, places)], axis=1), axis=0)
        return np.concatenate([roots, trees[:, 0]]), np.concatenate([units, trees[:, 1]])

    def owners(self, links: Int32Array, offsets: Int64Array) -> tuple[Int32Array, Int64Array]:
        """See `SubproblemTrees.owners`."""
        child, unit, is_owned = self._entry_units(links, offsets)
        unit = np.where(is_owned, unit, 0)
        plane = np.minimum((self.entry_start[child, 1:] <= unit[:, None]).sum(axis=1), self.n_planes - 1)
        unit = unit - self.entry_start[child, plane]
        low, high = np.zeros_like(child), np.full_like(child, self.n_children)
        while np.any(high - low > 1):  # the last sender with at most `unit` units of those before it
            middle = (low + high) // 2
            fits = self._entered_before(self._even.order[middle], child, plane) <= unit
            low, high = np.where(fits, middle, low), np.where(fits, high, middle)
        low = self._even.order[low]
        shares = self._shares(low, child)
        start = np.cumsum(shares, axis=0) - shares
        sent = unit - self._entered_before(low, child, plane)
        sent = np.where(is_owned, sent + np.take_along_axis(start, plane[None], axis=0)[0], 0)
        root, place = self._sender_of(low, child, sent)
        return (
            np.where(is_owned, root, -1).astype(np.int32),
            np.where(is_owned, self._units_at(root, np.where(is_owned, place, 0)), -1),
        )

    def _sender_of(self, by: Int64Array, child: Int64Array, sent: Int64Array) -> TreeNumbers:
        """Return root and place of the tree of unit `sent` that a child sends to another."""
        g, pair = self.block, by * self.n_children + child
        place, within = np.divmod(sent, g)
        # skip the blocks that relays deliver: block b of a pair, the i-th of them, follows b - i own blocks
        order = np.arange(len(self._relay_pairs)) - np.searchsorted(self._relay_pairs, self._relay_pairs)
        keys = self._relay_pairs * self._most_blocks + self.relay_block - order
        skipped = np.searchsorted(keys, pair * self._most_blocks + place, side="right")
        skipped -= np.searchsorted(keys, pair * self._most_blocks)
        own = self._own(by, child)
        pairs, rows = self._relays_by
        if not len(rows):
            return by, sent
        at = np.searchsorted(pairs, pair) + (sent - own) // g
        row = rows[np.clip(at, 0, len(rows) - 1)]
        is_own = sent < own
        root = np.where(is_own, by, self.relay_root[row])
        return root, np.where(is_own, place + skipped, self.relay_block[row]) * g + within
