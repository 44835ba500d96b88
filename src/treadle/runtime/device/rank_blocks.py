"""One rank's thread blocks on its own GPU: programs that share staging, launched asynchronously.

Launches of all programs of a group are numbered together. Each rank signals to all others when it enters a
launch, so that whichever program comes next finds staging free; other flags are one program's alone.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import numpy as np

from treadle.errors import ScheduleError
from treadle.program.program import Buffer
from treadle.runtime.data import Reduction
from treadle.runtime.device.block_machine import REDUCTION_CODES, given_up, job_of
from treadle.runtime.device.block_program import (
    BlockFlag,
    BlockProgram,
    DeviceProtocol,
    FlagPurpose,
    entering,
)
from treadle.runtime.device.happens_before import check_blocks
from treadle.runtime.device.memory.gpu_library import gpu_library
from treadle.runtime.device.memory.peer_memory import (
    FLAGS_AT,
    MOST_FLAGS,
    STAGING_AT,
    PeerBlock,
    PeerMemory,
)
from treadle.runtime.device.sized_blocks import SizedBlocks, at_size, flag_offsets

_UNLIKE = -2
"""Layout of kernel/tables.hpp."""
MOST_RANKS = 1024
_SHARED_BYTES, _RANK_BYTES, _GROUP_BYTES = 48 * 1024, 40, 24
"""Rows of ranks, and addresses of groups, lie in memory that a block shares."""


class LaunchOffsets(ctypes.Structure):
    """Addresses of a launch's INPUT and OUTPUT, as in kernel/rank_host.cpp."""

    _fields_ = (
        ("buffers", ctypes.c_void_p * 2),
        ("windows", (ctypes.c_void_p * 2) * 2),
        ("given", ctypes.c_void_p),
        ("given_bytes", ctypes.c_int64),
        ("wanted", ctypes.c_void_p),
        ("wanted_bytes", ctypes.c_int64),
        ("signature", ctypes.c_uint64),
    )


@dataclass(frozen=True)
class RankBuffers:
    """INPUT and OUTPUT of a launch at one rank.

    Parameters
    ----------
    addresses : tuple of int
        Of INPUT and OUTPUT.
    blocks : tuple of PeerBlock, optional
        In which blocks they lie, at the same places at all ranks; None: peers do not reach them.
    given, wanted : tuple of int, optional
        Address and bytes of what is copied to INPUT before, and from OUTPUT after, in the stream.
    """

    addresses: tuple[int, int]
    blocks: tuple[PeerBlock | None, PeerBlock | None] = (None, None)
    given: tuple[int, int] = (0, 0)
    wanted: tuple[int, int] = (0, 0)


def entering_all(lanes: BlockProgram) -> BlockProgram:
    """Return the program in which every rank signals its entry to all others."""
    ranks = range(lanes.program.n_ranks)
    entered = [BlockFlag(one, FlagPurpose.ENTERED, other) for one in ranks for other in ranks if one != other]
    lanes = replace(lanes, flags=tuple(dict.fromkeys([*lanes.flags, *entered])))
    return replace(lanes, lanes=entering(lanes))


def used_by_others(lanes: BlockProgram) -> frozenset[Buffer]:
    """Buffers that ranks other than their own read or write."""
    operations = [one for lane in lanes.lanes for one in lane.operations]
    found = {one.target for one in lanes.messages} | {one.copied_to for one in operations}
    found |= {one.source for one in operations if one.sums >= 0}
    return frozenset(one for one in found if one is not None)


@dataclass(frozen=True, eq=False)
class AdmittedBlocks:
    """A program that may be launched at a rank.

    Parameters
    ----------
    number : int
        Among those of the group.
    places : tuple of int
        Of every flag among those of its rank.
    used : frozenset of Buffer
        See `used_by_others`.
    """

    lanes: BlockProgram
    number: int
    places: tuple[int, ...]
    used: frozenset[Buffer]


@dataclass(frozen=True, eq=False)
class PreparedBlocks:
    """A program at one size, its tables on the GPU."""

    admitted: AdmittedBlocks
    tables: SizedBlocks
    element: int
    address: int
    signed: tuple[int, int, int, int]
    """Key that must be equal at all ranks."""


class RankBlocks:
    """Launches one rank's thread blocks; all ranks admit the same programs in the same order.

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
        self._library = gpu_library() if memory.network is None else memory.network.library
        blocks = (ctypes.c_int64 * n)(*memory.blocks)
        self._rank = self._library.address(
            "treadle_rank_open", memory.rank, n, blocks, STAGING_AT[DeviceProtocol.LL], FLAGS_AT
        )
        self._admitted: list[AdmittedBlocks] = []
        self._prepared: list[PreparedBlocks] = []
        self._tables: dict[tuple[PeerBlock, tuple[tuple[int, ...], ...]], int] = {}
        self._past = 2 * n + 1
        """First flag that no program has; before it stands who has entered, with what signature, and who has
        given up."""

    def admit(self, lanes: BlockProgram) -> AdmittedBlocks:
        """Give a program its flags.

        Raises
        ------
        ScheduleError
            If the program is of another number of ranks, uses SCRATCH of peers, or flags or memory that
            blocks share run out.
        """
        if lanes.program.n_ranks != len(self.memory.blocks):
            raise ScheduleError(
                f"a program of {lanes.program.n_ranks} ranks in a group of {len(self.memory.blocks)}"
            )
        if self.memory.network is not None:
            self.memory.network.check(lanes)
        used = used_by_others(lanes)
        if Buffer.SCRATCH in used:
            raise ScheduleError("the program uses SCRATCH of peers that it cannot reach")
        shared = _RANK_BYTES * lanes.program.n_ranks + _GROUP_BYTES * len(lanes.groups)
        if shared > _SHARED_BYTES:
            raise ScheduleError(
                f"{len(lanes.groups)} groups around switches: blocks share {_SHARED_BYTES} bytes"
            )
        lanes = entering_all(lanes)
        own, sizes = flag_offsets(lanes)
        places = tuple(
            flag.subject if flag.purpose is FlagPurpose.ENTERED else self._past + place
            for flag, place in zip(lanes.flags, own, strict=True)
        )
        if self._past + max(sizes) > MOST_FLAGS:
            raise ScheduleError(f"the programs of a group have more than {MOST_FLAGS} flags at a rank")
        self._past += max(sizes)
        self._admitted.append(AdmittedBlocks(lanes, len(self._admitted), places, used))
        return self._admitted[-1]

    def max_blocks(self, protocol: DeviceProtocol, element: int, threads: int) -> int:
        """Number of blocks of a launch that the GPU can hold."""
        if self.memory.network is not None:
            return self.memory.network.max_blocks(element, threads)
        is_ll = protocol is DeviceProtocol.LL
        return self._library.count("treadle_rank_room", self._rank, element, is_ll, threads)

    def prepare(
        self, admitted: AdmittedBlocks, count: int, *, element: int, element_bytes: int, slice_bytes: int
    ) -> PreparedBlocks:
        """Copy the tables for a number of elements to the GPU; on a stream of its own, which is awaited.

        Parameters
        ----------
        count : int
            Elements of the larger per-rank buffer.
        element : int
            Code of the kernel.

        Raises
        ------
        ScheduleError
            If staging cannot hold it, or memory runs out.
        """
        lanes = admitted.lanes
        tables = at_size(
            lanes, count, element_bytes=element_bytes, slice_bytes=slice_bytes, places=admitted.places
        )
        if self.memory.network is not None:
            self.memory.network.check_size(tables, element_bytes)
        rank = self.memory.rank
        own = np.ascontiguousarray(tables.lanes[tables.lanes[:, 0] == rank])
        job = job_of(tables, own, lanes.program.n_ranks, self._limit_s)
        address = self._library.address(
            "treadle_rank_prepare",
            self._rank,
            ctypes.byref(job),
            admitted.number,
            lanes.protocol is DeviceProtocol.LL,
            int(tables.scratch_bytes[rank]),
        )
        signed = (admitted.number, count, element, tables.slices)
        self._prepared.append(PreparedBlocks(admitted, tables, element, address, signed))
        return self._prepared[-1]

    def drop(self, prepared: PreparedBlocks) -> None:
        """Free tables that no launch under way and no graph uses."""
        self._prepared.remove(prepared)
        self._library.c.treadle_rank_drop(prepared.address)

    def launch(
        self,
        prepared: PreparedBlocks,
        buffers: RankBuffers,
        reduction: Reduction,
        *,
        threads: int,
        stream: int = 0,
    ) -> None:
        """Put a launch on a stream, without waiting for it.

        Parameters
        ----------
        threads : int
            Of a block.
        stream : int
            0: the default stream.

        Raises
        ------
        ScheduleError
            If peers do not reach a buffer that they use, or its blocks do not all fit on the GPU.
        """
        lanes, used = prepared.admitted.lanes, prepared.admitted.used
        places = LaunchOffsets((ctypes.c_void_p * 2)(*buffers.addresses))
        windows = [(-1, 0), (-1, 0)]
        for number, (block, address) in enumerate(zip(buffers.blocks, buffers.addresses, strict=True)):
            name = Buffer(number).name
            if block is not None:
                at = address - block.addresses[self.memory.rank]
                if not 0 <= at <= block.size:
                    raise ScheduleError(f"{name} is not in the block that peers reach")
                places.windows[number][:] = [self._table_of(block, lanes.groups), at]
                windows[number] = block.number, at
            elif number in used:
                raise ScheduleError(f"the program uses {name} of peers that it cannot reach")
        places.given, places.given_bytes = buffers.given
        places.wanted, places.wanted_bytes = buffers.wanted
        at_peers = tuple(window for number, window in enumerate(windows) if number in used)
        places.signature = _signature(prepared.signed, reduction, at_peers)
        codes = (prepared.element, REDUCTION_CODES[reduction], threads, stream or None)
        given = ctypes.byref(places)
        if self.memory.network is None:
            self._library.call("treadle_rank_launch", self._rank, prepared.address, given, *codes)
        else:
            self.memory.network.launch(self._rank, prepared.address, given, windows, *codes)

    def _table_of(self, block: PeerBlock, groups: tuple[tuple[int, ...], ...]) -> int:
        """Address on the GPU of a block's addresses at all ranks, then of those that reach groups."""
        if (block, groups) not in self._tables:
            listed = (*block.addresses, *(block.multicast.get(group, 0) for group in groups))
            made = np.array(listed, dtype=np.uint64)
            self._tables[block, groups] = self._library.address(
                "treadle_rank_table", self._rank, made.ctypes.data, len(made)
            )
        return self._tables[block, groups]

    def failure(self) -> str:
        """Describe the wait that was given up; "" if none was so far. Does not block."""
        where = (ctypes.c_int64 * 5)()
        if not self._rank or not self._library.c.treadle_rank_failed(self._rank, where):
            return ""
        program, rank, lane, number, flag = where
        lanes = self._admitted[program].lanes
        n_ranks = lanes.program.n_ranks
        called = f"{lanes.program.kind}, protocol {lanes.protocol}: rank {rank}"
        if flag <= _UNLIKE - n_ranks:
            peer = _UNLIKE - n_ranks - flag
            return f"{called} stopped because rank {peer} had given up; see the message of that rank"
        if flag <= _UNLIKE:
            return (
                f"{called} and rank {_UNLIKE - flag} call unlike: another collective, size, type or "
                "operation, or tensors at other places of what peers reach"
            )
        lane += next(place for place, one in enumerate(lanes.lanes) if one.rank == rank)
        begun = sum(len(one.operations) for one in lanes.lanes[:lane])
        return given_up(lanes, lane, number - begun, self._limit_s)

    def prove(self, prepared: PreparedBlocks) -> tuple[str, ...]:
        """Return the faults of a program at a size, in every order that its waits allow."""
        lanes = prepared.admitted.lanes
        most = max((message.slots for message in lanes.messages), default=0)
        return check_blocks(lanes, slices=min(prepared.tables.slices, most + 2))

    def close(self) -> None:
        """Free everything; no launch may be under way at any rank."""
        if self._rank:
            for one in self._prepared:
                self._library.c.treadle_rank_drop(one.address)
            self._library.c.treadle_rank_close(self._rank)
            self.memory.close()
        self._prepared, self._rank = [], 0

    def __enter__(self) -> RankBlocks:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


@lru_cache(maxsize=4096)
def _signature(*key: object) -> int:
    """Return the 64-bit key that all ranks' launches must share, checked before anything is sent."""
    return 1 + int.from_bytes(blake2b(repr(key).encode(), digest_size=7).digest(), "little")
