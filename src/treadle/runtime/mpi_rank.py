"""One rank's part of a program as MPI messages: posting, progress and reductions."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int64Array
from treadle.errors import ScheduleError
from treadle.lowering.program import Buffer, OperationKind, Program
from treadle.runtime.data import ElementType, Reduction, finish_average, numpy_dtype
from treadle.runtime.memory import Layout, allocate, is_same_memory, slices_for
from treadle.runtime.order import check_extents, execution_order, is_awaited, match_messages

SLICE_BYTES = 2**20
"""Default largest message: below, the cost of a message in Python shows; above, trees pipeline less."""

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
        check_extents(program)
        partner = match_messages(program)
        execution_order(program, partner)
        self.operations = program.operations(rank)
        first = self.operations.start
        self.kinds = program.operation_kind[first : self.operations.stop].tolist()
        self.peers = program.peer[first : self.operations.stop].tolist()
        self.awaited = is_awaited(program)[first : self.operations.stop].tolist()
        self.message = _message_numbers(program, partner)[first : self.operations.stop].tolist()
        self.waits = [len(program.waits_of(operation)) for operation in self.operations]
        self.followers: list[list[int]] = [[] for _ in self.operations]
        for operation in self.operations:
            for awaited in program.waits_of(operation).tolist():
                self.followers[awaited - first].append(operation - first)


def _message_numbers(program: Program, partner: Int64Array) -> Int64Array:
    """Number of each message among all from the same sender to the same receiver; -1 for copies.

    A number of its own for each message, whatever its channel, lets messages be posted in any order.
    """
    sends = np.flatnonzero(program.operation_kind == OperationKind.SEND)
    rank, peer = program.operation_rank[sends].astype(np.int64), program.peer[sends]
    pair = rank * program.n_ranks + peer
    order = np.argsort(pair, kind="stable")
    starts = np.searchsorted(pair[order], pair[order], side="left")
    numbers = np.full(program.n_operations, -1, dtype=np.int64)
    numbers[sends[order]] = np.arange(len(sends)) - starts
    numbers[partner[sends]] = numbers[sends]
    return numbers


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
    their turn, so that a rank that is still adding does not hold up its children. Sends that another
    operation waits for are sent from a copy: they complete at once, as `Program` demands, even where
    MPI waits for the receiver.
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
        dtype, program = numpy_dtype(element), prepared.program
        n_slices = slices_for(program, count, element_bytes=dtype.itemsize, slice_bytes=slice_bytes)
        self.prepared, self.mpi, self.communicator = prepared, mpi, communicator
        self.element, self.reduction = element, reduction
        self.layout = Layout(program, count, n_slices)
        self.memory = allocate(self.layout, prepared.rank, dtype)
        self._units = [self._unit(place, piece) for piece in range(n_slices) for place in range(self._width)]
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
        return _Unit(kind, prepared.peers[place], tag, prepared.awaited[place], reads, writes)

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


class _Unit:
    """One slice of one operation: its views of this rank's memory, and its messages' peer and tag."""

    __slots__ = ("awaited", "kind", "peer", "reads", "tag", "writes")

    def __init__(
        self,
        kind: OperationKind,
        peer: int,
        tag: int,
        awaited: bool,
        reads: list[NDArray[Any]],
        writes: list[NDArray[Any]],
    ) -> None:
        self.kind, self.peer, self.tag, self.awaited = kind, peer, tag, awaited
        self.reads, self.writes = reads, writes

    @property
    def n_bytes(self) -> int:
        return sum(view.nbytes for view in self.writes)


class _Progress:
    """The state of one run: what each unit still waits for, and the requests under way."""

    def __init__(self, execution: RankExecution) -> None:
        prepared = execution.prepared
        self._mpi, self._communicator = execution.mpi, execution.communicator
        self._units, self._width = execution._units, execution._width
        self._combine = execution.reduction.ufunc
        self._followers = prepared.followers
        self._missing = prepared.waits * execution.layout.n_slices
        self._ready = deque(unit for unit, missing in enumerate(self._missing) if missing == 0)
        self._sends: list[Any] = []
        self._kept: list[NDArray[Any]] = []  # copies that are being sent
        self._receives: list[Any] = []
        self._receiver: list[int] = []  # unit of each request in _receives
        self._outstanding = [0] * len(self._units)  # messages that a posted unit has not received
        self._spare: dict[int, list[NDArray[Any]]] = {}  # posted units that will be reduced
        self._started = bytearray(len(self._units))
        self._early_bytes = 0
        self._early = iter(
            unit for unit, work in enumerate(self._units) if work.kind == OperationKind.RECEIVE_REDUCE
        )
        self._next_early = next(self._early, None)
        self._left = len(self._units)

    def run(self) -> None:
        while self._left:
            while self._ready:
                self._start(self._ready.popleft())
            self._post_early()
            if not self._left:
                break
            # the program has no deadlock, so that a rank with nothing ready has something under way
            assert self._receives
            self._collect()
        self._mpi.Request.Waitall(self._sends)

    def _start(self, number: int) -> None:
        """Everything that the unit waits for is complete."""
        unit = self._units[number]
        self._started[number] = True
        if unit.kind == OperationKind.SEND:
            for view in unit.reads:
                data = view.copy() if unit.awaited else view
                if unit.awaited:
                    self._kept.append(data)
                self._sends.append(self._communicator.Isend(self._bytes(data), unit.peer, unit.tag))
            self._complete(number)
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

    def _post(self, number: int, targets: list[NDArray[Any]]) -> None:
        unit = self._units[number]
        self._outstanding[number] = len(targets)
        for target in targets:
            self._receives.append(self._communicator.Irecv(self._bytes(target), unit.peer, unit.tag))
            self._receiver.append(number)
        if not targets:
            self._arrived(number)

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
        """Wait until at least one message has arrived."""
        done = self._mpi.Request.Waitsome(self._receives) or []
        arrived = [self._receiver[place] for place in done]
        for place in sorted(done, reverse=True):
            last, receiver = self._receives.pop(), self._receiver.pop()
            if place < len(self._receives):
                self._receives[place], self._receiver[place] = last, receiver
        for number in arrived:
            self._outstanding[number] -= 1
            if not self._outstanding[number]:
                self._arrived(number)

    def _arrived(self, number: int) -> None:
        if self._units[number].kind == OperationKind.RECEIVE:
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
