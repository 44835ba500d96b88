"""Checks a schedule that is kept by one orbit, using the group and nothing of what generated it."""

from __future__ import annotations

import numpy as np

from treadle.schedules.trees.forest import Direction
from treadle.synthesis.steps.bfb.orbit_schedule import OrbitSchedule


def find_orbit_faults(schedule: OrbitSchedule) -> list[str]:
    """What is wrong with the allgather or reduce-scatter that the orbit stands for; empty if nothing.

    Notes
    -----
    Every chunk of every other shard has to arrive at node 0 exactly once, and its sender, the generator s,
    must hold it before. What s holds of shard v is, moved by the inverse of s, what node 0 holds of shard
    inverse(s) v: one table of arrival steps answers all questions. A reduce-scatter is such an allgather of
    the transposed graph (its generators are the inverses) run backwards; that every chunk arrives just once
    means that no contribution is added twice.
    """
    shape = _shape_faults(schedule)
    if shape:
        return shape
    group, n = schedule.graph.group, schedule.graph.n_nodes
    step = np.repeat(np.arange(len(schedule.step_offset) - 1), np.diff(schedule.step_offset))
    tails = np.array(schedule.graph.generators, dtype=np.int64)
    if schedule.direction is Direction.REDUCE:
        tails = group.inverse(tails)
        step = len(schedule.step_offset) - 2 - step
    # Pieces between the cuts that occur stand for chunks; a piece is moved as a whole.
    cuts = np.unique(np.concatenate([[0, schedule.n_chunks], schedule.low, schedule.high]))
    first, last = np.searchsorted(cuts, schedule.low), np.searchsorted(cuts, schedule.high)
    send = np.repeat(np.arange(len(step)), last - first)
    piece = np.arange(len(send)) - np.repeat(np.cumsum(last - first) - last, last - first)
    pieces = len(cuts) - 1
    arrivals = np.bincount(schedule.source[send] * np.int64(pieces) + piece, minlength=n * pieces)
    arrivals = arrivals.reshape(n, pieces)
    faults = []
    if arrivals[0].any():
        faults.append("node 0 receives its own shard")
    wrong = np.argwhere(arrivals != 1)
    faults += [
        f"chunk {cuts[c]} of shard {v} arrives {arrivals[v, c]} times, expected once"
        for v, c in wrong[wrong[:, 0] > 0][:10]
    ]
    arrival = np.full((n, pieces), len(schedule.step_offset), dtype=np.int64)
    arrival[schedule.source[send], piece] = step[send]
    arrival[0] = -1
    seen_by_tail = group.multiply(group.inverse(tails)[schedule.generator], schedule.source)
    early = np.flatnonzero(arrival[seen_by_tail[send], piece] >= step[send])
    faults += [
        f"step {step[send[i]]}: chunk {cuts[piece[i]]} of shard {schedule.source[send[i]]} is sent by "
        f"generator {schedule.generator[send[i]]} before it is there"
        for i in early[:10]
    ]
    return faults


def _shape_faults(schedule: OrbitSchedule) -> list[str]:
    n, degree = schedule.graph.n_nodes, schedule.graph.degree
    offset, total = schedule.step_offset, len(schedule.source)
    if not offset.size or offset[0] != 0 or offset[-1] != total or np.any(np.diff(offset) < 0):
        return ["step_offset does not rise from 0 to the number of sends"]
    ranges = (("source", schedule.source, n), ("generator", schedule.generator, degree))
    for key, values, limit in ranges:
        if len(values) != total or np.any((values < 0) | (values >= limit)):
            return [f"{key} has a value outside 0 to {limit - 1}"]
    if len(schedule.low) != total or len(schedule.high) != total:
        return ["low and high differ in length from source"]
    wrong = (schedule.low < 0) | (schedule.low >= schedule.high) | (schedule.high > schedule.n_chunks)
    return [f"send {i} carries no chunk, or one out of range" for i in np.flatnonzero(wrong)[:10]]
