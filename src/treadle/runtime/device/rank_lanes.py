"""One rank's lanes on its own GPU: programs that share staging, launched on streams that nobody awaits.

Launches of all programs of a group are numbered together. Each rank tells all others when it enters a
launch, so that whichever program comes next finds staging free; other flags are one program's alone.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from treadle.errors import ScheduleError
from treadle.runtime.data import Reduction
from treadle.runtime.device.happens_before import judge_lanes
from treadle.runtime.device.lane_machine import REDUCTION_CODES, LaunchJob, given_up
from treadle.runtime.device.lane_program import DeviceProtocol, FlagPurpose, LaneFlag, LaneProgram
from treadle.runtime.device.peer_memory import FLAGS_AT, MOST_FLAGS, STAGING_AT, PeerMemory, gpu_library
from treadle.runtime.device.sized_lanes import SizedLanes, at_size, flag_places

MOST_RANKS = 1024
"""Their rows lie in memory that a block shares."""


def entering_all(lanes: LaneProgram) -> LaneProgram:
    """The same where every rank tells all others that it enters: launches of other programs wait for it."""
    n_ranks = lanes.program.n_ranks
    flags = list(lanes.flags)
    number_of = {flag: number for number, flag in enumerate(flags)}
    enters: list[list[int]] = [[] for _ in range(n_ranks)]
    for rank in range(n_ranks):
        for subject in range(n_ranks):
            if subject == rank:
                continue
            flag = LaneFlag(rank, FlagPurpose.ENTERED, subject)
            if flag not in number_of:
                number_of[flag] = len(flags)
                flags.append(flag)
            enters[subject].append(number_of[flag])
    found, begun = [], set()
    for lane in lanes.lanes:
        found.append(replace(lane, enters=() if lane.rank in begun else tuple(enters[lane.rank])))
        begun.add(lane.rank)
    return replace(lanes, lanes=tuple(found), flags=tuple(flags))


@dataclass(frozen=True, eq=False)
class AdmittedLanes:
    """A program that may be launched at a rank.

    Parameters
    ----------
    lanes : LaneProgram
    number : int
        Among those of the group.
    places : tuple of int
        Of every flag among those of its rank.
    """

    lanes: LaneProgram
    number: int
    places: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class PreparedLanes:
    """A program at one size, its tables on the GPU."""

    admitted: AdmittedLanes
    tables: SizedLanes
    element: int
    address: int


class RankLanes:
    """Launches one rank's lanes; all ranks admit the same programs in the same order.

    Parameters
    ----------
    memory : PeerMemory
        Closed with it.
    limit_s : float
        Longest wait within a launch.

    Raises
    ------
    MissingDependencyError
        Without a GPU.
    ScheduleError
        If there are too many ranks.
    """

    def __init__(self, memory: PeerMemory, *, limit_s: float) -> None:
        self.memory, self._limit_s = memory, limit_s
        n = len(memory.blocks)
        if n > MOST_RANKS:
            raise ScheduleError(f"{n} ranks in a launch: expected at most {MOST_RANKS}")
        self._library = gpu_library()
        blocks = (ctypes.c_int64 * n)(*memory.blocks)
        self._rank = self._library.address(
            "treadle_rank_open", memory.rank, n, blocks, STAGING_AT[DeviceProtocol.LL], FLAGS_AT
        )
        self._admitted: list[AdmittedLanes] = []
        self._prepared: list[PreparedLanes] = []
        self._past = n
        """First flag that no program has; before it stands who has entered."""

    def admit(self, lanes: LaneProgram) -> AdmittedLanes:
        """Give a program its flags.

        Raises
        ------
        ScheduleError
            If messages are put into buffers of peers, the program is of another number of ranks, or flags
            run out.
        """
        if lanes.program.n_ranks != len(self.memory.blocks):
            raise ScheduleError(
                f"lanes of {lanes.program.n_ranks} ranks in a group of {len(self.memory.blocks)}"
            )
        if any(not message.is_staged for message in lanes.messages):
            raise ScheduleError("lanes put messages into buffers that peers do not reach; lower all_staged")
        lanes = entering_all(lanes)
        own, sizes = flag_places(lanes)
        places = tuple(
            flag.subject if flag.purpose is FlagPurpose.ENTERED else self._past + place
            for flag, place in zip(lanes.flags, own, strict=True)
        )
        if self._past + max(sizes) > MOST_FLAGS:
            raise ScheduleError(f"the programs of a group have more than {MOST_FLAGS} flags at a rank")
        self._past += max(sizes)
        self._admitted.append(AdmittedLanes(lanes, len(self._admitted), places))
        return self._admitted[-1]

    def room(self, protocol: DeviceProtocol, element: int, threads: int) -> int:
        """How many blocks of a launch the GPU has room for at once."""
        is_ll = protocol is DeviceProtocol.LL
        return self._library.count("treadle_rank_room", self._rank, element, is_ll, threads)

    def prepare(
        self, admitted: AdmittedLanes, count: int, *, element: int, element_bytes: int, slice_bytes: int
    ) -> PreparedLanes:
        """Copy the tables for a number of elements to the GPU; on a stream of its own, which is awaited.

        Parameters
        ----------
        admitted : AdmittedLanes
        count : int
            Elements of the larger per-rank buffer.
        element : int
            Code of the kernel.
        element_bytes : int
        slice_bytes : int

        Raises
        ------
        ScheduleError
            If staging cannot hold it, or memory runs out.
        """
        lanes = admitted.lanes
        tables = at_size(
            lanes, count, element_bytes=element_bytes, slice_bytes=slice_bytes, places=admitted.places
        )
        rank = self.memory.rank
        own = np.ascontiguousarray(tables.lanes[tables.lanes[:, 0] == rank])
        listed = (tables.operations, tables.puts, tables.waits, tables.raises)
        job = LaunchJob(
            *(one.ctypes.data for one in (*listed, own)),
            tables.groups.ctypes.data,
            tables.members.ctypes.data,
            None,
            None,
            None,
            *map(len, (*listed, tables.groups, tables.members)),
            len(own),
            lanes.program.n_ranks,
            tables.slices,
            int(self._limit_s * 1e9),
            0,
        )
        address = self._library.address(
            "treadle_rank_prepare",
            self._rank,
            ctypes.byref(job),
            admitted.number,
            lanes.protocol is DeviceProtocol.LL,
            int(tables.scratch_bytes[rank]),
        )
        self._prepared.append(PreparedLanes(admitted, tables, element, address))
        return self._prepared[-1]

    def drop(self, prepared: PreparedLanes) -> None:
        """Free tables that no launch under way and no graph uses."""
        self._prepared.remove(prepared)
        self._library.c.treadle_rank_drop(prepared.address)

    def launch(
        self,
        prepared: PreparedLanes,
        buffers: Sequence[int],
        reduction: Reduction,
        *,
        threads: int,
        stream: int = 0,
    ) -> None:
        """Put a launch on a stream, without waiting for it.

        Parameters
        ----------
        prepared : PreparedLanes
        buffers : sequence of int
            Addresses of INPUT and OUTPUT.
        reduction : Reduction
        threads : int
            Of a block.
        stream : int
            0: the default stream.

        Raises
        ------
        ScheduleError
            If its blocks cannot all be on the GPU at once.
        """
        given = (ctypes.c_void_p * 2)(*buffers)
        self._library.said(
            "treadle_rank_launch",
            self._rank,
            prepared.address,
            given,
            prepared.element,
            REDUCTION_CODES[reduction],
            threads,
            stream or None,
        )

    def failure(self) -> str:
        """Which wait was given up, in words; empty where none was so far. Waits for nothing."""
        where = (ctypes.c_int64 * 4)()
        if not self._rank or not self._library.c.treadle_rank_failed(self._rank, where):
            return ""
        program, rank, lane, number = where
        lanes = self._admitted[program].lanes
        first = next(place for place, one in enumerate(lanes.lanes) if one.rank == rank)
        begun = sum(len(one.operations) for one in lanes.lanes[: first + lane])
        return given_up(lanes, first + lane, number - begun, self._limit_s)

    def prove(self, prepared: PreparedLanes) -> tuple[str, ...]:
        """What is wrong with a program at a size, in every order that its waits allow; empty: nothing."""
        lanes = prepared.admitted.lanes
        most = max((message.slots for message in lanes.messages), default=0)
        return judge_lanes(lanes, slices=min(prepared.tables.slices, most + 2))

    def close(self) -> None:
        """Free everything; no launch may be under way at any rank."""
        if self._rank:
            for one in self._prepared:
                self._library.c.treadle_rank_drop(one.address)
            self._library.c.treadle_rank_close(self._rank)
            self.memory.close()
        self._prepared, self._rank = [], 0

    def __enter__(self) -> RankLanes:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
