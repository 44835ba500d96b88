"""Allreduces of few bytes over many boxes: each rank takes its box's sum to a few others only.

To exchange sums with every other box, each rank of a box would send as many messages as there are boxes. Here
half of a box's ranks carry: they get the sum of the box, and each takes it to a few boxes. The other half
receive: each adds up what comes from a few boxes, with what it and one leader had at first. Then receivers
exchange their sums and hand them to the leaders. For the two halves of the data roles are swapped.
"""

from __future__ import annotations

from itertools import starmap

import numpy as np

from treadle.arrays import Int64Array
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.steps.steps import StepSchedule
from treadle.schedules.trees.forest import Direction
from treadle.synthesis.scheduler import equal_shards
from treadle.synthesis.sizes.exchanges import joined
from treadle.synthesis.sizes.shortest_paths import steps_over_paths
from treadle.synthesis.sizes.spanning_exchanges import not_too_many, several_boxes
from treadle.synthesis.trees.baselines.boxes import find_boxes
from treadle.synthesis.trees.baselines.embedding import check_supported
from treadle.topologies.topology import Topology
from treadle.unsupported import Unsupported

_NAME = "box-carriers"
_KINDS = (CollectiveKind.ALLREDUCE,)


def even_boxes(topology: Topology, collective: Collective) -> Unsupported | None:
    """Boxes of one size, an even one."""
    sizes = {len(box) for box in find_boxes(topology, collective)}
    if len(sizes) == 1 and not next(iter(sizes)) % 2:
        return None
    return Unsupported(f"expected boxes of one even size, found {', '.join(map(str, sorted(sizes)))}")


def leader_rounds(topology: Topology, collective: Collective) -> StepSchedule:
    """Sums of boxes, taken to few others by each of half of the ranks, to the other half there.

    Parameters
    ----------
    topology : Topology
        Of boxes of one even size.
    collective : Collective
        An allreduce of equal shards.

    Raises
    ------
    ScheduleError
        If it does not support the problem.
    InfeasibleError
        If a rank does not reach another.

    Notes
    -----
    A leader's own data reach its box's sum by one receiver alone, so that every contribution is in the
    receivers' sums once: those of other boxes in the sum that came from there.
    """
    requirements = (not_too_many, equal_shards, several_boxes, even_boxes)
    check_supported(_NAME, topology, collective, _KINDS, requirements)
    sides = np.split(np.array(find_boxes(topology, collective), dtype=np.int64), 2, axis=1)
    # carriers and receivers of every box: each half of a box carries one half of the data
    roles = (sides, sides[::-1])
    reducing = [
        joined((*pairs, np.full(len(pairs[0]), half)) for half, pairs in enumerate(starmap(step, roles)))
        for step in (_to_carriers, _across, _among_receivers)
    ]
    handing = joined(
        (receivers.ravel(), carriers.ravel(), np.full(carriers.size, half))
        for half, (carriers, receivers) in enumerate(roles)
    )
    homes = [np.array(pair) for pair in zip(*(receivers.ravel() for _, receivers in roles), strict=True)]
    return StepSchedule(
        CollectiveKind.ALLREDUCE,
        reduce=steps_over_paths(topology, collective, Direction.REDUCE, [reducing], homes),
        broadcast=steps_over_paths(topology, collective, Direction.BROADCAST, [[handing]], homes),
    )


def _to_carriers(carriers: Int64Array, receivers: Int64Array) -> tuple[Int64Array, Int64Array]:
    """All ranks to all leaders of the box, a leader to one receiver too."""
    found = [np.stack([carriers, receivers])]
    many = carriers.shape[1]
    for shift in range(many):
        others = np.roll(carriers, -shift, axis=1)
        found.append(np.stack([receivers, others]))
        if shift:
            found.append(np.stack([carriers, others]))
    sender, target = np.concatenate([pairs.reshape(2, -1) for pairs in found], axis=1)
    return sender, target


def _across(carriers: Int64Array, receivers: Int64Array) -> tuple[Int64Array, Int64Array]:
    """The box's sum to every other box, divided among leaders here and receivers there."""
    count, many = carriers.shape
    pairs = [
        (carriers[box, (shift - 1) % many], receivers[(box + shift) % count, (shift - 1) % many])
        for shift in range(1, count)
        for box in range(count)
    ]
    sender, target = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return sender, target


def _among_receivers(_: Int64Array, receivers: Int64Array) -> tuple[Int64Array, Int64Array]:
    """All receivers of a box to each other."""
    rolled = [np.roll(receivers, -shift, axis=1).ravel() for shift in range(1, receivers.shape[1])]
    targets = np.array(rolled, dtype=np.int64).reshape(-1)
    return np.tile(receivers.ravel(), receivers.shape[1] - 1), targets
