"""Boxes whose ranks bind: layers in which boxes are tight, small ones in more of them, and a flat one.

Where single ranks are the bottleneck no box is tight. The union of forests for several parts of the
capacities is a forest for all of it (Theorem 8), and parts can be chosen so that boxes are tight in some and
the last needs none (Theorem 9, Corollary 10). Source: docs/proofs/decomposition.md, section 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, lcm

import numpy as np

from treadle.arrays import BoolArray, Int64Array, mask_of, positions_of, sums_of
from treadle.schedules.factored import Layer, Subproblem, TableTrees, no_crossings
from treadle.synthesis.runs import sums_before
from treadle.synthesis.trees.fixed_trees import floor_capacities
from treadle.synthesis.trees.instance import UNIT_LIMIT, Instance
from treadle.synthesis.trees.tight_cuts.family import Family
from treadle.synthesis.trees.tight_cuts.layer_solution import ClassReport, layer_of
from treadle.synthesis.trees.tight_cuts.subproblems import cut
from treadle.unsupported import Unsupported

_MOST_DOUBLINGS = 24
"""Times that the least scale is doubled until trees are divided evenly enough."""


@dataclass(frozen=True)
class Part:
    """One layer.

    Parameters
    ----------
    multiplicities : array of int64, shape (N,)
        Unit trees of each rank.
    capacities : array of int64, shape (m,)
    family : Family
        The sets that are tight.
    parent : array of int64, shape (N,), optional
        Ranks' parents in the layer's only unit tree, -1 at its root. Default: trees are to be found.
    """

    multiplicities: Int64Array
    capacities: Int64Array
    family: Family
    parent: Int64Array | None = None


@dataclass(frozen=True)
class Split:
    """Layers whose capacities add up to the fabric's, at `scale` units per byte/s, of `trees` per rank.

    Parameters
    ----------
    scale : Fraction
    trees : int
    parts : tuple of Part
        The last one is flat: it uses only links that cross the boundaries of boxes. Where ranks' links within
        their boxes have units to spare after those with tight boxes, the one before it is a unit tree.
    """

    scale: Fraction
    trees: int
    parts: tuple[Part, ...]


def single_rate(problem: Instance) -> Fraction:
    """Return the least bandwidth into one rank per unit of weight elsewhere; 0 if some rank has no link."""
    carries = problem.tails != problem.heads
    bandwidths = problem.bandwidths[carries].astype(float)
    ingress = np.bincount(problem.heads[carries], weights=bandwidths, minlength=problem.n_nodes)
    # floats only choose the rank: its bandwidth is added up exactly
    node = problem.terminals[int(np.argmin(ingress[problem.terminals]))]
    total = int(problem.bandwidths[carries & (problem.heads == node)].sum())
    return Fraction(total, max(1, int(problem.weights.sum() - problem.weights.min())))


@dataclass(frozen=True)
class _Boxes:
    """Boxes of unequal sizes whose ranks all have bandwidth `within` their box and `across` its boundary.

    Parameters
    ----------
    box_of : array of int64, shape (N,)
        Box of each rank, from 0.
    sizes : array of int64, shape (boxes,)
    within, across : int
        Bytes/s into a rank, and out of it.
    """

    box_of: Int64Array
    sizes: Int64Array
    within: int
    across: int

    @property
    def kinds(self) -> list[int]:
        """Different sizes, falling."""
        sizes: list[int] = np.unique(self.sizes)[::-1].tolist()
        return sizes

    def children(self, tight: int) -> int:
        """Return the children of the outermost subproblem if boxes of at most `tight` ranks are tight."""
        return int(np.where(self.sizes <= tight, 1, self.sizes).sum())


def split_layers(problem: Instance, family: Family) -> Split | Unsupported:
    """Capacities and trees of the layers, or why this does not apply.

    Notes
    -----
    Source: docs/proofs/decomposition.md, section 5, Corollary 10. Of equal boxes all ranks have equally
    many trees in a layer. Of unequal ones that takes too many trees; they are divided as evenly as integers
    allow.
    """
    if int(family.depth.max()) != 1 or np.any(family.innermost[problem.terminals] == 0):
        return Unsupported("ranks are not all in boxes that are not nested")
    if np.any(problem.weights != 1):
        return Unsupported("shards are unequal")
    crosses = family.innermost[problem.tails] != family.innermost[problem.heads]
    carries = problem.tails != problem.heads
    is_rank = mask_of(problem.n_nodes, problem.terminals)
    sides = [
        sums_of(problem.n_nodes, ends[chosen], problem.bandwidths[chosen])[problem.terminals]
        for chosen in (~crosses & carries, crosses)
        for ends in (problem.heads, problem.tails)
    ]
    if any(np.ptp(side) for side in sides) or sides[0][0] != sides[1][0] or sides[2][0] != sides[3][0]:
        return Unsupported("ranks are joined unequally")
    in_box = (family.innermost[problem.tails] > 0) | (family.innermost[problem.heads] > 0)
    if np.any(crosses & in_box & (is_rank[problem.tails] == is_rank[problem.heads])):
        return Unsupported("links across a box's boundary do not all join a rank and a switch outside")
    box_of = family.innermost[problem.terminals].astype(np.int64) - 1
    sizes = np.bincount(box_of, minlength=family.n_sets - 1)
    boxes = _Boxes(box_of, sizes, int(sides[0][0]), int(sides[2][0]))
    if not boxes.within or sizes.min() < 2:
        return Unsupported("some rank is alone in its box")
    trees = Fraction(boxes.within + boxes.across, len(boxes.box_of) - 1)
    if Fraction(int(sizes.min()) * boxes.within, int(sizes.min()) - 1) > trees * len(boxes.box_of):
        return Unsupported("the egress of boxes binds, not that of ranks")
    widths = [np.unique(problem.bandwidths[chosen]).tolist() for chosen in (~crosses & carries, crosses)]
    even = _even_scale(boxes, *widths)
    least = _least_integers([trees, Fraction(boxes.within), Fraction(boxes.across)])
    # a rank's units divide among several links only where they are even
    is_single = widths == [[boxes.within], [boxes.across]]
    scales = [least * 2**times for times in range(_MOST_DOUBLINGS if is_single else 0)]
    split: Split | Unsupported = Unsupported("capacities of 2**61 units or more would be needed")
    for scale in [*scales, even] if np.ptp(sizes) else [even, *scales]:
        if scale * (boxes.within + boxes.across) * 2 * problem.topology.n_links >= UNIT_LIMIT:
            continue
        for is_lumped in (True, False):
            split = _split_at(problem, family, boxes, crosses, scale, is_lumped=is_lumped)
            if isinstance(split, Split):
                return split
    return split


def _even_scale(boxes: _Boxes, inside: list[int], outside: list[int]) -> Fraction:
    """Return the least scale with integers where all ranks have equally many trees in each layer.

    `inside` and `outside` are bandwidths of links.
    """
    n, c, beta = len(boxes.box_of), Fraction(boxes.within), Fraction(boxes.across)
    trees = (c + beta) / (n - 1)
    units, before = [trees], Fraction(0)
    for size in (*boxes.kinds, 0):
        after = size * c / (size - 1) if size else n * trees
        count, before = after - before, after
        tight = [other for other in boxes.kinds if other <= size]
        across = [(boxes.children(size) - 1) * count / n, *(count / other - count / n for other in tight)]
        across += [count - count / n] if len(tight) < len(boxes.kinds) else []
        units += [count / n, *(count / other for other in tight)]
        units += [per * b / beta for per in across for b in outside]
        units += [count * (other - 1) / other * b / c for other in tight for b in inside]
    return _least_integers(units)


def _least_integers(units: list[Fraction]) -> Fraction:
    """Return the least factor that makes these integers."""
    common = lcm(*(unit.denominator for unit in units))
    return Fraction(common, gcd(*(int(unit * common) for unit in units)))


def _split_at(
    problem: Instance, family: Family, boxes: _Boxes, crosses: BoolArray, scale: Fraction, *, is_lumped: bool
) -> Split | Unsupported:
    """Return the layers at this scale: each rank's trees, ingress and egress; `is_lumped` is as in
    `_dealt`."""
    n, box_of = len(boxes.box_of), boxes.box_of
    size = boxes.sizes[box_of]
    order = np.argsort(box_of, kind="stable")
    start = np.cumsum(boxes.sizes) - boxes.sizes
    place = positions_of(n, order) - start[box_of]
    trees = int(scale * (boxes.within + boxes.across) / (n - 1))
    within = int(scale * boxes.within)
    # all trees of all ranks, layer by layer: up to where boxes of each size are tight
    ends = [(kind, kind * within // (kind - 1)) for kind in boxes.kinds]
    spare = within % (size - 1)
    last = ends[-1][1]
    if spare.any():
        ends.append((0, last + 1))
    if ends[-1][1] > n * trees:
        return Unsupported("the egress of boxes binds, not that of ranks")
    ends.append((0, n * trees))
    spans = [
        (kind, before, after)
        for (kind, after), before in zip(ends, [0, *(end for _, end in ends)], strict=False)
        if after > before
    ]
    largest = [kind for kind, _, _ in spans]
    parents: list[Int64Array | None] = [None] * len(spans)
    rows: list[list[Int64Array]] = []
    for number, (roots, entered) in enumerate(_dealt(spans, last, place, size, is_lumped=is_lumped)):
        kind, before, after = spans[number]
        if spare.any() and after == last + 1:
            row, parents[number] = _single_tree(spare, place, size, order[start[box_of]])
        else:
            tight = size <= kind
            if roots.min() < 0 or np.any(tight & (entered < roots)):
                return Unsupported("too few unit trees to divide evenly")
            row = [
                np.where(tight, after - before - entered, 0),
                (size - 1) * entered,
                np.where(tight, entered, after - before) - roots,
                roots * (boxes.children(kind) - 1),
            ]
        rows.append([roots, *row])
    # capacity that ranks lack within their boxes comes from others in the first layer, across in the last
    inside = sum(row[2] for row in rows) - within
    beyond = sum(row[4] for row in rows) - int(scale * boxes.across)
    entered = rows[0][2] // (size - 1)
    if np.any(inside > entered):
        return Unsupported("too few unit trees to divide evenly")
    rows[0][2] = rows[0][2] - inside
    roots, is_flat = rows[-1][0], not largest[-1] and parents[-1] is None
    # where each rank roots a tree, relays get the data from the root, and the height is 2 (Theorem 13)
    if np.any(beyond) and not (is_flat and roots.min() and np.all(rows[-1][4] - beyond >= roots)):
        return Unsupported("too few unit trees without tight boxes to divide evenly")
    rows[-1][4] = rows[-1][4] - beyond
    parts: list[Part] = []
    for kind, row, parent in zip(largest, rows, parents, strict=True):
        capacities = _capacities(problem, family, boxes, crosses, row[1:], scale, first=not parts)
        if capacities is None:
            return Unsupported("links of a rank cannot be divided between layers")
        into, out = (
            sums_of(problem.n_nodes, ends, capacities)[problem.relays]
            for ends in (problem.heads, problem.tails)
        )
        if np.any(into != out):
            return Unsupported("not enough trees to balance the switches of each component")
        parts.append(Part(row[0], capacities, family.without(np.append(False, boxes.sizes > kind)), parent))
    return Split(scale, trees, tuple(parts))


def _dealt(
    spans: list[tuple[int, int, int]], last: int, place: Int64Array, size: Int64Array, *, is_lumped: bool
) -> list[tuple[Int64Array, Int64Array]]:
    """Return the unit trees that ranks root in each layer, and those that they root or that enter boxes
    there.

    Trees go to ranks in turn, so that rank 0 is the root of number `last`, and enter boxes at their ranks in
    turn. If `is_lumped`, those of layers in which some boxes are tight and others not have their roots in the
    largest boxes and enter at two ranks: fewer links join boxes there, and plans are smaller.
    """
    n, first = len(size), spans[0][2]
    turn = (np.arange(n) - 1 - last) % n
    is_large = size == size.max()
    order, n_large = np.cumsum(is_large) - 1, int(np.count_nonzero(is_large))
    found = []
    for kind, before, after in spans:
        tight, groups = size <= kind, size
        roots = (after + turn) // n - (before + turn) // n
        if is_lumped and kind and before:
            before, after, groups = before - first, after - first, np.minimum(size, 2)
            roots = np.where(is_large, (after + order) // n_large - (before + order) // n_large, 0)
            tight = tight & (place < groups)
        entered = np.where(tight, (after + place) // groups - (before + place) // groups, 0)
        found.append((roots, entered))
    if is_lumped:  # the first layer makes up for the others
        top = np.max([np.where(size <= kind, after, 0) for kind, _, after in spans], axis=0)
        roots, entered = (last + turn) // n, (top + place) // size
        for (kind, before, _), row in zip(spans, found, strict=True):
            if kind and before:
                roots, entered = roots - row[0], entered - row[1]
        found[0] = roots, entered
    return found


def _single_tree(
    spare: Int64Array, place: Int64Array, size: Int64Array, first: Int64Array
) -> tuple[list[Int64Array], Int64Array]:
    """Return the units of links that a unit tree of rank 0 takes, as in `_split_at`, and the parents.

    In each box the first rank sends to the `spare` last ones, which take in one tree less than others in
    layers with tight boxes.
    """
    inner = place >= size - spare
    parent = np.where(inner, first, 0)
    parent[0] = -1
    away = (~inner).astype(np.int64)
    away[0] = 0
    leaving = np.zeros_like(away)
    leaving[0] = away.sum()
    return [inner.astype(np.int64), np.where(place == 0, spare, 0), away, leaving], parent


def _capacities(
    problem: Instance,
    family: Family,
    boxes: _Boxes,
    crosses: BoolArray,
    units: Sequence[Int64Array],
    scale: Fraction,
    *,
    first: bool,
) -> Int64Array | None:
    """Return units of links, in proportion to those into and out of ranks, within boxes and across, shape
    (N,).

    A box's other links take their part of what its ranks do; all other links are the first layer's.
    """
    tails, heads, bandwidths = problem.tails, problem.heads, problem.bandwidths
    is_rank = mask_of(problem.n_nodes, problem.terminals)
    at_tail, at_head = np.zeros((2, 2, problem.n_nodes), dtype=np.int64)
    for crossing, side in enumerate(zip(units[::2], units[1::2], strict=True)):
        at_head[crossing, problem.terminals], at_tail[crossing, problem.terminals] = side
    box = family.innermost[heads]
    inside = ~crosses & (tails != heads) & (box > 0)
    needed = np.where(is_rank[heads], at_head[crosses.astype(np.int64), heads], 0)
    from_rank = is_rank[tails] & ~is_rank[heads]
    needed[from_rank] = at_tail[crosses.astype(np.int64), tails][from_rank]
    if np.any(inside & is_rank[tails] & is_rank[heads] & (at_tail[0, tails] != at_head[0, heads])):
        return None
    between = np.flatnonzero(inside & ~is_rank[tails] & ~is_rank[heads])
    if len(between):
        sums = sums_of(len(boxes.sizes), boxes.box_of, units[0])
        if np.any(sums % boxes.sizes):
            return None
        needed[between] = (sums // boxes.sizes)[box[between] - 1]
    capacities = np.zeros(len(bandwidths), dtype=np.int64)
    for chosen, total in ((inside, boxes.within), (crosses, boxes.across)):
        for b in np.unique(bandwidths[chosen]).tolist():
            part, links = Fraction(b, total), chosen & (bandwidths == b)
            if np.any(needed[links] % part.denominator):
                return None
            capacities[links] = needed[links] // part.denominator * part.numerator
    if first:
        others = ~crosses & ~inside & (tails != heads)
        capacities[others] = floor_capacities(bandwidths[others], scale)
    return capacities


def single_tree_layer(problem: Instance, part: Part) -> tuple[Layer, tuple[ClassReport, ...]]:
    """Return the layer of one unit tree: each of its edges takes the only link that enters the rank."""
    assert part.parent is not None
    cutting = cut(problem, part.family, part.capacities, part.multiplicities)
    (local,) = cutting.kinds
    child = np.flatnonzero(part.parent >= 0)
    into = positions_of(local.n_nodes, local.heads)
    # the rank's link to where that one begins
    pair = local.tails.astype(np.int64) * local.n_nodes + local.heads
    order = np.argsort(pair)
    wanted = part.parent[child] * local.n_nodes + local.tails[into[child]]
    out = order[np.searchsorted(pair[order], wanted)]
    child, out = child[np.argsort(out, kind="stable")], np.sort(out)
    parent, path, first, last = columns = np.full((4, 1, len(part.parent)), -1, dtype=np.int64)
    numbers = np.arange(len(child))
    columns[:3, 0, child] = part.parent[child], numbers, sums_before(out, np.ones_like(out))
    last[0, child] = 0
    trees = TableTrees(
        root=np.flatnonzero(part.parent < 0).astype(np.int32),
        units=np.ones(1, dtype=np.int64),
        parent=parent.astype(np.int32),
        path=path.astype(np.int32),
        first=first,
        last=last,
        path_offset=2 * np.arange(len(child) + 1),
        path_table=np.stack([out, into[child]], axis=1).astype(np.int32).ravel(),
    )
    solution = Subproblem(local.capacity, local.native, trees, no_crossings(), no_crossings())
    return layer_of(cutting, [solution]), (ClassReport(1, len(part.parent), local.n_relays, "a single tree"),)
