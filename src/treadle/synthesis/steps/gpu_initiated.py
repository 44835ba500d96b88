"""Steps whose sends through a switch become operations of it: copies and sums that a rank asks for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from treadle.arrays import BoolArray, Int32Array, Int64Array, frozen, offsets_of
from treadle.schedules.collective import Collective
from treadle.schedules.in_network import inputs_of, members_at
from treadle.schedules.steps.steps import PathKind, Steps, StepSchedule
from treadle.schedules.trees.forest import Direction
from treadle.topologies.topology import Topology


def use_in_network(topology: Topology, collective: Collective, schedule: StepSchedule) -> StepSchedule:
    """The schedule with one operation of a switch for what a rank sends to several others, or gets from them.

    Parameters
    ----------
    topology : Topology
    collective : Collective
    schedule : StepSchedule
        `schedule` itself comes back where no switch can do more than pass on.

    Notes
    -----
    Sends of the same chunks in the same step that go through one switch and nothing else become one if that
    crosses fewer links: k sends cross 2 k, an operation one of each rank at the switch and the asker's. In
    reductions what several send to one is added up on the way; else what one sends to several is copied.
    Messages become fewer; some links may carry more than before
    (`treadle.schedules.in_network`).
    """
    if not ((topology.multicast | topology.aggregation) & ~topology.turns_round).any():
        return schedule
    reduce, broadcast = (
        steps if steps is None else _asked(topology, collective, steps)
        for steps in (schedule.reduce, schedule.broadcast)
    )
    if reduce is schedule.reduce and broadcast is schedule.broadcast:
        return schedule
    return replace(schedule, reduce=reduce, broadcast=broadcast)


def _asked(topology: Topology, collective: Collective, steps: Steps) -> Steps:
    if not steps.has_paths or steps.has_operations:
        return steps
    kind = np.zeros(steps.n_sends, dtype=np.int32)
    if steps.direction is Direction.REDUCE:
        kind[_joined(topology, collective, steps, kind == PathKind.PLAIN, PathKind.SUM)] = PathKind.SUM
    kind[_joined(topology, collective, steps, kind == PathKind.PLAIN, PathKind.COPY)] = PathKind.COPY
    return _with_kinds(steps, kind) if kind.any() else steps


def _joined(
    topology: Topology, collective: Collective, steps: Steps, free: BoolArray, kind: PathKind
) -> Int64Array:
    """Sends, of those that are free, that become operations of a kind."""
    place, group = _ways_through(topology, collective, steps, kind)
    rows = np.flatnonzero(free & (group[steps.link] > 0))
    shared = steps.way_links[steps.way_offset[:-1][steps.link[rows]] + place]
    keys = np.stack([steps.send_steps()[rows], steps.shard[rows], steps.low[rows], steps.high[rows], shared])
    _, operation, sends = np.unique(keys, axis=1, return_inverse=True, return_counts=True)
    found: Int64Array = rows[2 * sends[operation.reshape(-1)] > group[steps.link[rows]] + 1]
    return found


def _ways_through(
    topology: Topology, collective: Collective, steps: Steps, kind: PathKind
) -> tuple[int, Int64Array]:
    """Place of the shared link in ways of a kind, and of each way the ranks at the switch, or 0."""
    able = (topology.multicast if kind is PathKind.COPY else topology.aggregation) & ~topology.turns_round
    first = steps.way_links[steps.way_offset[:-1]]
    middle = topology.heads[first]
    ends = topology.tails[first], topology.heads[steps.way_links[steps.way_offset[1:] - 1]]
    lanes, group = inputs_of(topology), np.zeros(steps.n_paths, dtype=np.int64)
    short = (np.diff(steps.way_offset) == 2) & able[middle] & ~topology.is_compute[middle]
    for switch in np.unique(middle[short]).tolist():
        members = members_at(lanes, switch, collective.ranks)
        inside = short & (middle == switch) & np.isin(ends[0], members) & np.isin(ends[1], members)
        group[inside] = len(members)
    return int(kind is PathKind.SUM), group


def _with_kinds(steps: Steps, kind: Int32Array) -> Steps:
    """The steps with a kind for each send: a way for each that is taken in several kinds."""
    used, way = np.unique(np.stack([kind, steps.link]), axis=1, return_inverse=True)
    links = [steps.path(number) for number in used[1].tolist()]
    return replace(
        steps,
        link=frozen(way.reshape(-1), np.int32),
        way_offset=frozen(offsets_of([len(one) for one in links]), np.int64),
        way_links=frozen(np.concatenate(links), np.int32),
        way_kinds=frozen(used[0], np.int32),
    )
