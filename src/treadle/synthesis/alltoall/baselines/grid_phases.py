"""Exchanges along all axes of a grid in turn: each part of the data has its own order.

Along an axis an all-to-all on a path or a ring is run in slots (`line_exchange`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treadle.arrays import Int32Array, Int64Array
from treadle.errors import ScheduleError
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.baselines.grids import GridFabric, find_grid
from treadle.synthesis.alltoall.baselines.store_forward import check_size
from treadle.synthesis.alltoall.routes.path_sets import demanded_pairs
from treadle.synthesis.alltoall.steps.route_runs import exchange_from_sends
from treadle.synthesis.runs import joined, within
from treadle.synthesis.scheduler import unsupported_reason
from treadle.topologies.topology import Topology
from treadle.unsupported import Unsupported

MAX_SIDE = 128
"""Longest path that is scheduled: the slots grow with the square of it."""


@dataclass(frozen=True, eq=False)
class LineExchange:
    """Every position sends one message to each other; a link carries one message per slot.

    Parameters
    ----------
    side : int
        Positions.
    n_slots : int
    start, end, half : arrays of int64, shape (k,)
        Message of each hop: from, to, and which half where messages come in halves.
    at, way : arrays of int64, shape (k,)
        Position that the hop leaves, and 1 (up) or -1 (down).
    slot : array of int64, shape (k,)
    """

    side: int
    n_slots: int
    start: Int64Array
    end: Int64Array
    half: Int64Array
    at: Int64Array
    way: Int64Array
    slot: Int64Array

    def groups(self) -> Int64Array:
        """Number of each slot's group: as many slots in a row as possible, no message twice in one."""
        key = (self.start * self.side + self.end) * 2 + self.half
        order = np.lexsort((self.slot, key))
        before = np.full(len(key), -1, dtype=np.int64)
        same = key[order][1:] == key[order][:-1]
        before[order[1:][same]] = self.slot[order[:-1][same]]
        latest = np.full(self.n_slots, -1, dtype=np.int64)
        np.maximum.at(latest, self.slot, before)
        group = np.zeros(self.n_slots, dtype=np.int64)
        begin = 0
        for slot in range(1, self.n_slots):
            fresh = latest[slot] >= begin
            begin = slot if fresh else begin
            group[slot] = group[slot - 1] + fresh
        return group


def line_exchange(side: int, *, closed: bool, halves: int) -> LineExchange:
    """An exchange in as few slots as the busiest link has messages.

    Parameters
    ----------
    side : int
        At least 2.
    closed : bool
        A ring; otherwise a path.
    halves : int
        1, or 2 if messages come in two halves, each taking a slot of its own. Rings of even length need 2.

    Returns
    -------
    LineExchange
        halves * floor(side^2 / 4) slots on a path, halves * (side^2 - side % 2) / 8 on a ring.

    Notes
    -----
    Path: where messages wait for a link, the one with the farthest end goes first; the middle link then never
    idles, and the last messages across it have one hop to go. Ring: everything moves its first hop, then
    its second and so on; in each slot all nodes do the same, so that all links are busy. Messages for the
    opposite node go one half up, one down.

    Examples
    --------
    >>> line_exchange(5, closed=False, halves=1).n_slots, line_exchange(6, closed=True, halves=2).n_slots
    (6, 9)
    """
    hops = _ring(side, halves) if closed else _path(side, halves)
    start, end, half, at, way, slot = np.array(hops, dtype=np.int64).T
    order = np.lexsort((slot, start * side + end))
    columns = (values[order] for values in (start, end, half, at, way, slot))
    return LineExchange(side, int(slot.max()) + 1, *columns)


def _ring(side: int, halves: int) -> list[tuple[int, ...]]:
    hops: list[tuple[int, ...]] = []
    slot = 0
    for hop in range(side // 2):
        for apart in range(hop + 1, side // 2 + 1):
            tied = 2 * apart == side
            assert not tied or halves == 2
            for half in range(halves):
                for start in range(side):
                    for way in (1, -1):
                        if tied and half != (way < 0):
                            continue
                        end, at = (start + way * apart) % side, (start + way * hop) % side
                        hops.append((start, end, half, at, way, slot if tied else slot + half))
            slot += 1 if tied else halves
    return hops


def _path(side: int, halves: int) -> list[tuple[int, ...]]:
    """Upwards by simulation, downwards as its mirror image."""
    waiting = [
        [(end, at, half) for end in range(at + 1, side) for half in range(halves)] for at in range(side)
    ]
    last = side - 1
    hops: list[tuple[int, ...]] = []
    slot = 0
    while any(waiting):
        moved = []
        for at, queue in enumerate(waiting):
            if queue:
                end, start, half = queue.pop(queue.index(max(queue)))
                hops.append((start, end, half, at, 1, slot))
                hops.append((last - start, last - end, half, last - at, -1, slot))
                moved.append((end, start, half, at + 1))
        for end, start, half, at in moved:
            if at != end:
                waiting[at].append((end, start, half))
        slot += 1
    return hops


_HYPERCUBE, _MESH, _TORUS = "hypercube-exchange", "mesh-exchange", "torus-exchange"


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
            low = part * halves + half
            high = low + 1
            if halves > 1:  # both as one send where they cross the same link in the same step
                step, link, shard, low, high = joined((step, link, shard), low, high)
            new = (shard, link, phase * n_steps + step, low, high)
            for column, values in zip(columns, new, strict=True):
                column.append(values.astype(np.int32))
            at[axis] = end[axis]
    return exchange_from_sends(
        collective, grid.n_axes * halves, [np.concatenate(column) for column in columns]
    )


@dataclass(frozen=True, eq=False)
class _Timing:
    """Crossing times of links by messages along an axis.

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
    hop = timing.first[start, stop][shard] + within(count)
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
    source's; the difference of the two distinguishes shards either way.
    """
    number = np.zeros(end.shape[1], dtype=np.int64)
    for other in range(grid.n_axes):
        if other != axis:
            side = grid.sides[other]
            number = number * side + (end[other] - begin[other]) % side
    return number


def hypercube_in_order_of_addresses(topology: Topology, _: Collective) -> Unsupported | None:
    """Exactly the links of such a fabric."""
    return unsupported_reason(_named_grid, _HYPERCUBE, topology)


def mesh_in_row_major_order(topology: Topology, _: Collective) -> Unsupported | None:
    """Exactly the links of such a fabric."""
    return unsupported_reason(_named_grid, _MESH, topology)


def torus_in_row_major_order(topology: Topology, _: Collective) -> Unsupported | None:
    """Exactly the links of such a fabric."""
    return unsupported_reason(_named_grid, _TORUS, topology)


def hypercube_exchange(topology: Topology, collective: Collective) -> ExchangeSchedule:
    """One dimension after another, in d concurrent orders: part c of every shard takes dimension c + t in
    step t.

    Parameters
    ----------
    topology : Topology
        A hypercube of 2^d nodes in the order of their addresses, links in any order.
    collective : Collective
        An all-to-all.

    Returns
    -------
    ExchangeSchedule
        Of d steps, d chunks a shard.

    Raises
    ------
    ScheduleError
        If the fabric is no such hypercube.

    Notes
    -----
    Exact cost for equal demands on all N nodes: T_L = d, and each step brings N / (2 d) units of demand over
    every link, N / 2 in all: optimal, as is each on its own. Source: Johnsson and Ho, Optimum broadcasting
    and personalized communication in hypercubes (IEEE TC 38, 1989), section on all-to-all personalised
    communication with n ports.

    Examples
    --------
    >>> from treadle.schedules.collective import CollectiveKind, on_all_ranks
    >>> from treadle.schedules.alltoall.exchange_cost import exchange_algbw
    >>> from treadle.topologies.catalogue.graphs import hypercube
    >>> cube = hypercube(3)
    >>> everyone = on_all_ranks(cube, CollectiveKind.ALLTOALL)
    >>> schedule = hypercube_exchange(cube, everyone)
    >>> schedule.n_steps, exchange_algbw(cube, everyone, schedule)
    (3, Fraction(2, 1))
    """
    return grid_exchange(_HYPERCUBE, _named_grid(_HYPERCUBE, topology), collective)


def mesh_exchange(topology: Topology, collective: Collective) -> ExchangeSchedule:
    """Exchanges along rows and columns concurrently, farthest first, each with a part of the data; then
    swapped.

    Parameters
    ----------
    topology : Topology
        A mesh, nodes in row-major order, links in any order.
    collective : Collective
        An all-to-all.

    Raises
    ------
    ScheduleError
        If the fabric is no such mesh.

    Notes
    -----
    Exact cost for equal demands on all N nodes, longest side a, n axes: N floor(a^2 / 4) / a units of demand
    over the middle links, which for even a is what the bisection requires: a^3 / 4 on a square mesh. With
    equal sides T_L = n g(a), g = 1, 2, 3, 5, 6, 8, 10 for a = 2 to 8, about 1.8 a beyond; else n times the
    largest N floor(a_k^2 / 4) / a_k in units of N / a, rounded up.

    Source: Scott, Efficient all-to-all communication patterns in hypercube and mesh topologies (DMCC 1991),
    whose a^3 / 4 phases send single messages over entire paths, which takes wormhole routing. This is
    the store-and-forward equivalent: same busy links, data of many pairs in a message, one hop per step.

    Examples
    --------
    >>> from treadle.schedules.collective import CollectiveKind, on_all_ranks
    >>> from treadle.schedules.alltoall.exchange_cost import exchange_algbw
    >>> from treadle.topologies.catalogue.graphs import mesh
    >>> fabric = mesh(4, 4)
    >>> everyone = on_all_ranks(fabric, CollectiveKind.ALLTOALL)
    >>> schedule = mesh_exchange(fabric, everyone)
    >>> schedule.n_steps, 16 / exchange_algbw(fabric, everyone, schedule)
    (6, Fraction(16, 1))
    """
    return grid_exchange(_MESH, _named_grid(_MESH, topology), collective)


def torus_exchange(topology: Topology, collective: Collective) -> ExchangeSchedule:
    """Exchanges along the rings of one axis after another, with combined messages, on n rotated orders.

    Parameters
    ----------
    topology : Topology
        A torus, nodes in row-major order, links in any order; axes of side 2 have one link each way.
    collective : Collective
        An all-to-all.

    Raises
    ------
    ScheduleError
        If the fabric is no such torus.

    Notes
    -----
    Exact cost for equal demands on all N nodes, n axes of side a: T_L = n floor(a / 2), the diameter, and
    N (a^2 - a mod 2) / (8 a) units of demand over every link, both optimal. With unequal sides the bandwidth
    is that of the longest one, still optimal where that side is even, in more steps.

    Source: Suh and Yalamanchili, All-to-all communication with minimum start-up costs in 2D/3D tori and
    meshes (IEEE TPDS 9, 1998): messages combined by ring, O(a) start-ups instead of O(a^2). Their sides are
    powers of two, nodes have one port, and data crosses up to a / 2 links in a step, which takes wormhole
    routing or virtual cut-through. This is the store-and-forward equivalent with all ports: any sides,
    messages combined by ring and direction, one hop per step.

    Examples
    --------
    >>> from treadle.schedules.collective import CollectiveKind, on_all_ranks
    >>> from treadle.schedules.alltoall.exchange_cost import exchange_algbw
    >>> from treadle.topologies.catalogue.graphs import torus
    >>> fabric = torus(3, 3, 3)
    >>> everyone = on_all_ranks(fabric, CollectiveKind.ALLTOALL)
    >>> schedule = torus_exchange(fabric, everyone)
    >>> schedule.n_steps, 27 / exchange_algbw(fabric, everyone, schedule)
    (3, Fraction(9, 1))
    """
    return grid_exchange(_TORUS, _named_grid(_TORUS, topology), collective)


def _named_grid(name: str, topology: Topology) -> GridFabric:
    """Return the grid that an algorithm needs; ScheduleError for any other fabric."""
    grid = find_grid(topology, name)
    if name == _HYPERCUBE and set(grid.sides) != {2}:
        raise ScheduleError(f"{name}: {topology.name} has sides {grid.sides}, expected 2 everywhere")
    if name == _MESH and any(grid.wraps):
        raise ScheduleError(f"{name}: {topology.name} wraps around, expected a mesh; use torus-exchange")
    is_open = any(side > 2 and not wraps for side, wraps in zip(grid.sides, grid.wraps, strict=True))
    if name == _TORUS and is_open:
        raise ScheduleError(f"{name}: {topology.name} does not wrap on every axis; use mesh-exchange")
    return grid
