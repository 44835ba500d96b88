"""Direct construction of an outermost subproblem with spare planes, and children of few classes.

Where failures left one rank far behind, all others need a small part of what their links can carry. So what
children send each other comes first, the same for all equivalent ones, and capacities are reduced to that.
"""

from __future__ import annotations

import numpy as np

from treadle.arrays import Int32Array, Int64Array, mask_of, sums_of
from treadle.schedules.factored import PlaneTrees
from treadle.schedules.factored.subproblem_trees import ragged
from treadle.synthesis.trees.instance import Instance
from treadle.synthesis.trees.tight_cuts.closed_forms.boundary_runs import (
    BoundaryRuns,
    Outermost,
    boundary_columns,
    side_tables,
)
from treadle.synthesis.trees.tight_cuts.closed_forms.class_allocation import ClassAllocation, class_allocation
from treadle.synthesis.trees.tight_cuts.closed_forms.unit_order import positions_in_turn
from treadle.synthesis.trees.tight_cuts.family import Family
from treadle.synthesis.trees.tight_cuts.proportion import quotas
from treadle.synthesis.trees.tight_cuts.subproblems import children_of
from treadle.unsupported import Unsupported

_MOST_CLASSES = 2**6


def spread_on_planes(
    problem: Instance, family: Family, capacities: Int64Array, multiplicities: Int64Array
) -> tuple[ClassAllocation, Int64Array] | Unsupported:
    """Reduce the links between children and planes to what classes of children send each other, or why not.

    Returns shares of the outermost children, and capacities, shape (m,), for which every set of the family is
    tight. Links between planes are not used. Source: docs/proofs/decomposition.md, proposition 17.
    """
    if int(family.depth.max()) != 1:
        return Unsupported("its sets are nested")
    # the outermost child that holds each node, -1 for planes; unit trees of each child
    offset, _, place_of_rank, place_of_set = children_of(problem, family)
    child = np.where(family.innermost > 0, place_of_set[family.innermost], -1).astype(np.int32)
    loose = np.flatnonzero(family.innermost[problem.terminals] == 0)
    child[problem.terminals[loose]] = place_of_rank[loose]
    units = sums_of(int(offset[1]), child[problem.terminals], multiplicities)
    tail, head = child[problem.tails], child[problem.heads]
    if np.any((tail >= 0) & (head >= 0) & (tail != head)):
        return Unsupported("some links join two children")
    leaving, entering = np.flatnonzero((tail >= 0) & (head < 0)), np.flatnonzero((tail < 0) & (head >= 0))
    planes = np.unique(np.concatenate([problem.heads[leaving], problem.tails[entering]]))
    if len(planes) < 2 or len(planes) * len(units) > len(leaving) + len(entering):
        return Unsupported("there is one plane, or many planes for few children")
    shape = len(units), len(planes)
    sides = [
        (links, near[links], np.searchsorted(planes, far[links]))
        for links, near, far in ((leaving, tail, problem.heads), (entering, head, problem.tails))
    ]
    sums = [sums_of(shape, (owner, plane), capacities[links]) for links, owner, plane in sides]
    block, most = int(np.gcd.reduce(multiplicities)), min(_MOST_CLASSES, len(units) // 2)
    shares = class_allocation(units, sums[0], sums[1], block, most)
    if isinstance(shares, Unsupported):
        return shares
    if len(shares.class_units) == 1:
        return Unsupported("its children are all equivalent")  # circulant trees need no free capacity
    reduced = capacities.copy()
    reduced[(tail < 0) & (head < 0)] = 0
    for (links, owner, plane), total, used in zip(sides, sums, shares.sums(), strict=True):
        wanted = np.zeros_like(total)
        wanted[:, shares.planes] = used[shares.class_of]
        reduced[links] = quotas(capacities[links], owner * len(planes) + plane, wanted.ravel())
    refused = _balance(problem, child, reduced, capacities)
    return refused or (shares, reduced)


def _balance(
    problem: Instance, child: Int32Array, reduced: Int64Array, whole: Int64Array
) -> Unsupported | None:
    """Reduce the inner links of relays at the boundary in place, or return why not: a network card between
    one rank and one plane forwards exactly what crosses.
    """
    tails, heads = problem.tails, problem.heads
    out, into = child[tails] >= 0, child[heads] >= 0
    is_rank = mask_of(problem.n_nodes, problem.terminals)
    given = reduced != whole
    leaving = np.flatnonzero(out & ~into & ~is_rank[tails] & given)
    entering = np.flatnonzero(into & ~out & ~is_rank[heads] & given)
    cards = np.union1d(tails[leaving], heads[entering])
    if not len(cards):
        return None
    at_tail, at_head = (np.isin(ends, cards) for ends in (tails, heads))
    inner = out & into & (tails != heads)
    columns = []
    crossing = (at_tail & out & ~into, tails), (at_head & into & ~out, heads)
    for mask, node in (*crossing, (at_head & inner, heads), (at_tail & inner, tails)):
        links = np.flatnonzero(mask)
        links = links[np.argsort(node[links], kind="stable")]
        if not np.array_equal(node[links], cards):
            return Unsupported("a relay at the boundary of a child has several links")
        columns.append(links)
    exits, entries, up, down = columns
    for inside, across in ((up, exits), (down, entries)):
        if np.any(reduced[across] > whole[inside]):
            return Unsupported("a relay at the boundary of a child has less capacity within")
        reduced[inside] = reduced[across]
    behind = ~(is_rank[tails[up]] & is_rank[heads[down]])
    if np.any(behind & (reduced[up] != reduced[down])):
        return Unsupported("a relay at the boundary of a child has another relay behind it")
    return None


def class_trees(outer: Outermost, shares: ClassAllocation) -> PlaneTrees:
    """Return the trees of the outermost subproblem whose capacities are those of `spread_on_planes`."""
    n, native = outer.local.n_children, outer.local.native
    out, into = (boundary_columns(side, n, plane_first=True)[:3] for side in (outer.out, outer.into))
    counts = np.bincount(shares.class_of)
    usual = int(np.argmax(np.where(shares.class_units > 0, counts, 0)))
    child = int(np.argmax(shares.class_of == usual))
    root, target = shares.relayed()
    hub = np.flatnonzero(shares.class_of == shares.via.max())
    served = np.unique(target)
    pair_root = np.concatenate([root, np.repeat(hub, len(served)) if len(root) else root])
    pair_child = np.concatenate([target, served])
    order = np.lexsort((pair_child, pair_root))
    pair_root, pair_child = pair_root[order], pair_child[order]
    blocks = native[root] // shares.block
    return PlaneTrees(
        **side_tables(out, into),
        native_units=native,
        block=shares.block,
        place=_places(outer.out, child, outer.groups(1)[child]),
        group=shares.class_of,
        group_units=shares.group_units(),
        pair_root=pair_root.astype(np.int32),
        pair_child=pair_child.astype(np.int32),
        pair_units=shares.shares[shares.class_of[pair_root], shares.class_of[pair_child]],
        relay_root=np.repeat(root, blocks).astype(np.int32),
        relay_block=ragged(np.zeros_like(blocks), blocks),
        relay_child=np.repeat(target, blocks).astype(np.int32),
        relay_by=np.full(int(blocks.sum()), hub[0] if len(hub) else 0, dtype=np.int32),
    )


def _places(out: BoundaryRuns, child: int, sizes: Int64Array) -> Int64Array:
    """Return the places of a child's trees: first those of ranks that mostly send by the first plane."""
    mine = np.flatnonzero(out.owner == child)
    planes, plane = np.unique(out.plane[mine], return_inverse=True)
    sent = sums_of((len(sizes), max(1, len(planes))), (out.supplier[mine], plane.ravel()), out.units[mine])
    return positions_in_turn(sizes, np.argsort(np.argmax(sent, axis=1), kind="stable"))
