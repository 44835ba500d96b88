"""Method of a call with GPU tensors: thread blocks, steps over NCCL, or NCCL's own collective.

Steps are groups of sends and receives, for any network and without a kernel. Step s has every message whose
data are there after step s - 1, and each pair of ranks has one packed message in it. What arrives waits in
memory of its own until its turn, so that all ranks go through the same groups in the same order, without a
cycle of waits.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch._C._distributed_c10d import PrefixStore, Store, Work
from torch.distributed import DistBackendError
from torch.futures import Future

from treadle.errors import TreadleError
from treadle.program.program import Buffer, Program
from treadle.runtime.device.block_nodes import RECEIVES
from treadle.runtime.device.block_parts import PartKind, PartOperation, cut_into_parts
from treadle.runtime.memory import Layout, position_in
from treadle.runtime.order import topological_order
from treadle.schedules.collective import CollectiveKind
from treadle.torch.agreement import CallAgreement
from treadle.torch.gpu import gpu_streams as streams
from treadle.torch.gpu.gpu_engine import GpuEngine
from treadle.torch.gpu.gpu_settings import GpuMethod
from treadle.torch.group_engine import Engine, NoPlanError, TensorCall
from treadle.torch.plans import Membership, PlanSource
from treadle.torch.settings import Settings

LOGGER = logging.getLogger("treadle.torch")


def nccl_group(store: Store, group: Membership) -> Any:
    """NCCL's process group of the same ranks; None if PyTorch has no NCCL or no GPU is present."""
    if not torch.cuda.is_available() or not torch.distributed.is_nccl_available():
        return None
    from torch._C._distributed_c10d import ProcessGroupNCCL  # not in builds without CUDA

    options = ProcessGroupNCCL.Options()
    options._timeout = group.timeout
    return ProcessGroupNCCL(PrefixStore("nccl/", store), group.rank, len(group.places), options)


class GpuCalls:
    """Has the parts of `Engine` that collectives need, for tensors of GPUs.

    Parameters
    ----------
    store : Store
        Of the group alone.
    nccl : ProcessGroup, optional
        Can send and receive tensors of GPUs.
    """

    def __init__(self, store: Store, group: Membership, settings: Settings, nccl: Any) -> None:
        self._group, self._gpu = group, settings.gpu
        self._lanes = GpuEngine(PrefixStore("lanes/", store), group, settings, settings.gpu)
        self._source = PlanSource(PrefixStore("steps/", store), group, settings)
        self._run_steps = None if nccl is None else partial(run_steps, nccl)
        # signatures are exchanged through the host's memory
        self._engine = Engine(PrefixStore("signatures/", store), group, settings)
        self.calls = CallAgreement(
            PrefixStore("calls/", store), group, self._engine.gather, self._engine.abort
        )
        self._steps: dict[int, RankSteps] = {}
        self._told: set[CollectiveKind] = set()

    def check(self) -> None:
        """See `GpuEngine.check`."""
        self._lanes.check()

    def run(self, call: TensorCall) -> None:
        """Put a collective on the caller's stream.

        Raises
        ------
        NoPlanError
            If NCCL's own collective must do it; at all ranks.
        DistBackendError
            If a launch failed, or thread blocks were requested and are not possible.
        """
        try:
            self._lanes.run(call)
        except NoPlanError as error:
            reason = str(error)
        else:
            return
        if self._gpu.way is GpuMethod.LANES:
            raise DistBackendError(
                f"treadle: {call.kind} in group {self._group.name} cannot run as a thread-block program, "
                f"which TREADLE_GPU requires: {reason}"
            )
        is_between_hosts = self._gpu.way is GpuMethod.AUTO and self._lanes.is_between_hosts
        if self._run_steps is None or not (is_between_hosts or self._gpu.way is GpuMethod.STEPS):
            raise NoPlanError(reason)
        try:
            found = self._source.program(call.kind, call.root, call.size_bytes, in_place=call.in_place)
            program = found.program  # which is kept
            if id(program) not in self._steps:
                self._steps[id(program)] = steps_of(program, self._group.rank)
        except TreadleError as error:
            raise NoPlanError(str(error)) from None
        if call.kind not in self._told and self._group.rank == 0:
            LOGGER.info(
                "group %s: %s on GPUs by sends and receives in groups, a launch and more for each step: %s",
                *(self._group.name, call.kind, reason),
            )
        self._told.add(call.kind)
        self._run_steps(self._steps[id(program)], call)

    def empty(self, size: int, device: int) -> Tensor:
        """See `GpuEngine.empty`."""
        return self._lanes.empty(size, device)

    def close(self) -> None:
        """Give memory of peers back."""
        self.calls.close()
        self._engine.close()
        self._lanes.close()


class GpuWork(Work):
    """A collective on a stream, as torch sees it; waiting for it waits for nothing, as the stream does that.

    Parameters
    ----------
    tensors : list of Tensor
        That will hold the result.
    """

    def __init__(self, calls: GpuCalls, tensors: list[Tensor]) -> None:
        super().__init__()
        self._calls, self._tensors = calls, tensors

    def wait(self, timeout: object = None) -> bool:  # noqa: ARG002 - torch's; the kernel has a limit of its own
        """Say whether a launch is known to have failed.

        Raises
        ------
        DistBackendError
            If one is, with collective, rank and peer.
        """
        self._calls.check()
        return True

    def is_completed(self) -> bool:
        """Whether it is on the stream: always."""
        return True

    def is_success(self) -> bool:
        """The same."""
        return True

    def result(self) -> list[Tensor]:
        """The tensors that will hold the result."""
        return self._tensors

    def synchronize(self) -> None:
        """Same as `wait`."""
        self.wait()

    def get_future(self) -> Future[list[Tensor]]:
        """A future whose callbacks run on streams that follow the caller's."""
        devices = streams.devices_of(self._tensors)
        future: Future[list[Tensor]] = Future(devices=devices) if devices else Future()
        future.set_result(self._tensors)
        return future


Arrival = tuple[int, int, int]
"""Step and peer of a message, and which of its parts."""


@dataclass(frozen=True)
class RankSteps:
    """Steps of one rank.

    Parameters
    ----------
    bounds : sequence of int
        Part i is chunks bounds[i] to bounds[i + 1] - 1.
    sends, receives : sequence of mappings of int to sequence
        (buffer, part) of the parts of each message, by step and peer; the parts only for receives.
    local : sequence of sequences of (PartOperation, Arrival or None)
        What the rank does by itself, perhaps with data that have arrived, after each step's messages; the
        first before any.
    """

    program: Program
    rank: int
    bounds: Sequence[int]
    sends: Sequence[Mapping[int, Sequence[tuple[Buffer, int]]]]
    receives: Sequence[Mapping[int, Sequence[int]]]
    local: Sequence[Sequence[tuple[PartOperation, Arrival | None]]]


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
    local: list[list[tuple[PartOperation, Arrival | None]]] = [[] for _ in range(n_steps + 1)]
    for number, one in enumerate(operations):
        if one.rank == rank and one.kind is not PartKind.SEND:
            arrived = None
            if one.kind in RECEIVES:
                arrived = stage[one.partner], operations[one.partner].rank, piece[number]
            local[stage[number]].append((one, arrived))
    return RankSteps(program, rank, bounds, sends, receives, local)


def _stages(operations: Sequence[PartOperation]) -> list[int]:
    """The step in which each operation is done: a message one after all that its data wait for."""
    before = {
        number: {*one.waits, one.partner} if one.kind in RECEIVES else set(one.waits)
        for number, one in enumerate(operations)
    }
    stage = [0] * len(operations)
    for number in topological_order(before):
        latest = max((stage[other] for other in before[number]), default=0)
        stage[number] = latest + (operations[number].kind is PartKind.SEND)
    return stage


def run_steps(group: Any, steps: RankSteps, call: TensorCall) -> None:
    """Carry out a collective by steps; on GPUs its work is put on the caller's stream.

    Parameters
    ----------
    group : ProcessGroup
        Can send and receive such tensors, as NCCL's can.
    steps : RankSteps
        Of the call's program.
    """
    program, rank = steps.program, steps.rank
    call = call.scaled(program.n_ranks)
    layout = Layout(program, call.count)
    ends = [program.element(chunk, call.count) for chunk in steps.bounds]
    positions = [position_in(layout.spans(rank, buffer)) for buffer in Buffer]
    scratch = layout.length(rank, Buffer.SCRATCH) if program.uses_scratch(rank) else 0
    areas = (call.source, call.target, call.target.new_empty(scratch))
    arrived: dict[tuple[int, int], Sequence[Tensor]] = {}

    def part_of(buffer: Buffer, part: int) -> Tensor:
        start = positions[buffer](ends[part])
        return areas[buffer][start : start + ends[part + 1] - ends[part]]

    for number, local in enumerate(steps.local):
        messages: list[tuple[Callable[..., Work], int, Tensor]] = []
        for peer, parts in steps.receives[number].items():
            lengths = [ends[part + 1] - ends[part] for part in parts]
            room = call.target.new_empty(sum(lengths))
            arrived[number, peer] = room.split(lengths)
            messages.append((group.recv, peer, room))
        for peer, pieces in steps.sends[number].items():
            messages.append((group.send, peer, torch.cat([part_of(*piece) for piece in pieces])))
        _exchange(group, number, [message for message in messages if message[2].numel()])
        for one, arrival in local:
            target, source = part_of(one.target, one.part), part_of(one.source, one.part)
            data = source if arrival is None else arrived[arrival[:2]][arrival[2]]
            if one.kind is PartKind.RECEIVE_REDUCE:
                assert call.reduction is not None
                call.reduction.combine(source, data, target)
            else:
                target.copy_(data)
    if call.reduction is not None and call.root in (-1, rank):
        call.reduction.finish(call.target, program.n_ranks)


def _exchange(group: Any, step: int, messages: Sequence[tuple[Callable[..., Work], int, Tensor]]) -> None:
    """Send and receive, on GPUs in one group of NCCL's: one by one they could wait for each other."""
    device = messages[0][2].device if messages and messages[0][2].is_cuda else None
    if device is not None:
        group._start_coalescing(device)
    works = [start([data], peer, step) for start, peer, data in messages]
    if device is not None:
        works = [group._end_coalescing(device)]
    for work in works:
        work.wait()
