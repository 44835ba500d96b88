"""A program carried out in steps, each a group of sends and receives: for any network, without a kernel.

Step s has every message whose data are there after step s - 1, and each pair of ranks has one packed message
in it. What arrives waits in memory of its own until its turn, so that all ranks go through the same groups in
the same order and none waits for another in a circle.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from treadle.errors import ScheduleError
from treadle.program.program import Buffer, Program
from treadle.runtime.device.lane_parts import PartKind, PartOperation, cut_into_parts
from treadle.runtime.device.sized_lanes import place_in
from treadle.torch.group_engine import TensorCall

_RECEIVES = (PartKind.RECEIVE, PartKind.RECEIVE_REDUCE)


@dataclass(frozen=True, slots=True)
class LocalStep:
    """Something a rank does by itself: what it takes, and what part of which buffers."""

    kind: PartKind
    part: int
    source: Buffer
    target: Buffer
    message: tuple[int, int] = (-1, -1)
    """Peer, and which of its pieces in this or an earlier step."""
    arrived: int = 0
    """In which step."""


@dataclass(frozen=True)
class RankSteps:
    """What one rank does.

    Parameters
    ----------
    program : Program
    rank : int
    bounds : tuple of int
        Part i is chunks bounds[i] to bounds[i + 1] - 1.
    sends, receives : tuple of mappings of int to tuple
        Of each step and peer: (buffer, part) of the pieces of its message; of receives the parts.
    local : tuple of tuples of LocalStep
        After each step's messages; the first before any.
    """

    program: Program
    rank: int
    bounds: tuple[int, ...]
    sends: tuple[dict[int, tuple[tuple[Buffer, int], ...]], ...]
    receives: tuple[dict[int, tuple[int, ...]], ...]
    local: tuple[tuple[LocalStep, ...], ...]


def steps_of(program: Program, rank: int) -> RankSteps:
    """One rank's steps; ScheduleError if the program cannot be executed."""
    operations, bounds = cut_into_parts(program)
    stage = _stages(operations)
    n_steps = max(stage, default=0) + 1
    sends: list[dict[int, list[tuple[Buffer, int]]]] = [defaultdict(list) for _ in range(n_steps + 1)]
    receives: list[dict[int, list[int]]] = [defaultdict(list) for _ in range(n_steps + 1)]
    piece: dict[int, int] = {}
    for number, one in enumerate(operations):  # in the sender's order at both ends
        if one.kind is not PartKind.SEND:
            continue
        peer = operations[one.partner].rank
        if one.rank == rank:
            sends[stage[number]][peer].append((one.source, one.part))
        if peer == rank:
            piece[one.partner] = len(receives[stage[number]][one.rank])
            receives[stage[number]][one.rank].append(one.part)
    local: list[list[LocalStep]] = [[] for _ in range(n_steps + 1)]
    for number, one in enumerate(operations):
        if one.rank != rank or one.kind is PartKind.SEND:
            continue
        if one.kind in _RECEIVES:
            message = (operations[one.partner].rank, piece[number])
            step = LocalStep(one.kind, one.part, one.source, one.target, message, stage[one.partner])
        else:
            step = LocalStep(one.kind, one.part, one.source, one.target)
        local[stage[number]].append(step)
    return RankSteps(
        program,
        rank,
        tuple(bounds),
        tuple({peer: tuple(pieces) for peer, pieces in one.items()} for one in sends),
        tuple({peer: tuple(parts) for peer, parts in one.items()} for one in receives),
        tuple(map(tuple, local)),
    )


def _stages(operations: Sequence[PartOperation]) -> list[int]:
    """The step in which each operation is done: a message one after all that its data wait for."""
    stage = [-1] * len(operations)
    followers: dict[int, list[int]] = defaultdict(list)
    missing = [0] * len(operations)
    for number, one in enumerate(operations):
        before = {*one.waits, one.partner} if one.kind in _RECEIVES else set(one.waits)
        missing[number] = len(before)
        for other in before:
            followers[other].append(number)
    ready = [number for number, count in enumerate(missing) if not count]
    for number in ready:  # grows on the way
        one = operations[number]
        before = {*one.waits, one.partner} if one.kind in _RECEIVES else set(one.waits)
        latest = max((stage[other] for other in before), default=0)
        stage[number] = latest + (one.kind is PartKind.SEND)
        for follower in followers[number]:
            missing[follower] -= 1
            if not missing[follower]:
                ready.append(follower)
    if len(ready) < len(operations):
        raise ScheduleError("program: deadlock: operations wait for one another in a circle")
    return stage


class GroupedSteps:
    """Carries out steps over a process group that can send and receive, such as NCCL's.

    Parameters
    ----------
    group : ProcessGroup
    """

    def __init__(self, group: Any) -> None:
        self._group = group

    def run(self, steps: RankSteps, call: TensorCall) -> None:
        """Carry out a collective; on GPUs its work is put on the caller's stream.

        Parameters
        ----------
        steps : RankSteps
            Of the call's program.
        call : TensorCall
        """
        program, count = steps.program, call.count
        call = call.scaled(program.n_ranks)
        ends = [program.element(chunk, count) for chunk in steps.bounds]
        areas = _Areas(steps, call, ends)
        arrived: dict[tuple[int, int], list[Tensor]] = {}
        for number, local in enumerate(steps.local):
            self._exchange(number, steps, areas, arrived)
            for one in local:
                areas.do(one, arrived)
        if call.reduction is not None and call.root in (-1, steps.rank):
            call.reduction.finish(call.target, program.n_ranks)

    def _exchange(
        self, number: int, steps: RankSteps, areas: _Areas, arrived: dict[tuple[int, int], list[Tensor]]
    ) -> None:
        sends, receives = steps.sends[number], steps.receives[number]
        works, rooms = [], []
        outgoing = [
            (peer, torch.cat([areas.piece(buffer, part) for buffer, part in pieces]))
            for peer, pieces in sends.items()
        ]
        for peer, parts in receives.items():
            lengths = [areas.length(part) for part in parts]
            rooms.append((peer, lengths, areas.empty(sum(lengths))))
        outgoing = [(peer, data) for peer, data in outgoing if data.numel()]
        incoming = [(peer, room) for peer, _, room in rooms if room.numel()]
        if outgoing or incoming:
            is_grouped = areas.is_on_gpu
            if is_grouped:
                self._group._start_coalescing(areas.device)
            works += [self._group.recv([room], peer, number) for peer, room in incoming]
            works += [self._group.send([data], peer, number) for peer, data in outgoing]
            if is_grouped:
                works = [self._group._end_coalescing(areas.device)]
            for work in works:
                work.wait()
        for peer, lengths, room in rooms:
            arrived[number, peer] = list(room.split(lengths))


class _Areas:
    """The buffers of a rank, by parts."""

    def __init__(self, steps: RankSteps, call: TensorCall, ends: Sequence[int]) -> None:
        program, rank = steps.program, steps.rank
        self._ends, self._call = ends, call
        self._bounds = steps.bounds
        by_chunk = dict(zip(steps.bounds, ends, strict=True))
        self._places = {
            buffer: place_in(program, rank, buffer, lambda chunk: by_chunk[chunk]) for buffer in Buffer
        }
        scratch = sum(
            by_chunk[past] - by_chunk[first] for first, past in program.ranges(rank, Buffer.SCRATCH)
        )
        self._areas = {
            Buffer.INPUT: call.source,
            Buffer.OUTPUT: call.target,
            Buffer.SCRATCH: self.empty(scratch if program.uses_scratch(rank) else 0),
        }

    @property
    def device(self) -> torch.device:
        """Of the tensors."""
        return self._call.target.device

    @property
    def is_on_gpu(self) -> bool:
        """Whether sends and receives must stand in a group."""
        return bool(self._call.target.is_cuda)

    def length(self, part: int) -> int:
        """Elements of a part."""
        return self._ends[part + 1] - self._ends[part]

    def empty(self, count: int) -> Tensor:
        """Elements of the call's type, beside its tensors."""
        return torch.empty(count, dtype=self._call.target.dtype, device=self.device)

    def piece(self, buffer: Buffer, part: int) -> Tensor:
        """A part of a buffer."""
        start = self._places[buffer](self._bounds[part])
        return self._areas[buffer][start : start + self.length(part)]

    def do(self, step: LocalStep, arrived: dict[tuple[int, int], list[Tensor]]) -> None:
        """Copy, or take what has arrived, or add it."""
        target = self.piece(step.target, step.part)
        if step.kind is PartKind.COPY:
            target.copy_(self.piece(step.source, step.part))
            return
        peer, piece = step.message
        data = arrived[step.arrived, peer][piece]
        if step.kind is PartKind.RECEIVE:
            target.copy_(data)
        else:
            assert self._call.reduction is not None
            self._call.reduction.combine(self.piece(step.source, step.part), data, target)
