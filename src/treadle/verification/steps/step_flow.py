"""Propagates chunks over the steps, as bit masks per node and shard.

Chunks of a shard that no send separates form a run; a bit mask holds up to 64 runs, and a block holds the
masks of as many shards as fit the memory. `treadle.verification.steps.step_check.verify_steps` is the entry
point and explains why this is exact.

Shares no code with the generators.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int32Array, Int64Array, mask_of, ranges_of
from treadle.schedules.collective import Collective
from treadle.schedules.steps.steps import Steps
from treadle.schedules.trees.forest import Direction
from treadle.topologies.topology import Topology
from treadle.verification.steps.step_operations import StepOperations
from treadle.verification.steps.walks import format_link, usable_ends
from treadle.verification.violations import Findings, ViolationKind

Masks = NDArray[Any]
"""Unsigned integers; bit b stands for run b of a block."""

_BATCH = 2**17  # sends processed together: their temporary arrays stay in the cache
_STATE_BYTES = 2**27  # maximum memory for the masks of one block
_MAX_LISTED = 4  # runs of chunks that a message lists
_TYPES = ((8, np.uint8), (16, np.uint16), (32, np.uint32), (64, np.uint64))


@dataclass(frozen=True)
class _ShardBlock:
    """Shards [first, first + n_shards) and up to 64 runs of their chunks, which are followed together.

    No send begins or ends within a run, so all its chunks are in the same places.
    """

    first: int
    n_shards: int
    bounds: Int64Array
    """First chunk of each run, and the end of the last one."""
    runs_before: Int64Array
    """Number of runs of the shard before each chunk from 0 to P."""
    first_run: int
    """Number of runs before those of the block."""
    prefix: Masks
    """Mask of the first i runs, for each i."""
    numbers: Int64Array | None
    """Sends that concern the block, rising; None: all."""

    @property
    def full(self) -> Any:
        """The mask of all runs."""
        return self.prefix[-1]

    def masks(self, low: Int32Array, high: Int32Array) -> Masks:
        """Return the runs of the block among chunks [low, high)."""
        begin, end = self.runs_before[low], self.runs_before[high]
        if self.numbers is not None:
            last = len(self.prefix) - 1
            begin, end = np.clip(begin - self.first_run, 0, last), np.clip(end - self.first_run, 0, last)
        masks: Masks = self.prefix[end] ^ self.prefix[begin]
        return masks

    def spans(self, steps: Steps) -> list[slice]:
        """Return the positions (in `numbers`, or in all sends) of each step with sends of the block."""
        offset = steps.step_offset
        if self.numbers is not None:
            offset = np.searchsorted(self.numbers, offset)
        return [slice(int(offset[t]), int(offset[t + 1])) for t in np.flatnonzero(np.diff(offset))]

    def format_mask(self, mask: Any) -> str:
        """Return the chunks of a mask, e.g. ``chunks 0-2, 5``."""
        held = [chunks for run, chunks in enumerate(pairwise(self.bounds.tolist())) if int(mask) >> run & 1]
        starts, ends = {low for low, _ in held}, {high for _, high in held}
        ranges = [
            f"{low}" if high == low + 1 else f"{low}-{high - 1}"
            for low, high in zip(sorted(starts - ends), sorted(ends - starts), strict=True)
        ]
        more = ", ..." if len(ranges) > _MAX_LISTED else ""
        is_one = len(ranges) == 1 and "-" not in ranges[0]
        return f"chunk{'' if is_one else 's'} {', '.join(ranges[:_MAX_LISTED])}{more}"


def _blocks(steps: Steps, n_nodes: int) -> Iterator[_ShardBlock]:
    is_bound = mask_of(steps.n_chunks + 1, [0, steps.n_chunks])
    for ends in (steps.low, steps.high):
        is_bound[ends] = True
    bounds = np.flatnonzero(is_bound)
    runs_before = np.cumsum(is_bound) - 1
    width = min(64, len(bounds) - 1)
    dtype = next(kind for bits, kind in _TYPES if width <= bits)
    n_shards = max(1, _STATE_BYTES // (n_nodes * np.dtype(dtype).itemsize))
    for first_run, numbers in _windows(steps, runs_before):
        inside = bounds[first_run : first_run + 65]
        prefix = np.array([(1 << bits) - 1 for bits in range(len(inside))], dtype=dtype)
        for first in range(0, steps.n_shards, n_shards):
            chosen = numbers
            if n_shards < steps.n_shards:
                chosen = np.arange(steps.n_sends) if numbers is None else numbers
                shard = steps.shard[chosen]
                chosen = chosen[(shard >= first) & (shard < first + n_shards)]
            number = min(n_shards, steps.n_shards - first)
            yield _ShardBlock(first, number, inside, runs_before, first_run, prefix, chosen)


def _windows(steps: Steps, runs_before: Int64Array) -> Iterator[tuple[int, Int64Array | None]]:
    """Yield the first of every 64 runs, and the sends that carry some of these; None: all sends."""
    n_runs = int(runs_before[-1])
    if n_runs <= 64:
        yield 0, None
        return
    first, last = runs_before[steps.low] // 64, (runs_before[steps.high] - 1) // 64
    order = np.argsort(first, kind="stable")
    starts = np.searchsorted(first[order], np.arange(-(-n_runs // 64) + 1))
    numbers = np.zeros(0, dtype=np.int64)
    for window, (start, stop) in enumerate(pairwise(starts.tolist())):
        numbers = np.sort(np.concatenate([numbers[last[numbers] >= window], order[start:stop]]))
        yield window * 64, numbers


@dataclass(frozen=True)
class _Batch:
    """Some sends of a step, restricted to a block."""

    numbers: Int64Array | slice
    tail: Int64Array  # positions of the tails in the state
    head: Int64Array
    masks: Masks

    def number(self, i: int) -> int:
        """Return the number of a send of the batch in the schedule."""
        return self.numbers.start + int(i) if isinstance(self.numbers, slice) else int(self.numbers[i])


class FlowCheck:
    """Check of one phase.

    Parameters
    ----------
    topology : Topology
    collective : Collective
        Its ranks and forwarders are the compute nodes of the fabric.
    steps : Steps
        With the number of ranks of the collective.
    found : Findings
        Violations are added to it.
    """

    def __init__(self, topology: Topology, collective: Collective, steps: Steps, found: Findings) -> None:
        self._topology = topology
        self._collective = collective
        self._steps = steps
        self._found = found
        self._ranks = np.array(collective.ranks, dtype=np.int64)
        self._owners = [self._ranks[owners] for owners in steps.all_owners]

    def run(self) -> None:
        """Check the links; only if all of them are usable, follow the chunks.

        If several owners need the same sum, each is checked separately; nodes hold one copy for all of them.
        """
        steps = self._steps
        ends = usable_ends(self._topology, steps, self._format_send, self._found)
        if ends is None:
            return
        self._tails, self._heads = ends
        if steps.has_operations:
            operations = StepOperations(self._topology, self._collective, steps)
            if not operations.check(self._found):
                return
        for block in _blocks(steps, self._topology.n_nodes):
            if steps.direction is Direction.BROADCAST:
                state = self._start(block, *self._owners)
                self._follow(block, state)
                self._check_complete(block, state, self._owners[0])
                continue
            for owners in self._owners:
                self._check_reduce(block, owners)

    def _format_send(self, number: int) -> str:
        """Return the step, link and shard of a send."""
        steps = self._steps
        step = int(np.searchsorted(steps.step_offset, number, side="right")) - 1
        link = format_link(self._topology, steps, number)
        return f"{steps.direction} step {step}, {link}, shard {steps.shard[number]}"

    def _batches(self, block: _ShardBlock, span: slice) -> Iterator[_Batch]:
        steps = self._steps
        tails, heads = (ends * block.n_shards for ends in (self._tails, self._heads))
        for start in range(span.start, span.stop, _BATCH):
            part = slice(start, min(start + _BATCH, span.stop))
            numbers = part if block.numbers is None else block.numbers[part]
            shard, link = steps.shard[numbers] - block.first, steps.link[numbers]
            masks = block.masks(steps.low[numbers], steps.high[numbers])
            yield _Batch(numbers, tails[link] + shard, heads[link] + shard, masks)

    def _start(self, block: _ShardBlock, *owners: Int64Array) -> Masks:
        """Return masks with all chunks of the block's shards at their owners, shape (nodes * shards,)."""
        state = np.zeros((self._topology.n_nodes, block.n_shards), dtype=block.prefix.dtype)
        shards = np.arange(block.n_shards)
        for nodes in owners:
            state[nodes[block.first + shards], shards] = block.full
        return state.reshape(-1)

    def _follow(self, block: _ShardBlock, state: Masks) -> None:
        """Run the steps: every read of a step gets the value at its beginning."""
        for span in block.spans(self._steps):
            for batch in self._batches(block, span):
                missing = batch.masks & ~state[batch.tail]
                if missing.any():
                    self._add_not_held(block, batch, missing)
            for batch in self._batches(block, span):
                np.bitwise_or.at(state, batch.head, batch.masks)

    def _add_not_held(self, block: _ShardBlock, batch: _Batch, missing: Masks) -> None:
        def describe(i: int) -> str:
            send, tail = self._format_send(batch.number(i)), self._tail_name(batch.number(i))
            return f"{send}: {tail} does not hold {block.format_mask(missing[i])} yet"

        self._found.add_all(ViolationKind.HELD, np.flatnonzero(missing), describe)

    def _tail_name(self, number: int) -> str:
        """Return the name of the node that a send starts from."""
        return self._topology.node_names[int(self._tails[self._steps.link[number]])]

    def _check_reduce(self, block: _ShardBlock, owners: Int64Array) -> None:
        """Propagate backwards from owners: every rank's chunks must reach the owner exactly once."""
        if self._collective.forwarders:
            # Forwarders have no data of their own, so they must have received what they send.
            arrived = np.zeros((self._topology.n_nodes, block.n_shards), dtype=block.prefix.dtype)
            arrived[self._ranks] = block.full
            self._follow(block, arrived.reshape(-1))
        state = self._start(block, owners)
        added = block.n_shards * (len(block.bounds) - 1)
        for batch, masks, cleared in self._backwards(block, state):
            np.bitwise_or.at(state, batch.tail, masks)
            added += _count_bits(masks) - cleared
        # Some bit was set twice if and only if there are fewer bits than were set.
        if _count_bits(state) != added:
            self._find_doubles(block, owners)
        self._check_complete(block, state, owners)

    def _backwards(self, block: _ShardBlock, state: Masks) -> Iterator[tuple[_Batch, Masks, int]]:
        """Yield the sends from the last step on, the part of each that reaches an owner, and cleared bits.

        The caller adds the masks to the tails. The bits that restarted sums clear in a step, which are
        counted with its first batch, are those that heads held before it.
        """
        for span in reversed(block.spans(self._steps)):
            reaching = [batch.masks & state[batch.head] for batch in self._batches(block, span)]
            cleared = 0
            for batch in self._batches(block, span) if self._steps.restarts else ():
                restarts = self._steps.fresh[batch.numbers]
                head, masks = batch.head[restarts], batch.masks[restarts]
                changed = np.unique(head)
                cleared += _count_bits(state[changed])
                np.bitwise_and.at(state, head, ~masks)
                cleared -= _count_bits(state[changed])
            for batch, masks in zip(self._batches(block, span), reaching, strict=True):
                yield batch, masks, cleared
                cleared = 0

    def _find_doubles(self, block: _ShardBlock, owners: Int64Array) -> None:
        """Report the sends towards an owner of values that another send carries there as well.

        So that every overlap is seen, the k-th send of each tail is added in round k.
        """
        state = self._start(block, owners)
        for batch, masks, _ in self._backwards(block, state):
            order = np.argsort(batch.tail, kind="stable")
            _, counts = np.unique(batch.tail, return_counts=True)
            _, number = ranges_of(np.zeros_like(counts), counts)  # of each send among those of its tail
            for k in range(int(number.max(initial=-1)) + 1):
                now = order[number == k]
                overlap = state[batch.tail[now]] & masks[now]
                self._add_doubles(block, batch, now, overlap)
                state[batch.tail[now]] |= masks[now]

    def _add_doubles(self, block: _ShardBlock, batch: _Batch, rows: Int64Array, overlap: Masks) -> None:
        def describe(i: int) -> str:
            number = batch.number(rows[i])
            return (
                f"{self._format_send(number)}: what {self._tail_name(number)} has of "
                f"{block.format_mask(overlap[i])} reaches the owner by another send too, so it would be "
                "added twice"
            )

        self._found.add_all(ViolationKind.DOUBLE, np.flatnonzero(overlap), describe)

    def _check_complete(self, block: _ShardBlock, state: Masks, owners: Int64Array) -> None:
        rows = state.reshape(self._topology.n_nodes, block.n_shards)[self._ranks]
        if (rows == block.full).all():
            return
        steps, names = self._steps, self._topology.node_names

        def describe(place: Int64Array) -> str:
            rank, shard = place.tolist()
            chunks = block.format_mask(block.full & ~rows[rank, shard])
            node = f"rank {rank} ({names[self._ranks[rank]]})"
            number = block.first + shard
            if steps.direction is Direction.BROADCAST:
                return f"broadcast steps, shard {number}: {node} never gets {chunks}"
            owner = f"rank {np.flatnonzero(self._ranks == owners[number])[0]} ({names[owners[number]]})"
            return f"reduce steps, shard {number}: what {node} contributes to {chunks} never reaches {owner}"

        self._found.add_all(ViolationKind.DELIVERY, np.argwhere(rows != block.full), describe)


def _count_bits(masks: Masks) -> int:
    return int(np.bitwise_count(masks).sum(dtype=np.int64))
