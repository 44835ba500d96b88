"""Runs collectives on tensors of GPUs: a kernel on the caller's stream for each call, or sends and receives.

Nothing here waits for the GPU. What was not there before (plans, memory of peers, tables of a new size) is
made at the first call that needs it, at all ranks alike.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from dataclasses import dataclass, replace
from datetime import timedelta

import torch
from torch._C._distributed_c10d import PrefixStore, Store
from torch.distributed import DistBackendError

from treadle.errors import ScheduleError, TreadleError
from treadle.planning.measuring.lane_costs import lane_costs
from treadle.program.program import Program
from treadle.runtime.data import Reduction
from treadle.runtime.device.lane_lowering import lower_to_lanes
from treadle.runtime.device.lane_program import DeviceProtocol
from treadle.runtime.device.lane_sizes import (
    LaneChoice,
    LaneFigures,
    LaneLimits,
    choose_lanes,
    figures_of,
    leaving_rate,
)
from treadle.runtime.device.rank_lanes import AdmittedLanes, PreparedLanes, RankBuffers, RankLanes
from treadle.torch.gpu import gpu_streams as streams
from treadle.torch.gpu.asking_switches import LEAST_LANES, SwitchWindow
from treadle.torch.gpu.gpu_settings import GpuSettings, GpuWay
from treadle.torch.gpu.opening import NoLanesError, StoreExchange, open_lanes
from treadle.torch.group_engine import NoPlanError, TensorCall
from treadle.torch.plans import Membership, PlanSource, SizedProgram
from treadle.torch.settings import Settings
from treadle.units import format_size

LOGGER = logging.getLogger("treadle.torch")

_ELEMENTS = {
    torch.float32: 0,
    torch.float16: 1,
    torch.bfloat16: 2,
    torch.int32: 3,
    torch.int64: 4,
}
_BYTES = 5
"""Code of the kernel that copies bytes."""
_MOST_PREPARED = 256


class GpuEngine:
    """One rank's side of a group's collectives on one GPU; calls come in the same order at all ranks.

    Parameters
    ----------
    store : Store
        Of the group alone.
    group : Membership
    settings : Settings
    gpu : GpuSettings
    """

    def __init__(self, store: Store, group: Membership, settings: Settings, gpu: GpuSettings) -> None:
        self._store, self._group, self._gpu = store, group, gpu
        self._source = PlanSource(PrefixStore("gpu-plans/", store), group, settings)
        self._lanes: RankLanes | None = None
        self._refusal = "TREADLE_GPU says so" if gpu.way in (GpuWay.NCCL, GpuWay.STEPS) else ""
        self._room, self._is_between_hosts = 0, False
        self._figures: dict[int, LaneFigures] = {}
        self._window: SwitchWindow | None = None
        self._admitted: dict[tuple[int, DeviceProtocol, int, bool, int], AdmittedLanes] = {}
        self._prepared: OrderedDict[tuple[int, int, int, int], tuple[PreparedLanes, bool]] = OrderedDict()
        self._told: set[tuple[object, ...]] = set()

    @property
    def is_between_hosts(self) -> bool:
        """Whether what keeps lanes from being used is that ranks are on several hosts."""
        return self._is_between_hosts

    def check(self) -> None:
        """Raise DistBackendError if a launch is known to have given up waiting."""
        words = "" if self._lanes is None else self._lanes.failure()
        if words:
            raise DistBackendError(
                f"treadle: group {self._group.name}: {words}; the group cannot be used any more: end this "
                f"process, or destroy the process group and make it again"
            )

    def run(self, call: TensorCall) -> None:
        """Put a collective on the caller's stream.

        Raises
        ------
        NoPlanError
            If it cannot go by lanes; at all ranks alike.
        DistBackendError
            If an earlier launch has failed, or this one is refused.
        """
        self.check()
        kernel = _kernel_of(call)
        lanes = self._open(streams.device_of(call.target))
        try:
            found = self._source.program(call.kind, call.root, call.size_bytes, in_place=call.in_place)
            choice = self._choice(found, call.size_bytes)
            admitted, buffers, choice = self._asking(lanes, call, kernel, choice) or (
                self._admit(lanes, found.program, choice, averages=kernel.reduction is Reduction.AVG),
                RankBuffers((call.source.data_ptr(), call.target.data_ptr())),
                choice,
            )
        except TreadleError as error:
            raise NoPlanError(str(error)) from None
        try:
            ready = self._ready(lanes, admitted, choice, kernel)
            lanes.launch(
                ready,
                buffers,
                kernel.reduction,
                threads=choice.threads,
                stream=streams.stream_of(call.target),
            )
        except ScheduleError as error:
            raise DistBackendError(f"treadle: {call.kind} in group {self._group.name}: {error}") from None
        self._tell(call, choice, found, asks=any(block is not None for block in buffers.blocks))

    def _open(self, device: int) -> RankLanes:
        if self._refusal:
            raise NoPlanError(self._refusal)
        if self._lanes is None:
            group = self._group
            self._refuse_capture()
            exchange = StoreExchange(self._store, group.rank, len(group.places), group.timeout)
            limit_s = group.timeout / timedelta(seconds=1)
            try:
                self._lanes, self._room = open_lanes(
                    exchange, group.rank, device, self._gpu, limit_s=limit_s, store=self._store
                )
            except NoLanesError as error:
                self._refusal, self._is_between_hosts = str(error), error.is_between_hosts
                raise NoPlanError(self._refusal) from None
            if group.rank == 0:
                LOGGER.info("group %s: memory of peers by %s", group.name, self._lanes.memory.words)
            self._window = SwitchWindow(
                self._lanes.memory, self._gpu.window_bytes, before=self._refuse_capture
            )
        return self._lanes

    def _refuse_capture(self) -> None:
        if streams.is_capturing():
            raise DistBackendError(
                f"treadle: group {self._group.name} makes its memory at the first call that needs it, which "
                "cannot be in a graph that is captured: call the collective before"
            )

    def _asking(
        self, lanes: RankLanes, call: TensorCall, kernel: LaneKernel, choice: LaneChoice
    ) -> tuple[AdmittedLanes, RankBuffers, LaneChoice] | None:
        """Lanes that ask switches, their buffers and how many there are.

        None where the call goes from rank to rank.
        """
        assert self._window is not None
        averages = kernel.reduction is Reduction.AVG
        if self._gpu.lanes is None and self._room > 1:
            choice = replace(choice, lanes=max(LEAST_LANES, choice.lanes))
        found = self._source.program(call.kind, call.root, call.size_bytes, in_place=False)
        asked = self._window.asking(
            found, choice, call.size_bytes, averages=averages, can_sum=kernel.can_switch_sum
        )
        if asked.lanes is None:
            self._tell_refusal(call, asked.refusal)
            return None
        key = (id(found.program), choice.protocol, choice.lanes, averages, id(asked.lanes))
        if key not in self._admitted:
            self._admitted[key] = lanes.admit(asked.lanes)
        buffers = self._window.buffers(found.program, call, kernel.count, kernel.element_bytes)
        return self._admitted[key], buffers, choice

    def _tell_refusal(self, call: TensorCall, refusal: str) -> None:
        key = (call.kind, refusal)
        if refusal and key not in self._told and self._group.rank == 0:
            LOGGER.info(
                "group %s: %s of %s on GPUs goes from rank to rank, where its plan asks switches: %s",
                self._group.name,
                call.kind,
                format_size(call.size_bytes),
                refusal,
            )
        self._told.add(key)

    def _choice(self, found: SizedProgram, size_bytes: int) -> LaneChoice:
        if id(found.program) not in self._figures:
            self._figures[id(found.program)] = figures_of(found.program)
        gpu = self._gpu
        limits = LaneLimits(
            tuple(DeviceProtocol) if gpu.protocol is None else (gpu.protocol,),
            gpu.lanes,
            gpu.threads,
            gpu.slice_bytes,
            self._room,
        )
        return choose_lanes(
            self._figures[id(found.program)],
            size_bytes,
            lane_costs(gpu.cost_model),
            rate_bytes_per_s=leaving_rate(found.topology),
            limits=limits,
        )

    def _admit(
        self, lanes: RankLanes, program: Program, choice: LaneChoice, *, averages: bool
    ) -> AdmittedLanes:
        key = (id(program), choice.protocol, choice.lanes, averages, 0)  # the source keeps the program
        if key not in self._admitted:
            made = lower_to_lanes(program, choice.protocol, lanes=choice.lanes, averages=averages, reached=())
            self._admitted[key] = lanes.admit(made)
        return self._admitted[key]

    def _ready(
        self, lanes: RankLanes, admitted: AdmittedLanes, choice: LaneChoice, kernel: LaneKernel
    ) -> PreparedLanes:
        key = (admitted.number, kernel.count, kernel.element, choice.slice_bytes)
        ready, is_kept = self._prepared.get(key, (None, False))
        if ready is None:
            ready = lanes.prepare(
                admitted,
                kernel.count,
                element=kernel.element,
                element_bytes=kernel.element_bytes,
                slice_bytes=choice.slice_bytes,
            )
            wrong = lanes.prove(ready)
            if wrong:
                raise ScheduleError(f"lanes are not right: {wrong[0]}")
        self._prepared[key] = ready, is_kept or streams.is_capturing()
        self._prepared.move_to_end(key)
        if len(self._prepared) > _MOST_PREPARED:
            old = next((one for one, (_, kept) in self._prepared.items() if not kept and one != key), None)
            if old is not None:  # freeing memory of a GPU waits for what uses it
                lanes.drop(self._prepared.pop(old)[0])
        return ready

    def _tell(self, call: TensorCall, choice: LaneChoice, found: SizedProgram, *, asks: bool) -> None:
        key = (call.kind, id(found), choice.protocol, choice.lanes, choice.threads, asks)
        if key in self._told:
            return
        self._told.add(key)
        if self._group.rank == 0:
            LOGGER.info(
                "group %s: %s of %s on GPUs by lanes%s: protocol %s, at most %d blocks of %d threads, "
                "slices of %s, by cost model %s",
                self._group.name,
                call.kind,
                format_size(call.size_bytes),
                " that ask switches" if asks else "",
                choice.protocol,
                choice.lanes,
                choice.threads,
                format_size(choice.slice_bytes),
                self._gpu.cost_model,
            )

    def close(self) -> None:
        """Give memory of peers back."""
        if self._lanes is not None:
            self._lanes.close()
            self._lanes = self._window = None
        self._refusal = "the group is closed"


@dataclass(frozen=True)
class LaneKernel:
    """What a call's kernel sees: code and bytes of an element, how many, and how they are combined."""

    element: int
    element_bytes: int
    count: int
    reduction: Reduction

    @property
    def can_switch_sum(self) -> bool:
        """Whether switches combine them: there is no instruction for least and greatest of float32."""
        return self.element != _ELEMENTS[torch.float32] or self.reduction in (Reduction.SUM, Reduction.AVG)


def _kernel_of(call: TensorCall) -> LaneKernel:
    """See `LaneKernel`.

    Raises
    ------
    NoPlanError
        If there is no kernel for them.
    """
    dtype = call.target.dtype
    if call.reduction is None:
        n = int(call.target.element_size())
        return LaneKernel(_BYTES, 1, call.count * n, Reduction.MAX)
    reduction = call.reduction.kernel
    if dtype not in _ELEMENTS or reduction is None:
        raise NoPlanError(f"no kernel combines {dtype} this way")
    return LaneKernel(_ELEMENTS[dtype], int(call.target.element_size()), call.count, reduction)
