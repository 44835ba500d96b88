"""The height of circulant trees, for the verifier of factored forests.

Egress unit i of child x is ingress unit i of child x + d(i). So a tree is high if a unit leaves x late and
reaches far in x + d(i): both hold for runs of i, which are equal for equivalent children, and such a pair
counts if there are children of these classes at one of the distances of the units.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from treadle.arrays import Int32Array, Int64Array, ranges_of
from treadle.schedules.factored import CirculantTrees
from treadle.verification.factored.formulas import sides_of
from treadle.verification.factored.hops import ChildSubproblems, Height, Slots

_MAX_PAIRS = 2**23  # maximum number of leaving runs times entering runs compared
_MAX_LOOKS = 512  # maximum number of pairs of them whose children are searched


@dataclass(frozen=True, eq=False)
class _ExitRuns:
    """Runs low, ..., high - 1 of egress (ingress) units of equivalent children, in equal positions of blocks.

    Parameters
    ----------
    low, high : arrays of int64
    begin, end : arrays of int64
        Restrict them to the units with number begin, ..., end - 1 within their block of g.
    hops : array of int64
        Hops before they leave (after they enter).
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
        """Return the height of the highest pair of runs that occurs."""
        leaving, entering = (self._classes(*side) for side in sides_of(self._trees))
        out, into = [self._leaving(x[0]) for x in leaving], [self._entering(y[0]) for y in entering]
        least = max((int(hops.reach[hops.natives().row].max()) for hops in self._inside.hops), default=0)
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
                if self._occurs(int(low[i, j]), int(high[i, j]), run, leaving[a], entering[b]):
                    return Height(hops, is_exact=True)
            if looks >= _MAX_LOOKS or pairs > _MAX_PAIRS:
                return Height(hops, is_exact=False)
        return Height(least, is_exact=True)

    def _by_hops(
        self, out: list[_ExitRuns], into: list[_ExitRuns]
    ) -> Iterator[tuple[int, int, int, Int64Array, Int64Array]]:
        """Yield heights, the largest first, with the classes of children and their runs that give it."""
        sides = [
            [
                (hops, number, np.flatnonzero(runs.hops == hops))
                for number, runs in enumerate(side)
                for hops in set(runs.hops.tolist())
            ]
            for side in (out, into)
        ]
        found = [(hops + 1 + more, a, b, p, q) for hops, a, p in sides[0] for more, b, q in sides[1]]
        yield from sorted(found, key=lambda candidate: (-candidate[0], candidate[1], candidate[2]))

    def _classes(self, links: Int32Array, first: Int64Array, offset: Int64Array) -> list[Int64Array]:
        """Return the classes of children with equal columns of one side, each rising."""
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
        kind = np.unique(rows, return_inverse=True)[1].ravel()
        return [np.flatnonzero(kind == number) for number in range(kind.max() + 1)]

    def _columns(self, child: int, side: int) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
        """Return the local links in a child, the first unit, the units, and the offset of each column."""
        links, first, offset = sides_of(self._trees)[side]
        held = np.flatnonzero(np.diff(first[child]))
        piece = np.full(len(held), self._inside.number[child])
        local = self._slots(piece, self._inside.links[links[child, held]])
        return local, first[child, held], np.diff(first[child])[held], offset[child, held]

    def _entering(self, child: int) -> _ExitRuns:
        if self._inside.number[child] < 0:
            return self._of_rank()
        hops = self._inside.hops[int(self._inside.kind[child])]
        local, first, units, offset = self._columns(child, 1)
        met = hops.entered(local, offset, units)
        low = first[met.query] + met.skip
        low, high, reach = _merged(low, low + met.units, hops.reach[met.row])
        return _ExitRuns(low, high, np.zeros_like(low), np.full_like(low, self._g), reach)

    def _leaving(self, child: int) -> _ExitRuns:
        """Return the runs of egress units: each block of g unit trees uses a block of g (n - 1) units."""
        if self._inside.number[child] < 0:
            return self._of_rank()
        hops, width = self._inside.hops[int(self._inside.kind[child])], self._n - 1
        local, first, units, offset = self._columns(child, 0)
        met = hops.exits.overlay(local, offset, units)
        low = first[met.query] + met.skip
        low, high, port = _merged(low, low + met.units, met.row)
        state = hops.natives()
        tree, until, state_of = _merged(state.skip, state.skip + state.units, state.row)
        tree, until, begin, end, state_of = _whole_blocks(tree, until, state_of, self._g)
        # Runs of egress units and blocks of trees both rise, so the blocks that a run overlaps are adjacent.
        start = np.searchsorted(until * width, low, side="right")
        run, block = ranges_of(start, np.searchsorted(tree * width, high) - start)
        return _ExitRuns(
            np.maximum(low[run], tree[block] * width),
            np.minimum(high[run], until[block] * width),
            begin[block],
            end[block],
            hops.supply(state_of[block], port[run]),
        )

    def _of_rank(self) -> _ExitRuns:
        """Return all units of a rank as one run, without hops."""
        zero = np.zeros(1, dtype=np.int64)
        return _ExitRuns(zero, zero + self._units, zero, zero + self._g, zero)

    def _occurs(
        self, low: int, high: int, run: tuple[int, int], leaving: Int64Array, entering: Int64Array
    ) -> bool:
        """Whether a unit low, ..., high - 1 in these positions leads from a leaving to an entering child."""
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
        # Distances wrap, so entering children are listed twice; is one of them at a distance in a range?
        twice = np.concatenate([entering, entering + n])
        return any(
            np.any(
                np.searchsorted(twice, leaving + near) < np.searchsorted(twice, leaving + far, side="right")
            )
            for near, far in steps
        )


def _merged(
    low: Int64Array, high: Int64Array, value: Int64Array
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Return runs in order, adjacent ones of equal value joined."""
    order = np.argsort(low, kind="stable")
    low, high, value = low[order], high[order], value[order]
    fresh = np.ones(len(low), dtype=bool)
    fresh[1:] = (value[1:] != value[:-1]) | (low[1:] != high[:-1])
    starts = np.flatnonzero(fresh)
    return low[starts], high[np.append(starts[1:], len(low)) - 1], value[starts]


def _whole_blocks(
    tree: Int64Array, until: Int64Array, value: Int64Array, g: int
) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array, Int64Array]:
    """Return runs of trees as whole blocks of g and parts of blocks: trees, positions in a block, value.

    A part of a block is given as the block and the positions of the part in it.
    """
    up, down = -(-tree // g) * g, until // g * g
    # Whole blocks; the end of a block; the beginning of one; the middle of one.
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
