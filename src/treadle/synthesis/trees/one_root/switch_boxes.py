"""Boxes that are one switch and its ranks, as below the leaves of a leaf-spine network: trees written down.

Where ranks send as much as they receive, K trees have a small height if each rank has its children, K of
them, in one tree, and each box sends one tree on to others and is entered once by each: interior-disjoint
trees, in boxes and between them (M. Castro et al., "SplitStream", SOSP 2003). Switch removal would decide
which switch each unit leaves for before that is known.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from treadle.arrays import Int32Array, Int64Array
from treadle.synthesis.trees.instance import Instance
from treadle.synthesis.trees.one_root.trees_in_box import BoxTrees
from treadle.synthesis.trees.tight_cuts.subproblems import Cutting, LocalSubproblem


@dataclass(frozen=True, eq=False)
class SwitchBox:
    """A box whose ranks are joined to one switch, and that to switches outside.

    Parameters
    ----------
    up, down : arrays of int64, shape (n,)
        Local links from each rank to the switch, and back.
    egress : array of int64, shape (n,)
        Units from each rank to the switch.
    """

    up: Int64Array
    down: Int64Array
    egress: Int64Array

    @staticmethod
    def of(local: LocalSubproblem, trees: int) -> SwitchBox | None:
        """The box that a subproblem is, if it is one into each of whose ranks `trees` units lead."""
        n, numbers = local.n_children, np.arange(local.n_children)
        is_star = not np.any((local.tails != n) & (local.heads != n))
        if not local.has_outside or n < 2 or local.n_relays != 1 or not is_star:
            return None
        up, down = (
            np.flatnonzero(ends < n)[np.argsort(ends[ends < n])] for ends in (local.tails, local.heads)
        )
        if not np.array_equal(local.tails[up], numbers) or not np.array_equal(local.heads[down], numbers):
            return None
        return SwitchBox(up, down, local.capacity[up]) if local.capacity[down].min() >= trees else None


class _Duty(NamedTuple):
    """Local links by which each tree enters a box and leaves it, and how often; the root and its links."""

    entry: tuple[int, ...]
    exits: tuple[tuple[tuple[int, int], ...], ...]
    first: tuple[int, ...]
    root: int | None


@dataclass(frozen=True)
class _Placed:
    """A box, the root's place if it is there, and the widest links from and to switches outside."""

    box: SwitchBox
    ranks: Int32Array
    links: Int32Array
    root: int | None
    into: dict[int, tuple[int, int]]
    out: dict[int, tuple[int, int]]

    def spare(self, trees: int) -> int:
        """Units that ranks need not send to each other, but for the root's."""
        others = len(self.ranks) - (self.root is not None)
        units = self.box.egress.sum() - (0 if self.root is None else self.box.egress[self.root])
        return int(units) - trees * (others - 1)


def switch_boxes(
    problem: Instance, cutting: Cutting, root: int, trees: int
) -> list[tuple[BoxTrees, Int32Array, Int32Array]] | None:
    """Return trees, ranks and links of all boxes, that of the root first; None if some box lacks units.

    Parameters
    ----------
    problem : Instance
    cutting : Cutting
        Of boxes that are not nested.
    root : int
        Rank.
    trees : int
        K.

    Notes
    -----
    Each tree enters every box once and leaves the root once. Other egress units are those that ranks have to
    spare: those of the first boxes are the first tree's. A tree crosses one switch outside, or if links
    there are narrow several in turn: the i-th of its egress units and of the boxes
    that it enters belong to one switch.
    """
    placed = _placed(problem, cutting, root, trees)
    if placed is None or int(placed[0].box.egress[placed[0].root]) < trees:
        return None
    both = [each.into.keys() & each.out.keys() for each in placed]
    tops = sorted(both[0].intersection(*both))
    widest = min((each.out[top][1] for each in placed for top in tops), default=0)
    trees_of = cache(_trees_of)  # boxes are compared by identity: one for each kind
    for turns in range(1, len(tops) + 1):
        most = trees * (len(placed) - 1)  # exits that are needed in all
        spare = [min(each.spare(trees), widest * turns, most) for each in placed]
        # where the root is, all trees leave as well
        shared = max(Counter(tree * turns % len(tops) for tree in range(trees)).values())
        spare[0] = min(spare[0], max(0, widest - shared) * turns)
        duties = _duties(placed, spare, trees, tops, turns)
        if duties is not None:
            rows = zip(placed, duties, strict=True)
            return [(trees_of(each.box, duty), each.ranks, each.links) for each, duty in rows]
    return None


def _placed(problem: Instance, cutting: Cutting, root: int, trees: int) -> list[_Placed] | None:
    """Return all boxes, that of the root first; None if some box is not a switch with its ranks."""
    kinds = [SwitchBox.of(local, trees) for local in cutting.kinds]
    if np.any(cutting.children_of(0) >= 0):
        return None
    found: list[_Placed] = []
    for number, kind in enumerate(cutting.kind[1:].tolist(), 1):
        box, local = kinds[kind], cutting.kinds[kind]
        if box is None:
            return None
        ranks, links = cutting.children_of(number), cutting.links_of(number)
        place = np.flatnonzero(ranks == root).tolist()
        sides = []
        for outside, ends in ((local.tails, problem.tails), (local.heads, problem.heads)):
            chosen = np.flatnonzero(outside == local.outside)
            rows = zip(
                local.capacity[chosen].tolist(), chosen.tolist(), ends[links[chosen]].tolist(), strict=True
            )
            sides.append({end: (link, units) for units, link, end in sorted(rows)})  # the widest stays
        found.append(_Placed(box, ranks, links, place[0] if place else None, *sides))
    found.sort(key=lambda each: each.root is None)
    return found


def _duties(
    placed: list[_Placed], spare: list[int], trees: int, tops: list[int], turns: int
) -> list[_Duty] | None:
    """Return duties of boxes where a tree crosses `turns` switches in turn; None if units are missing."""
    needed = len(placed) - 1  # once each tree leaves the root
    if min(spare) < 0 or sum(spare) < trees * needed:
        return None
    stops = np.cumsum(spare)
    ends = needed * np.arange(1, trees + 1)
    begin = np.clip((stops - spare)[:, None], ends - needed, ends) - (ends - needed) + 1
    end = np.clip(stops[:, None], ends - needed, ends) - (ends - needed) + 1
    # boxes are entered in order from the first that the tree leaves, which the root feeds
    firsts = np.argmax(end > begin, axis=0)
    turn_of = ((np.arange(len(placed))[:, None] - firsts) % len(placed) % turns).tolist()
    top = [[tops[(tree * turns + turn) % len(tops)] for turn in range(turns)] for tree in range(trees)]
    duties = []
    for each, own, first, last in zip(placed, turn_of, begin.tolist(), end.tolist(), strict=True):
        ranges = [(low, high) if high > low else (1, 1) for low, high in zip(first, last, strict=True)]
        counts = [
            [len(range(low + (turn - low) % turns, high, turns)) for turn in range(turns)]
            for low, high in ranges
        ]
        into = Counter(top[tree][own[tree]] for tree in range(trees))
        out = Counter(nodes[0] for nodes in top) if each.root is not None else Counter[int]()
        for nodes, numbers in zip(top, counts, strict=True):
            out.update(dict(zip(nodes, numbers, strict=True)))
        sides = (into, each.into), (out, each.out)
        if any(used > have[node][1] for needs, have in sides for node, used in needs.items()):
            return None
        entry = tuple(each.into[top[tree][own[tree]]][0] for tree in range(trees))
        exits = tuple(
            tuple((each.out[v][0], count) for v, count in zip(nodes, numbers, strict=True) if count)
            for nodes, numbers in zip(top, counts, strict=True)
        )
        from_root = () if each.root is None else tuple(each.out[nodes[0]][0] for nodes in top)
        duties.append(_Duty(entry, exits, from_root, each.root))
    return duties


def _trees_of(box: SwitchBox, duty: _Duty) -> BoxTrees:
    """Return K trees of a box: each enters it at the rank with most children in it."""
    n, trees = len(box.egress), len(duty.exits)
    own = [rank for rank in range(n) if rank != duty.root]
    parent, path = np.full((2, trees, n), -1, dtype=np.int32)
    paths: list[tuple[int, int]] = []
    leaving: list[tuple[int, int, int, int]] = []

    def path_of(first: int, last: int) -> int:
        paths.append((first, last))
        return len(paths) - 1

    # ranks' units one after the other, each to one tree, or to two
    rest = [(rank, int(box.egress[rank])) for rank in reversed(own)]
    for tree, exits in enumerate(duty.exits):
        if duty.root is not None:
            leaving.append((duty.root, path_of(int(box.up[duty.root]), duty.first[tree]), tree, 1))
        left = [[link, count] for link, count in exits]
        wanted = len(own) - 1 + sum(count for _, count in exits)
        units_of = Counter[int]()
        while wanted:
            rank, units = rest.pop()
            taken = min(units, wanted)
            units_of += Counter({rank: taken})
            if units > taken:
                rest.append((rank, units - taken))
            wanted -= taken
        order = sorted(own, key=lambda rank: -units_of[rank])
        path[tree, order[0]] = path_of(duty.entry[tree], int(box.down[order[0]]))
        queue, ahead = deque(order[:1]), deque(order[1:])
        while queue:
            rank = queue.popleft()
            units = units_of[rank]
            # what leaves the box does so early, but the tree goes on
            spare = units - (1 if ahead and not queue else 0)
            while left and spare:
                link, count = left.pop()
                away = min(count, spare)
                leaving.append((rank, path_of(int(box.up[rank]), link), tree, away))
                spare, units = spare - away, units - away
                if count > away:
                    left.append([link, count - away])
            for _ in range(min(units, len(ahead))):
                child = ahead.popleft()
                parent[tree, child] = rank
                path[tree, child] = path_of(int(box.up[rank]), int(box.down[child]))
                if child in units_of:
                    queue.append(child)
    ranks, exit_paths, kept, counts = np.array(sorted(leaving), dtype=np.int64).reshape(-1, 4).T
    return BoxTrees(
        parent,
        path,
        ranks.astype(np.int32),
        exit_paths.astype(np.int32),
        kept.astype(np.int32),
        counts,
        2 * np.arange(len(paths) + 1),
        np.array(paths, dtype=np.int32).ravel(),
    )
