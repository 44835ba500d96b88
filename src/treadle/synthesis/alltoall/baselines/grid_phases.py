"""Exchanges along all axes of a grid at once, one after another: each part of the data has its order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treadle.arrays import Int32Array, Int64Array
from treadle.errors import ScheduleError
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.collective import Collective
from treadle.schedules.steps.steps import steps_from_sends
from treadle.schedules.trees.forest import Direction
from treadle.synthesis.alltoall.baselines.grids import GridFabric
from treadle.synthesis.alltoall.baselines.line_exchange import MAX_SIDE, LineExchange, line_exchange
from treadle.synthesis.alltoall.baselines.store_forward import check_size
from treadle.synthesis.alltoall.routes.path_sets import demanded_pairs


def grid_exchange(name: str, grid: GridFabric, collective: Collective) -> ExchangeSchedule:
    """Every shard is cut into a part per axis; part c corrects axis c first, then c + 1 and so on.

    Phase f has part c on axis c + f, so that all axes are busy in every phase with one part each. Along an
    axis of side a, the N / a shards that go from one position to another make one message.

    Parameters
    ----------
    name : str
        For messages.
    grid : GridFabric
    collective : Collective

    Raises
    ------
    ScheduleError
        If a side is too long, or the schedule would be too large.

    Notes
    -----
    A message takes a slot of `line_exchange` on each link. With equal sides, slots become one step as long as
    no data would have to cross two links within; else an axis' slots hold different amounts, and a step is
    what a link carries in the shortest slot, which leaves the busiest axis busy throughout.
    """
    if max(grid.sides) > MAX_SIDE:
        raise ScheduleError(f"{name}: side {max(grid.sides)}, at most {MAX_SIDE} can be scheduled")
    halves = 1 + any(wraps and side % 2 == 0 for side, wraps in zip(grid.sides, grid.wraps, strict=True))
    timings = _timings(grid, halves)
    n_steps = max(timing.n_steps for timing in timings)
    source, target, _ = demanded_pairs(collective)
    ranks = np.array(collective.ranks)
    begin, end = grid.places[:, ranks[source]], grid.places[:, ranks[target]]
    length = sum(int(timing.hops[begin[axis], end[axis]].sum()) for axis, timing in enumerate(timings))
    check_size(name, length * grid.n_axes)
    columns: list[list[Int32Array]] = [[], [], [], [], []]
    for part in range(grid.n_axes):
        at = begin.copy()
        for phase in range(grid.n_axes):
            axis = (part + phase) % grid.n_axes
            shard, link, step, half = _phase(grid, axis, timings[axis], (begin, at, end))
            chunk = part * halves + half
            new = [shard, link, phase * n_steps + step, chunk, chunk + 1]
            for column, values in zip(columns, _joined(new) if halves > 1 else new, strict=True):
                column.append(values.astype(np.int32))
            at[axis] = end[axis]
    sends = steps_from_sends(
        Direction.BROADCAST,
        collective.n_ranks,
        grid.n_axes * halves,
        [np.concatenate(column) for column in columns],
        homes=source.tolist(),
    )
    return ExchangeSchedule(sends, target)


@dataclass(frozen=True, eq=False)
class _Timing:
    """When messages along an axis cross which link.

    Parameters
    ----------
    line : LineExchange
        Its hops sorted by (start, end).
    first, hops : arrays of int64, shape (side, side)
        Where the hops of each (start, end) begin, and how many there are, halves counted apart.
    step : array of int64, shape (slots, members)
        Step in which the member number m of a message crosses in each slot; one column if m does not matter.
    """

    line: LineExchange
    first: Int64Array
    hops: Int64Array
    step: Int64Array

    @property
    def n_steps(self) -> int:
        """Steps of a phase."""
        return int(self.step.max()) + 1


def _timings(grid: GridFabric, halves: int) -> list[_Timing]:
    n = grid.places.shape[1]
    alike = len(set(zip(grid.sides, grid.wraps, strict=True))) == 1
    shortest = n // max(grid.sides)
    timings = []
    for side, wraps in zip(grid.sides, grid.wraps, strict=True):
        line = line_exchange(side, closed=wraps, halves=halves)
        order = np.lexsort((line.slot, line.start * side + line.end))
        hops = [values[order] for values in (line.start, line.end, line.half, line.at, line.way, line.slot)]
        line = LineExchange(side, line.n_slots, *hops)
        count = np.bincount(line.start * side + line.end, minlength=side * side)
        if alike:
            step = line.groups()[:, None]
        else:
            step = (np.arange(line.n_slots)[:, None] * (n // side) + np.arange(n // side)) // shortest
        first = np.cumsum(count) - count
        timings.append(_Timing(line, first.reshape(side, side), count.reshape(side, side), step))
    return timings


def _phase(
    grid: GridFabric, axis: int, timing: _Timing, places: tuple[Int64Array, Int64Array, Int64Array]
) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
    """Shard, link, step and half of every send of a part of all shards along an axis.

    `places` are where shards come from, are now and go to, each of shape (axes, S).
    """
    begin, at, end = places
    start, stop = at[axis], end[axis]
    count = timing.hops[start, stop]
    shard = np.repeat(np.arange(len(start)), count)
    within = np.arange(len(shard)) - np.repeat(np.cumsum(count) - count, count)
    hop = timing.first[start, stop][shard] + within
    line = timing.line
    node = at[:, shard].copy()
    node[axis] = line.at[hop]
    nodes = np.ravel_multi_index(tuple(node), grid.sides)
    link = np.where(line.way[hop] > 0, grid.up[axis, nodes], grid.down[axis, nodes]).astype(np.int64)
    member = np.zeros(len(shard), dtype=np.int64)
    if timing.step.shape[1] > 1:
        member = _members(grid, axis, begin, end)[shard]
    return shard, link, timing.step[line.slot[hop], member], line.half[hop]


def _members(grid: GridFabric, axis: int, begin: Int64Array, end: Int64Array) -> Int64Array:
    """Number of each shard among those of its message, which are on one line along the axis.

    On another axis, either the target's coordinate is that of the line, or, before that axis' turn, the
    source's; the difference of the two tells shards apart either way.
    """
    number = np.zeros(end.shape[1], dtype=np.int64)
    for other in range(grid.n_axes):
        if other != axis:
            side = grid.sides[other]
            number = number * side + (end[other] - begin[other]) % side
    return number


def _joined(table: list[Int64Array]) -> list[Int64Array]:
    """Both halves as one send where they cross the same link in the same step."""
    shard, link, step, low, high = table
    if not len(shard):  # nobody has anything for others along this axis
        return table
    order = np.lexsort((low, shard, link, step))
    shard, link, step, low, high = (column[order] for column in table)
    joins = (step[1:] == step[:-1]) & (link[1:] == link[:-1])
    joins &= (shard[1:] == shard[:-1]) & (low[1:] == high[:-1])
    begins = np.flatnonzero(np.append(True, ~joins))
    high = high[np.append(begins[1:] - 1, len(high) - 1)]
    return [shard[begins], link[begins], step[begins], low[begins], high]
