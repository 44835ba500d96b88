"""Boxes of direct links: some allgather in each box, directly between ranks of equal place across boxes.

Where the ranks of a box are not all linked to each other (MI250's), a direct exchange in the box takes the
same links many times over. An allgather made for the box, and backwards a reduce-scatter, does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import lcm

import numpy as np

from treadle.arrays import Int64Array
from treadle.errors import InfeasibleError, ScheduleError
from treadle.refusal import Refusal
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.steps.step_transforms import pipelined, reverse
from treadle.schedules.steps.steps import Steps, StepSchedule
from treadle.schedules.steps.urgent_first import urgent_first
from treadle.schedules.trees.forest import Direction
from treadle.synthesis.scheduler import equal_shards
from treadle.synthesis.sizes.boxed import Boxes
from treadle.synthesis.sizes.shortest_ways import ShortestWays
from treadle.synthesis.sizes.spanning_exchanges import KINDS, not_too_many, several_boxes
from treadle.synthesis.trees.baselines.boxes import find_boxes
from treadle.synthesis.trees.baselines.embedding import check_supported
from treadle.synthesis.trees.baselines.hierarchical_ring import boxes_of_one_size
from treadle.topologies.distances import distance_matrix
from treadle.topologies.topology import Topology, TopologyBuilder

BoxGather = Callable[[Topology], Steps]
"""An allgather among the ranks of a box, over the links between them."""
_Box = tuple[Topology, Int64Array]
"""The ranks of a box by place with the links between them, and the numbers of these links in the fabric."""


def boxes_of_direct_links(topology: Topology, collective: Collective) -> Refusal | None:
    """In every box each rank reaches each over links between ranks."""
    for box in find_boxes(topology, collective):
        try:
            distance_matrix(_inside(topology, collective, box)[0])
        except InfeasibleError:
            names = topology.node_names[collective.ranks[box[0]]]
            return Refusal(f"the links between the ranks of the box of {names} do not join them; use rail")
    return None


BOX_NEEDS = (not_too_many, equal_shards, several_boxes, boxes_of_one_size, boxes_of_direct_links)
"""Of schedules that put an allgather in boxes together with direct messages across."""


def across_and_in_boxes(
    name: str,
    topology: Topology,
    collective: Collective,
    gather: BoxGather,
    *,
    pieces: int = 1,
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
    pieces : int
        Of every shard, that follow each other.
    parts : int
        Of each step, what others wait for most first (`urgent_first`); sums that are exchanged keep theirs.

    Raises
    ------
    ScheduleError
        If boxes differ in size, or links between ranks do not join them.

    Notes
    -----
    An allreduce is a reduce-scatter in the box, sums across, an allgather in the box. Between two boxes sums
    are exchanged in full, which is no more than scattering and gathering them, in one message less; among
    more boxes each rank keeps a part of its place's sum.

    In a reduce-scatter sums that stay in the box come half of all pieces later than those that leave it,
    which have a message more to go: the network waits less. (Later still is no better: trees of several hops
    queue behind what waits in the box from the start.)
    """
    check_supported(name, topology, collective, KINDS)
    for need in BOX_NEEDS:
        if (refusal := need(topology, collective)) is not None:
            raise ScheduleError(f"{name}: {refusal}")
    boxes, kind = find_boxes(topology, collective), collective.kind
    exchanges = kind is CollectiveKind.ALLREDUCE and len(boxes) == 2
    reduce = broadcast = None
    if exchanges:
        reduce = _summed(topology, collective, boxes, gather)
    elif kind.reduces:
        reduce = reverse(
            _spread(topology.transpose(), collective, boxes, gather, across=True, lead=pieces // 2)
        )
    if kind.broadcasts:
        broadcast = _spread(topology, collective, boxes, gather, across=not exchanges)

    def cut(steps: Steps) -> Steps:
        return urgent_first(pipelined(steps, pieces), topology, parts)

    return StepSchedule(kind, reduce=reduce and cut(reduce), broadcast=broadcast and cut(broadcast))


def _inside(topology: Topology, collective: Collective, box: Sequence[int]) -> _Box:
    """The fabric of a box; boxes of the same links have the same."""
    nodes = [collective.ranks[rank] for rank in box]
    place = {node: i for i, node in enumerate(nodes)}
    builder = TopologyBuilder("box")
    names = [builder.compute(f"gpu{i}") for i in range(len(nodes))]
    numbers = []
    for link, (tail, head) in enumerate(zip(topology.tails.tolist(), topology.heads.tolist(), strict=True)):
        if tail in place and head in place and tail != head:
            builder.link(names[place[tail]], names[place[head]], int(topology.bandwidths[link]))
            numbers.append(link)
    return builder.build(), np.array(numbers, dtype=np.int64)


def _gathered(insides: Sequence[_Box], gather: BoxGather) -> list[Steps]:
    """The allgather of each box; of equal boxes it is made once."""
    known: list[tuple[Topology, Steps]] = []
    for inside, _ in insides:
        if not any(inside == other for other, _ in known):
            known.append((inside, gather(inside)))
    return [next(steps for other, steps in known if other == inside) for inside, _ in insides]


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
    insides = [_inside(topology, collective, box) for box in boxes]
    found = _gathered(insides, gather)
    n_chunks, ways = lcm(*(steps.n_chunks for steps in found)), ShortestWays(topology, collective)
    parts = [_across(boxes, ways, lead, n_chunks, own=True)] if across else []
    sources = boxes if across else [range(len(boxes[0]))]
    for box, steps, (_, numbers) in zip(boxes, found, insides, strict=True):
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
    insides = [_inside(topology, collective, box) for box in boxes]
    turned = [(inside.transpose(), numbers) for inside, numbers in insides]
    found = [reverse(steps) for steps in _gathered(turned, gather)]
    n_chunks, ways = lcm(*(steps.n_chunks for steps in found)), ShortestWays(topology, collective)
    last = max(steps.n_steps for steps in found)
    parts = [
        _in_box(steps, numbers, ways, n_chunks, last - steps.n_steps)
        for steps, (_, numbers) in zip(found, insides, strict=True)
    ]
    parts.append(_across(boxes, ways, last, n_chunks, own=False))
    return ways.steps(Direction.REDUCE, n_chunks, parts, [np.array(box) for box in boxes])


def _in_box(steps: Steps, numbers: Int64Array, ways: ShortestWays, n_chunks: int, first: int) -> Int64Array:
    """Shard, way, step, low and high of the sends in a box; shards are places."""
    way = np.array([ways.over_link(int(link)) for link in numbers.tolist()], dtype=np.int64)
    scale = n_chunks // steps.n_chunks
    ends = [side.astype(np.int64) * scale for side in (steps.low, steps.high)]
    return np.stack([steps.shard.astype(np.int64), way[steps.link], first + steps.send_steps(), *ends])


def _across(boxes: Boxes, ways: ShortestWays, step: int, n_chunks: int, *, own: bool) -> Int64Array:
    """The sends between equal places of all boxes, of the senders' own shards or of the places'."""
    rows = []
    for shift in range(1, len(boxes)):
        for home, box in enumerate(boxes):
            for place, sender in enumerate(box):
                target = boxes[(home + shift) % len(boxes)][place]
                shard = sender if own else place
                rows.append((shard, ways.number(sender, target), step, 0, n_chunks))
    return np.array(rows, dtype=np.int64).T
