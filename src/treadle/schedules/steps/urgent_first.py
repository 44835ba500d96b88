"""Steps cut into parts, so that the data that most ranks wait for goes first over every link.

Idea: in a step a link carries several shards, of which some end at its head and others go on from there to
many ranks. Runtimes send ready data in the order of steps, so a schedule puts some of it first by cutting the
step. Source: own.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int32Array, Int64Array, offsets_of
from treadle.errors import ScheduleError
from treadle.schedules.factored.subproblem_trees import ragged
from treadle.schedules.steps.step_transforms import pipelined, reverse, with_sends
from treadle.schedules.steps.steps import Steps, StepSchedule
from treadle.schedules.trees.forest import Direction
from treadle.topologies.topology import Topology

MOST_CELLS = 2**27
"""Most chunks of shards at nodes; each takes 4 bytes."""


def urgent_first(steps: Steps, topology: Topology, parts: int) -> Steps:
    """Return the same sends with each step cut into `parts`, first the data that most later sends need.

    Parameters
    ----------
    steps : Steps
        For `topology`. Reductions to several ranks, and those whose sums start again, are returned unchanged:
        sums that ranks exchange must be sent in one step.
    topology : Topology
    parts : int
        At least 1. Each link, or path, carries about the same amount in each part of a step.

    Raises
    ------
    ScheduleError
        If `parts` is less than 1, or shards, chunks and nodes make more than `MOST_CELLS`.

    Notes
    -----
    For a reduction the reverse is cut, so that `reverse` commutes with this function: the data that gathers
    most comes last in its step. O(c log c) for c chunks sent.
    """
    if parts < 1:
        raise ScheduleError(f"parts of a step: expected at least 1, found {parts}")
    is_reduction = steps.direction is Direction.REDUCE
    if parts == 1 or (is_reduction and (steps.twins.size or steps.restarts)):
        return steps
    if is_reduction:
        return reverse(urgent_first(reverse(steps), topology.transpose(), parts))
    cells = topology.n_nodes * steps.n_shards * steps.n_chunks
    if cells > MOST_CELLS:
        raise ScheduleError(
            f"parts of a step: {cells} chunks at all nodes, more than {MOST_CELLS}; use fewer chunks, or none"
        )
    step = steps.send_steps() * parts + _part_of(steps, _waiting(steps, topology), parts)
    order = np.argsort(step, kind="stable")
    columns = [column[order] for column in (steps.shard, steps.link, steps.low, steps.high)]
    return with_sends(steps, offsets_of(np.bincount(step, minlength=steps.n_steps * parts)), columns)


def in_chunks(schedule: StepSchedule, topology: Topology, pieces: int, parts: int = 1) -> StepSchedule:
    """Return the schedule for each of `pieces` parts of every shard, in a pipeline, with each step cut."""

    def cut(steps: Steps) -> Steps:
        return urgent_first(pipelined(steps, pieces), topology, parts)

    return replace(
        schedule,
        reduce=schedule.reduce and cut(schedule.reduce),
        broadcast=schedule.broadcast and cut(schedule.broadcast),
    )


def _waiting(steps: Steps, topology: Topology) -> Int64Array:
    """Return the chunks that ranks receive as a result of each send of a broadcast, without its own."""
    shape = (topology.n_nodes, steps.n_shards, steps.n_chunks)
    behind = np.zeros(shape, dtype=np.int32)
    found = np.zeros(steps.n_sends, dtype=np.int64)
    tails, heads = (nodes[steps.link] for nodes in _ends(steps, topology))
    for step in reversed(range(steps.n_steps)):
        rows = np.arange(steps.step_offset[step], steps.step_offset[step + 1])
        send, chunk = _chunks_of(steps, rows)
        shard = steps.shard[send]
        # data of a step is forwarded only by later steps, which are all counted
        more = behind[heads[send], shard, chunk]
        np.add.at(found, send, more)
        np.add.at(behind, (tails[send], shard, chunk), 1 + more)
    return found


def _ends(steps: Steps, topology: Topology) -> tuple[Int32Array, Int32Array]:
    """Return the first and the last node of each link, or path."""
    if not steps.has_paths:
        return topology.tails, topology.heads
    first, last = steps.way_links[steps.way_offset[:-1]], steps.way_links[steps.way_offset[1:] - 1]
    return topology.tails[first], topology.heads[last]


def _chunks_of(steps: Steps, rows: NDArray[np.int64]) -> tuple[Int64Array, Int64Array]:
    """Return the send and the chunk of each chunk of some sends."""
    counts = (steps.high[rows] - steps.low[rows]).astype(np.int64)
    send = np.repeat(rows, counts)
    return send, ragged(steps.low[rows].astype(np.int64), counts)


def _part_of(steps: Steps, waiting: Int64Array, parts: int) -> Int64Array:
    """Return the part of its step for each send: that of the middle of its chunks among those of its link."""
    step, volume = steps.send_steps(), (steps.high - steps.low).astype(np.int64)
    order = np.lexsort((-waiting / volume, steps.link, step))
    link_of_step = step[order] * (int(steps.link.max(initial=0)) + 1) + steps.link[order]
    _, first, group = np.unique(link_of_step, return_index=True, return_inverse=True)
    done = np.cumsum(volume[order])
    before = done - volume[order]
    through = done[np.append(first[1:], len(order)) - 1] - before[first]
    middle = 2 * (before - before[first][group]) + volume[order]
    found = np.empty(len(order), dtype=np.int64)
    found[order] = middle * parts // (2 * through[group])
    return found
