"""One rank's part of a program as a fixed list of actions, each of which waits for one message at most.

Every rank performs its units (a unit is a slice of an operation) in an order that all ranks share, and waits
for one message at a time. A wait ends: the other end of the message comes earlier in that order, and whatever
its rank waits for before comes earlier still. For the same reason a rank may wait until a send has left,
instead of sending a copy, where the receive comes before the operation that is about to write over the data.

The MPI runtime and the PyTorch backend carry out these lists.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from itertools import accumulate, pairwise
from typing import NamedTuple

from treadle.arrays import Int32Array
from treadle.errors import ScheduleError
from treadle.program.message_levels import dataflow, packed_together
from treadle.program.passes import merge_levels
from treadle.program.program import Buffer, OperationKind, Program
from treadle.runtime.memory import Layout, is_same_memory, position_in, slices_for
from treadle.runtime.order import check_executable, is_awaited

MAX_TAG = 2**31 - 1
"""Tags of gloo, and of most MPI libraries, are 32-bit integers with a sign."""

EAGER_BYTES = 2**17
"""Buffers up to this size are sent from copies: cheaper than to wait until they may be written over."""

PIECE_BYTES = 2**17
"""Longest message that is packed with others: one of gloo costs some 70 us of processor time."""

PACKED_BYTES = 2**19
"""Longest message packed of several."""

SPARE = len(Buffer)
"""Area of what has arrived and waits to be reduced; the areas before it are the buffers of `Program`."""

PACKED = SPARE + 1
"""Area of messages that are packed of several."""


class ActionKind(IntEnum):
    """One action of a rank."""

    RECEIVE = 0
    """Start to receive into `target`."""
    SEND = 1
    """Start to send `source`."""
    SEND_COPY = 2
    """Start to send a copy of `source`, which may change before the peer takes the message."""
    WAIT = 3
    """Wait until the message of `handle` has been sent or received."""
    REDUCE = 4
    """Store `source` combined with `arrived` in `target`."""
    COPY = 5
    """Copy `source` to `target`."""


class Span(NamedTuple):
    """Elements `start` to `end` - 1 of an area."""

    area: int
    start: int
    end: int


_NOTHING = Span(0, 0, 0)


class Action(NamedTuple):
    """One action; a handle names a message from its start to its wait."""

    kind: ActionKind
    handle: int = -1
    peer: int = -1
    tag: int = -1
    source: Span = _NOTHING
    arrived: Span = _NOTHING
    target: Span = _NOTHING


@dataclass(frozen=True)
class Script:
    """Actions of a rank in order for one number of elements, and the lengths of its areas in elements."""

    actions: tuple[Action, ...]
    n_handles: int
    scratch_elements: int
    spare_elements: int
    packed_elements: int


class PreparedRank:
    """A checked program as seen by one rank; the same for every size.

    Lists have an entry for each operation of the program.

    Raises
    ------
    ScheduleError
        If messages do not match, a range does not exist, or the program deadlocks; the same at all ranks.
    """

    def __init__(self, program: Program, rank: int) -> None:
        check_executable(program)
        self.program, self.rank = program, rank
        self.operations = program.operations(rank)
        self.kinds: list[int] = program.operation_kind.tolist()
        self.peers: list[int] = program.peer.tolist()
        self.awaited: list[bool] = is_awaited(program).tolist()
        self.flow = dataflow(program)
        self.partner: list[int] = self.flow.partner.tolist()
        self.message: list[int] = self.flow.number.tolist()
        self.turn: list[int] = self.flow.turn.tolist()
        # a turn counts sends first and then, below n + 1, the longest chain of waits and messages
        self.depth: list[int] = (self.flow.turn % (program.n_operations + 1)).tolist()
        self.followers: dict[int, list[int]] = defaultdict(list)
        for operation in self.operations:
            for awaited in program.waits_of(operation).tolist():
                self.followers[awaited].append(operation)

    @cached_property
    def merged(self) -> PreparedRank:
        """The same rank of `merge_levels` of the program."""
        program = merge_levels(self.program)
        return self if program is self.program else PreparedRank(program, self.rank)

    def script(
        self,
        count: int,
        *,
        element_bytes: int,
        slice_bytes: int,
        spare_bytes: int,
        eager_bytes: int | None = None,
        piece_bytes: int | None = None,
        packed_bytes: int | None = None,
    ) -> Script:
        """Return the actions for `count` elements of the collective's larger per-rank buffer.

        Parameters
        ----------
        slice_bytes : int
            Largest message, more or less: longer chunks go in slices, so that the hops of a tree overlap.
        spare_bytes : int
            Receives that will be reduced start before their turn into so much spare memory.
        eager_bytes, piece_bytes, packed_bytes : int, optional
            Default `EAGER_BYTES`, `PIECE_BYTES`, `PACKED_BYTES`.

        Raises
        ------
        ScheduleError
            If the messages between two ranks outnumber the transport's tags.
        """
        merged = self.merged.program
        longest = -(-count * int(merged.count.max(initial=1)) // merged.n_chunks) * element_bytes
        prepared = self.merged if longest <= slice_bytes else self
        n_slices = slices_for(self.program, count, element_bytes=element_bytes, slice_bytes=slice_bytes)
        layout = Layout(prepared.program, count, n_slices)
        packed: list[list[int]] = []
        if n_slices == 1:  # what is sliced is long
            packed = packed_together(
                prepared.program,
                prepared.flow,
                self.rank,
                [sum(end - start for start, end in layout.ranges(one, 0)) for one in prepared.operations],
                longest=(PIECE_BYTES if piece_bytes is None else piece_bytes) // element_bytes,
                most=(PACKED_BYTES if packed_bytes is None else packed_bytes) // element_bytes,
            )
        is_eager = count * element_bytes <= (EAGER_BYTES if eager_bytes is None else eager_bytes)
        return _Compiler(prepared, layout, packed, spare_bytes // element_bytes, is_eager=is_eager).compile()


class _Unit(NamedTuple):
    """One slice of one operation. Units in rising order are a legal serial order of all ranks together."""

    time: int
    """The operation's turn; with slices, its depth plus the slice's number: they overlap in trees."""
    piece: int
    operation: int


@dataclass
class _Parcel:
    """A message packed of several, its operations that have not been done, and the handle of a receive.

    Packed messages leave with their last operation and are waited for with their first. By turns, all sends
    of a level come before what is behind them, so that the other end still comes earlier.
    """

    room: Span
    missing: int
    peer: int
    tag: int
    handle: int = -1


class _Compiler:
    """Turns a rank's units into actions."""

    def __init__(
        self,
        prepared: PreparedRank,
        layout: Layout,
        packed: list[list[int]],
        spare_elements: int,
        *,
        is_eager: bool,
    ) -> None:
        self._prepared, self._program, self._layout = prepared, prepared.program, layout
        self._kinds = prepared.kinds
        self._times = prepared.depth if layout.n_slices > 1 else prepared.turn
        self._order = sorted(
            self._unit(operation, piece)
            for operation in prepared.operations
            for piece in range(layout.n_slices)
        )
        self._positions = [position_in(layout.spans(prepared.rank, buffer)) for buffer in Buffer]
        # most messages that a unit of any rank becomes: tags must agree at both ends
        self._parts_per_unit = 1 if layout.n_slices == 1 else int(self._program.count.max(initial=1))
        self._actions: list[Action] = []
        self._n_handles = 0
        self._packed: dict[int, tuple[_Parcel, Span]] = {}  # by operation: its parcel and its part of that
        self._packed_elements = 0
        for operations in packed:
            self._lay_out(operations)
        self._is_copied = {
            operation: prepared.awaited[operation]
            and (is_eager or operation in self._packed or self._needs_copy(operation))
            for operation in prepared.operations
            if self._kinds[operation] == OperationKind.SEND
        }
        self._open: dict[_Unit, list[tuple[int, int]]] = {}  # messages not waited for: (handle, peer)
        reductions = self._unpacked(OperationKind.RECEIVE_REDUCE)
        self._unposted = deque(unit for unit in reductions if self._length(unit))
        self._spare = _RingMemory(max([spare_elements, *map(self._length, reductions)]))

    def _unit(self, operation: int, piece: int = 0) -> _Unit:
        return _Unit(self._times[operation] + piece, piece, operation)

    def _unpacked(self, kind: OperationKind) -> list[_Unit]:
        """Units of a kind whose messages go by themselves."""
        return [
            unit
            for unit in self._order
            if self._kinds[unit.operation] == kind and unit.operation not in self._packed
        ]

    def _lay_out(self, operations: list[int]) -> None:
        units = [self._unit(operation) for operation in operations]
        bounds = list(accumulate(map(self._length, units), initial=self._packed_elements))
        self._packed_elements = bounds[-1]
        peer, tag = self._address(units[0], 0)
        parcel = _Parcel(Span(PACKED, bounds[0], bounds[-1]), len(operations), peer, tag)
        for operation, (low, high) in zip(operations, pairwise(bounds), strict=True):
            self._packed[operation] = parcel, Span(PACKED, low, high)
        if self._kinds[operations[0]] != OperationKind.SEND:
            parcel.handle = self._new_handle()
            self._actions.append(Action(ActionKind.RECEIVE, parcel.handle, peer, tag, target=parcel.room))

    def _ranges(self, unit: _Unit) -> list[tuple[int, int]]:
        return list(self._layout.ranges(unit.operation, unit.piece))

    def _length(self, unit: _Unit) -> int:
        return sum(end - start for start, end in self._ranges(unit))

    def _needs_copy(self, send: int) -> bool:
        """Whether an operation that waits for this send comes before the receive at the other end."""
        receive = self._unit(self._prepared.partner[send])
        return any(self._unit(follower) < receive for follower in self._prepared.followers[send])

    def _uncopied_sends(self, unit: _Unit) -> Iterator[_Unit]:
        """Sends, not from a copy, that a unit waits for."""
        for operation in self._program.waits_of(unit.operation).tolist():
            if self._is_copied.get(operation) is False:
                yield self._unit(operation, unit.piece)

    def compile(self) -> Script:
        place = {unit: place for place, unit in enumerate(self._order)}
        early: list[list[_Unit]] = [[] for _ in self._order]
        for unit in self._unpacked(OperationKind.RECEIVE):
            early[self._earliest(unit, place)].append(unit)
        for unit, receives in zip(self._order, early, strict=True):
            self._post_reductions()
            for receive in receives:
                self._settle(receive)
                self._start(receive, ActionKind.RECEIVE, self._spans(receive, self._program.target))
            self._perform(unit)
        for unit in list(self._open):
            self._wait(unit)
        rank, program = self._prepared.rank, self._program
        scratch = self._layout.length(rank, Buffer.SCRATCH) if program.uses_scratch(rank) else 0
        return Script(tuple(self._actions), self._n_handles, scratch, self._spare.used, self._packed_elements)

    def _earliest(self, receive: _Unit, place: dict[_Unit, int]) -> int:
        """First place at which nothing that the receive waits for is open, nor can hold up the others."""
        awaited = self._program.waits_of(receive.operation).tolist()
        after = [place[self._unit(operation, receive.piece)] + 1 for operation in awaited]
        # a send may be waited for only where its receive comes before
        after += [
            bisect_left(self._order, self._unit(self._prepared.partner[send.operation], send.piece))
            for send in self._uncopied_sends(receive)
        ]
        return max(after, default=0)

    def _perform(self, unit: _Unit) -> None:
        """Actions of a unit whose turn it is."""
        kind, program = self._kinds[unit.operation], self._program
        if unit.operation in self._packed:
            self._perform_packed(unit, *self._packed[unit.operation])
        elif kind == OperationKind.RECEIVE:
            self._wait(unit)
        elif kind == OperationKind.SEND:
            self._settle(unit)
            start = ActionKind.SEND_COPY if self._is_copied[unit.operation] else ActionKind.SEND
            self._start(unit, start, self._spans(unit, program.source))
        else:
            self._settle(unit)
            sources, targets = self._spans(unit, program.source), self._spans(unit, program.target)
            ends = Buffer(program.source[unit.operation]), Buffer(program.target[unit.operation])
            if kind == OperationKind.RECEIVE_REDUCE and sources:
                self._wait(unit)
                self._reduce(sources, self._spare.free(), targets)
            elif kind == OperationKind.COPY and not is_same_memory(program, *ends):
                self._copy(sources, targets)

    def _perform_packed(self, unit: _Unit, parcel: _Parcel, part: Span) -> None:
        kind, program = self._kinds[unit.operation], self._program
        parts = [part for _ in self._ranges(unit)]  # at most one: what is packed is not sliced
        parcel.missing -= 1
        if kind == OperationKind.SEND:
            self._copy(self._spans(unit, program.source), parts)
            if parcel.missing == 0:
                handle = self._new_handle()
                send = Action(ActionKind.SEND, handle, parcel.peer, parcel.tag, source=parcel.room)
                self._actions.append(send)
                self._open[unit] = [(handle, parcel.peer)]
            return
        self._settle(unit)
        if parcel.handle >= 0:
            self._actions.append(Action(ActionKind.WAIT, parcel.handle, parcel.peer))
            parcel.handle = -1
        targets = self._spans(unit, program.target)
        if kind == OperationKind.RECEIVE:
            self._copy(parts, targets)
        else:
            self._reduce(self._spans(unit, program.source), parts, targets)

    def _copy(self, sources: list[Span], targets: list[Span]) -> None:
        for source, target in zip(sources, targets, strict=True):
            self._actions.append(Action(ActionKind.COPY, source=source, target=target))

    def _reduce(self, sources: list[Span], arrived: list[Span], targets: list[Span]) -> None:
        for source, came, target in zip(sources, arrived, targets, strict=True):
            self._actions.append(Action(ActionKind.REDUCE, source=source, arrived=came, target=target))

    def _new_handle(self) -> int:
        self._n_handles += 1
        return self._n_handles - 1

    def _spans(self, unit: _Unit, buffers: Int32Array) -> list[Span]:
        area = int(buffers[unit.operation])
        position = self._positions[area]
        return [
            Span(area, position(start), position(start) + end - start) for start, end in self._ranges(unit)
        ]

    def _start(self, unit: _Unit, kind: ActionKind, spans: list[Span]) -> None:
        """Start a message for each span, and note that the unit waits for them."""
        self._open[unit] = []
        end = "target" if kind == ActionKind.RECEIVE else "source"
        for part, span in enumerate(spans):
            peer, tag = self._address(unit, part)
            handle = self._new_handle()
            self._actions.append(Action(kind, handle, peer, tag, **{end: span}))
            self._open[unit].append((handle, peer))

    def _post_reductions(self) -> None:
        """Start receives that will be reduced, in the order of the reductions, while spare memory lasts."""
        while self._unposted:
            spans = self._spare.take([end - start for start, end in self._ranges(self._unposted[0])])
            if spans is None:
                return
            self._start(self._unposted.popleft(), ActionKind.RECEIVE, spans)

    def _settle(self, unit: _Unit) -> None:
        """Wait for the sends that the unit waits for, but for those of a copy."""
        for send in self._uncopied_sends(unit):
            self._wait(send)

    def _wait(self, unit: _Unit) -> None:
        for handle, peer in self._open.pop(unit, ()):
            self._actions.append(Action(ActionKind.WAIT, handle, peer))

    def _address(self, unit: _Unit, part: int) -> tuple[int, int]:
        number = self._prepared.message[unit.operation] * self._layout.n_slices + unit.piece
        tag = number * self._parts_per_unit + part
        if tag > MAX_TAG:
            raise ScheduleError(
                f"the program needs message numbers beyond {MAX_TAG} at this size; use larger slices"
            )
        return self._prepared.peers[unit.operation], tag


class _RingMemory:
    """Spare memory whose parts are taken and freed in the same order."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._taken: deque[list[int]] = deque()
        self.used = 0

    def take(self, lengths: list[int]) -> list[Span] | None:
        """Return consecutive spans of these lengths; None if they do not fit now."""
        start = self._room(sum(lengths))
        if start is None:
            return None
        self._taken.append(list(accumulate(lengths, initial=start)))
        self.used = max(self.used, self._taken[-1][-1])
        return self._spans(self._taken[-1])

    def free(self) -> list[Span]:
        """Give back what was taken first, and return it."""
        return self._spans(self._taken.popleft())

    @staticmethod
    def _spans(bounds: list[int]) -> list[Span]:
        return [Span(SPARE, low, high) for low, high in pairwise(bounds)]

    def _room(self, total: int) -> int | None:
        if not self._taken:
            return 0
        oldest, newest, end = self._taken[0][0], self._taken[-1][0], self._taken[-1][-1]
        if newest < oldest:  # wrapped round: the room between the newest and the oldest piece
            return end if end + total <= oldest else None
        if end + total <= self._capacity:
            return end
        return 0 if total <= oldest else None
