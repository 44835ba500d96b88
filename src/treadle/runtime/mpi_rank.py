"""One rank's part of a program as MPI messages: posting, progress and reductions."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from treadle.errors import ScheduleError
from treadle.program.message_levels import dataflow, packed_together, requires_copy
from treadle.program.passes import merge_levels
from treadle.program.program import Buffer, OperationKind, Program
from treadle.runtime.data import ElementType, Reduction, finish_average, numpy_dtype
from treadle.runtime.memory import Layout, allocate, is_same_memory, slices_for
from treadle.runtime.order import check_executable, is_awaited

SLICE_BYTES = 2**20
"""Default largest message: below, the cost of a message in Python shows; above, trees pipeline less."""

PIECE_BYTES = 2**14
"""Longest message that is packed with others: copying more costs as much as a message."""

PACKED_BYTES = 2**16
"""Longest message packed of several."""

EARLY_BYTES = 2**24
"""Receives that will be reduced are posted before their turn into so many bytes of spare memory at most."""


class PreparedRank:
    """A checked program as seen by one rank; the same for every size.

    Parameters
    ----------
    program : Program
    rank : int

    Raises
    ------
    ScheduleError
        If messages do not match, a range does not exist, or the program deadlocks; the same at all ranks.
    """

    def __init__(self, program: Program, rank: int) -> None:
        self.program, self.rank = program, rank
        check_executable(program)
        self.operations = program.operations(rank)
        first = self.operations.start
        self.kinds = program.operation_kind[first : self.operations.stop].tolist()
        self.peers = program.peer[first : self.operations.stop].tolist()
        self.awaited = is_awaited(program)[first : self.operations.stop].tolist()
        self.flow = dataflow(program)
        self.message = self.flow.number[first : self.operations.stop].tolist()
        self.copied = requires_copy(program, self.flow)[first : self.operations.stop].tolist()
        self.waits = [len(program.waits_of(operation)) for operation in self.operations]
        self.followers: list[list[int]] = [[] for _ in self.operations]
        for operation in self.operations:
            for awaited in program.waits_of(operation).tolist():
                self.followers[awaited - first].append(operation - first)

    @cached_property
    def merged(self) -> PreparedRank:
        """The same rank of `merge_levels` of the program."""
        program = merge_levels(self.program)
        return self if program is self.program else PreparedRank(program, self.rank)

    def suited(self, count: int, *, element_bytes: int, slice_bytes: int) -> PreparedRank:
        """This or, where no message of it is longer than a slice, the merged one."""
        program = self.merged.program
        longest = int(program.count.max(initial=1))
        longest_bytes = -(-count * longest // program.n_chunks) * element_bytes
        return self.merged if longest_bytes <= slice_bytes else self

    def packed(
        self,
        layout: Layout,
        *,
        element_bytes: int,
        piece_bytes: int = PIECE_BYTES,
        packed_bytes: int = PACKED_BYTES,
    ) -> list[list[int]]:
        """Operations whose messages are packed into one, by `packed_together`."""
        if layout.n_slices > 1:  # what is sliced is long
            return []
        return packed_together(
            self.program,
            self.flow,
            self.rank,
            [sum(end - start for start, end in layout.ranges(number, 0)) for number in self.operations],
            longest=piece_bytes // element_bytes,
            most=packed_bytes // element_bytes,
        )


class RankExecution:
    """One rank's part of a program with buffers of one size, ready to run any number of times.

    Parameters
    ----------
    prepared : PreparedRank
    mpi : module
        mpi4py.MPI.
    communicator : mpi4py.MPI.Comm
        Its ranks are the program's.
    count : int
        Elements of the larger per-rank buffer; any number from 0 on.
    element : ElementType
    reduction : Reduction
    slice_bytes : int

    Notes
    -----
    A unit of work is one slice of one operation. Receives that store are posted when the units that they
    wait for are complete, straight into their target. Receives that reduce go into spare memory, some before
    their turn, so that a rank that is still adding does not hold up its children. Short messages of one level
    and pair of ranks go packed in one, which is received early: each part is stored or reduced in its turn.

    A program's sends complete without the receiver: what waits for one waits until MPI has taken the message,
    or, where it may come before the receive, the send goes from a copy.
    """

    def __init__(
        self,
        prepared: PreparedRank,
        mpi: Any,
        communicator: Any,
        count: int,
        *,
        element: ElementType,
        reduction: Reduction = Reduction.SUM,
        slice_bytes: int = SLICE_BYTES,
    ) -> None:
        dtype = numpy_dtype(element)
        prepared = prepared.suited(count, element_bytes=dtype.itemsize, slice_bytes=slice_bytes)
        program = prepared.program
        n_slices = slices_for(program, count, element_bytes=dtype.itemsize, slice_bytes=slice_bytes)
        self.prepared, self.mpi, self.communicator = prepared, mpi, communicator
        self.element, self.reduction = element, reduction
        self.layout = Layout(program, count, n_slices)
        self.memory = allocate(self.layout, prepared.rank, dtype)
        self._units = [self._unit(place, piece) for piece in range(n_slices) for place in range(self._width)]
        self._parcels: list[_Parcel] = []
        for operations in prepared.packed(self.layout, element_bytes=dtype.itemsize):
            self._pack(operations, dtype)
        self._check_tags()

    @property
    def _width(self) -> int:
        return len(self.prepared.operations)

    def _unit(self, place: int, piece: int) -> _Unit:
        prepared, program = self.prepared, self.prepared.program
        operation = prepared.operations[place]
        kind = OperationKind(prepared.kinds[place])
        source, target = Buffer(program.source[operation]), Buffer(program.target[operation])
        ranges = list(self.layout.ranges(operation, piece))
        reads = [self.memory.view(source, *span) for span in ranges] if kind != OperationKind.RECEIVE else []
        writes = [self.memory.view(target, *span) for span in ranges] if kind != OperationKind.SEND else []
        if kind == OperationKind.COPY and is_same_memory(program, source, target):
            reads, writes = [], []
        # pieces of one slice have the same tag: MPI keeps the order of those
        tag = prepared.message[place] * self.layout.n_slices + piece
        copied = prepared.awaited[place] and prepared.copied[place]
        return _Unit(kind, prepared.peers[place], tag, prepared.awaited[place], copied, reads, writes)

    def _pack(self, operations: list[int], dtype: np.dtype[Any]) -> None:
        """Let the messages of these operations go in one."""
        places = [operation - self.prepared.operations.start for operation in operations]
        units = [self._units[place] for place in places]
        views = [unit.reads if unit.kind == OperationKind.SEND else unit.writes for unit in units]
        bounds = list(accumulate((sum(map(len, parts)) for parts in views), initial=0))
        room = np.empty(bounds[-1], dtype=dtype)
        for unit, (low, high) in zip(units, pairwise(bounds), strict=True):
            unit.parcel = len(self._parcels)
            unit.packed = [room[low:high]] if high > low else []
        is_send = units[0].kind == OperationKind.SEND
        self._parcels.append(_Parcel(is_send, units[0].peer, units[0].tag, places, room))

    def _check_tags(self) -> None:
        limit = self.mpi.COMM_WORLD.Get_attr(self.mpi.TAG_UB)
        largest = max((unit.tag for unit in self._units), default=0)
        if limit is not None and largest > limit:
            raise ScheduleError(
                f"MPI allows tags up to {limit}, this program at this size needs {largest}; "
                f"use a larger slice size"
            )

    def run(self) -> None:
        """Execute once, from INPUT to OUTPUT; all ranks must call it. In place, INPUT is consumed."""
        _Progress(self).run()
        if self.prepared.program.kind.reduces and self.reduction is Reduction.AVG:
            finish_average(self.memory.arrays[Buffer.OUTPUT], self.prepared.program.n_ranks)


@dataclass(slots=True, eq=False)
class _Unit:
    """One slice of one operation: its views of this rank's memory, and its messages' peer and tag."""

    kind: OperationKind
    peer: int
    tag: int
    awaited: bool
    copied: bool
    reads: list[NDArray[Any]]
    writes: list[NDArray[Any]]
    parcel: int = -1
    packed: list[NDArray[Any]] = field(default_factory=list)
    """Its part of the parcel."""

    @property
    def n_bytes(self) -> int:
        return sum(view.nbytes for view in self.writes)


class _Parcel(NamedTuple):
    """A message packed of the messages of several units."""

    is_send: bool
    peer: int
    tag: int
    units: list[int]
    room: NDArray[Any]


class _Progress:
    """The state of one run: what each unit still waits for, and the requests under way."""

    def __init__(self, execution: RankExecution) -> None:
        prepared = execution.prepared
        self._mpi, self._communicator = execution.mpi, execution.communicator
        self._units, self._width = execution._units, execution._width
        self._parcels = execution._parcels
        self._unpacked = [len(parcel.units) for parcel in self._parcels]  # units that have not started
        self._delivered = bytearray(len(self._parcels))
        self._combine = execution.reduction.ufunc
        self._followers = prepared.followers
        self._missing = prepared.waits * execution.layout.n_slices
        self._ready = deque(unit for unit, missing in enumerate(self._missing) if missing == 0)
        self._sends: list[Any] = []
        self._kept: list[NDArray[Any]] = []  # copies that are being sent
        self._awaited: list[Any] = []  # requests that some unit waits for
        self._waiting: list[int] = []  # unit of each, or -1 - parcel
        self._outstanding = [0] * len(self._units)  # messages of a unit that have not come or gone
        self._spare: dict[int, list[NDArray[Any]]] = {}  # posted units that will be reduced
        self._started = bytearray(len(self._units))
        self._early_bytes = 0
        self._early = iter(
            number
            for number, unit in enumerate(self._units)
            if unit.kind == OperationKind.RECEIVE_REDUCE and unit.parcel < 0
        )
        self._next_early = next(self._early, None)
        self._left = len(self._units)

    def run(self) -> None:
        for number, parcel in enumerate(self._parcels):
            if not parcel.is_send:
                self._receive(parcel.room, parcel.peer, parcel.tag, -1 - number)
        while self._left:
            while self._ready:
                self._start(self._ready.popleft())
            self._post_early()
            if not self._left:
                break
            # the program has no deadlock, so that a rank with nothing ready has something under way
            assert self._awaited
            self._collect()
        self._mpi.Request.Waitall(self._sends)

    def _start(self, number: int) -> None:
        """Everything that the unit waits for is complete."""
        unit = self._units[number]
        self._started[number] = True
        if unit.parcel >= 0:
            self._start_packed(number, unit)
        elif unit.kind == OperationKind.SEND:
            self._send(number, unit)
        elif unit.kind == OperationKind.COPY:
            for source, target in zip(unit.reads, unit.writes, strict=True):
                np.copyto(target, source)
            self._complete(number)
        elif unit.kind == OperationKind.RECEIVE:
            self._post(number, unit.writes)
        elif number not in self._spare:
            self._post_reduction(number)
        elif not self._outstanding[number]:
            self._reduce(number)

    def _send(self, number: int, unit: _Unit) -> None:
        holds_up = unit.awaited and not unit.copied
        for view in unit.reads:
            data = view.copy() if unit.copied else view
            request = self._communicator.Isend(self._bytes(data), unit.peer, unit.tag)
            if unit.copied:
                self._kept.append(data)
            if holds_up:
                self._awaited.append(request)
                self._waiting.append(number)
                self._outstanding[number] += 1
            else:
                self._sends.append(request)
        if not self._outstanding[number]:
            self._complete(number)

    def _start_packed(self, number: int, unit: _Unit) -> None:
        if unit.kind != OperationKind.SEND:
            if self._delivered[unit.parcel]:
                self._unpack(number)
            return
        for view, part in zip(unit.reads, unit.packed, strict=True):
            np.copyto(part, view)
        self._unpacked[unit.parcel] -= 1
        if not self._unpacked[unit.parcel]:
            parcel = self._parcels[unit.parcel]
            self._sends.append(self._communicator.Isend(self._bytes(parcel.room), parcel.peer, parcel.tag))
        self._complete(number)

    def _unpack(self, number: int) -> None:
        unit = self._units[number]
        if unit.kind == OperationKind.RECEIVE:
            for part, target in zip(unit.packed, unit.writes, strict=True):
                np.copyto(target, part)
        else:
            for source, part, target in zip(unit.reads, unit.packed, unit.writes, strict=True):
                self._combine(source, part, out=target)
        self._complete(number)

    def _receive(self, target: NDArray[Any], peer: int, tag: int, number: int) -> None:
        self._awaited.append(self._communicator.Irecv(self._bytes(target), peer, tag))
        self._waiting.append(number)

    def _post(self, number: int, targets: list[NDArray[Any]]) -> None:
        unit = self._units[number]
        self._outstanding[number] = len(targets)
        for target in targets:
            self._receive(target, unit.peer, unit.tag, number)
        if not targets:
            self._settled(number)

    def _post_reduction(self, number: int) -> None:
        unit = self._units[number]
        spare = [np.empty_like(view) for view in unit.writes]
        self._spare[number] = spare
        self._early_bytes += unit.n_bytes
        self._post(number, spare)

    def _post_early(self) -> None:
        """Post receives that reduce before their turn, in list order, while spare memory lasts."""
        while self._next_early is not None and self._early_bytes < EARLY_BYTES:
            number = self._next_early
            if not self._started[number]:
                self._post_reduction(number)
            self._next_early = next(self._early, None)

    def _collect(self) -> None:
        """Wait until at least one message has come or gone."""
        done = self._mpi.Request.Waitsome(self._awaited) or []
        settled = [self._waiting[place] for place in done]
        for place in sorted(done, reverse=True):
            last, waiting = self._awaited.pop(), self._waiting.pop()
            if place < len(self._awaited):
                self._awaited[place], self._waiting[place] = last, waiting
        for number in settled:
            if number < 0:
                self._delivered[-1 - number] = True
                for unit in self._parcels[-1 - number].units:
                    if self._started[unit]:
                        self._unpack(unit)
                continue
            self._outstanding[number] -= 1
            if not self._outstanding[number]:
                self._settled(number)

    def _settled(self, number: int) -> None:
        """All messages of the unit have come or gone."""
        if self._units[number].kind != OperationKind.RECEIVE_REDUCE:
            self._complete(number)
        elif self._started[number]:
            self._reduce(number)

    def _reduce(self, number: int) -> None:
        unit = self._units[number]
        spare = self._spare.pop(number)
        for source, arrived, target in zip(unit.reads, spare, unit.writes, strict=True):
            self._combine(source, arrived, out=target)
        self._early_bytes -= unit.n_bytes
        self._complete(number)

    def _complete(self, number: int) -> None:
        self._left -= 1
        base = number - number % self._width
        for follower in self._followers[number % self._width]:
            self._missing[base + follower] -= 1
            if not self._missing[base + follower]:
                self._ready.append(base + follower)

    def _bytes(self, view: NDArray[Any]) -> list[Any]:
        # as bytes, so that types that MPI does not know go through
        return [view.view(np.uint8), self._mpi.BYTE]
