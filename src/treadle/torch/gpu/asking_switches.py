"""Calls whose plan leaves copies and sums to switches: which lanes ask them, and through what memory.

A switch reaches memory of which a group has one address. A call's tensors are copied to such a window in the
stream before the launch and back after it, so that any tensor will do. Who cannot ask goes from rank to rank.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from treadle.errors import ScheduleError
from treadle.program.program import Buffer, Program
from treadle.runtime.device.lane_lowering import lower_to_lanes
from treadle.runtime.device.lane_program import DeviceProtocol, LaneProgram
from treadle.runtime.device.lane_sizes import LaneChoice
from treadle.runtime.device.memory.peer_memory import PeerBlock, PeerMemory
from treadle.runtime.device.rank_lanes import RankBuffers
from treadle.runtime.device.switch_parts import switch_groups
from treadle.torch.group_engine import TensorCall
from treadle.torch.plans import SizedProgram
from treadle.units import format_size

_PLACED = (Buffer.INPUT, Buffer.OUTPUT)
LEAST_LANES = 2
"""Where lanes are not said: a block alone has too few loads under way: see `SwitchParts.check_lanes`."""


@dataclass(frozen=True)
class Asking:
    """How a call asks switches, or why not.

    Parameters
    ----------
    lanes : LaneProgram, optional
    refusal : str
        Why the plan's switches are not asked; empty where they are, or the plan leaves nothing to them.
    """

    lanes: LaneProgram | None = None
    refusal: str = ""


class SwitchWindow:
    """One rank's side of a group's calls that ask switches.

    Parameters
    ----------
    memory : PeerMemory
    half_bytes : int
        Of the window: for INPUT, and as many for OUTPUT.
    before : callable
        Called before the window is made, at the first call that needs it.
    """

    def __init__(self, memory: PeerMemory, half_bytes: int, before: Callable[[], None]) -> None:
        self._memory, self._half, self._before = memory, half_bytes, before
        self._window: PeerBlock | None = None
        self._lowered: dict[tuple[int, int, bool, bool], Asking] = {}

    def asking(
        self, found: SizedProgram, choice: LaneChoice, size_bytes: int, *, averages: bool, can_sum: bool
    ) -> Asking:
        """Lanes of a call that ask switches; the same answer at all ranks.

        Parameters
        ----------
        found : SizedProgram
            Out of place.
        choice : LaneChoice
        size_bytes : int
        averages : bool
        can_sum : bool
            Whether switches combine such elements.

        Raises
        ------
        MissingDependencyError
            If memory for the window cannot be had.
        """
        groups = switch_groups(found.topology, found.program.nodes.tolist())
        if not groups or choice.protocol is not DeviceProtocol.SIMPLE:
            return Asking()
        key = (id(found.program), choice.lanes, averages, can_sum)  # the source keeps the program
        if key not in self._lowered:
            self._lowered[key] = _asking_lanes(found, choice.lanes, averages=averages, can_sum=can_sum)
        asked = self._lowered[key]
        if asked.lanes is None:
            return asked
        if size_bytes > self._half:
            return Asking(
                refusal=f"{format_size(size_bytes)} do not fit into a window of {format_size(self._half)}"
            )
        window = self._made(groups)
        if window is None or not set(asked.lanes.groups) <= set(window.multicast):
            return Asking(refusal=self._memory.no_multicast)
        return asked

    def _made(self, groups: tuple[tuple[int, ...], ...]) -> PeerBlock | None:
        if self._memory.no_multicast:
            return None
        if self._window is None:
            self._before()
            self._window = self._memory.allocate(2 * self._half, groups)
        return self._window

    def buffers(self, program: Program, call: TensorCall, count: int, element_bytes: int) -> RankBuffers:
        """The window's halves, and what of the call's tensors is copied to and from them.

        Parameters
        ----------
        program : Program
            Out of place.
        call : TensorCall
        count, element_bytes : int
            As the kernel sees them.
        """
        window = self._window
        assert window is not None
        at = window.addresses[self._memory.rank]
        given, wanted = (
            sum(
                program.element(past, count) - program.element(first, count)
                for first, past in program.ranges(self._memory.rank, buffer)
            )
            * element_bytes
            for buffer in _PLACED
        )
        return RankBuffers(
            (at, at + self._half),
            (window, window),
            (call.source.data_ptr(), given),
            (call.target.data_ptr(), wanted),
        )


def _asking_lanes(found: SizedProgram, lanes: int, *, averages: bool, can_sum: bool) -> Asking:
    """Lanes that ask switches; neither lanes nor a refusal where the plan leaves nothing to them."""
    try:
        made = lower_to_lanes(
            found.program,
            DeviceProtocol.SIMPLE,
            lanes=lanes,
            averages=averages,
            switches=found.topology,
            switch_sums=can_sum,
            reached=_PLACED,
        )
    except ScheduleError as error:
        return Asking(refusal=str(error))
    asks = any(one.sums >= 0 or one.multicast >= 0 for lane in made.lanes for one in lane.operations)
    return Asking(made) if asks else Asking()
