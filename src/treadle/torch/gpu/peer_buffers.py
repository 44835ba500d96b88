"""Buffers that peers and switches reach: tensors allocated for it, and a window for copies of others.

A message can be put straight into a tensor that lies in a block of the group's memory, and a switch be asked
for it. Other tensors are copied to a window in the stream before a launch and back after it where the plan
uses in-network operations, and go through staging otherwise. All ranks must call equally: tensors at the same
place of the same block, or with none in a block; launches check that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from treadle.errors import ScheduleError
from treadle.program.program import Buffer, Program
from treadle.runtime.data import Reduction
from treadle.runtime.device.block_lowering import lower_to_blocks
from treadle.runtime.device.block_program import BlockProgram, DeviceProtocol
from treadle.runtime.device.block_sizes import BlockChoice
from treadle.runtime.device.memory.peer_memory import PeerBlock, PeerMemory
from treadle.runtime.device.rank_blocks import RankBuffers
from treadle.runtime.device.switch_parts import switch_groups
from treadle.runtime.memory import Layout
from treadle.schedules.collective import CollectiveKind
from treadle.torch.group_engine import TensorCall
from treadle.torch.plans import SizedProgram
from treadle.units import format_size

LEAST_LANES = 2
"""Default number of blocks: one block has too few loads in flight, see `SwitchParts.check_blocks`."""

_WHOLE = {
    CollectiveKind.ALLREDUCE: (Buffer.INPUT, Buffer.OUTPUT),
    CollectiveKind.ALLGATHER: (Buffer.OUTPUT,),
    CollectiveKind.REDUCE_SCATTER: (Buffer.INPUT, Buffer.OUTPUT),
    CollectiveKind.ALLTOALL: (Buffer.INPUT, Buffer.OUTPUT),
    CollectiveKind.BROADCAST: (Buffer.INPUT, Buffer.OUTPUT),
    CollectiveKind.REDUCE: (Buffer.INPUT,),
}
"""Buffers that lie at the same place of a block at all ranks, as torch's calls have them. The INPUT of an
allgather lies in its OUTPUT, elsewhere at each rank; the result of a reduce is there at the root alone."""


@dataclass(frozen=True)
class BlockKernel:
    """Arguments of a call's kernel: code and bytes of an element, count, and reduction.

    `can_switch_sum` says whether switches combine them: no instruction exists for minimum and maximum of
    float32.
    """

    element: int
    element_bytes: int
    count: int
    reduction: Reduction
    can_switch_sum: bool


@dataclass(frozen=True)
class CallMethod:
    """Thread-block program of a call, and the position of its buffers.

    Parameters
    ----------
    words : str
        For the log: what the program does besides staging.
    refusal : str
        Why switches, which the plan asks, are not asked; empty where they are or it asks none.
    """

    lanes: BlockProgram
    buffers: RankBuffers
    words: str = ""
    refusal: str = ""


class _Lowered(NamedTuple):
    """Program, or the reason why none uses in-network operations."""

    lanes: BlockProgram | None
    refusal: str = ""
    uses_switches: bool = False


class PeerBuffers:
    """One rank's side of a group's buffers.

    Parameters
    ----------
    groups : tuple of tuple of int
        Ranks around the switches of the group's fabric, for which blocks have addresses where they can.
    window_bytes : int
        Largest INPUT or OUTPUT that is copied to the window.
    before : callable
        Called before a block is made: what must not be while a graph is captured.
    """

    def __init__(
        self,
        memory: PeerMemory,
        groups: tuple[tuple[int, ...], ...],
        window_bytes: int,
        before: Callable[[], None],
    ) -> None:
        self._memory, self._groups, self._half, self._before = memory, groups, window_bytes, before
        self.has_switches = bool(groups)  # that could be asked
        self._window: PeerBlock | None = None
        self._blocks: list[PeerBlock] = []
        self._lowered: dict[tuple[object, ...], _Lowered] = {}

    def allocate(self, size: int) -> int:
        """Address of memory for a tensor that peers reach; all ranks request the same, in the same order.

        Raises
        ------
        MissingDependencyError
            At all ranks, if one has no more.
        """
        self._before()
        self._blocks.append(self._memory.allocate(size, self._groups))
        return self._blocks[-1].addresses[self._memory.rank]

    def method(
        self,
        call: TensorCall,
        kernel: BlockKernel,
        choice: BlockChoice,
        found: SizedProgram,
        found_apart: Callable[[], SizedProgram],
    ) -> CallMethod:
        """Choose the method of a call, the same at all ranks.

        Parameters
        ----------
        found : SizedProgram
            Of the call.
        found_apart : callable
            The same out of place.

        Raises
        ------
        MissingDependencyError
            If memory for the window cannot be had.
        ScheduleError
            If the program cannot be executed.
        """
        own = (call.source.data_ptr(), call.target.data_ptr())
        is_simple = choice.protocol is DeviceProtocol.SIMPLE
        blocks = self._blocks_of(call) if is_simple else (None, None)
        reached = tuple(buffer for buffer in _WHOLE[call.kind] if blocks[buffer] is not None)
        placed, apart = _Lowered(None), _Lowered(None)
        if reached:
            placed = self._lower(found, kernel, choice, reached, asks=self._reach_all(blocks))
            if placed.lanes is not None and placed.uses_switches:
                return CallMethod(placed.lanes, RankBuffers(own, blocks), " that ask switches")
            if placed.lanes is None:
                placed = self._lower(found, kernel, choice, reached, asks=False)
        if is_simple:
            apart = self._through(call, kernel, choice, found_apart)
        if apart.lanes is not None:
            buffers = self._copied(apart.lanes.program, call, kernel)
            return CallMethod(apart.lanes, buffers, " that ask switches for copies")
        if placed.lanes is not None:
            puts = any(not one.is_staged for one in placed.lanes.messages)
            words = " that put into tensors" if puts else ""
            return CallMethod(placed.lanes, RankBuffers(own, blocks), words, apart.refusal)
        staged = self._lower(found, kernel, choice, (), asks=False)
        assert staged.lanes is not None
        return CallMethod(staged.lanes, RankBuffers(own), "", apart.refusal)

    def _blocks_of(self, call: TensorCall) -> tuple[PeerBlock | None, PeerBlock | None]:
        """Blocks in which INPUT and OUTPUT lie, of those that lie there at the same place at all ranks."""
        found = []
        for buffer, tensor in ((Buffer.INPUT, call.source), (Buffer.OUTPUT, call.target)):
            past = tensor.data_ptr() + tensor.numel() * tensor.element_size()
            inside = (
                block
                for block in self._blocks
                if (start := block.addresses[self._memory.rank]) <= tensor.data_ptr()
                and past <= start + block.size
            )
            found.append(next(inside, None) if buffer in _WHOLE[call.kind] else None)
        return found[0], found[1]

    def _reach_all(self, blocks: tuple[PeerBlock | None, PeerBlock | None]) -> bool:
        """Whether blocks have addresses that reach all groups."""
        return all(set(self._groups) <= set(block.multicast) for block in blocks if block is not None)

    def _lower(
        self,
        found: SizedProgram,
        kernel: BlockKernel,
        choice: BlockChoice,
        reached: tuple[Buffer, ...],
        *,
        asks: bool,
    ) -> _Lowered:
        options: dict[str, Any] = {
            "lanes": choice.lanes,
            "averages": kernel.reduction is Reduction.AVG,
            "switch_sums": kernel.can_switch_sum,
            "reached": reached,
        }
        key = (id(found.program), choice.protocol, asks, *options.values())
        if key not in self._lowered:  # the source keeps the program
            switches = found.topology if asks else None
            try:
                lanes = lower_to_blocks(found.program, choice.protocol, switches=switches, **options)
            except ScheduleError as error:
                if not asks:
                    raise
                self._lowered[key] = _Lowered(None, str(error))
            else:
                operations = (one for lane in lanes.lanes for one in lane.operations)
                uses_switches = any(one.sums >= 0 or one.multicast >= 0 for one in operations)
                self._lowered[key] = _Lowered(lanes, uses_switches=uses_switches)
        return self._lowered[key]

    def _through(
        self,
        call: TensorCall,
        kernel: BlockKernel,
        choice: BlockChoice,
        found_apart: Callable[[], SizedProgram],
    ) -> _Lowered:
        """Return the in-network program for the window; or nothing, perhaps with a reason."""
        found = found_apart() if self._groups else None
        if found is None or not switch_groups(found.topology, found.program.nodes.tolist()):
            return _Lowered(None)
        asking = self._lower(found, kernel, choice, (Buffer.INPUT, Buffer.OUTPUT), asks=True)
        if not asking.uses_switches:
            return _Lowered(None, asking.refusal)
        if call.size_bytes > self._half:
            size, most = format_size(call.size_bytes), format_size(self._half)
            return _Lowered(None, f"{size} do not fit into a window of {most}")
        if self._window is None and not self._memory.no_multicast:
            self._before()
            self._window = self._memory.allocate(2 * self._half, self._groups)
        if self._window is None or not self._reach_all((self._window, None)):
            return _Lowered(None, self._memory.no_multicast)
        return asking

    def _copied(self, program: Program, call: TensorCall, kernel: BlockKernel) -> RankBuffers:
        """The window's halves, and what of the call's tensors is copied to and from them."""
        window = self._window
        assert window is not None
        at = window.addresses[self._memory.rank]
        layout = Layout(program, kernel.count)
        given, wanted = (
            layout.length(self._memory.rank, buffer) * kernel.element_bytes
            for buffer in (Buffer.INPUT, Buffer.OUTPUT)
        )
        source, target = (call.source.data_ptr(), given), (call.target.data_ptr(), wanted)
        return RankBuffers((at, at + self._half), (window, window), source, target)
