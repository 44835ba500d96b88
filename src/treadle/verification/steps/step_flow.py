"""The part of the verifier that follows chunks over the steps, as bit masks per node and shard.

Shares no code with the generators; `step_check` is the way in and says why it is exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int32Array, Int64Array
from treadle.schedules.collective import Collective
from treadle.schedules.steps.steps import Steps
from treadle.schedules.trees.forest import Direction
from treadle.topologies.topology import Topology
from treadle.verification.steps.step_operations import StepOperations
from treadle.verification.steps.walks import format_link, usable_ends
from treadle.verification.violations import Findings, ViolationKind

Masks = NDArray[Any]
"""Unsigned integers; bit b stands for piece b of a block."""

_BATCH = 2**17  # sends worked on at once: their temporary arrays stay in the cache
_STATE_BYTES = 2**27  # most memory for the masks of one block
_SHOWN = 4  # runs of chunks that a message spells out
_TYPES = ((8, np.uint8), (16, np.uint16), (32, np.uint32), (64, np.uint64))


@dataclass(frozen=True)
class _ShardBlock:
    """Shards [first, first + n_shards) and up to 64 pieces of them, which are followed at once.

    A piece is a run of chunks that no send begins or ends within: all its chunks share one fate.
    """

    first: int
    n_shards: int
    cuts: Int64Array
    """First chunk of each piece, and the end of the last one."""
    piece: Int64Array
    """For a cut c from 0 to P: how many pieces of the shard lie before chunk c."""
    low: int
    """How many pieces lie before the block's."""
    prefix: Masks
    """For each number of pieces: the mask of that many first ones."""
    numbers: Int64Array | None
    """The sends that concern the block, rising; None: all."""

    @property
    def full(self) -> Any:
        """The mask of all pieces."""
        return self.prefix[-1]

    def masks(self, low: Int32Array, high: Int32Array) -> Masks:
        """Pieces of the block among chunks [low, high)."""
        begin, end = self.piece[low], self.piece[high]
        if self.numbers is not None:
            last = len(self.prefix) - 1
            begin, end = np.clip(begin - self.low, 0, last), np.clip(end - self.low, 0, last)
        masks: Masks = self.prefix[end] ^ self.prefix[begin]
        return masks

    def spans(self, steps: Steps) -> list[slice]:
        """Per step with sends that concern the block: where they are, in `numbers` if there are any."""
        offset = steps.step_offset
        if self.numbers is not None:
            offset = np.searchsorted(self.numbers, offset)
        return [slice(int(offset[t]), int(offset[t + 1])) for t in np.flatnonzero(np.diff(offset))]

    def format_chunks(self, mask: Any) -> str:
        """The chunks that a mask stands for, as ``chunks 0-2, 5``."""
        runs: list[list[int]] = []
        for piece in range(len(self.cuts) - 1):
            if int(mask) >> piece & 1:
                low, high = int(self.cuts[piece]), int(self.cuts[piece + 1])
                if runs and runs[-1][1] == low:
                    runs[-1][1] = high
                else:
                    runs.append([low, high])
        words = [str(low) if high == low + 1 else f"{low}-{high - 1}" for low, high in runs[:_SHOWN]]
        more = ", ..." if len(runs) > _SHOWN else ""
        one = len(runs) == 1 and runs[0][1] == runs[0][0] + 1
        return f"chunk{'' if one else 's'} {', '.join(words)}{more}"


def _blocks(steps: Steps, n_nodes: int) -> Iterator[_ShardBlock]:
    is_cut = np.zeros(steps.n_chunks + 1, dtype=np.bool_)
    for ends in (steps.low, steps.high):
        is_cut[ends] = True
    is_cut[[0, steps.n_chunks]] = True
    cuts = np.flatnonzero(is_cut)
    piece = np.cumsum(is_cut) - 1
    width = min(64, len(cuts) - 1)
    dtype = next(kind for bits, kind in _TYPES if width <= bits)
    n_shards = max(1, _STATE_BYTES // (n_nodes * np.dtype(dtype).itemsize))
    for low, numbers in _windows(steps, piece):
        inside = cuts[low : low + 65]
        prefix = np.array([(1 << bits) - 1 for bits in range(len(inside))], dtype=dtype)
        for first in range(0, steps.n_shards, n_shards):
            chosen = numbers
            if n_shards < steps.n_shards:
                chosen = np.arange(steps.n_sends) if numbers is None else numbers
                shard = steps.shard[chosen]
                chosen = chosen[(shard >= first) & (shard < first + n_shards)]
            number = min(n_shards, steps.n_shards - first)
            yield _ShardBlock(first, number, inside, piece, low, prefix, chosen)


def _windows(steps: Steps, piece: Int64Array) -> Iterator[tuple[int, Int64Array | None]]:
    """First piece of every 64, and the sends that carry some of the 64; None: all."""
    n_pieces = int(piece[-1])
    if n_pieces <= 64:
        yield 0, None
        return
    first, last = piece[steps.low] // 64, (piece[steps.high] - 1) // 64
    order = np.argsort(first, kind="stable")
    starts = np.searchsorted(first[order], np.arange(-(-n_pieces // 64) + 1))
    numbers = np.zeros(0, dtype=np.int64)
    for window, (start, stop) in enumerate(pairwise(starts.tolist())):
        lasting = numbers[last[numbers] >= window]
        numbers = np.sort(np.concatenate([lasting, order[start:stop]]))
        yield window * 64, numbers


@dataclass(frozen=True)
class _Batch:
    """Some sends of a step, as far as they concern a block."""

    numbers: Int64Array | slice
    tail: Int64Array  # places of the tails in the state
    head: Int64Array
    masks: Masks

    def number(self, i: int) -> int:
        """Number of a send of the batch in the schedule."""
        return self.numbers.start + i if isinstance(self.numbers, slice) else int(self.numbers[i])


class FlowCheck:
    """Checks one phase; adds what is wrong to `found`.

    Parameters
    ----------
    topology : Topology
    collective : Collective
        Its ranks and forwarders are the compute nodes of the fabric.
    steps : Steps
        Of as many ranks as the collective.
    found : Findings
    """

    def __init__(self, topology: Topology, collective: Collective, steps: Steps, found: Findings) -> None:
        self._topology = topology
        self._collective = collective
        self._steps = steps
        self._found = found
        self._ranks = np.array(collective.ranks, dtype=np.int64)
        self._has_forwarders = bool(collective.forwarders)
        self._homes = [self._ranks[homes] for homes in steps.all_owners]
        self._tails, self._heads = topology.tails.astype(np.int64), topology.heads.astype(np.int64)

    def run(self) -> None:
        """Links first: only if all of them are usable, the chunks are followed.

        A sum that is due at several homes is followed to each by itself: all of them read the same memory.
        """
        ends = usable_ends(self._topology, self._steps, self._send_text, self._found)
        if ends is None:
            return
        self._tails, self._heads = ends
        operations = StepOperations(self._topology, self._collective, self._steps)
        if self._steps.has_operations and not operations.check(self._found):
            return
        for block in _blocks(self._steps, self._topology.n_nodes):
            if self._steps.direction is Direction.BROADCAST:
                state = self._start(block, self._homes[0])
                for homes in self._homes[1:]:
                    state |= self._start(block, homes)
                self._follow(block, state)
                self._check_complete(block, state, self._homes[0])
                continue
            for homes in self._homes:
                self._check_reduce(block, homes)

    def _send_text(self, number: int) -> str:
        """Step, link and shard of a send."""
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

    def _start(self, block: _ShardBlock, homes: Int64Array) -> Masks:
        """Masks with the block's shards whole at their homes, shape (nodes * shards,)."""
        state = np.zeros((self._topology.n_nodes, block.n_shards), dtype=block.prefix.dtype)
        shards = np.arange(block.n_shards)
        state[homes[block.first + shards], shards] = block.full
        return state.reshape(-1)

    def _follow(self, block: _ShardBlock, state: Masks) -> None:
        """Run the steps: every read of a step sees what was there at its beginning."""
        for span in block.spans(self._steps):
            for batch in self._batches(block, span):
                missing = batch.masks & ~state[batch.tail]
                if missing.any():
                    self._add_not_held(block, batch, missing)
            for batch in self._batches(block, span):
                np.bitwise_or.at(state, batch.head, batch.masks)

    def _add_not_held(self, block: _ShardBlock, batch: _Batch, missing: Masks) -> None:
        def describe(i: int) -> str:
            number = batch.number(i)
            return f"{self._send_text(number)}: {self._tail(number)} does not hold {block.format_chunks(missing[i])} yet"

        self._found.add_all(ViolationKind.HELD, np.flatnonzero(missing), describe)

    def _tail(self, number: int) -> str:
        """Name of the node that a send starts from."""
        return self._topology.node_names[int(self._tails[self._steps.link[number]])]

    def _check_reduce(self, block: _ShardBlock, homes: Int64Array) -> None:
        if self._has_forwarders:
            arrived = np.zeros((self._topology.n_nodes, block.n_shards), dtype=block.prefix.dtype)
            arrived[self._ranks] = block.full
            self._follow(block, arrived.reshape(-1))
        state = self._start(block, homes)
        added = block.n_shards * (len(block.cuts) - 1)
        for span in reversed(block.spans(self._steps)):
            passed = [batch.masks & state[batch.head] for batch in self._batches(block, span)]
            added -= self._drop(block, state, span)
            for batch, masks in zip(self._batches(block, span), passed, strict=True):
                np.bitwise_or.at(state, batch.tail, masks)
                added += int(np.bitwise_count(masks).sum(dtype=np.int64))
        # fewer bits than were set, exactly if some bit was set again
        if int(np.bitwise_count(state).sum(dtype=np.int64)) != added:
            self._find_doubles(block, homes)
        self._check_complete(block, state, homes)

    def _drop(self, block: _ShardBlock, state: Masks, span: slice) -> int:
        """Before the step: what heads drop there does not count; how many bits that clears."""
        cleared = 0
        for batch in self._batches(block, span) if self._steps.restarts else ():
            fresh = self._steps.fresh[batch.numbers]
            head, masks = batch.head[fresh], batch.masks[fresh]
            at = np.unique(head)
            cleared += int(np.bitwise_count(state[at]).sum(dtype=np.int64))
            np.bitwise_and.at(state, head, ~masks)
            cleared -= int(np.bitwise_count(state[at]).sum(dtype=np.int64))
        return cleared

    def _find_doubles(self, block: _ShardBlock, homes: Int64Array) -> None:
        """Name the sends that carry away, towards home, what another send carries as well."""
        state = self._start(block, homes)
        for span in reversed(block.spans(self._steps)):
            passed = [batch.masks & state[batch.head] for batch in self._batches(block, span)]
            self._drop(block, state, span)
            for batch, masks in zip(self._batches(block, span), passed, strict=True):
                self._add_singly(block, state, batch, masks)

    def _add_singly(self, block: _ShardBlock, state: Masks, batch: _Batch, masks: Masks) -> None:
        """Add masks to the tails so that every overlap is seen: the k-th send of each place in round k."""
        order = np.argsort(batch.tail, kind="stable")
        places = batch.tail[order]
        starts = np.flatnonzero(np.append(True, places[1:] != places[:-1])[: len(places)])
        turn = np.arange(len(places)) - np.repeat(starts, np.diff(np.append(starts, len(places))))
        for k in range(int(turn.max(initial=-1)) + 1):
            now = order[turn == k]
            overlap = state[batch.tail[now]] & masks[now]
            wrong = np.flatnonzero(overlap)
            self._add_doubles(block, [batch.number(int(i)) for i in now[wrong]], overlap[wrong])
            state[batch.tail[now]] |= masks[now]

    def _add_doubles(self, block: _ShardBlock, numbers: list[int], overlap: Masks) -> None:
        self._found.add_all(
            ViolationKind.DOUBLE,
            list(zip(numbers, overlap, strict=True)),
            lambda one: (
                f"{self._send_text(one[0])}: what {self._tail(one[0])} has of {block.format_chunks(one[1])} reaches "
                "home by another send too, so it would be added twice"
            ),
        )

    def _check_complete(self, block: _ShardBlock, state: Masks, homes: Int64Array) -> None:
        rows = state.reshape(self._topology.n_nodes, block.n_shards)[self._ranks]
        if (rows == block.full).all():
            return
        steps, names = self._steps, self._topology.node_names

        def describe(cell: Int64Array) -> str:
            rank, shard = cell.tolist()
            chunks = block.format_chunks(block.full & ~rows[rank, shard])
            place = f"rank {rank} ({names[self._ranks[rank]]})"
            number = block.first + shard
            if steps.direction is Direction.BROADCAST:
                return f"broadcast steps, shard {number}: {place} never gets {chunks}"
            at_home = int(np.flatnonzero(self._ranks == homes[number])[0])
            home = f"rank {at_home} ({names[homes[number]]})"
            return f"reduce steps, shard {number}: what {place} contributes to {chunks} never reaches {home}"

        self._found.add_all(ViolationKind.DELIVERY, np.argwhere(rows != block.full), describe)
