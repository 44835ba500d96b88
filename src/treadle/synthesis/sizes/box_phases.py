"""Boxes of direct links: some allgather in each box, directly between ranks of equal position across boxes.

Where the ranks of a box are not all linked to each other (MI250's), a direct exchange in the box takes the
same links many times over. An allgather made for the box, and backwards a reduce-scatter, does not: over
few short trees (`box_trees`), or breadth first (`box_bfb`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import lcm

import numpy as np

from treadle.arrays import Int64Array
from treadle.errors import InfeasibleError, ScheduleError
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.schedules.steps.step_transforms import reverse
from treadle.schedules.steps.steps import Send, Steps, StepSchedule, steps_from_sends
from treadle.schedules.steps.urgent_first import in_chunks
from treadle.schedules.trees.forest import Direction, Forest, Tree
from treadle.synthesis.scheduler import equal_shards, tried_with
from treadle.synthesis.sizes.boxed import Boxes
from treadle.synthesis.sizes.shortest_paths import ShortestPaths
from treadle.synthesis.sizes.spanning_exchanges import not_too_many, several_boxes
from treadle.synthesis.steps.bfb.breadth_first import bfb_allgather
from treadle.synthesis.trees.baselines.boxes import fabric_of_box, find_boxes
from treadle.synthesis.trees.baselines.embedding import GATHERING, check_supported
from treadle.synthesis.trees.baselines.hierarchical_ring import boxes_of_one_size
from treadle.synthesis.trees.pipeline import synthesise
from treadle.synthesis.trees.tree_budget import TreeBudget
from treadle.topologies.distances import distance_matrix
from treadle.topologies.topology import Topology
from treadle.unsupported import Unsupported

_MOST_TREES, _CHUNKS, _PARTS = 4, 8, 5


def _trials(_: Topology, collective: Collective) -> Sequence[Mapping[str, object]]:
    """Options to try: one tree and the best few, in one chunk and in several; sums in parts of steps too."""
    found: list[Mapping[str, object]] = [
        {"chunks": 1},
        {"trees": 1, "chunks": 1},
        {"trees": 1},
        {"chunks": 2 * _CHUNKS},
    ]
    if collective.kind is CollectiveKind.REDUCE_SCATTER:
        found += [{"chunks": chunks, "parts": _PARTS} for chunks in (_CHUNKS, 3 * _CHUNKS // 2)]
    return found


@tried_with(_trials)
def box_trees(
    topology: Topology,
    collective: Collective,
    *,
    trees: int | None = None,
    chunks: int = _CHUNKS,
    parts: int = 1,
) -> StepSchedule:
    """Across boxes directly among ranks of equal position, then over few short trees in each box.

    Parameters
    ----------
    topology : Topology
    collective : Collective
        Allgather, reduce-scatter or allreduce of equal shards.
    trees : int, optional
        Per root in the box; default the best number up to 4.
    chunks : int, optional
        Chunks of the data that follow each other, default 8. Messages across of a chunk and in the boxes of
        others then go at the same time.
    parts : int, optional
        Of each step, default 1: of several, what others wait for most goes first (`urgent_first`).

    Raises
    ------
    ScheduleError
        If boxes differ in size, or links between ranks do not join them.
    """
    budget = TreeBudget(trees=trees) if trees is not None else TreeBudget(max_trees=_MOST_TREES)

    def gather(box: Topology) -> Steps:
        found = synthesise(box, on_all_ranks(box, CollectiveKind.ALLGATHER), budget=budget).trees
        assert found.broadcast is not None
        return steps_of_trees(found.broadcast)

    return across_and_in_boxes("box-trees", topology, collective, gather, chunks=chunks, parts=parts)


def steps_of_trees(forest: Forest) -> Steps:
    """Broadcasting steps that send every unit of a root's shard over its unit tree.

    Parameters
    ----------
    forest : Forest
        Out-trees whose edges are single links; as many unit trees for every root.

    Raises
    ------
    ScheduleError
        If roots differ in trees, or an edge takes several links.
    """
    units = set(forest.root_multiplicity.tolist())
    if forest.direction is not Direction.BROADCAST or len(units) != 1:
        raise ScheduleError("steps of trees: expected as many out-trees for every root")
    sends: list[Send] = []
    for root in range(forest.n_ranks):
        first = 0
        for tree in forest.trees(root):
            sends += _sends(forest, tree, first)
            first += tree.multiplicity
    return steps_from_sends(Direction.BROADCAST, forest.n_ranks, units.pop(), sends)


def _sends(forest: Forest, tree: Tree, first: int) -> list[Send]:
    """The sends of a tree whose units are the chunks from `first` on."""
    found: list[Send] = []
    for rank, depth in _depths(tree).items():
        low = first
        for entry in range(int(tree.entry_offset[rank]), int(tree.entry_offset[rank + 1])):
            links, high = forest.path(int(tree.entry_path[entry])), low + int(tree.entry_units[entry])
            if len(links) != 1:
                raise ScheduleError(f"steps of trees: an edge takes {len(links)} links, expected 1")
            found.append((tree.root, int(links[0]), depth - 1, low, high))
            low = high
    return found


def _depths(tree: Tree) -> dict[int, int]:
    """Edges between the root and each other rank."""
    above = tree.parent.tolist()
    found = {tree.root: 0}
    for rank in range(len(above)):
        way = []
        at = rank
        while at not in found:
            way.append(at)
            at = above[at]
        for step, passed in enumerate(reversed(way), 1):
            found[passed] = found[at] + step
    del found[tree.root]
    return found


_MOST_CHUNKS = 16
"""Most chunks of a shard that breadth-first broadcast in a box makes: small sizes are not split finely."""

BoxGather = Callable[[Topology], Steps]
"""An allgather among the ranks of a box, over the links between them."""


def boxes_of_direct_links(topology: Topology, collective: Collective) -> Unsupported | None:
    """In every box each rank reaches each over links between ranks."""
    for box in find_boxes(topology, collective):
        try:
            distance_matrix(fabric_of_box(topology, [collective.ranks[rank] for rank in box])[0])
        except InfeasibleError:
            names = topology.node_names[collective.ranks[box[0]]]
            return Unsupported(
                f"the links between the ranks of the box of {names} do not join them; use rail"
            )
    return None


BOX_NEEDS = (not_too_many, equal_shards, several_boxes, boxes_of_one_size, boxes_of_direct_links)
"""Requirements of an allgather in boxes with direct messages across."""


def box_bfb(topology: Topology, collective: Collective) -> StepSchedule:
    """Across boxes directly among ranks of equal position, then breadth first in each box.

    Parameters and errors as for `across_and_in_boxes`.
    """
    return across_and_in_boxes(
        "box-bfb", topology, collective, partial(bfb_allgather, max_chunks=_MOST_CHUNKS)
    )


def across_and_in_boxes(
    name: str,
    topology: Topology,
    collective: Collective,
    gather: BoxGather,
    *,
    chunks: int = 1,
    parts: int = 1,
) -> StepSchedule:
    """Shards across boxes directly among ranks of equal place, then through each box; reductions backwards.

    Parameters
    ----------
    name : str
        Of the scheduler, for messages.
    topology : Topology
    collective : Collective
        Allgather, reduce-scatter or allreduce of equal shards.
    gather : BoxGather
    chunks : int
        Of every shard, that follow each other.
    parts : int
        In each step, the most awaited sends first (`urgent_first`); exchanged sums keep their order.

    Raises
    ------
    ScheduleError
        If boxes differ in size, or links between ranks do not join them.

    Notes
    -----
    An allreduce is a reduce-scatter in the box, sums across, an allgather in the box. Between two boxes sums
    are exchanged in full, which is no more than scattering and gathering them, in one message less; among
    more boxes each rank keeps a part of its place's sum.

    In a reduce-scatter sums that stay in the box come half of all chunks later than those that leave it,
    which have a message more to go: the network waits less. (Later still is no better: trees of several hops
    queue behind what waits in the box from the start.)
    """
    check_supported(name, topology, collective, GATHERING, BOX_NEEDS)
    boxes, kind = find_boxes(topology, collective), collective.kind
    exchanges = kind is CollectiveKind.ALLREDUCE and len(boxes) == 2
    reduce = broadcast = None
    if exchanges:
        reduce = _summed(topology, collective, boxes, gather)
    elif kind.reduces:
        turned = topology.transpose()
        reduce = reverse(_spread(turned, collective, boxes, gather, across=True, lead=chunks // 2))
    if kind.broadcasts:
        broadcast = _spread(topology, collective, boxes, gather, across=not exchanges)

    return in_chunks(StepSchedule(kind, reduce=reduce, broadcast=broadcast), topology, chunks, parts)


def _gathered(
    topology: Topology, collective: Collective, boxes: Boxes, gather: BoxGather
) -> tuple[list[Steps], list[Int64Array]]:
    """The allgather of each box, which equal boxes share, and the numbers of the box's links."""
    nodes = ([collective.ranks[rank] for rank in box] for box in boxes)
    insides, numbers = zip(*(fabric_of_box(topology, own) for own in nodes), strict=True)
    made = {inside: gather(inside) for inside in dict.fromkeys(insides)}
    return [made[inside] for inside in insides], list(numbers)


def _spread(
    topology: Topology,
    collective: Collective,
    boxes: Boxes,
    gather: BoxGather,
    *,
    across: bool,
    lead: int = 0,
) -> Steps:
    """Allgather: across boxes, then in them; or in them alone, of shards that equal places share."""
    found, links = _gathered(topology, collective, boxes, gather)
    n_chunks, ways = lcm(*(steps.n_chunks for steps in found)), ShortestPaths(topology, collective)
    parts = [_across(boxes, ways, lead, n_chunks, own=True)] if across else []
    sources = boxes if across else [range(len(boxes[0]))]
    for box, steps, numbers in zip(boxes, found, links, strict=True):
        inside = _in_box(steps, numbers, ways, n_chunks, lead + int(across))
        for shards in sources:
            part = np.vstack([np.array(shards)[inside[:1]], inside[1:]])
            if shards is box:
                part[2] -= lead + int(across)
            parts.append(part)
    homes = [np.arange(collective.n_ranks)] if across else [np.array(box) for box in boxes]
    return ways.steps(Direction.BROADCAST, n_chunks, parts, homes)


def _summed(topology: Topology, collective: Collective, boxes: Boxes, gather: BoxGather) -> Steps:
    """Reduce-scatter in each box, and the exchange of its sums among equal places."""
    turned, links = _gathered(topology.transpose(), collective, boxes, gather)
    found = [reverse(steps) for steps in turned]
    n_chunks, ways = lcm(*(steps.n_chunks for steps in found)), ShortestPaths(topology, collective)
    last = max(steps.n_steps for steps in found)
    parts = [
        _in_box(steps, numbers, ways, n_chunks, last - steps.n_steps)
        for steps, numbers in zip(found, links, strict=True)
    ]
    parts.append(_across(boxes, ways, last, n_chunks, own=False))
    return ways.steps(Direction.REDUCE, n_chunks, parts, [np.array(box) for box in boxes])


def _in_box(steps: Steps, numbers: Int64Array, ways: ShortestPaths, n_chunks: int, first: int) -> Int64Array:
    """Shard, way, step, low and high of the sends in a box; shards are places."""
    way = np.array([ways.over_link(int(link)) for link in numbers.tolist()], dtype=np.int64)
    scale = n_chunks // steps.n_chunks
    ends = [side.astype(np.int64) * scale for side in (steps.low, steps.high)]
    return np.stack([steps.shard.astype(np.int64), way[steps.link], first + steps.send_steps(), *ends])


def _across(boxes: Boxes, ways: ShortestPaths, step: int, n_chunks: int, *, own: bool) -> Int64Array:
    """The sends between equal places of all boxes, of the senders' own shards or of the places'."""
    rows = []
    for shift in range(1, len(boxes)):
        for home, box in enumerate(boxes):
            for place, sender in enumerate(box):
                target = boxes[(home + shift) % len(boxes)][place]
                shard = sender if own else place
                rows.append((shard, ways.number(sender, target), step, 0, n_chunks))
    return np.array(rows, dtype=np.int64).T
