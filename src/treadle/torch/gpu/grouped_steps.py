"""A program carried out in steps, each a group of sends and receives: for any network, without a kernel.

Step s has every message whose data are there after step s - 1, and each pair of ranks has one packed message
in it. What arrives waits in memory of its own until its turn, so that all ranks go through the same groups in
the same order and none waits for another in a circle.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch._C._distributed_c10d import Work

from treadle.errors import ScheduleError
from treadle.program.program import Buffer, Program
from treadle.runtime.device.block_parts import PartKind, PartOperation, cut_into_parts
from treadle.runtime.device.sized_blocks import offset_in
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
    bounds : sequence of int
        Part i is chunks bounds[i] to bounds[i + 1] - 1.
    sends, receives : sequence of mappings of int to sequence
        (buffer, part) of the pieces of each message, by step and peer; the parts only for receives.
    local : sequence of sequences of LocalStep
        After each step's messages; the first before any.
    """

    program: Program
    rank: int
    bounds: Sequence[int]
    sends: Sequence[Mapping[int, Sequence[tuple[Buffer, int]]]]
    receives: Sequence[Mapping[int, Sequence[int]]]
    local: Sequence[Sequence[LocalStep]]


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
        if one.rank == rank and one.kind is not PartKind.SEND:
            arrival: tuple[tuple[int, int], int] | tuple[()] = ()
            if one.kind in _RECEIVES:
                arrival = (operations[one.partner].rank, piece[number]), stage[one.partner]
            local[stage[number]].append(LocalStep(one.kind, one.part, one.source, one.target, *arrival))
    return RankSteps(program, rank, bounds, sends, receives, local)


def _stages(operations: Sequence[PartOperation]) -> list[int]:
    """The step in which each operation is done: a message one after all that its data wait for."""
    stage = [-1] * len(operations)
    followers: dict[int, list[int]] = defaultdict(list)
    before = [{*one.waits, one.partner} if one.kind in _RECEIVES else set(one.waits) for one in operations]
    for number, others in enumerate(before):
        for other in others:
            followers[other].append(number)
    missing = list(map(len, before))
    ready = [number for number, count in enumerate(missing) if not count]
    for number in ready:  # grows on the way
        latest = max((stage[other] for other in before[number]), default=0)
        stage[number] = latest + (operations[number].kind is PartKind.SEND)
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
        program = steps.program
        call = call.scaled(program.n_ranks)
        areas = _Areas(steps, call)
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
        messages: list[tuple[Callable[..., Work], int, Tensor]] = []
        for peer, parts in steps.receives[number].items():
            lengths = [areas.length(part) for part in parts]
            room = areas.empty(sum(lengths))
            arrived[number, peer] = list(room.split(lengths))
            messages.append((self._group.recv, peer, room))
        for peer, pieces in steps.sends[number].items():
            messages.append((self._group.send, peer, torch.cat([areas.part_of(*piece) for piece in pieces])))
        messages = [message for message in messages if message[2].numel()]
        is_grouped = areas.is_on_gpu and bool(messages)
        if is_grouped:
            self._group._start_coalescing(areas.device)
        works = [start([data], peer, number) for start, peer, data in messages]
        if is_grouped:
            works = [self._group._end_coalescing(areas.device)]
        for work in works:
            work.wait()


class _Areas:
    """The buffers of a rank, by parts."""

    def __init__(self, steps: RankSteps, call: TensorCall) -> None:
        program, rank = steps.program, steps.rank
        self._ends = [program.element(chunk, call.count) for chunk in steps.bounds]
        self._call, self._bounds = call, steps.bounds
        self.device = call.target.device
        self.is_on_gpu = bool(call.target.is_cuda)  # sends and receives must be in a group then
        by_chunk = dict(zip(steps.bounds, self._ends, strict=True))
        self._places = {
            buffer: offset_in(program, rank, buffer, lambda chunk: by_chunk[chunk]) for buffer in Buffer
        }
        scratch = sum(
            by_chunk[past] - by_chunk[first] for first, past in program.ranges(rank, Buffer.SCRATCH)
        )
        self._areas = {
            Buffer.INPUT: call.source,
            Buffer.OUTPUT: call.target,
            Buffer.SCRATCH: self.empty(scratch if program.uses_scratch(rank) else 0),
        }

    def length(self, part: int) -> int:
        """Elements of a part."""
        return self._ends[part + 1] - self._ends[part]

    def empty(self, count: int) -> Tensor:
        """Elements of the call's type, beside its tensors."""
        return torch.empty(count, dtype=self._call.target.dtype, device=self.device)

    def part_of(self, buffer: Buffer, part: int) -> Tensor:
        """A part of a buffer."""
        start = self._places[buffer](self._bounds[part])
        return self._areas[buffer][start : start + self.length(part)]

    def do(self, step: LocalStep, arrived: dict[tuple[int, int], list[Tensor]]) -> None:
        """Copy, or take what has arrived, or add it."""
        target = self.part_of(step.target, step.part)
        peer, piece = step.message
        data = self.part_of(step.source, step.part) if peer < 0 else arrived[step.arrived, peer][piece]
        if step.kind is not PartKind.RECEIVE_REDUCE:
            target.copy_(data)
        else:
            assert self._call.reduction is not None
            self._call.reduction.combine(self.part_of(step.source, step.part), data, target)
