"""The height of circulant trees, for the verifier of factored forests.

Exit unit i of child x is entry unit i of child x + d(i). So a tree is high where a unit leaves x late and
goes on far in x + d(i): both are runs of i, alike for children that are alike, and such a pair counts if
there are children of these kinds at one of the distances that the units have.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from treadle.arrays import Int32Array, Int64Array
from treadle.schedules.factored import CirculantTrees
from treadle.verification.factored.hops import ChildSubproblems, Height, Slots

_MAX_PAIRS = 2**23  # runs that leave times runs that enter, looked at
_MAX_LOOKS = 512  # ... and pairs of them whose children are looked for


@dataclass(frozen=True, eq=False)
class _ExitRuns:
    """Runs of exit (entry) units of a kind of children: low, ..., high - 1, all in equal places of blocks.

    Parameters
    ----------
    low, high : arrays of int64
    begin, end : arrays of int64
        Of these units only those whose number within their block of g is begin, ..., end - 1.
    hops : array of int64
        Before they leave (after they enter).
    """

    low: Int64Array
    high: Int64Array
    begin: Int64Array
    end: Int64Array
    hops: Int64Array


class CirculantHeight:
    """The highest tree of circulant trees."""

    def __init__(self, trees: CirculantTrees, inside: ChildSubproblems, slots: Slots) -> None:
        self._trees, self._inside, self._slots = trees, inside, slots
        self._n, self._g = trees.n_children, trees.block
        self._units = trees.native_units * (self._n - 1)

    def run(self) -> Height:
        """The highest pair of runs that occurs."""
        trees = self._trees
        out_kind, out_example = self._alike(trees.out_links, trees.out_first, trees.out_offset)
        in_kind, in_example = self._alike(trees.in_links, trees.in_first, trees.in_offset)
        own = [
            int(hops.reach[hops.planted(*_whole(trees.native_units)).row].max()) for hops in self._inside.hops
        ]
        least = max(own, default=0)
        out, into = [self._leaving(x) for x in out_example], [self._entering(y) for y in in_example]
        where = [
            [np.flatnonzero(kind == one) for one in range(kind.max() + 1)] for kind in (out_kind, in_kind)
        ]
        pairs, looks = 0, 0
        for hops, a, b, p, q in self._by_hops(out, into):
            if hops <= least:
                break
            pairs += len(p) * len(q)
            low = np.maximum(out[a].low[p][:, None], into[b].low[q])
            high = np.minimum(out[a].high[p][:, None], into[b].high[q])
            met = np.argwhere(low < high)
            for i, j in met[: _MAX_LOOKS - looks].tolist():
                looks += 1
                run = (int(out[a].begin[p[i]]), int(out[a].end[p[i]]))
                if self._occurs(int(low[i, j]), int(high[i, j]), run, where[0][a], where[1][b]):
                    return Height(hops, is_exact=True)
            if looks >= _MAX_LOOKS or pairs > _MAX_PAIRS:
                return Height(hops, is_exact=False)
        return Height(least, is_exact=True)

    def _by_hops(
        self, out: list[_ExitRuns], into: list[_ExitRuns]
    ) -> Iterator[tuple[int, int, int, Int64Array, Int64Array]]:
        """Height of a tree, kinds of children and their runs that would make it so; the highest first."""
        sides = [
            [
                (hops, one, np.flatnonzero(runs.hops == hops))
                for one, runs in enumerate(side)
                for hops in set(runs.hops.tolist())
            ]
            for side in (out, into)
        ]
        found = [(hops + 1 + more, a, b, p, q) for hops, a, p in sides[0] for more, b, q in sides[1]]
        yield from sorted(found, key=lambda one: (-one[0], one[1], one[2]))

    def _alike(
        self, links: Int32Array, first: Int64Array, offset: Int64Array
    ) -> tuple[Int64Array, list[int]]:
        """Which children are alike in the columns of one side, and one of each kind."""
        inside = self._inside
        local = np.zeros(links.shape, dtype=np.int64)
        sets = np.flatnonzero(inside.number >= 0)
        pieces = np.broadcast_to(inside.number[sets][:, None], (len(sets), links.shape[1]))
        held = np.diff(first[sets], axis=1) > 0
        local[sets] = np.where(held, self._slots(pieces, inside.links[links[sets]]), -1)
        columns = np.concatenate([inside.kind[:, None], local, first, offset], axis=1)
        columns[inside.number < 0, 1:] = 0
        columns = np.ascontiguousarray(columns)
        rows = columns.view(np.dtype((np.void, columns.dtype.itemsize * columns.shape[1]))).ravel()
        _, example, kind = np.unique(rows, return_index=True, return_inverse=True)
        return kind.ravel().astype(np.int64), example.tolist()

    def _columns(self, child: int, *, leaving: bool) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
        """Local links in a child's piece; first unit, units, offset of each column."""
        trees = self._trees
        links, first, offset = (
            (trees.out_links, trees.out_first, trees.out_offset)
            if leaving
            else (trees.in_links, trees.in_first, trees.in_offset)
        )
        held = np.flatnonzero(np.diff(first[child]))
        piece = np.full(len(held), self._inside.number[child])
        local = self._slots(piece, self._inside.links[links[child, held]])
        return local, first[child, held], np.diff(first[child])[held], offset[child, held]

    def _entering(self, child: int) -> _ExitRuns:
        if self._inside.number[child] < 0:
            return self._at_once()
        hops = self._inside.hops[int(self._inside.kind[child])]
        local, first, units, offset = self._columns(child, leaving=False)
        met = hops.entered(local, offset, units)
        low = first[met.query] + met.skip
        low, high, reach = _joined(low, low + met.units, hops.reach[met.row])
        return _ExitRuns(low, high, np.zeros_like(low), np.full_like(low, self._g), reach)

    def _leaving(self, child: int) -> _ExitRuns:
        """A block of g unit trees takes a block of g (n - 1) exit units, each tree its share of them."""
        if self._inside.number[child] < 0:
            return self._at_once()
        hops, g = self._inside.hops[int(self._inside.kind[child])], self._g
        local, first, units, offset = self._columns(child, leaving=True)
        met = hops.ports(local, offset, units)
        low = first[met.query] + met.skip
        low, high, port = _joined(low, low + met.units, met.row)
        state = hops.planted(*_whole(self._trees.native_units))
        tree, until, state_of = _joined(state.skip, state.skip + state.units, state.row)
        tree, until, begin, end, state_of = _whole_blocks(tree, until, state_of, g)
        # runs of exit units against blocks of trees: both rise, so what a run overlaps are neighbours
        start = np.searchsorted(until * (self._n - 1), low, side="right")
        count = np.searchsorted(tree * (self._n - 1), high) - start
        one = np.repeat(np.arange(len(low)), count)
        other = np.arange(len(one)) + np.repeat(start - (np.cumsum(count) - count), count)
        return _ExitRuns(
            np.maximum(low[one], tree[other] * (self._n - 1)),
            np.minimum(high[one], until[other] * (self._n - 1)),
            begin[other],
            end[other],
            hops.supply(state_of[other], port[one]),
        )

    def _at_once(self) -> _ExitRuns:
        """Of a rank."""
        zero = np.zeros(1, dtype=np.int64)
        return _ExitRuns(zero, zero + self._units, zero, zero + self._g, zero)

    def _occurs(
        self, low: int, high: int, run: tuple[int, int], leaving: Int64Array, entering: Int64Array
    ) -> bool:
        """Whether an exit unit low, ..., high - 1 in these places leads from a child to another of these."""
        (begin, end), g, n = run, self._g, self._n
        low += max(0, begin - low % g) if low % g < end else g - low % g + begin
        last = high - 1
        last -= max(0, last % g - (end - 1)) if last % g >= begin else last % g + g - (end - 1)
        if low > last:
            return False
        span = g * (n - 1)
        if last - low >= span:
            steps = [(1, n - 1)]
        else:
            one, other = low % span // g + 1, last % span // g + 1
            steps = [(one, other)] if low // span == last // span else [(one, n - 1), (1, other)]
        # among the children that enter twice over, one at a distance in the range
        twice = np.concatenate([entering, entering + n])
        for near, far in steps:
            at = np.searchsorted(twice, leaving + near)
            if np.any((at < len(twice)) & (twice[np.minimum(at, len(twice) - 1)] <= leaving + far)):
                return True
        return False


def _whole(units: int) -> tuple[Int64Array, Int64Array]:
    """All units as one run."""
    return np.zeros(1, dtype=np.int64), np.full(1, units, dtype=np.int64)


def _joined(
    low: Int64Array, high: Int64Array, value: Int64Array
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Runs in order, neighbours of equal value as one."""
    order = np.argsort(low, kind="stable")
    low, high, value = low[order], high[order], value[order]
    fresh = np.ones(len(low), dtype=bool)
    fresh[1:] = (value[1:] != value[:-1]) | (low[1:] != high[:-1])
    starts = np.flatnonzero(fresh)
    return low[starts], high[np.append(starts[1:], len(low)) - 1], value[starts]


def _whole_blocks(
    tree: Int64Array, until: Int64Array, value: Int64Array, g: int
) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array, Int64Array]:
    """Runs of trees as whole blocks of g and parts of blocks: trees, places within a block, value.

    A part of a block is given as the block, and the places that it has there.
    """
    up, down = -(-tree // g) * g, until // g * g
    # whole blocks; the end of a block; the beginning of one; within one, at neither of its ends
    masks = (up < down, (tree < up) & (up <= down), (down < until) & (up <= down), up > down)
    from_block = (up, up - g, down, down)
    to_block = (down, up, down + g, up)
    begin = (np.zeros_like(tree), tree - (up - g), np.zeros_like(tree), tree - down)
    end = (np.full_like(tree, g), np.full_like(tree, g), until - down, until - down)
    columns = (from_block, to_block, begin, end, (value,) * len(masks))
    first, last, begins, ends, values = (
        np.concatenate([part[mask] for part, mask in zip(column, masks, strict=True)]) for column in columns
    )
    order = np.argsort(first, kind="stable")
    return first[order], last[order], begins[order], ends[order], values[order]
