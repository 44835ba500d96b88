"""Following of every chunk of an all-to-all from link to link.

Chunks of a shard that no send separates form a run, which is followed as a whole: its hops, in the order of
steps, must lead from the source of the shard to its target.
`treadle.verification.alltoall.exchange_check.verify_exchange` is the entry point and states the conditions.

Shares no code with the generators.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from treadle.arrays import BoolArray, Int64Array, distinct, mask_of, offsets_of, ranges_of
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.collective import Collective
from treadle.topologies.topology import Topology
from treadle.verification.steps.walks import link_text, usable_ends
from treadle.verification.violations import Findings, ViolationKind

_ROWS = 2**19  # hops of runs processed together


def follow_chunks(
    topology: Topology, collective: Collective, schedule: ExchangeSchedule, found: Findings
) -> None:
    """Check the links; only if all of them are usable, follow the chunks.

    Parameters
    ----------
    topology : Topology
    collective : Collective
        Its ranks and forwarders are the compute nodes of the fabric.
    schedule : ExchangeSchedule
        With the number of ranks of the collective.
    found : Findings
        Violations are added to it.
    """
    check = _ExchangeCheck(topology, collective, schedule, found)
    ends = usable_ends(topology, schedule.sends, check.format_send, found)
    if ends is not None:
        for low, high, numbers in check.windows():
            check.check_window(low, high, numbers, *ends)


class _ExchangeCheck:
    """The runs of all shards: ranges of chunks in which no send of the shard begins or ends.

    Cuts are the positions, in the order of shards, where sends begin or end, and the ends of shards. A run
    has the number of the cut at its beginning; the end of a shard begins no run.
    """

    def __init__(
        self, topology: Topology, collective: Collective, schedule: ExchangeSchedule, found: Findings
    ) -> None:
        self._topology = topology
        self._schedule = schedule
        self._found = found
        ranks = np.array(collective.ranks, dtype=np.int64)
        self._sources, self._targets = ranks[schedule.sources], ranks[schedule.targets]
        sends = schedule.sends
        stride = schedule.n_chunks + 1
        base = sends.shard.astype(np.int64) * stride
        shards = np.arange(schedule.n_shards, dtype=np.int64) * stride
        bounds = [shards, shards + schedule.n_chunks, base + sends.low, base + sends.high]
        total = schedule.n_shards * stride
        if total <= 4 * len(base):  # a table of all positions is smaller than the arrays to sort
            is_cut = mask_of(total, np.concatenate(bounds))
            self._cuts = np.flatnonzero(is_cut)
            number = np.cumsum(is_cut) - 1
            self._first, self._past = (number[cuts] for cuts in bounds[2:])
        else:
            self._cuts = distinct(np.concatenate(bounds))
            self._first, self._past = (np.searchsorted(self._cuts, cuts) for cuts in bounds[2:])
        self._step = np.repeat(np.arange(sends.n_steps, dtype=np.int64), np.diff(sends.step_offset))

    def windows(self) -> Iterator[tuple[int, int, Int64Array]]:
        """Yield ranges of runs with a limited number of hops, and the sends, rising, that carry some run."""
        n = len(self._cuts)
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

    def check_window(
        self, low: int, high: int, numbers: Int64Array, tails: Int64Array, heads: Int64Array
    ) -> None:
        """Follow runs [low, high), which the sends `numbers` carry; tails and heads are those of links."""
        start = np.maximum(self._first[numbers], low)
        row, run = ranges_of(start, np.minimum(self._past[numbers], high) - start)
        order = np.argsort(run, kind="stable")  # sends are in the order of steps, and remain so
        send, run = numbers[row][order], run[order]
        link = self._schedule.sends.link[send]
        self._check_hops(send, run, tails[link], heads[link])
        self._check_ends(low, high, run, heads[link])

    def _check_hops(self, send: Int64Array, run: Int64Array, tail: Int64Array, head: Int64Array) -> None:
        """Check that each hop starts where the hop before it ended, in a later step."""
        names, step, shard = self._topology.node_names, self._step[send], self._schedule.sends.shard[send]
        is_first: BoolArray = np.append(np.ones(min(1, len(run)), dtype=np.bool_), run[1:] != run[:-1])
        later = np.flatnonzero(~is_first)
        before = self._sources[shard]
        before[later] = head[later - 1]
        wrong = tail != before
        wrong[later] |= step[later] <= step[later - 1]

        def describe(row: int) -> str:
            since = "" if is_first[row] else f" after step {step[row - 1]}"
            return (
                f"{self.format_send(int(send[row]))}: {names[tail[row]]} does not hold "
                f"{self._format_run(int(run[row]))} at the beginning of the step; {names[before[row]]} has "
                f"that{since}"
            )

        self._found.add_all(ViolationKind.HELD, np.flatnonzero(wrong), describe)
        self._found.add_all(
            ViolationKind.DOUBLE,
            later[(head[later - 1] == self._targets[shard[later]]) & ~wrong[later]],
            lambda row: (
                f"{self.format_send(int(send[row]))}: {self._format_run(int(run[row]))} leaves the target of "
                "the shard again"
            ),
        )

    def _check_ends(self, low: int, high: int, run: Int64Array, head: Int64Array) -> None:
        """Check that each run ends at the target of its shard."""
        schedule, stride = self._schedule, self._schedule.n_chunks + 1
        runs = low + np.flatnonzero(self._cuts[low:high] % stride != schedule.n_chunks)
        shard = self._cuts[runs] // stride
        node, target = self._sources[shard], self._targets[shard]
        last = np.flatnonzero(np.append(run[1:] != run[:-1], np.ones(min(1, len(run)), dtype=np.bool_)))
        node[np.searchsorted(runs, run[last])] = head[last]
        names = self._topology.node_names
        self._found.add_all(
            ViolationKind.DELIVERY,
            np.flatnonzero(node != target),
            lambda i: (
                f"{self._format_shard(int(shard[i]))}: {self._format_run(int(runs[i]))} ends at "
                f"{names[node[i]]}, expected {names[target[i]]}"
            ),
        )

    def _format_run(self, run: int) -> str:
        low, past = self._cuts[run : run + 2] % (self._schedule.n_chunks + 1)
        return f"chunk {low}" if past == low + 1 else f"chunks {low}-{past - 1}"

    def _format_shard(self, shard: int) -> str:
        schedule = self._schedule
        return f"shard {shard}, rank {schedule.sources[shard]} to {schedule.targets[shard]}"

    def format_send(self, number: int) -> str:
        """Return the step, link and shard of a send."""
        sends = self._schedule.sends
        link = link_text(self._topology, sends, number)
        return f"step {self._step[number]}, {link}, {self._format_shard(int(sends.shard[number]))}"
