"""Single pieces of sends: where they go, and which of them have an effect."""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Self

import numpy as np

from treadle.arrays import BoolArray, Int32Array, Int64Array
from treadle.errors import InfeasibleError, ScheduleError
from treadle.program.trees.send_order import positions_within
from treadle.schedules.steps.steps import Steps
from treadle.schedules.trees.forest import Direction
from treadle.topologies.topology import Topology


@dataclass(frozen=True, eq=False)
class Moves:
    """One piece of one send in each row, by rising step.

    A piece is a run of chunks that no send begins or ends within; pieces of all shards are numbered in the
    order of the program's chunks.
    """

    step: Int64Array
    sender: Int64Array
    receiver: Int64Array
    channel: Int64Array
    path: Int64Array
    """The link; -1 - i: path i of those that may have several."""
    send: Int64Array
    """Number of the send among those of its phase."""
    piece: Int64Array
    fresh: BoolArray
    """Whether the receiver's sum begins anew with what the step brings."""

    def __len__(self) -> int:
        return len(self.step)

    def part(self, rows: Int64Array | BoolArray) -> Self:
        """Some of the rows, in the order given."""
        return type(self)(*(getattr(self, field.name)[rows] for field in fields(self)))


@dataclass(frozen=True, eq=False)
class Holdings:
    """Which pieces lie where at home.

    Parameters
    ----------
    n_ranks : int
    home : array of int64, shape (n_pieces,)
        Rank at which each piece is at home.
    twins : tuple of arrays of int64, shape (n_pieces,)
        Further homes of all pieces.
    """

    n_ranks: int
    home: Int64Array
    twins: tuple[Int64Array, ...] = ()

    @property
    def n_chunks(self) -> int:
        """Pieces of all shards."""
        return len(self.home)

    def cells(self, rank: Int64Array, piece: Int64Array) -> Int64Array:
        """A number for each piece at each rank."""
        cells: Int64Array = rank * self.n_chunks + piece
        return cells

    def is_owner(self, rank: Int64Array, piece: Int64Array) -> BoolArray:
        """Whether the pieces are at home at the ranks."""
        found: BoolArray = self.home[piece] == rank
        for home in self.twins:
            found |= home[piece] == rank
        return found


def useful(direction: Direction, moves: Moves, holdings: Holdings) -> BoolArray:
    """Rows that have an effect on the outcome, shape (rows,).

    A broadcast is followed forwards: a rank takes a piece the first time that it comes. A reduction is
    followed backwards from the homes: a rank's sum counts if what it is added to counts, and every rank must
    have its sum counted once; where pieces have several homes, for each of them. What is dropped where a sum
    begins anew does not count.

    Raises
    ------
    ScheduleError
        If a rank sends what it does not have, a sum counts twice, or something does not get everywhere.
    """
    forward = direction is Direction.BROADCAST
    if not forward and holdings.twins:
        homes = (holdings.home, *holdings.twins)
        each = [useful(direction, moves, Holdings(holdings.n_ranks, home)) for home in homes]
        return np.asarray(np.logical_or.reduce(each), dtype=np.bool_)
    giver, taker = (moves.sender, moves.receiver) if forward else (moves.receiver, moves.sender)
    from_, to = holdings.cells(giver, moves.piece), holdings.cells(taker, moves.piece)
    has = np.zeros(holdings.n_ranks * holdings.n_chunks, dtype=np.bool_)
    for home in (holdings.home, *holdings.twins):
        has[holdings.cells(home, np.arange(holdings.n_chunks))] = True
    kept = np.zeros(len(moves), dtype=np.bool_)
    bounds = [*np.flatnonzero(np.diff(moves.step, prepend=-1)).tolist(), len(moves)]
    spans = [np.arange(low, high) for low, high in pairwise(bounds)]
    for rows in spans if forward else reversed(spans):
        can = has[from_[rows]]
        if forward:
            _refuse_any(rows[~can], moves, "sends a piece that it does not have yet")
            rows = rows[~has[to[rows]]]
            rows = rows[np.unique(to[rows], return_index=True)[1]]
        else:
            rows = rows[can]
            has[from_[rows[moves.fresh[rows]]]] = False  # what it held before the step is dropped
            _refuse_any(rows[has[to[rows]]], moves, "sends a sum twice")
            first = np.unique(to[rows], return_index=True)[1]
            _refuse_any(np.delete(rows, first), moves, "sends a sum twice")
        kept[rows] = True
        has[to[rows]] = True
    for cell in np.flatnonzero(~has)[:1].tolist():
        rank, piece = divmod(cell, holdings.n_chunks)
        what = "never gets" if forward else "has no part in"
        raise ScheduleError(
            f"steps: rank {rank} {what} a piece of which rank {holdings.home[piece]} is the home; "
            f"treadle verify lists what is missing"
        )
    return kept


def _refuse_any(rows: Int64Array, moves: Moves, what: str) -> None:
    for row in rows[:1].tolist():
        raise ScheduleError(
            f"steps: step {moves.step[row]}: rank {moves.sender[row]} {what}, to rank {moves.receiver[row]}"
        )


def ends_of(topology: Topology, steps: Steps) -> tuple[Int64Array, Int64Array]:
    """Nodes at which each link, or each way, of a step schedule begins and ends."""
    tails, heads = topology.tails.astype(np.int64), topology.heads.astype(np.int64)
    if not steps.has_paths:
        return tails, heads
    first, last = steps.way_links[steps.way_offset[:-1]], steps.way_links[steps.way_offset[1:] - 1]
    return tails[first], heads[last]


def check_ends(
    topology: Topology, links: Int32Array, ends: tuple[Int64Array, Int64Array], number: Int64Array
) -> None:
    """Each link of a step schedule is a message, and only compute nodes hold chunks.

    Parameters
    ----------
    topology : Topology
    links : array of int32
        That the sends use; or their ways.
    ends : pair of arrays of int64
        Nodes at the ends of each: `ends_of`.
    number : array of int64, shape (n_nodes,)
        Rank (or forwarder) of each node, -1 where there is none.

    Raises
    ------
    InfeasibleError, ScheduleError
        If a link ends at none, or leads nowhere.
    """
    used = np.unique(links)
    tails, heads = ends[0][used], ends[1][used]
    names = topology.node_names
    for place in np.flatnonzero((number[tails] < 0) | (number[heads] < 0))[:1].tolist():
        tail, head = int(tails[place]), int(heads[place])
        node = tail if number[tail] < 0 else head
        raise InfeasibleError(
            f"the steps use link {names[tail]}->{names[head]}, but {names[node]!r} is no rank and has no "
            f"program; only steps between ranks can be lowered"
        )
    for node in tails[tails == heads][:1].tolist():
        raise ScheduleError(f"the steps use link {names[node]}->{names[node]}, which leads nowhere")


def parallel_positions(n_nodes: int, ends: tuple[Int64Array, Int64Array]) -> Int64Array:
    """Number of each link (or way) among those with the same ends, in their order, shape (m,)."""
    pairs = ends[0] * n_nodes + ends[1]
    return positions_within(pairs, [pairs])


def moves_of(
    topology: Topology,
    steps: Steps,
    number: Int64Array,
    first: Int64Array,
    counts: Int64Array,
    place: Int64Array | Int32Array,
    channels: int,
) -> Moves:
    """Every send of a phase, cut into pieces.

    Parameters
    ----------
    topology : Topology
    steps : Steps
    number : array of int64, shape (n_nodes,)
        Rank (or forwarder) of each node, -1 where there is none.
    first, counts : arrays of int64, shape (n,)
        The pieces of each send: the first of them, and how many.
    place : array of integers, shape (n,)
        Of each send's shard among all, by which channels are assigned.
    channels : int
    """
    ends = ends_of(topology, steps)
    check_ends(topology, steps.link, ends, number)
    tails, heads = number[ends[0]], number[ends[1]]
    send = np.repeat(np.arange(steps.n_sends), counts)
    within = np.arange(len(send)) - np.repeat(np.cumsum(counts) - counts, counts)
    link = steps.link[send].astype(np.int64)
    stream = place[send].astype(np.int64) * channels // steps.n_shards
    return Moves(
        step=steps.send_steps()[send].astype(np.int64),
        sender=tails[link],
        receiver=heads[link],
        channel=parallel_positions(topology.n_nodes, ends)[link] * channels + stream,
        path=link,
        send=send,
        piece=first[send] + within,
        fresh=steps.fresh[send] if steps.restarts else np.zeros(len(send), dtype=np.bool_),
    )
