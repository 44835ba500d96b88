"""A forest of a single root, box by box: each class of boxes is solved once, outer switches join the boxes.

A broadcast has a small number of trees, but every rank is in all of them, and at the optimum nearly every
unit that leaves a box is needed. Switch removal would divide the units of a large switch among neighbours,
which rules out trees of small height. Here a box is a small problem of its own, and which box feeds which is
chosen afterwards. Source: docs/how-it-works/optimal-trees.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from operator import attrgetter, itemgetter

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int32Array, Int64Array, exact_sum, offsets_of, sums_of
from treadle.context import context, under
from treadle.schedules.factored.subproblem_trees import ragged
from treadle.schedules.trees.forest import Direction, Forest
from treadle.schedules.trees.forest_transforms import reverse
from treadle.synthesis.trees.fixed_trees import FixedTreesOptimum, exact_choices
from treadle.synthesis.trees.instance import UNIT_LIMIT, Instance
from treadle.synthesis.trees.one_root.arrangement import Egress, Parts, arrange
from treadle.synthesis.trees.one_root.switch_boxes import switch_boxes
from treadle.synthesis.trees.one_root.trees_in_box import BoxTrees, trees_of_box, trees_of_rank
from treadle.synthesis.trees.optimality import Optimum, instance_optimum
from treadle.synthesis.trees.tight_cuts.family import Family
from treadle.synthesis.trees.tight_cuts.scales import cut_classes
from treadle.synthesis.trees.tight_cuts.sets.detection import detect
from treadle.synthesis.trees.tight_cuts.subproblem_tables import violated_cut
from treadle.synthesis.trees.tight_cuts.subproblems import Cutting, cut
from treadle.synthesis.trees.tight_cuts.tight_cuts import optimum_of_cut
from treadle.synthesis.trees.tree_budget import MAX_TREES, TreeBudget, is_dyadic, lower_number
from treadle.synthesis.trees.tree_units import TreeUnits, first_possible, tree_choices
from treadle.unsupported import Unsupported

_MOST_CELLS = 2**24
"""Trees times ranks that are written out."""

_MOST_BOX = 2**15
"""Trees times ranks of a box, which the packers of small problems are for."""

_MOST_COMPARED = 2**16
"""Trees times ranks up to which boxes of one switch each are solved in either way."""

_TURNS = 16
"""Number of reassignments of trees to boxes joined by several switches, if some tree does not reach all."""


@dataclass(frozen=True)
class BoxForest:
    """A forest of one root with what was learnt on the way.

    Parameters
    ----------
    forest : Forest
    height : int
        Hops from the root to the last rank.
    best : Optimum
    units : TreeUnits
    outcome : str
        Boxes and their classes, for users.
    """

    forest: Forest
    height: int
    best: Optimum
    units: TreeUnits
    outcome: str


@dataclass(frozen=True, eq=False)
class _Box:
    """One box of the fabric.

    Parameters
    ----------
    trees : BoxTrees
        Of its kind.
    ranks : array of int32, shape (n,)
    links : array of int32
        Links of the fabric by their numbers in the box.
    shift : int
        Tree i of the kind is tree i + shift, modulo K, of the whole.
    favourite : int
        The tree of the whole that it sends on rather than others.
    """

    trees: BoxTrees
    ranks: Int32Array
    links: Int32Array
    shift: int = 0
    favourite: int = 0

    @property
    def order(self) -> Int64Array:
        """The number in the whole of each of the kind's trees."""
        n_trees = len(self.trees.parent)
        return (np.arange(n_trees) + self.shift) % n_trees

    @property
    def turned(self) -> Int64Array:
        """The kind's number of each tree of the whole."""
        n_trees = len(self.trees.parent)
        return (np.arange(n_trees) - self.shift) % n_trees


def pack_box_by_box(problem: Instance, budget: TreeBudget) -> BoxForest | Unsupported:
    """Return a forest of the best number of trees of the one root, or why there is none.

    Parameters
    ----------
    problem : Instance
    budget : TreeBudget

    Raises
    ------
    InfeasibleError
        If a rank cannot be reached, or a switch is not balanced.
    TimeLimitError
        When the deadline passed.

    Notes
    -----
    The tightest cut around a rank or a box is assumed to be the optimum: the forest then proves it. Where a
    box has no such trees, the optimum is computed.
    """
    if np.count_nonzero(problem.weights) != 1:
        return Unsupported("there is more than one root")
    found: BoxForest | Unsupported | None = Unsupported("no boxes are joined by one layer of switches")
    for family in _families(problem):
        tightest, found = min(cut_classes(problem, family), key=attrgetter("rate")), None
        if tightest.rate:
            found = _within(problem, family, optimum_of_cut(problem, tightest), budget)
        if found is None:
            with under(context().unlimited):
                found = _within(problem, family, instance_optimum(problem), budget)
        if isinstance(found, BoxForest):
            break
    return found or Unsupported("a box has no such trees")


def _within(
    problem: Instance, family: Family, best: Optimum, budget: TreeBudget
) -> BoxForest | Unsupported | None:
    """Return the forest if `best` is the optimum; None if some box cannot have its trees."""
    with under(context().unlimited):
        units = first_possible(problem, _choices(problem, best, budget))
    fixed = units.fixed
    more = lower_number(budget, problem.weights, fixed.trees)
    times = 1 if more is None else more // fixed.trees
    if more is not None and exact_sum(units.capacities) * times < UNIT_LIMIT:
        fixed = replace(fixed, trees=more, scale=fixed.scale * times)
        units = replace(units, fixed=fixed, capacities=units.capacities * times)
    multiplicities = problem.weights * fixed.trees
    trees = int(multiplicities.sum())
    ranks = len(multiplicities)
    # unit trees are written one by one here; other packers store equal trees once
    if trees > MAX_TREES * ranks or trees * ranks > _MOST_CELLS:
        return Unsupported(f"{trees} trees of {ranks} ranks are too many")
    entering = sums_of(problem.n_nodes, problem.heads, units.capacities)
    if np.any(entering[problem.terminals] < trees - multiplicities):
        return None
    cutting = cut(problem, family, units.capacities, multiplicities)
    boxes = [kind for kind in cutting.kinds if kind.has_outside]
    largest = max((box.n_children for box in boxes), default=1)
    if largest * trees > _MOST_BOX:
        return Unsupported(f"{trees} trees of a box of {largest} ranks are too many")
    if any(violated_cut(box) is not None for box in boxes):
        return None
    root = int(np.flatnonzero(multiplicities)[0])
    arranged = _arranged(problem, cutting, root, trees)
    if isinstance(arranged, Unsupported):
        return arranged
    placed, feeder, height = arranged
    forest = _written(placed, multiplicities, feeder)
    if problem.direction is Direction.REDUCE:
        forest = reverse(forest)
    outcome = f"{len(placed)} boxes of {len({id(box.trees) for box in placed})} kinds, height {height}"
    return BoxForest(forest, height, best, units, outcome)


def _arranged(
    problem: Instance, cutting: Cutting, root: int, trees: int
) -> tuple[list[_Box], Int64Array, int] | Unsupported:
    """Return boxes, the egress units that feed their parts (see `arrange`), and the least height found."""

    def arrangement(boxes: list[_Box]) -> tuple[list[_Box], Int64Array, int] | Unsupported:
        favourite = np.array([box.favourite for box in boxes], dtype=np.int32)
        parts, exits = _parts(problem, boxes, trees), _exits(problem, boxes)
        found = arrange(exits, parts, favourite, problem.n_nodes)
        return found if isinstance(found, Unsupported) else (boxes, *found)

    candidates = []
    of_switches = switch_boxes(problem, cutting, root, trees)
    if of_switches is not None:
        direct = arrangement([_Box(*box) for box in of_switches])
        if not isinstance(direct, Unsupported):
            if trees * len(problem.terminals) > _MOST_COMPARED:
                return direct
            candidates.append(direct)
    solved = _boxes(cutting, root, trees)
    # where boxes are one switch each, the first turn only serves for comparison
    for turn in range(1 if candidates else _TURNS):
        found = arrangement(_with_duties(problem, solved, trees, turn))
        if not isinstance(found, Unsupported):
            candidates.append(found)
            break
    return min(candidates, key=itemgetter(2)) if candidates else found


def _choices(problem: Instance, best: Optimum, budget: TreeBudget) -> Iterator[FixedTreesOptimum]:
    """Numbers of trees as of any forest; where the first is plain, no flows are computed to find it."""
    exact = next(exact_choices(problem, best))
    chunks = exact.trees * int(problem.weights.sum())
    is_plain = budget.is_default and is_dyadic(chunks) and chunks <= MAX_TREES * len(problem.weights)
    others = tree_choices(problem, best, budget)
    return chain([exact], others) if is_plain else others


def _families(problem: Instance) -> Iterator[Family]:
    """Sets that are joined by switches alone, which are not joined to each other; the smallest sets first."""
    found = detect(problem)
    for depth in range(int(found.depth.max()), 0, -1):
        family = found.without((found.depth != depth) & (found.depth > 0))
        home = family.innermost
        is_outer = home == 0
        is_outer[problem.terminals] = False
        crosses = (home[problem.tails] != home[problem.heads]) | (home[problem.tails] == 0)
        crosses &= problem.tails != problem.heads
        if np.all(is_outer[problem.tails[crosses]] != is_outer[problem.heads[crosses]]):
            yield family


def _boxes(cutting: Cutting, root: int, trees: int) -> list[_Box]:
    """Return all boxes, that of the root first; every kind is solved once."""
    outer = cutting.kinds[int(cutting.kind[0])]
    # links of the children, child by child: used for children that are ranks
    end = np.minimum(outer.tails, outer.heads)
    order = np.argsort(end, kind="stable")
    bounds = np.searchsorted(end[order], np.arange(outer.n_children + 1))
    solved: dict[int | tuple[bytes, bytes, bool], BoxTrees] = {}
    boxes: list[_Box] = []
    for child, code in enumerate(cutting.children_of(0).tolist()):
        key: int | tuple[bytes, bytes, bool]
        if code < 0:
            ranks, links, key = cutting.children_of(~code), cutting.links_of(~code), int(cutting.kind[~code])
            if key not in solved:
                solved[key] = trees_of_box(cutting.kinds[key])
        else:
            own = order[bounds[child] : bounds[child + 1]]
            ranks, links = np.array([code], dtype=np.int32), cutting.links_of(0)[own]
            leaves, units = outer.tails[own] == child, outer.capacity[own]
            key = leaves.tobytes(), units.tobytes(), code == root
            if key not in solved:
                solved[key] = trees_of_rank(leaves, units, trees, is_root=code == root)
        boxes.append(_Box(solved[key], ranks, links))
    return sorted(boxes, key=lambda box: root not in box.ranks)


def _with_duties(problem: Instance, boxes: list[_Box], trees: int, turn: int) -> list[_Box]:
    """Return the boxes with the tree that each forwards rather than others: all trees in turn.

    It is one that enters the box at as few ranks as possible. For the first box of a tree, it enters the box
    from the switch by which it leaves that of the root, if such a tree exists.
    """
    root = boxes[0].trees
    kept = np.flatnonzero(root.exit_tree >= 0)
    from_root = np.full(trees, -1)
    from_root[root.exit_tree[kept]] = problem.heads[boxes[0].links[root.ends(root.exit_path[kept])[1]]]
    rng = np.random.default_rng(turn)
    found = [boxes[0]]
    for number, box in enumerate(boxes[1:]):
        tree, (owner, rank) = number % trees, box.trees.parts
        counts = np.bincount(owner)
        few = np.flatnonzero(counts == counts.min())
        if number < trees:
            first = np.searchsorted(owner, few)
            path = box.trees.path[few, rank[first]]
            near = few[problem.tails[box.links[box.trees.ends(path)[0]]] == from_root[tree]]
            few = near if len(near) else few
        # in their turn: they enter by different switches, and so do the boxes that send on one tree
        place = int(rng.integers(len(few))) if turn else number // trees % len(few)
        found.append(replace(box, shift=int(tree - few[place]) % trees, favourite=tree))
    return found


def _exits(problem: Instance, boxes: list[_Box]) -> Egress:
    """Egress of the boxes."""
    columns: list[tuple[NDArray[np.signedinteger], ...]] = []
    tables: list[tuple[NDArray[np.signedinteger], ...]] = []
    first = first_rank = 0
    for number, box in enumerate(boxes):
        made, turned = box.trees, box.turned
        last = made.ends(made.exit_path)[1]
        switch, tree = problem.heads[box.links[last]], (made.exit_tree + box.shift) % len(turned)
        tree = np.where(made.exit_tree < 0, -1, tree)
        rank = first_rank + made.exit_rank
        columns.append((np.full(len(last), number), switch, rank, tree, made.exit_units))
        tables.append((first + made.part[turned].T, made.depth[turned].T))
        first += len(made.parts[0])
        first_rank += len(box.ranks)
    owner, switch, rank, tree, units = (np.concatenate(column) for column in zip(*columns, strict=True))
    part, depth = (np.concatenate(table) for table in zip(*tables, strict=True))
    owner, switch, tree, depth = (each.astype(np.int32) for each in (owner, switch, tree, depth))
    return Egress(owner, switch, rank.astype(np.int64), tree, units, part.astype(np.int64), depth)


def _parts(problem: Instance, boxes: list[_Box], trees: int) -> Parts:
    """Ingress of the boxes, and the box of the root."""
    columns: list[tuple[NDArray[np.signedinteger], ...]] = []
    for box in boxes:
        made = box.trees
        tree, rank = made.parts
        path = made.path[tree, rank]
        switch = np.where(path < 0, -1, problem.tails[box.links[made.ends(np.maximum(path, 0))[0]]])
        columns.append(((tree + box.shift) % trees, switch, made.heights))
    return Parts(*(np.concatenate(column).astype(np.int32) for column in zip(*columns, strict=True)))


def _written(boxes: list[_Box], multiplicities: Int64Array, feeder: Int64Array) -> Forest:
    """The forest, with a path of its own for every edge."""
    n, trees = len(multiplicities), int(multiplicities.sum())
    parent = np.full((trees, n), -1, dtype=np.int32)
    length = np.zeros((trees, n), dtype=np.int64)
    exit_rank = np.concatenate([box.ranks[box.trees.exit_rank] for box in boxes])
    exits = [box.trees.links_of(box.trees.exit_path) for box in boxes]
    exit_length = np.concatenate([lengths for lengths, _ in exits])
    exit_links = np.concatenate([box.links[links] for box, (_, links) in zip(boxes, exits, strict=True)])
    exit_offset = offsets_of(exit_length)
    tree_of = np.concatenate([(box.trees.parts[0] + box.shift) % trees for box in boxes])
    rank_of = np.concatenate([box.ranks[box.trees.parts[1]] for box in boxes])
    for box in boxes:
        made = box.trees
        tree, rank, lengths, _ = made.edges
        length[(tree + box.shift) % trees, box.ranks[rank]] = lengths
        above = made.parent
        parent[box.order[:, None], box.ranks] = np.where(above < 0, -1, box.ranks[above])
    fed = np.flatnonzero(feeder >= 0)
    parent[tree_of[fed], rank_of[fed]] = exit_rank[feeder[fed]]
    length[tree_of[fed], rank_of[fed]] += exit_length[feeder[fed]]
    offset = offsets_of(length.ravel())
    path_links = np.empty(int(offset[-1]), dtype=np.int32)
    # where an exit feeds a part, its links come before those into the box
    starts = offset[tree_of[fed] * n + rank_of[fed]]
    taken = exit_length[feeder[fed]]
    path_links[ragged(starts, taken)] = exit_links[ragged(exit_offset[feeder[fed]], taken)]
    for box in boxes:
        tree, rank, lengths, links = box.trees.edges
        ends = offset[(tree + box.shift) % trees * n + box.ranks[rank] + 1]
        path_links[ragged(ends - lengths, lengths)] = box.links[links]
    is_edge = (parent >= 0).ravel()
    edges = int(is_edge.sum())
    return Forest(
        direction=Direction.BROADCAST,
        root_multiplicity=multiplicities,
        tree_root=np.full(trees, np.flatnonzero(multiplicities)[0], dtype=np.int32),
        tree_multiplicity=np.ones(trees, dtype=np.int64),
        parent=parent,
        entry_offset=offsets_of(is_edge.astype(np.int64)),
        entry_path=np.arange(edges, dtype=np.int32),
        entry_units=np.ones(edges, dtype=np.int64),
        path_offset=np.append(offset[:-1][is_edge], offset[-1]),
        path_links=path_links,
    )
