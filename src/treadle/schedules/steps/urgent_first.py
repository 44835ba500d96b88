"""Steps cut into parts, so that what most waits for goes first over every link.

Idea: in a step a link carries several shards, of which some end at its head and others go on from there to
many ranks. Runtimes send what is ready in the order of steps, so a schedule says which of them comes first by
cutting the step. Source: own.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int32Array, Int64Array, frozen, offsets_of
from treadle.errors import ScheduleError
from treadle.schedules.steps.step_transforms import pipelined, reverse, with_sends
from treadle.schedules.steps.steps import Steps, StepSchedule
from treadle.schedules.trees.forest import Direction
from treadle.topologies.topology import Topology

MOST_CELLS = 2**27
"""Chunks of shards at nodes, of each of which 4 bytes are kept."""


def urgent_first(steps: Steps, topology: Topology, parts: int) -> Steps:
    """The same sends, each step cut into `parts`: first what brings most to others later on.

    Parameters
    ----------
    steps : Steps
        For `topology`. Reductions to several ranks are left as they are, and those whose sums begin anew:
        sums that ranks exchange have to leave in one step.
    topology : Topology
    parts : int
        At least 1. Each link, or way, carries about the same amount in each part of a step.

    Raises
    ------
    ScheduleError
        If `parts` is less than 1, or shards, chunks and nodes make more than `MOST_CELLS`.

    Notes
    -----
    Of a reduction the reverse is cut, so that `reverse` commutes with this: there what gathers most comes
    last in its step. O(c log c) for c chunks sent.
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
    """The schedule for each piece of every shard, a step behind the one before, with each step in parts."""

    def cut(steps: Steps) -> Steps:
        return urgent_first(pipelined(steps, pieces), topology, parts)

    return replace(
        schedule,
        reduce=schedule.reduce and cut(schedule.reduce),
        broadcast=schedule.broadcast and cut(schedule.broadcast),
    )


def _waiting(steps: Steps, topology: Topology) -> Int64Array:
    """Chunks that ranks receive because of each send of a broadcast, without its own."""
    shape = (topology.n_nodes, steps.n_shards, steps.n_chunks)
    behind = np.zeros(shape, dtype=np.int32)
    found = np.zeros(steps.n_sends, dtype=np.int64)
    tails, heads = (nodes[steps.link] for nodes in _ends(steps, topology))
    for step in reversed(range(steps.n_steps)):
        rows = np.arange(steps.step_offset[step], steps.step_offset[step + 1])
        send, chunk = _chunks_of(steps, rows)
        shard = steps.shard[send]
        # what a step brings is sent on by later steps alone, which are all counted
        more = behind[heads[send], shard, chunk]
        np.add.at(found, send, more)
        np.add.at(behind, (tails[send], shard, chunk), 1 + more)
    return found


def _ends(steps: Steps, topology: Topology) -> tuple[Int32Array, Int32Array]:
    """Where each link, or way, begins and ends."""
    if not steps.has_paths:
        return topology.tails, topology.heads
    first, last = steps.way_links[steps.way_offset[:-1]], steps.way_links[steps.way_offset[1:] - 1]
    return topology.tails[first], topology.heads[last]


def _chunks_of(steps: Steps, rows: NDArray[np.int64]) -> tuple[Int64Array, Int64Array]:
    """A row for each chunk of sends: the send and the chunk."""
    counts = (steps.high[rows] - steps.low[rows]).astype(np.int64)
    send = np.repeat(rows, counts)
    place = np.arange(len(send)) - np.repeat(offsets_of(counts)[:-1], counts)
    return frozen(send, np.int64), frozen(steps.low[send] + place, np.int64)


def _part_of(steps: Steps, waiting: Int64Array, parts: int) -> Int64Array:
    """Part of its step in which each send is: where the middle of what it carries falls, link by link."""
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
    return frozen(found, np.int64)
