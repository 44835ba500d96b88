"""Runs collectives on tensors of GPUs: a kernel on the caller's stream for each call, or sends and receives.

Nothing here waits for the GPU. What was not there before (plans, memory of peers, tables of a new size) is
made at the first call that needs it, at all ranks.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from dataclasses import replace
from datetime import timedelta
from functools import partial

import torch
from torch._C._distributed_c10d import PrefixStore, Store
from torch.distributed import DistBackendError

from treadle.errors import ScheduleError, TreadleError
from treadle.runtime.data import ElementType, Reduction
from treadle.runtime.device.block_program import DeviceProtocol
from treadle.runtime.device.block_sizes import (
    BlockChoice,
    BlockLimits,
    BlockSizes,
    choose_blocks,
    leaving_rate,
    sizes_of,
)
from treadle.runtime.device.checked_blocks import ELEMENT_CODES, can_switch_sum
from treadle.runtime.device.rank_blocks import AdmittedBlocks, PreparedBlocks, RankBlocks
from treadle.runtime.device.switch_parts import switch_groups
from treadle.simulation.block_costs import block_costs
from treadle.torch.gpu import gpu_streams as streams
from treadle.torch.gpu.gpu_settings import GpuMethod, GpuSettings
from treadle.torch.gpu.opening import NETWORK_THREADS, NoBlockProgramError, StoreExchange, open_blocks
from treadle.torch.gpu.peer_buffers import LEAST_LANES, BlockKernel, PeerBuffers
from treadle.torch.group_engine import UNUSABLE, NoPlanError, TensorCall
from treadle.torch.plans import Membership, PlanSource, SizedProgram
from treadle.torch.settings import Settings
from treadle.units import format_size

LOGGER = logging.getLogger("treadle.torch")

_BYTES = len(ELEMENT_CODES)
"""Code of the kernel that copies bytes."""
_MOST_PREPARED = 256


class GpuEngine:
    """One rank's side of a group's collectives on one GPU; calls come in the same order at all ranks.

    Parameters
    ----------
    store : Store
        Of the group alone.
    """

    def __init__(self, store: Store, group: Membership, settings: Settings, gpu: GpuSettings) -> None:
        self._store, self._group, self._gpu = store, group, gpu
        self._source = PlanSource(PrefixStore("gpu-plans/", store), group, settings)
        self._lanes: RankBlocks | None = None
        self._refusal = "TREADLE_GPU says so" if gpu.way in (GpuMethod.NCCL, GpuMethod.STEPS) else ""
        self._room = 0
        self.is_between_hosts = False  # whether lanes are not used because ranks are on several hosts
        self._figures: dict[int, BlockSizes] = {}
        self._buffers: PeerBuffers | None = None
        self._admitted: dict[int, AdmittedBlocks] = {}
        self._prepared: OrderedDict[tuple[int, int, int, int], tuple[PreparedBlocks, bool]] = OrderedDict()
        self._told: set[tuple[object, ...]] = set()

    def check(self) -> None:
        """Raise DistBackendError if a launch is known to have given up waiting."""
        words = "" if self._lanes is None else self._lanes.failure()
        if words:
            raise DistBackendError(f"treadle: group {self._group.name}: {words}; {UNUSABLE}")

    def run(self, call: TensorCall) -> None:
        """Put a collective on the caller's stream.

        Raises
        ------
        NoPlanError
            If it cannot run as thread blocks; at all ranks.
        DistBackendError
            If an earlier launch has failed, or this one is rejected.
        """
        self.check()
        kernel = _kernel_of(call)
        lanes = self._open(streams.device_of(call.target))
        try:
            found = self._source.program(call.kind, call.root, call.size_bytes, in_place=call.in_place)
            choice = self._choice(found, call.size_bytes)
            if not call.in_place:
                call = call.scaled(len(self._group.places))
            assert self._buffers is not None
            apart = partial(self._source.program, call.kind, call.root, call.size_bytes, in_place=False)
            way = self._buffers.method(call, kernel, choice, found, apart)
            if way.refusal:
                self._log_once(
                    (call.kind, way.refusal),
                    "%s of %s on GPUs goes from rank to rank, where its plan asks switches: %s",
                    *(call.kind, format_size(call.size_bytes), way.refusal),
                )
            if id(way.lanes) not in self._admitted:  # which the buffers keep
                self._admitted[id(way.lanes)] = lanes.admit(way.lanes)
            admitted = self._admitted[id(way.lanes)]
        except TreadleError as error:
            raise NoPlanError(str(error)) from None
        try:
            ready = self._prepare(lanes, admitted, choice, kernel)
            if call.in_place:  # what no lanes serve is left as it was
                call = call.scaled(len(self._group.places))
            lanes.launch(
                ready,
                way.buffers,
                kernel.reduction,
                threads=choice.threads,
                stream=streams.stream_of(call.target),
            )
        except ScheduleError as error:
            raise DistBackendError(f"treadle: {call.kind} in group {self._group.name}: {error}") from None
        self._log_once(
            (call.kind, id(found), choice.protocol, choice.lanes, choice.threads, way.words),
            "%s of %s on GPUs by lanes%s: protocol %s, at most %d blocks of %d threads, slices of %s, "
            "by cost model %s",
            *(call.kind, format_size(call.size_bytes), way.words),
            *(choice.protocol, choice.lanes, choice.threads, format_size(choice.slice_bytes)),
            self._gpu.cost_model,
        )

    def _open(self, device: int) -> RankBlocks:
        if self._refusal:
            raise NoPlanError(self._refusal)
        if self._lanes is None:
            group = self._group
            self._reject_capture()
            exchange = StoreExchange(self._store, group.rank, len(group.places), group.timeout)
            limit_s = group.timeout / timedelta(seconds=1)
            try:
                self._lanes, self._room = open_blocks(
                    exchange, group.rank, device, self._gpu, limit_s=limit_s, store=self._store
                )
            except NoBlockProgramError as error:
                self._refusal, self.is_between_hosts = str(error), error.is_between_hosts
                raise NoPlanError(self._refusal) from None
            if group.rank == 0:
                LOGGER.info("group %s: memory of peers by %s", group.name, self._lanes.memory.words)
            nodes = [int(group.fabric.compute_nodes[place]) for place in group.places]
            self._buffers = PeerBuffers(
                self._lanes.memory,
                switch_groups(group.fabric, nodes),
                self._gpu.window_bytes,
                before=self._reject_capture,
            )
        return self._lanes

    def _reject_capture(self) -> None:
        if streams.is_capturing():
            raise DistBackendError(
                f"treadle: group {self._group.name} makes its memory at the first call that needs it, which "
                "cannot be in a graph that is captured: call the collective before"
            )

    def empty(self, size: int, device: int) -> torch.Tensor:
        """Bytes that peers reach, as a tensor; all ranks request the same, in the same order.

        Raises
        ------
        NoPlanError
            If the group's calls do not run as thread blocks, at all ranks.
        MissingDependencyError
            At all ranks, if one has no more memory.
        """
        self._open(device)
        assert self._buffers is not None
        return streams.tensor_at(self._buffers.allocate(max(1, size)), size, device)

    def _log_once(self, key: tuple[object, ...], text: str, *values: object) -> None:
        if key not in self._told and self._group.rank == 0:
            LOGGER.info(f"group %s: {text}", self._group.name, *values)
        self._told.add(key)

    def _choice(self, found: SizedProgram, size_bytes: int) -> BlockChoice:
        if id(found.program) not in self._figures:
            self._figures[id(found.program)] = sizes_of(found.program)
        gpu = self._gpu
        assert self._lanes is not None
        crosses = self._lanes.memory.network is not None
        known = (DeviceProtocol.SIMPLE,) if crosses else tuple(DeviceProtocol)
        known = known if gpu.protocol is None else (gpu.protocol,)
        limits = BlockLimits(known, gpu.lanes, gpu.threads, gpu.slice_bytes, self._room)
        choice = choose_blocks(
            self._figures[id(found.program)],
            size_bytes,
            block_costs(gpu.cost_model),
            rate_bytes_per_s=leaving_rate(found.topology),
            limits=limits,
        )
        assert self._buffers is not None
        if self._buffers.has_switches and gpu.lanes is None and self._room > 1:
            choice = replace(choice, lanes=max(LEAST_LANES, choice.lanes))
        if crosses:
            choice = replace(choice, threads=min(NETWORK_THREADS, choice.threads))
        return choice

    def _prepare(
        self, lanes: RankBlocks, admitted: AdmittedBlocks, choice: BlockChoice, kernel: BlockKernel
    ) -> PreparedBlocks:
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
                raise ScheduleError(f"the thread-block program is wrong: {wrong[0]}")
        self._prepared[key] = ready, is_kept or streams.is_capturing()
        self._prepared.move_to_end(key)
        if len(self._prepared) > _MOST_PREPARED:
            old = next((one for one, (_, kept) in self._prepared.items() if not kept and one != key), None)
            if old is not None:  # freeing memory of a GPU waits for what uses it
                lanes.drop(self._prepared.pop(old)[0])
        return ready

    def close(self) -> None:
        """Give memory of peers back."""
        if self._lanes is not None:
            self._lanes.close()
            self._lanes = self._buffers = None
        self._refusal = "the group is closed"


def _kernel_of(call: TensorCall) -> BlockKernel:
    """See `BlockKernel`.

    Raises
    ------
    NoPlanError
        If they have no kernel.
    """
    dtype, element_bytes = call.target.dtype, int(call.target.element_size())
    if call.reduction is None:
        return BlockKernel(_BYTES, 1, call.count * element_bytes, Reduction.MAX, can_switch_sum=False)
    reduction, name = call.reduction.kernel, str(dtype).removeprefix("torch.")
    if reduction is None or name not in {one.value for one in ELEMENT_CODES}:
        raise NoPlanError(f"no kernel combines {dtype} this way")
    element = ElementType(name)
    can_sum = can_switch_sum(element, reduction)
    return BlockKernel(ELEMENT_CODES[element], element_bytes, call.count, reduction, can_sum)
