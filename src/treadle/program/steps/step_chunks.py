"""Moves of single runs of chunks: their ends, and whether they have an effect.

A run is a range of chunks of a shard in which no send begins or ends. Runs of all shards are numbered in the
order of the chunks of the program.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Self

import numpy as np

from treadle.arrays import BoolArray, Int32Array, Int64Array, ranges_of
from treadle.errors import InfeasibleError, ScheduleError
from treadle.program.trees.send_order import positions_within
from treadle.schedules.steps.steps import Steps
from treadle.schedules.trees.forest import Direction
from treadle.topologies.topology import Topology


@dataclass(frozen=True, eq=False)
class Moves:
    """One run of one send in each row, by rising step."""

    step: Int64Array
    sender: Int64Array
    receiver: Int64Array
    channel: Int64Array
    path: Int64Array
    """The link; -1 - i: path i of those that may have several links."""
    send: Int64Array
    """Number of the send among those of its phase."""
    piece: Int64Array
    """Number of the run."""
    fresh: BoolArray
    """Whether the step restarts the sum of the receiver."""

    def __len__(self) -> int:
        return len(self.step)

    def part(self, rows: Int64Array | BoolArray) -> Self:
        """Return some of the rows, in the given order."""
        return type(self)(*(getattr(self, field.name)[rows] for field in fields(self)))


@dataclass(frozen=True, eq=False)
class Holdings:
    """Owners of the runs."""

    n_ranks: int
    home: Int64Array
    """Rank that owns each run."""
    twins: tuple[Int64Array, ...] = ()
    """Further owners of all runs."""

    @property
    def n_chunks(self) -> int:
        """Number of runs of all shards."""
        return len(self.home)

    def cells(self, rank: Int64Array, piece: Int64Array) -> Int64Array:
        """Return a number for each (rank, run)."""
        cells: Int64Array = rank * self.n_chunks + piece
        return cells

    def is_owner(self, rank: Int64Array, piece: Int64Array) -> BoolArray:
        """Whether the ranks own the runs."""
        owned = [owner[piece] == rank for owner in (self.home, *self.twins)]
        return np.asarray(np.logical_or.reduce(owned), dtype=np.bool_)


def useful(direction: Direction, moves: Moves, holdings: Holdings) -> BoolArray:
    """Whether each row has an effect on the result, shape (rows,).

    A broadcast is followed forwards: a rank uses a run the first time that it arrives. A reduction is
    followed backwards from the owners: the sum of a rank counts if the sum that it is added to counts, and
    the sum of every rank must count once, for each owner if there are several. Values that restarted sums
    replace do not count.

    Raises
    ------
    ScheduleError
        If a rank sends data that it does not have, a sum counts twice, or data do not reach every rank.
    """
    forward = direction is Direction.BROADCAST
    owners = (holdings.home, *holdings.twins)
    if not forward and holdings.twins:
        each = [useful(direction, moves, Holdings(holdings.n_ranks, owner)) for owner in owners]
        return np.asarray(np.logical_or.reduce(each), dtype=np.bool_)
    giver, taker = (moves.sender, moves.receiver) if forward else (moves.receiver, moves.sender)
    from_, to = holdings.cells(giver, moves.piece), holdings.cells(taker, moves.piece)
    has = np.zeros(holdings.n_ranks * holdings.n_chunks, dtype=np.bool_)
    for owner in owners:
        has[holdings.cells(owner, np.arange(holdings.n_chunks))] = True
    kept = np.zeros(len(moves), dtype=np.bool_)
    bounds = [*np.flatnonzero(np.diff(moves.step, prepend=-1)).tolist(), len(moves)]
    spans = [np.arange(low, high) for low, high in pairwise(bounds)]
    for rows in spans if forward else reversed(spans):
        can = has[from_[rows]]
        if forward:
            _check_none(rows[~can], moves, "sends chunks that it does not have yet")
            rows = rows[~has[to[rows]]]
            rows = rows[np.unique(to[rows], return_index=True)[1]]
        else:
            rows = rows[can]
            has[from_[rows[moves.fresh[rows]]]] = False  # the step replaces the value held before it
            first = np.unique(to[rows], return_index=True)[1]
            twice = np.append(rows[has[to[rows]]], np.delete(rows, first))
            _check_none(twice, moves, "sends a sum twice")
        kept[rows] = True
        has[to[rows]] = True
    for cell in np.flatnonzero(~has)[:1].tolist():
        rank, piece = divmod(cell, holdings.n_chunks)
        what = "never gets" if forward else "does not contribute to"
        raise ScheduleError(
            f"steps: rank {rank} {what} some chunks owned by rank {holdings.home[piece]}; treadle verify "
            "lists what is missing"
        )
    return kept


def _check_none(rows: Int64Array, moves: Moves, fault: str) -> None:
    for row in rows[:1].tolist():
        raise ScheduleError(
            f"steps: step {moves.step[row]}: rank {moves.sender[row]} {fault}, to rank {moves.receiver[row]}"
        )


def _check_ends(topology: Topology, tails: Int64Array, heads: Int64Array, number: Int64Array) -> None:
    """Check that links (or ways) join two different ranks (or forwarders), given by `number`, or -1."""
    names = topology.node_names
    for i in np.flatnonzero((number[tails] < 0) | (number[heads] < 0))[:1]:
        node = tails[i] if number[tails[i]] < 0 else heads[i]
        raise InfeasibleError(
            f"the steps use link {names[tails[i]]}->{names[heads[i]]}, but {names[node]!r} is not a rank and "
            f"has no program; only steps between ranks can be lowered"
        )
    for node in tails[tails == heads][:1]:
        raise ScheduleError(f"the steps use link {names[node]}->{names[node]}, which is a self-loop")


def moves_of(
    topology: Topology,
    steps: Steps,
    number: Int64Array,
    first: Int64Array,
    counts: Int64Array,
    place: Int64Array | Int32Array,
    channels: int,
) -> Moves:
    """Return every send of a phase, cut into runs.

    Parameters
    ----------
    topology : Topology
    steps : Steps
    number : array of int64, shape (n_nodes,)
        Rank (or forwarder) of each node, or -1.
    first, counts : arrays of int64, shape (n,)
        First run and number of runs of each send.
    place : array of integers, shape (n,)
        Index of the shard of each send among all, by which channels are assigned.
    channels : int

    Raises
    ------
    InfeasibleError, ScheduleError
        If a send ends at a node that cannot hold chunks, or uses a self-loop.
    """
    tails, heads = topology.tails.astype(np.int64), topology.heads.astype(np.int64)
    if steps.has_paths:
        first_link, last_link = steps.way_offset[:-1], steps.way_offset[1:] - 1
        tails, heads = tails[steps.way_links[first_link]], heads[steps.way_links[last_link]]
    used = np.unique(steps.link)
    _check_ends(topology, tails[used], heads[used], number)
    pairs = tails * topology.n_nodes + heads
    send, piece = ranges_of(first, counts)
    link = steps.link[send].astype(np.int64)
    stream = place[send].astype(np.int64) * channels // steps.n_shards
    return Moves(
        step=steps.send_steps()[send].astype(np.int64),
        sender=number[tails[link]],
        receiver=number[heads[link]],
        channel=positions_within(pairs, [pairs])[link] * channels + stream,
        path=link,
        send=send,
        piece=piece,
        fresh=steps.fresh[send] if steps.restarts else np.zeros(len(send), dtype=np.bool_),
    )
