"""The part of the all-to-all verifier that follows every chunk from link to link.

Shares no code with the generators; `exchange_check` is the way in and says what is right.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from treadle.arrays import BoolArray, Int64Array, distinct, mask_of, offsets_of
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.collective import Collective
from treadle.topologies.topology import Topology
from treadle.verification.steps.walks import format_link, usable_ends
from treadle.verification.violations import Findings, ViolationKind

_ROWS = 2**19  # hops of pieces worked on at once


def follow_chunks(
    topology: Topology, collective: Collective, schedule: ExchangeSchedule, found: Findings
) -> None:
    """Links first: only if all of them are usable, the chunks are followed.

    Parameters
    ----------
    topology : Topology
    collective : Collective
        Its ranks and forwarders are the compute nodes of the fabric.
    schedule : ExchangeSchedule
        Of as many ranks as the collective.
    found : Findings
        What is wrong is added to it.
    """
    check = _ExchangeCheck(topology, collective, schedule, found)
    ends = usable_ends(topology, schedule.sends, check.format_send, found)
    if ends is not None:
        check.tails, check.heads = ends
        for low, high, numbers in check.windows():
            check.check_window(low, high, numbers)


class _ExchangeCheck:
    """The pieces of all shards: runs of chunks that no send of the shard begins or ends within.

    A piece has the number of its beginning among all places, in the order of shards, where sends begin or
    end; the end of a shard is such a place as well, but no piece.
    """

    def __init__(
        self, topology: Topology, collective: Collective, schedule: ExchangeSchedule, found: Findings
    ) -> None:
        self._topology = topology
        self._schedule = schedule
        self._found = found
        self._ranks = np.array(collective.ranks, dtype=np.int64)
        self.tails, self.heads = topology.tails.astype(np.int64), topology.heads.astype(np.int64)
        sends = schedule.sends
        stride = schedule.n_chunks + 1
        base = sends.shard.astype(np.int64) * stride
        ends = np.arange(schedule.n_shards, dtype=np.int64) * stride
        bounds = [ends, ends + schedule.n_chunks, base + sends.low, base + sends.high]
        total = schedule.n_shards * stride
        if total <= 4 * len(base):  # a table of all places is smaller than what has to be sorted
            is_place = mask_of(total, bounds[0])
            for places in bounds[1:]:
                is_place[places] = True
            self._places = np.flatnonzero(is_place)
            number = np.cumsum(is_place) - 1
            self._first, self._past = (number[places] for places in bounds[2:])
        else:
            self._places = distinct(np.concatenate(bounds))
            self._first, self._past = (np.searchsorted(self._places, places) for places in bounds[2:])
        self._step = np.repeat(np.arange(sends.n_steps, dtype=np.int64), np.diff(sends.step_offset))

    def windows(self) -> Iterator[tuple[int, int, Int64Array]]:
        """Ranges of pieces with not too many hops each, and the sends, rising, that carry some of them."""
        n = len(self._places)
        cover = np.cumsum(np.bincount(self._first, minlength=n) - np.bincount(self._past, minlength=n))
        before = offsets_of(cover)
        order = np.argsort(self._first, kind="stable")
        starts = self._first[order]
        lasting = np.zeros(0, dtype=np.int64)
        low = taken = 0
        while low < n:
            high = max(low + 1, int(np.searchsorted(before, before[low] + _ROWS, side="right")) - 1)
            stop = int(np.searchsorted(starts, high))
            lasting = np.concatenate([lasting[self._past[lasting] > low], order[taken:stop]])
            yield low, high, np.sort(lasting)
            low, taken = high, stop

    def check_window(self, low: int, high: int, numbers: Int64Array) -> None:
        """Follow pieces [low, high), which the sends `numbers` carry."""
        start = np.maximum(self._first[numbers], low)
        counts = np.minimum(self._past[numbers], high) - start
        send = np.repeat(numbers, counts)
        within = np.arange(len(send)) - np.repeat(np.cumsum(counts) - counts, counts)
        piece = np.repeat(start, counts) + within
        order = np.argsort(piece, kind="stable")  # sends are in the order of steps, and remain so
        send, piece = send[order], piece[order]
        self._check_hops(send, piece)
        self._check_ends(low, high, send, piece)

    def _check_hops(self, send: Int64Array, piece: Int64Array) -> None:
        """Each hop must start where the one before has ended, in an earlier step."""
        topology, schedule = self._topology, self._schedule
        link = schedule.sends.link[send]
        tail, head, step = self.tails[link], self.heads[link], self._step[send]
        # rows that begin another piece, shape (rows,)
        is_first: BoolArray = np.append(np.ones(min(1, len(piece)), dtype=np.bool_), piece[1:] != piece[:-1])
        shard = schedule.sends.shard[send]
        before = np.empty(len(send), dtype=np.int64)
        before[is_first] = self._ranks[schedule.sources[shard[is_first]]]
        goes_on = np.flatnonzero(~is_first)
        before[goes_on] = head[goes_on - 1]
        wrong = tail != before
        wrong[goes_on] |= step[goes_on] <= step[goes_on - 1]

        def describe(row: int) -> str:
            where = topology.node_names[int(before[row])]
            since = "" if is_first[row] else f" after step {step[row - 1]}"
            name = topology.node_names[int(tail[row])]
            return (
                f"{self.format_send(int(send[row]))}: {name} does not hold {self._chunks(int(piece[row]))} at "
                f"the beginning of the step; {where} has that{since}"
            )

        self._found.add_all(ViolationKind.HELD, np.flatnonzero(wrong), describe)
        target = self._ranks[schedule.targets[shard]]
        again = goes_on[(head[goes_on - 1] == target[goes_on - 1]) & ~wrong[goes_on]]
        self._found.add_all(
            ViolationKind.DOUBLE,
            again,
            lambda i: (
                f"{self.format_send(int(send[i]))}: {self._chunks(int(piece[i]))} leaves the "
                f"target of the shard again"
            ),
        )

    def _check_ends(self, low: int, high: int, send: Int64Array, piece: Int64Array) -> None:
        """Each piece must end at the target of its shard."""
        schedule, stride = self._schedule, self._schedule.n_chunks + 1
        pieces = low + np.flatnonzero(self._places[low:high] % stride != schedule.n_chunks)
        shard = self._places[pieces] // stride
        at = self._ranks[schedule.sources[shard]]
        last = np.flatnonzero(np.append(piece[1:] != piece[:-1], np.ones(min(1, len(piece)), dtype=bool)))
        moved = np.searchsorted(pieces, piece[last])
        at[moved] = self.heads[schedule.sends.link[send[last]]]
        target = self._ranks[schedule.targets[shard]]
        wrong = np.flatnonzero(at != target)
        names = self._topology.node_names
        self._found.add_all(
            ViolationKind.DELIVERY,
            wrong,
            lambda i: (
                f"{self._shard_text(int(shard[i]))}: {self._chunks(int(pieces[i]))} ends at "
                f"{names[at[i]]}, expected {names[target[i]]}"
            ),
        )

    def _chunks(self, piece: int) -> str:
        stride = self._schedule.n_chunks + 1
        low, past = (int(self._places[place]) % stride for place in (piece, piece + 1))
        return f"chunk {low}" if past == low + 1 else f"chunks {low}-{past - 1}"

    def _shard_text(self, shard: int) -> str:
        schedule = self._schedule
        return f"shard {shard}, rank {schedule.sources[shard]} to {schedule.targets[shard]}"

    def format_send(self, number: int) -> str:
        """Step, link and shard of a send."""
        sends = self._schedule.sends
        link = format_link(self._topology, sends, number)
        return f"step {self._step[number]}, {link}, {self._shard_text(int(sends.shard[number]))}"
