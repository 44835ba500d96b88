"""The part of the verifier that follows chunks over the steps, as bit masks per node and shard.

Shares no code with the generators; `treadle.schedules.verify_steps` is the way in and says why it is exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int64Array
from treadle.schedules.collective import Collective
from treadle.schedules.forest import Direction
from treadle.schedules.steps import Steps
from treadle.schedules.violations import Findings, ViolationKind
from treadle.topologies.topology import Topology

Masks = NDArray[Any]
"""Unsigned integers; bit b stands for piece b of a block."""

_BATCH = 2**17  # sends worked on at once: their temporary arrays stay in the cache
_STATE_BYTES = 2**29  # most memory for the masks of one block
_SHOWN = 4  # runs of chunks that a message spells out
_TYPES = ((8, np.uint8), (16, np.uint16), (32, np.uint32), (64, np.uint64))


@dataclass(frozen=True)
class _Block:
    """Shards [first, first + n_shards) and up to 64 pieces of them that are followed at once.

    A piece is a run of chunks that no send begins or ends within: all its chunks share one fate.
    """

    first: int
    n_shards: int
    cuts: Int64Array
    """First chunk of each piece, and the end of the last one."""
    prefix: Masks
    """For c from 0 to P: the pieces that lie before chunk c."""
    is_all: bool
    """Whether the block has all shards and all pieces."""

    @property
    def full(self) -> Any:
        """The mask of all pieces."""
        return self.prefix[-1]

    def text(self, mask: Any) -> str:
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


def _blocks(steps: Steps, n_nodes: int) -> Iterator[_Block]:
    n_chunks = steps.n_chunks
    is_cut = np.zeros(n_chunks + 1, dtype=np.bool_)
    for ends in (steps.low, steps.high):
        is_cut[ends] = True
    is_cut[[0, n_chunks]] = True
    cuts = np.flatnonzero(is_cut)
    piece = np.cumsum(is_cut) - 1  # pieces that begin before chunk c; all of them end by c if c is a cut
    n_pieces = len(cuts) - 1
    for low in range(0, n_pieces, 64):
        width = min(64, n_pieces - low)
        dtype = next(kind for bits, kind in _TYPES if width <= bits)
        masks = np.array([(1 << bits) - 1 for bits in range(width + 1)], dtype=dtype)
        prefix = masks[np.clip(piece - low, 0, width)]
        n_shards = max(1, _STATE_BYTES // (n_nodes * masks.itemsize))
        for first in range(0, steps.n_shards, n_shards):
            yield _Block(
                first=first,
                n_shards=min(n_shards, steps.n_shards - first),
                cuts=cuts[low : low + width + 1],
                prefix=prefix,
                is_all=n_shards >= steps.n_shards and width == n_pieces,
            )


@dataclass(frozen=True)
class _Batch:
    """Some sends of a step, as far as they concern a block."""

    numbers: Int64Array
    tail: Int64Array  # places of the tails in the state
    head: Int64Array
    masks: Masks


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
        self._steps = steps
        self._found = found
        self._ranks = np.array(collective.ranks, dtype=np.int64)
        self._has_forwarders = bool(collective.forwarders)
        self._homes = self._ranks[steps.homes]

    def run(self) -> None:
        """Links first: only if all of them are usable, the chunks are followed."""
        if not self._check_links():
            return
        for block in _blocks(self._steps, self._topology.n_nodes):
            if self._steps.direction is Direction.BROADCAST:
                self._check_broadcast(block)
            else:
                self._check_reduce(block)

    def _check_links(self) -> bool:
        topology, link = self._topology, self._steps.link
        # a last, unusable entry stands for every link number that does not exist
        is_loop = np.append(topology.tails == topology.heads, False)
        is_switch = np.append(
            ~(topology.is_compute[topology.tails] & topology.is_compute[topology.heads]), False
        )
        unusable = is_loop | is_switch
        unusable[-1] = True
        wrong = np.flatnonzero(unusable[np.minimum(link, topology.n_links)])

        def describe(i: int) -> str:
            number = int(link[wrong[i]])
            if number >= topology.n_links:
                fault = f"the fabric has only links 0 to {topology.n_links - 1}"
            else:
                fault = "a self-loop carries nothing" if is_loop[number] else "a switch cannot hold chunks"
            return f"{self._send_text(int(wrong[i]))}: {fault}"

        self._found.add_all(ViolationKind.LINK, len(wrong), describe)
        return not wrong.size

    def _send_text(self, number: int) -> str:
        """Step, link and shard of a send."""
        steps = self._steps
        step = int(np.searchsorted(steps.step_offset, number, side="right")) - 1
        link = int(steps.link[number])
        ends = f" ({self._topology.link_name(link)})" if link < self._topology.n_links else ""
        return f"{steps.direction} step {step}, link {link}{ends}, shard {steps.shard[number]}"

    def _batches(self, block: _Block, span: slice) -> Iterator[_Batch]:
        steps, topology = self._steps, self._topology
        tails, heads = (ends.astype(np.int64) * block.n_shards for ends in (topology.tails, topology.heads))
        for start in range(span.start, span.stop, _BATCH):
            part = slice(start, min(start + _BATCH, span.stop))
            masks = block.prefix[steps.high[part]] ^ block.prefix[steps.low[part]]
            shard, link = steps.shard[part], steps.link[part]
            numbers = np.arange(part.start, part.stop)
            if not block.is_all:
                inside = np.flatnonzero(
                    (masks > 0) & (shard >= block.first) & (shard < block.first + block.n_shards)
                )
                masks, shard, link, numbers = masks[inside], shard[inside], link[inside], numbers[inside]
            local = shard - block.first
            yield _Batch(numbers, tails[link] + local, heads[link] + local, masks)

    def _start(self, block: _Block) -> Masks:
        """Masks with the block's shards whole at their homes, shape (nodes * shards,)."""
        state = np.zeros((self._topology.n_nodes, block.n_shards), dtype=block.prefix.dtype)
        shards = np.arange(block.n_shards)
        state[self._homes[block.first + shards], shards] = block.full
        return state.reshape(-1)

    def _check_broadcast(self, block: _Block) -> None:
        state = self._start(block)
        self._follow(block, state)
        self._check_complete(block, state)

    def _follow(self, block: _Block, state: Masks) -> None:
        """Run the steps: every read of a step sees what was there at its beginning."""
        for step in range(self._steps.n_steps):
            span = self._steps.span(step)
            for batch in self._batches(block, span):
                missing = batch.masks & ~state[batch.tail]
                if missing.any():
                    self._add_not_held(block, batch, missing)
            for batch in self._batches(block, span):
                np.bitwise_or.at(state, batch.head, batch.masks)

    def _add_not_held(self, block: _Block, batch: _Batch, missing: Masks) -> None:
        wrong = np.flatnonzero(missing)
        topology = self._topology

        def describe(i: int) -> str:
            number = int(batch.numbers[wrong[i]])
            tail = topology.node_names[topology.tails[self._steps.link[number]]]
            return f"{self._send_text(number)}: {tail} does not hold {block.text(missing[wrong[i]])} yet"

        self._found.add_all(ViolationKind.HELD, len(wrong), describe)

    def _check_reduce(self, block: _Block) -> None:
        if self._has_forwarders:
            arrived = np.zeros((self._topology.n_nodes, block.n_shards), dtype=block.prefix.dtype)
            arrived[self._ranks] = block.full
            self._follow(block, arrived.reshape(-1))
        state = self._start(block)
        added = block.n_shards * (len(block.cuts) - 1)
        for step in reversed(range(self._steps.n_steps)):
            span = self._steps.span(step)
            passed = [batch.masks & state[batch.head] for batch in self._batches(block, span)]
            for batch, masks in zip(self._batches(block, span), passed, strict=True):
                np.bitwise_or.at(state, batch.tail, masks)
                added += int(np.bitwise_count(masks).sum(dtype=np.int64))
        # fewer bits than were set, exactly if some bit was set again
        if int(np.bitwise_count(state).sum(dtype=np.int64)) != added:
            self._find_doubles(block)
        self._check_complete(block, state)

    def _find_doubles(self, block: _Block) -> None:
        """Name the sends that carry away, towards home, what another send carries as well."""
        state = self._start(block)
        for step in reversed(range(self._steps.n_steps)):
            span = self._steps.span(step)
            passed = [batch.masks & state[batch.head] for batch in self._batches(block, span)]
            for batch, masks in zip(self._batches(block, span), passed, strict=True):
                self._add_singly(block, state, batch, masks)

    def _add_singly(self, block: _Block, state: Masks, batch: _Batch, masks: Masks) -> None:
        """Add masks to the tails so that every overlap is seen: the k-th send of each place in round k."""
        order = np.argsort(batch.tail, kind="stable")
        places = batch.tail[order]
        starts = np.flatnonzero(np.append(True, places[1:] != places[:-1])[: len(places)])
        turn = np.arange(len(places)) - np.repeat(starts, np.diff(np.append(starts, len(places))))
        for k in range(int(turn.max(initial=-1)) + 1):
            now = order[turn == k]
            overlap = state[batch.tail[now]] & masks[now]
            wrong = np.flatnonzero(overlap)
            self._add_doubles(block, batch.numbers[now[wrong]], overlap[wrong])
            state[batch.tail[now]] |= masks[now]

    def _add_doubles(self, block: _Block, numbers: Int64Array, overlap: Masks) -> None:
        topology = self._topology

        def describe(i: int) -> str:
            number = int(numbers[i])
            tail = topology.node_names[topology.tails[self._steps.link[number]]]
            return (
                f"{self._send_text(number)}: what {tail} has of {block.text(overlap[i])} reaches home by "
                f"another send too, so it would be added twice"
            )

        self._found.add_all(ViolationKind.DOUBLE, len(numbers), describe)

    def _check_complete(self, block: _Block, state: Masks) -> None:
        rows = state.reshape(self._topology.n_nodes, block.n_shards)[self._ranks]
        if (rows == block.full).all():
            return
        ranks, shards = np.nonzero(rows != block.full)
        steps, names = self._steps, self._topology.node_names

        def describe(i: int) -> str:
            rank, shard = int(ranks[i]), int(shards[i])
            chunks = block.text(block.full & ~rows[rank, shard])
            place = f"rank {rank} ({names[self._ranks[rank]]})"
            number = block.first + shard
            if steps.direction is Direction.BROADCAST:
                return f"broadcast steps, shard {number}: {place} never gets {chunks}"
            home = f"rank {steps.homes[number]} ({names[self._homes[number]]})"
            return f"reduce steps, shard {number}: what {place} contributes to {chunks} never reaches {home}"

        self._found.add_all(ViolationKind.DELIVERY, len(ranks), describe)
