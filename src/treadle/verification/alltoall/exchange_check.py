"""Independent check of the steps of an all-to-all: pairs, links, chunks held, delivery, cost, claims.

Chunks of a shard that no send separates form a run, which is followed as a whole: its hops, in the order of
steps, must lead from the source of the shard to its target.

Shares no code with the generators, nor with `exchange_cost`: everything is recomputed here.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Unpack

import numpy as np

from treadle.arrays import BoolArray, Int64Array, distinct, mask_of, offsets_of, ranges_of
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.collective import Collective
from treadle.topologies.topology import Topology
from treadle.verification.claims import Claims, Verifier, check_members, check_shape
from treadle.verification.loads import algbw_of
from treadle.verification.steps.walks import format_link, seconds_and_loads, usable_ends
from treadle.verification.violations import Findings, Report, ViolationKind

_SAFE = 2.0**62  # float sums below this cannot have wrapped in int64
_ROWS = 2**19  # hops of runs processed together


def verify_exchange(
    topology: Topology,
    collective: Collective,
    schedule: ExchangeSchedule,
    **claims: Unpack[Claims],
) -> Report:
    """Check that steps perform the all-to-all on the fabric and that the claims about them are true.

    Parameters
    ----------
    topology : Topology
    collective : Collective
    schedule : ExchangeSchedule
    **claims
        As in `treadle.verification.schedules.verify`.

    Returns
    -------
    Report
        With `n_steps` and `pipelined_algbw`, as `verify_steps`; `height_max` is None.

    Notes
    -----
    Pairs. The pairs of different ranks with a positive demand have one shard each, other pairs have none.

    Links. Every send uses a link, or a way that is a walk, between two different compute nodes, ranks or
    forwarders; switches cannot hold data.

    Flow. A chunk is at one node at a time, first at the source of its shard. A send moves chunks that are
    at its tail at the beginning of the step to its head. At the end every chunk is at its target, and has
    never left it. So nothing is forwarded before it has arrived, nothing is lost, and nothing arrives twice.
    A chunk may pass a node several times on the way; it only costs time.

    Cost. Per step the largest of amount / bandwidth over the links and, for nodes with an injection cap,
    over the egress and ingress of the host; a chunk of the shard of pair (i, j) is 1/P of demand (i, j), and
    `size` is the number of units of demand of the largest per-rank buffer.

    Time is linear in the sends, about 0.5 us each, except for sorting them.

    Examples
    --------
    >>> from treadle.schedules.collective import CollectiveKind, on_all_ranks
    >>> from treadle.schedules.trees.forest import Direction
    >>> from treadle.schedules.steps.steps import steps_from_sends
    >>> from treadle.topologies.catalogue.direct import from_arcs
    >>> pair = from_arcs("pair", [0, 1], [1, 0], n=2)
    >>> sends = steps_from_sends(Direction.BROADCAST, 2, 1, [(0, 0, 0, 0, 1)], homes=[0, 1])
    >>> schedule = ExchangeSchedule(sends, targets=[1, 0])
    >>> print(*verify_exchange(pair, on_all_ranks(pair, CollectiveKind.ALLTOALL), schedule).violations)
    delivery: shard 1, rank 1 to 0: chunk 0 ends at n1, expected n0
    """

    def check(topology: Topology, collective: Collective, found: Findings) -> None:
        check_members(topology, collective, found)
        if not found.total:
            check_shape(collective, schedule, found)

    judge = Verifier(topology, collective, check=check, **claims)
    if judge.is_sound:
        _check_pairs(collective, schedule, judge.found)
    if judge.is_sound:
        _ExchangeCheck(topology, collective, schedule, judge.found).run()
    if not judge.is_sound:
        return judge.report()
    algbw, pipelined = exchange_rates(topology, collective, schedule)
    return judge.report(algbw, pipelined_algbw=pipelined, n_steps=schedule.n_steps)


def _check_pairs(collective: Collective, schedule: ExchangeSchedule, found: Findings) -> None:
    n = collective.n_ranks
    demands = collective.pair_demands.between.reshape(-1)
    shards = np.bincount(schedule.sources.astype(np.int64) * n + schedule.targets, minlength=n * n)
    expected = (demands > 0).astype(np.int64)
    found.add_all(
        ViolationKind.SHAPE,
        np.flatnonzero(shards != expected),
        lambda i: (
            f"rank {i // n} to {i % n}: {shards[i]} shards, expected {expected[i]}, as the demand is "
            f"{demands[i]}"
        ),
    )


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

    def run(self) -> None:
        """Check the links; only if all of them are usable, follow the chunks."""
        ends = usable_ends(self._topology, self._schedule.sends, self._format_send, self._found)
        if ends is not None:
            for low, high, numbers in self._windows():
                self._check_window(low, high, numbers, *ends)

    def _windows(self) -> Iterator[tuple[int, int, Int64Array]]:
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

    def _check_window(
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
                f"{self._format_send(int(send[row]))}: {names[tail[row]]} does not hold "
                f"{self._format_run(int(run[row]))} at the beginning of the step; {names[before[row]]} has "
                f"that{since}"
            )

        self._found.add_all(ViolationKind.HELD, np.flatnonzero(wrong), describe)
        self._found.add_all(
            ViolationKind.DOUBLE,
            later[(head[later - 1] == self._targets[shard[later]]) & ~wrong[later]],
            lambda row: (
                f"{self._format_send(int(send[row]))}: {self._format_run(int(run[row]))} leaves the target "
                "of the shard again"
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

    def _format_send(self, number: int) -> str:
        """Return the step, link and shard of a send."""
        sends = self._schedule.sends
        link = format_link(self._topology, sends, number)
        return f"step {self._step[number]}, {link}, {self._format_shard(int(sends.shard[number]))}"


def exchange_rates(
    topology: Topology, collective: Collective, schedule: ExchangeSchedule
) -> tuple[Fraction, Fraction]:
    """Return size / time without latencies, bytes/s: of steps one after another, and of sliced messages."""
    sends, demands = schedule.sends, collective.pair_demands
    weight = demands.matrix[schedule.sources, schedule.targets][sends.shard]
    size = (sends.high - sends.low).astype(np.int64)
    if float((size.astype(np.float64) * weight).sum()) >= _SAFE:
        weight, size = weight.astype(object), size.astype(object)  # Python ints cannot wrap
    units = schedule.n_chunks * demands.buffer_units
    seconds, loads = seconds_and_loads(topology, sends, weight * size)
    return units / seconds, algbw_of(topology, loads, units)
