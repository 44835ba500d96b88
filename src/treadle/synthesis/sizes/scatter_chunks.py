"""Reduce-scatters and allgathers over boxes in chunks: data that leave the box go first.

A reduce-scatter by the rank of equal place in each box (`rail`, turned round) sums in the box, then across.
Where both take about as long, the network waits for the box: slices of the runtime are worked through as a
whole, so that sums which stay in the box go before the next slice's sums for other boxes. Here sums for other
boxes go chunk by chunk, from box to box in turn, and those that stay in the box come last of all. The
allgather is the same reversed: chunks from other boxes are forwarded in the box as they arrive.
"""

from __future__ import annotations

import numpy as np

from treadle.arrays import Int64Array
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.steps.step_transforms import reverse
from treadle.schedules.steps.steps import Steps, StepSchedule
from treadle.schedules.trees.forest import Direction
from treadle.synthesis.scheduler import equal_shards, tried_with
from treadle.synthesis.sizes.shortest_paths import ShortestPaths
from treadle.synthesis.sizes.spanning_exchanges import not_too_many, several_boxes
from treadle.synthesis.trees.baselines.boxes import find_boxes
from treadle.synthesis.trees.baselines.embedding import check_supported
from treadle.synthesis.trees.baselines.hierarchical_ring import boxes_of_one_size
from treadle.topologies.topology import Topology
from treadle.unsupported import Unsupported

_MOST_BOXES = 4
_CHUNKS = 4
_WORTH_A_TRIAL = [{"chunks": chunks} for chunks in (2, 8, 16, 32)]


def few_boxes(topology: Topology, collective: Collective) -> Unsupported | None:
    """At most 4: among more, trees take turns by boxes, and lose little."""
    n = len(find_boxes(topology, collective))
    return Unsupported(f"expected at most {_MOST_BOXES} boxes, found {n}") if n > _MOST_BOXES else None


_NEEDS = (not_too_many, equal_shards, several_boxes, few_boxes, boxes_of_one_size)


@tried_with(_WORTH_A_TRIAL)
def scatter_chunks(topology: Topology, collective: Collective, *, chunks: int = _CHUNKS) -> StepSchedule:
    """Sums for other boxes, chunk by chunk and box by box in turn, each sent immediately; the box's own last.

    Parameters
    ----------
    topology : Topology
    collective : Collective
        A reduce-scatter of equal shards.
    chunks : int, optional
        Chunks of a shard, default 4.

    Raises
    ------
    ScheduleError
        If it does not support the problem.
    InfeasibleError
        If a rank does not reach another.

    Notes
    -----
    Chunk i of P for the box at distance d of B has the number q = i (B - 1) + d - 1: it is sent to the rank
    of its owner's position in step q and across in step q + 1, the box's own shards, undivided, in step P (B
    - 1).
    """
    kind = CollectiveKind.REDUCE_SCATTER
    check_supported("scatter-pieces", topology, collective, (kind,), _NEEDS)
    return StepSchedule(kind, reduce=_sums(topology, collective, chunks))


@tried_with(_WORTH_A_TRIAL)
def gather_chunks(topology: Topology, collective: Collective, *, chunks: int = _CHUNKS) -> StepSchedule:
    """Shards to the own box and, chunk by chunk, to the same position of the others, which forward them.

    Parameters and errors are those of `scatter_chunks`, whose steps on the reversed links these are, the last
    first; the collective is an allgather of equal shards.
    """
    kind = CollectiveKind.ALLGATHER
    check_supported("gather-pieces", topology, collective, (kind,), _NEEDS)
    return StepSchedule(kind, broadcast=reverse(_sums(topology.transpose(), collective, chunks)))


def _sums(topology: Topology, collective: Collective, chunks: int) -> Steps:
    boxes = np.array(find_boxes(topology, collective), dtype=np.int64)
    ways, sends = ShortestPaths(topology, collective), list[Int64Array]()
    last = chunks * (len(boxes) - 1)
    for number in range(last):
        chunk, distance = divmod(number, len(boxes) - 1)
        owners = np.roll(boxes, -distance - 1, axis=0)  # the counterpart of each rank in that box
        sends.append(_in_boxes(ways, boxes, owners, number, (chunk, chunk + 1)))
        sends.append(_table(ways, boxes, owners, owners, number + 1, (chunk, chunk + 1)))
    sends.append(_in_boxes(ways, boxes, boxes, last, (0, chunks)))
    return ways.steps(Direction.REDUCE, chunks, sends, [np.arange(collective.n_ranks)])


def _in_boxes(
    ways: ShortestPaths, boxes: Int64Array, owners: Int64Array, step: int, part: tuple[int, int]
) -> Int64Array:
    """Return sends of the owners' shards from every rank to all others in its box, the next one first."""
    turns = [
        _table(ways, boxes, np.roll(boxes, -turn, axis=1), np.roll(owners, -turn, axis=1), step, part)
        for turn in range(1, boxes.shape[1])
    ]
    return np.concatenate([np.zeros((5, 0), dtype=np.int64), *turns], axis=1)


def _table(
    ways: ShortestPaths,
    senders: Int64Array,
    targets: Int64Array,
    shards: Int64Array,
    step: int,
    part: tuple[int, int],
) -> Int64Array:
    """Sends as `ShortestPaths.steps` has them, shape (5, sends)."""
    pairs = zip(senders.ravel().tolist(), targets.ravel().tolist(), strict=True)
    way = np.array([ways.number(*pair) for pair in pairs], dtype=np.int64)
    return np.stack([shards.ravel(), way, *(np.full(len(way), value) for value in (step, *part))])
