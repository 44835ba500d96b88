"""Single pieces of sends: where they go, and which of them have an effect."""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Self

import numpy as np

from treadle.arrays import BoolArray, Int32Array, Int64Array
from treadle.errors import InfeasibleError, ScheduleError
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
    """The link; -1 - i: path i of those that have several."""
    send: Int64Array
    """Number of the send among those of its phase."""
    piece: Int64Array

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
    """

    n_ranks: int
    home: Int64Array

    @property
    def n_pieces(self) -> int:
        """Pieces of all shards."""
        return len(self.home)

    def cells(self, rank: Int64Array, piece: Int64Array) -> Int64Array:
        """A number for each piece at each rank."""
        cells: Int64Array = rank * self.n_pieces + piece
        return cells

    def is_home(self, rank: Int64Array, piece: Int64Array) -> BoolArray:
        """Whether the pieces are at home at the ranks."""
        found: BoolArray = self.home[piece] == rank
        return found


def useful(direction: Direction, moves: Moves, holdings: Holdings) -> BoolArray:
    """Rows that have an effect on the outcome, shape (rows,).

    A broadcast is followed forwards: a rank takes a piece the first time that it comes. A reduction is
    followed backwards from the homes: a rank's sum counts if what it is added to counts, and every rank must
    have its sum counted once.

    Raises
    ------
    ScheduleError
        If a rank sends what it does not have, a sum counts twice, or something does not get everywhere.
    """
    forward = direction is Direction.BROADCAST
    giver, taker = (moves.sender, moves.receiver) if forward else (moves.receiver, moves.sender)
    from_, to = holdings.cells(giver, moves.piece), holdings.cells(taker, moves.piece)
    has = np.zeros(holdings.n_ranks * holdings.n_pieces, dtype=np.bool_)
    has[holdings.cells(holdings.home, np.arange(holdings.n_pieces))] = True
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
            _refuse_any(rows[has[to[rows]]], moves, "sends a sum twice")
            first = np.unique(to[rows], return_index=True)[1]
            _refuse_any(np.delete(rows, first), moves, "sends a sum twice")
        kept[rows] = True
        has[to[rows]] = True
    for cell in np.flatnonzero(~has)[:1].tolist():
        rank, piece = divmod(cell, holdings.n_pieces)
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


def check_links(topology: Topology, links: Int32Array, tails: Int64Array, heads: Int64Array) -> None:
    """Each link of a step schedule is a message, and only compute nodes hold chunks.

    Parameters
    ----------
    topology : Topology
    links : array of int32
        That the sends use.
    tails, heads : array of int64, shape (m,)
        Ranks (or forwarders) at the ends of each link, -1 where there is none.

    Raises
    ------
    InfeasibleError, ScheduleError
        If a link ends at none, or leads nowhere.
    """
    used = np.unique(links)
    for link in used[(tails[used] < 0) | (heads[used] < 0)][:1]:
        node = int(topology.tails[link] if tails[link] < 0 else topology.heads[link])
        raise InfeasibleError(
            f"the steps use link {topology.link_name(int(link))}, but {topology.node_names[node]!r} is no "
            f"rank and has no program; only steps between ranks can be lowered"
        )
    for link in used[tails[used] == heads[used]][:1]:
        raise ScheduleError(f"the steps use link {topology.link_name(int(link))}, which leads nowhere")


def parallel_places(topology: Topology) -> Int64Array:
    """Number of each link among those with the same ends, in the links' order, shape (m,)."""
    ends = topology.tails.astype(np.int64) * topology.n_nodes + topology.heads
    order = np.argsort(ends, kind="stable")
    places = np.empty(len(ends), dtype=np.int64)
    places[order] = np.arange(len(ends)) - np.searchsorted(ends[order], ends[order])
    return places
