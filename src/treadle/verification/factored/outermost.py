"""Heights of the closed forms of an outermost subproblem, for the verifier of factored forests.

Of relay and plane trees this is a bound: how late a native tree leaves, how late one that comes in leaves
its relay, and the farthest reach of one that comes in. Some trees are followed as those of a table; if one of
them is as high, the bound is the height. If they are few, all are followed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np

from treadle.arrays import Int64Array, distinct
from treadle.schedules.factored import (
    CirculantTrees,
    FormulaTrees,
    PlaneTrees,
    RelayTrees,
    Subproblem,
    SubproblemTrees,
)
from treadle.verification.factored.circulant import CirculantHeight
from treadle.verification.factored.formulas import formula_depth
from treadle.verification.factored.hops import ChildSubproblems, Height, Hops, Slots, TreeParts
from treadle.verification.factored.runs import Overlay, RunTable

_SAMPLE_CELLS = 2**18  # trees times children that are followed
_BATCH_CELLS = 2**16
_LATEST = 16  # unit trees that leave latest
_MAX_RUNS = 2**24  # runs of equal trees that are followed one by one; plan files are hostile


class _Followed(Protocol):
    @property
    def reach(self) -> Int64Array:
        """Hops of each run of trees to the farthest rank."""


_Follow = Callable[[int, TreeParts], _Followed]


def formula_height(piece: Subproblem, inside: ChildSubproblems, slots: Slots, follow: _Follow) -> Height:
    """The height of an outermost subproblem's trees that a formula gives.

    Parameters
    ----------
    piece : Piece
    inside : ChildSubproblems
        Its children.
    slots : callable
        Local numbers in pieces of links of the fabric.
    follow : callable
        Cuts trees of subproblem 0 into states.
    """
    trees = piece.trees
    is_exact = all(hops.is_exact for hops in inside.hops)
    if isinstance(trees, CirculantTrees):
        found = CirculantHeight(trees, inside, slots).run()
        return Height(found.hops, found.is_exact and is_exact)
    if not isinstance(trees, FormulaTrees):
        return Height((piece.n_children - 1) * (1 + inside.latest) + inside.reach, is_exact=False)
    total = int(trees.root_units.sum())
    if is_exact and total * trees.n_children <= _SAMPLE_CELLS:
        every = np.repeat(np.arange(trees.n_children), trees.root_units)
        first = np.cumsum(trees.root_units) - trees.root_units
        chosen = list(zip(every.tolist(), (np.arange(total) - first[every]).tolist(), strict=True))
        reach = [int(follow(0, rows).reach.max()) for rows in _parts(piece, trees, inside, chosen)]
        return Height(max(reach), is_exact=True)
    latest: list[tuple[int, int]] = []
    counts = np.bincount(inside.kind[inside.kind >= 0], minlength=len(inside.hops)).tolist()
    runs = sum(count * len(_natives(hops)) for count, hops in zip(counts, inside.hops, strict=True))
    if isinstance(trees, RelayTrees) and runs <= _MAX_RUNS:
        bound, latest = _relay_bound(trees, inside, slots)
    elif isinstance(trees, PlaneTrees):
        bound, latest = _plane_bound(trees, inside)
    else:
        relayed = (formula_depth(trees) - 1) * (1 + inside.latest)
        delay = max(map(_delay, inside.hops), default=0)
        bound = max(_own_reach(inside), delay + 1 + relayed + _entered_reach(inside))
    # some unit trees: those that leave latest, and some of one child of each kind
    planted = trees.root_units
    _, roots = np.unique(np.stack([inside.kind, planted]), axis=1, return_index=True)
    latest += [(root, unit) for unit in range(64) for root in roots.tolist() if unit < planted[root]]
    samples = _parts(piece, trees, inside, latest[: max(1, _SAMPLE_CELLS // trees.n_children)])
    highest = (int(follow(0, rows).reach.max()) for rows in samples)
    return Height(bound, is_exact and any(hops == bound for hops in highest))


def _own_reach(inside: ChildSubproblems) -> int:
    """Farthest reach of native trees within their own subproblem."""
    return max((int(hops.reach[_natives(hops)].max(initial=0)) for hops in inside.hops), default=0)


def _entered_reach(inside: ChildSubproblems) -> int:
    """Farthest reach of trees that come in."""
    return max(map(_reach, inside.hops), default=0)


def _reach(hops: Hops) -> int:
    """Farthest reach of trees that come in to one kind of child."""
    borders = hops.piece.entrances
    states = hops.entered(borders.link.astype(np.int64), borders.offset, borders.units).row
    return int(hops.reach[states].max(initial=0))


def _delay(hops: Hops) -> int:
    """Most hops of native trees of one kind of child to anything that supplies an exit."""
    states, ports = np.unique(_natives(hops)), np.arange(len(hops.port_child))
    pairs = np.repeat(states, len(ports)), np.tile(ports, len(states))
    return int(hops.supply(*pairs).max(initial=0))


def _natives(hops: Hops) -> Int64Array:
    """States of the native trees of a subproblem, run by run."""
    total = np.array([hops.piece.native.sum()])
    return hops.planted(np.zeros(1, dtype=np.int64), total).row


def _relay_bound(
    trees: RelayTrees, inside: ChildSubproblems, slots: Slots
) -> tuple[int, list[tuple[int, int]]]:
    """No tree of relay trees is higher; and roots and units of some trees that may be as high.

    Relays are followed one by one, and so are blocks, but for neighbours with equal trees in them.
    """
    n, g = trees.n_children, trees.block
    blocks = trees.native_units // g
    before = np.cumsum(blocks) - blocks
    columns = _UnitColumns(trees, inside, slots)
    row_block = before[trees.relay_root] + trees.relay_block
    total = int(blocks.sum())
    states = columns.natives(np.arange(n), np.zeros(n, dtype=np.int64), trees.native_units)
    first_block = before[states.query]
    ends = first_block + states.skip // g, first_block - (-(states.skip + states.units) // g)
    begin = distinct(np.concatenate([before, row_block, row_block + 1, *ends]))
    begin = begin[begin < total]
    length = np.diff(np.append(begin, total))
    # deliveries that each run of blocks gives away, and the first of those it makes
    run = np.searchsorted(begin, row_block)
    given = np.zeros(len(begin), dtype=np.int64)
    np.add.at(given, run, trees.relay_count)
    root = np.searchsorted(before, begin, side="right") - 1
    number = begin - before[root]
    made = length * (n - 1) - given
    start = np.cumsum(made) - made
    start -= start[np.searchsorted(begin, before[root])]
    delay = columns.delays(root, columns.natives(root, number * g, length * g), start * g, made * g)
    # relays: after a child's own deliveries, row by row
    child, count = trees.relay_child.astype(np.int64), trees.relay_count
    own = np.zeros(n, dtype=np.int64)
    np.add.at(own, root, made)
    order = np.argsort(child, kind="stable")
    duty = np.empty(len(child), dtype=np.int64)
    duty[order] = np.cumsum(count[order]) - count[order]
    first = np.full(n, np.iinfo(np.int64).max)
    np.minimum.at(first, child, duty)
    duty += own[child] - first[child]
    arrival = row_block - np.where(trees.relay_root > child, blocks[child], 0)
    late = columns.delays(child, columns.entered(child, arrival * g, g), duty * g, count * g)
    relayed = np.zeros(len(root), dtype=np.int64)
    np.maximum.at(relayed, run, (formula_depth(trees) - 1) * (1 + late))
    late_by_run = delay + relayed
    most = int(late_by_run.max(initial=0))
    top = np.flatnonzero(late_by_run == most)[: max(1, _LATEST // min(g, _LATEST))]
    begins = zip(root[top].tolist(), (number[top] * g).tolist(), strict=True)
    latest = [(one, first + unit) for one, first in begins for unit in range(min(g, _LATEST))]
    return max(_own_reach(inside), most + 1 + _entered_reach(inside)), latest


def _plane_bound(trees: PlaneTrees, inside: ChildSubproblems) -> tuple[int, list[tuple[int, int]]]:
    """No tree of plane trees is higher; and roots and units of some trees that may be as high."""
    by_kind = [(hops.latest, _delay(hops), _reach(hops)) for hops in inside.hops]
    late, delay, reach = np.array([*by_kind, (0, 0, 0)], dtype=np.int64)[inside.kind].T  # ranks: -1, the last
    # for each the greatest value of the others
    order = np.argsort(reach)
    most = np.full_like(reach, reach[order[-1]])
    most[order[-1]] = reach[order[-2]]
    hops = np.where(trees.native_units > 0, delay + 1 + most, 0)
    root, by, child = trees.relay_root, trees.relay_by, trees.relay_child
    np.maximum.at(hops, root, delay[root] + 2 + late[by] + reach[child])
    bound = max(_own_reach(inside), int(hops.max()))
    alike = np.stack([inside.kind, trees.group, hops])
    first = np.unique(alike, axis=1, return_index=True)[1]
    top = first[hops[first] == bound].tolist()
    return bound, [
        (child, unit) for unit in range(_LATEST) for child in top if unit < trees.native_units[child]
    ]


class _UnitColumns:
    """Exit and entry units of the children of trees by formula, followed into their pieces."""

    def __init__(self, trees: FormulaTrees, inside: ChildSubproblems, slots: Slots) -> None:
        self._inside = inside
        self._sides = []
        for links, first, offset in (
            (trees.out_links, trees.out_first, trees.out_offset),
            (trees.in_links, trees.in_first, trees.in_offset),
        ):
            child, column = np.nonzero((np.diff(first, axis=1) > 0) & (inside.number[:, None] >= 0))
            local = slots(inside.number[child], inside.links[links[child, column]])
            units = first[child, column + 1] - first[child, column]
            self._sides.append((RunTable(child, first[child, column], units), local, offset[child, column]))

    def natives(self, child: Int64Array, first: Int64Array, units: Int64Array) -> Overlay:
        """States of native unit trees of children, from the first on."""
        return self._by_kind(child, lambda hops, mine: hops.planted(first[mine], units[mine]))

    def entered(self, child: Int64Array, first: Int64Array, units: int) -> Overlay:
        """States of the trees that come in by entry units of children."""
        met, local, offset = self._units(1, child, first, np.full(len(child), units))
        found = self._by_kind(
            child[met.query], lambda hops, mine: hops.entered(local[mine], offset[mine], met.units[mine])
        )
        return Overlay(met.query[found.query], found.skip, found.units, found.row, found.place)

    def delays(self, child: Int64Array, states: Overlay, first: Int64Array, units: Int64Array) -> Int64Array:
        """Most hops, for each child asked for, to what supplies its exit units in one of its states."""
        met, local, offset = self._units(0, child, first, units)
        ports = self._by_kind(
            child[met.query], lambda hops, mine: hops.ports(local[mine], offset[mine], met.units[mine])
        )
        query = met.query[ports.query]
        order = np.argsort(states.query, kind="stable")
        low, high = (np.searchsorted(states.query[order], query, side=side) for side in ("left", "right"))
        port = np.repeat(np.arange(len(query)), high - low)
        state = np.arange(len(port)) + np.repeat(low - (np.cumsum(high - low) - (high - low)), high - low)
        pairs = np.stack([query[port], states.row[order][state], ports.row[port]])
        kind = self._inside.kind[child[pairs[0]]]
        most = np.zeros(len(child), dtype=np.int64)
        for number, hops in enumerate(self._inside.hops):
            mine = np.flatnonzero(kind == number)
            np.maximum.at(most, pairs[0, mine], hops.supply(pairs[1, mine], pairs[2, mine]))
        return most

    def _units(
        self, side: int, child: Int64Array, first: Int64Array, units: Int64Array
    ) -> tuple[Overlay, Int64Array, Int64Array]:
        """Runs of exit (entry) units as runs of capacity units: local links and first units."""
        table, local, offset = self._sides[side]
        met = table.overlay(child, first, units)
        return met, local[met.row], offset[met.row] + met.place

    def _by_kind(self, child: Int64Array, look: Callable[[Hops, Int64Array], Overlay]) -> Overlay:
        """What is found for each child, kind by kind."""
        none = np.zeros(0, dtype=np.int64)
        found = [Overlay(none, none, none, none, none)]
        for number, hops in enumerate(self._inside.hops):
            mine = np.flatnonzero(self._inside.kind[child] == number)
            part = look(hops, mine)
            found.append(Overlay(mine[part.query], part.skip, part.units, part.row, part.place))
        columns = zip(*(vars(part).values() for part in found), strict=True)
        return Overlay(*(np.concatenate(column) for column in columns))


def _parts(
    piece: Subproblem, trees: FormulaTrees, inside: ChildSubproblems, chosen: list[tuple[int, int]]
) -> Iterator[TreeParts]:
    """Unit trees, as pairs of root and number, some at a time."""
    table: SubproblemTrees = piece.trees
    n = trees.n_children
    step = max(1, _BATCH_CELLS // n)
    for low in range(0, len(chosen), step):
        root, unit = np.array(chosen[low : low + step], dtype=np.int64).T
        found = table.rows(root, unit)
        offset, links = trees.path_links(np.maximum(found.path, 0).ravel())
        start, end = (
            inside.links[links[at]].reshape(found.path.shape) for at in (offset[:-1], offset[1:] - 1)
        )
        ones = np.ones(len(root), dtype=np.int64)
        yield TreeParts(root, unit, ones, found.parent.astype(np.int64), start, end, found.first, found.last)
