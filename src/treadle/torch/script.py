"""One rank's part of a program as a fixed list of actions that wait for one message at a time."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator
from functools import cached_property
from itertools import accumulate, pairwise
from typing import NamedTuple

from treadle.arrays import Int32Array, Int64Array
from treadle.errors import ScheduleError
from treadle.program.program import Buffer, OperationKind, Program
from treadle.runtime.memory import Layout, is_same_memory, slices_for
from treadle.runtime.mpi_rank import PreparedRank
from treadle.runtime.order import execution_order, match_messages
from treadle.torch.actions import PACKED, SPARE, Action, ActionKind, Script, Span

MAX_TAG = 2**31 - 1
"""Gloo's tags are 32-bit integers with a sign."""

EAGER_BYTES = 2**17
"""Buffers up to this size are sent from copies: cheaper than to wait until they may be written over."""

PIECE_BYTES = 2**17
"""Longest message that is packed with others: one of gloo costs some 70 us of processor time."""

PACKED_BYTES = 2**19
"""Longest message packed of several."""


class RankPart:
    """A checked program as one rank sees it; the same for every size.

    Parameters
    ----------
    program : Program
    rank : int

    Raises
    ------
    ScheduleError
        If messages do not match, a range does not exist, or the program deadlocks; the same at all ranks.
    """

    def __init__(self, program: Program, rank: int, prepared: PreparedRank | None = None) -> None:
        self.program, self.prepared = program, prepared or PreparedRank(program, rank)
        prepared = self.prepared
        self.turn = prepared.flow.turn.tolist()
        self.partner = match_messages(program).tolist()
        self.depth = _depths(program, execution_order(program, match_messages(program)), self.partner)

    @cached_property
    def _merged(self) -> RankPart:
        merged = self.prepared.merged
        return RankPart(merged.program, merged.rank, merged)

    def script(self, count: int, *, element_bytes: int, slice_bytes: int, spare_bytes: int) -> Script:
        """The actions for `count` elements of the collective's larger per-rank buffer.

        Parameters
        ----------
        count : int
        element_bytes : int
            Bytes of an element.
        slice_bytes : int
            Largest message, more or less: longer chunks go in slices, so that the hops of a tree overlap.
        spare_bytes : int
            Receives that will be reduced start before their turn into so much spare memory.

        Raises
        ------
        ScheduleError
            If the messages between two ranks outnumber the transport's tags.
        """
        n_slices = slices_for(self.program, count, element_bytes=element_bytes, slice_bytes=slice_bytes)
        suited = self.prepared.suited(count, element_bytes=element_bytes, slice_bytes=slice_bytes)
        part = self if suited is self.prepared else self._merged
        layout = Layout(part.program, count, n_slices)
        packed = part.prepared.packed(
            layout, element_bytes=element_bytes, piece_bytes=PIECE_BYTES, packed_bytes=PACKED_BYTES
        )
        return _Compiler(
            part,
            layout,
            packed,
            spare_bytes // element_bytes,
            is_eager=count * element_bytes <= EAGER_BYTES,
        ).compile()


def _depths(program: Program, order: Int64Array, partner: list[int]) -> list[int]:
    """Longest chain of waits and messages that ends at each operation."""
    depth = [0] * program.n_operations
    offsets, waits = program.wait_offset.tolist(), program.waits.tolist()
    is_send = (program.operation_kind == OperationKind.SEND).tolist()
    for operation in order.tolist():
        before = [depth[awaited] for awaited in waits[offsets[operation] : offsets[operation + 1]]]
        if partner[operation] >= 0 and not is_send[operation]:
            before.append(depth[partner[operation]])
        depth[operation] = 1 + max(before, default=-1)
    return depth


class _Unit(NamedTuple):
    """One slice of one operation. Units in rising order are a legal serial order of all ranks together."""

    time: int
    """The operation's turn; with slices, its depth plus the slice's number: they overlap in trees."""
    piece: int
    operation: int


class _Parcel:
    """A message packed of several; its members are operations of this rank."""

    def __init__(self, room: Span, n_members: int, peer: int, tag: int) -> None:
        self.room, self.missing, self.peer, self.tag = room, n_members, peer, tag
        self.handle = -1  # of a receive that has not been waited for


class _Compiler:
    """Turns a rank's units into actions.

    Every rank performs its units in their common order and waits for one message at a time. A wait ends:
    the message's other end comes earlier in that order, and whatever its rank waits for before comes
    earlier still. For the same reason a rank may wait until a send has left, instead of sending a copy,
    where the receive comes before the operation that is about to write over the data.

    Packed messages leave with their last member and are waited for with their first. By turns, all sends of
    a level come before what is behind them, so that the other end still comes earlier.
    """

    def __init__(
        self,
        part: RankPart,
        layout: Layout,
        packed: list[list[int]],
        spare_elements: int,
        *,
        is_eager: bool,
    ) -> None:
        self._part, self._prepared, self._layout = part, part.prepared, layout
        self._first = self._prepared.operations.start
        self._order = sorted(
            self._unit(operation, piece)
            for operation in self._prepared.operations
            for piece in range(layout.n_slices)
        )
        self._place = {unit: place for place, unit in enumerate(self._order)}
        self._addresses = [_Addresses(layout, self._prepared.rank, buffer) for buffer in Buffer]
        # most messages that a unit of any rank becomes: tags must agree at both ends
        self._parts_per_unit = 1 if layout.n_slices == 1 else int(part.program.count.max(initial=1))
        self._actions: list[Action] = []
        self._n_handles = 0
        self._packed: dict[int, tuple[_Parcel, Span]] = {}  # by operation: its parcel and its part of that
        self._packed_elements = 0
        for operations in packed:
            self._lay_out(operations)
        self._is_copied = {
            operation: self._prepared.awaited[operation - self._first]
            and (is_eager or operation in self._packed or self._needs_copy(operation))
            for operation in self._prepared.operations
            if self._kind(operation) == OperationKind.SEND
        }
        self._open: dict[_Unit, list[tuple[int, int]]] = {}  # messages not waited for: (handle, peer)
        reductions = [
            unit
            for unit in self._order
            if self._kind(unit.operation) == OperationKind.RECEIVE_REDUCE
            and unit.operation not in self._packed
        ]
        self._unposted = deque(unit for unit in reductions if self._length(unit))
        largest = max((self._length(unit) for unit in reductions), default=0)
        self._spare = _RingMemory(max(spare_elements, largest))

    def _unit(self, operation: int, piece: int) -> _Unit:
        is_cut = self._layout.n_slices > 1
        return _Unit((self._part.depth if is_cut else self._part.turn)[operation] + piece, piece, operation)

    def _lay_out(self, operations: list[int]) -> None:
        lengths = [self._length(self._unit(operation, 0)) for operation in operations]
        bounds = list(accumulate(lengths, initial=self._packed_elements))
        self._packed_elements = bounds[-1]
        peer, tag = self._address(self._unit(operations[0], 0), 0)
        parcel = _Parcel(Span(PACKED, bounds[0], bounds[-1]), len(operations), peer, tag)
        for operation, (low, high) in zip(operations, pairwise(bounds), strict=True):
            self._packed[operation] = parcel, Span(PACKED, low, high)
        if self._kind(operations[0]) != OperationKind.SEND:
            parcel.handle = self._new_handle()
            self._actions.append(Action(ActionKind.RECEIVE, parcel.handle, peer, tag, target=parcel.room))

    def _kind(self, operation: int) -> int:
        return int(self._prepared.kinds[operation - self._first])

    def _ranges(self, unit: _Unit) -> list[tuple[int, int]]:
        return list(self._layout.ranges(unit.operation, unit.piece))

    def _length(self, unit: _Unit) -> int:
        return sum(end - start for start, end in self._ranges(unit))

    def _needs_copy(self, send: int) -> bool:
        """Whether an operation that waits for this send comes before the receive at the other end."""
        receive = self._unit(self._part.partner[send], 0)
        followers = self._prepared.followers[send - self._first]
        return any(self._unit(self._first + follower, 0) < receive for follower in followers)

    def _awaited(self, unit: _Unit) -> Iterator[_Unit]:
        for operation in self._part.program.waits_of(unit.operation).tolist():
            yield self._unit(operation, unit.piece)

    def compile(self) -> Script:
        early: list[list[_Unit]] = [[] for _ in self._order]
        for unit in self._order:
            if self._kind(unit.operation) == OperationKind.RECEIVE and unit.operation not in self._packed:
                early[self._earliest(unit)].append(unit)
        for unit, receives in zip(self._order, early, strict=True):
            self._post_reductions()
            for receive in receives:
                self._settle(receive)
                self._start(receive, ActionKind.RECEIVE, self._spans(receive, self._part.program.target))
            self._perform(unit)
        for unit in list(self._open):
            self._wait(unit)
        rank, program = self._prepared.rank, self._part.program
        scratch = self._layout.length(rank, Buffer.SCRATCH) if program.uses_scratch(rank) else 0
        return Script(tuple(self._actions), self._n_handles, scratch, self._spare.used, self._packed_elements)

    def _earliest(self, receive: _Unit) -> int:
        """First place at which nothing that the receive waits for is open, nor can hold up the others."""
        place = 0
        for unit in self._awaited(receive):
            place = max(place, self._place[unit] + 1)
            if self._is_copied.get(unit.operation) is False:
                other = self._unit(self._part.partner[unit.operation], unit.piece)
                place = max(place, bisect_left(self._order, other))
        return place

    def _perform(self, unit: _Unit) -> None:
        """Actions of a unit whose turn it is."""
        kind, program = self._kind(unit.operation), self._part.program
        if unit.operation in self._packed:
            self._perform_packed(unit, *self._packed[unit.operation])
            return
        if kind == OperationKind.RECEIVE:
            self._wait(unit)
            return
        self._settle(unit)
        sources = self._spans(unit, program.source)
        if kind == OperationKind.SEND:
            start = ActionKind.SEND_COPY if self._is_copied[unit.operation] else ActionKind.SEND
            self._start(unit, start, sources)
            return
        targets = self._spans(unit, program.target)
        if kind == OperationKind.COPY:
            ends = Buffer(program.source[unit.operation]), Buffer(program.target[unit.operation])
            if not is_same_memory(program, *ends):
                for source, target in zip(sources, targets, strict=True):
                    self._actions.append(Action(ActionKind.COPY, source=source, target=target))
        elif sources:
            self._wait(unit)
            for source, arrived, target in zip(sources, self._spare.free(), targets, strict=True):
                self._actions.append(Action(ActionKind.REDUCE, source=source, arrived=arrived, target=target))

    def _perform_packed(self, unit: _Unit, parcel: _Parcel, part: Span) -> None:
        kind, program = self._kind(unit.operation), self._part.program
        sources, targets = self._spans(unit, program.source), self._spans(unit, program.target)
        parcel.missing -= 1
        if kind == OperationKind.SEND:
            for source in sources:
                self._actions.append(Action(ActionKind.COPY, source=source, target=part))
            if parcel.missing == 0:
                handle = self._new_handle()
                self._actions.append(
                    Action(ActionKind.SEND, handle, parcel.peer, parcel.tag, source=parcel.room)
                )
                self._open[unit] = [(handle, parcel.peer)]
            return
        self._settle(unit)
        if parcel.handle >= 0:
            self._actions.append(Action(ActionKind.WAIT, parcel.handle, parcel.peer))
            parcel.handle = -1
        for source, target in zip(sources, targets, strict=True):
            if kind == OperationKind.RECEIVE:
                self._actions.append(Action(ActionKind.COPY, source=part, target=target))
            else:
                self._actions.append(Action(ActionKind.REDUCE, source=source, arrived=part, target=target))

    def _new_handle(self) -> int:
        self._n_handles += 1
        return self._n_handles - 1

    def _spans(self, unit: _Unit, buffers: Int32Array) -> list[Span]:
        addresses = self._addresses[int(buffers[unit.operation])]
        return [addresses.span(start, end) for start, end in self._ranges(unit)]

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
            unit = self._unposted[0]
            spans = self._spare.take([end - start for start, end in self._ranges(unit)])
            if spans is None:
                return
            self._start(self._unposted.popleft(), ActionKind.RECEIVE, spans)

    def _settle(self, unit: _Unit) -> None:
        """Wait for the sends that the unit waits for, but for those of a copy."""
        for awaited in self._awaited(unit):
            if self._is_copied.get(awaited.operation) is False:
                self._wait(awaited)

    def _wait(self, unit: _Unit) -> None:
        for handle, peer in self._open.pop(unit, ()):
            self._actions.append(Action(ActionKind.WAIT, handle, peer))

    def _address(self, unit: _Unit, part: int) -> tuple[int, int]:
        place = unit.operation - self._first
        number = self._prepared.message[place] * self._layout.n_slices + unit.piece
        tag = number * self._parts_per_unit + part
        if tag > MAX_TAG:
            raise ScheduleError(
                f"the program needs message numbers beyond {MAX_TAG} at this size; use larger slices"
            )
        return int(self._prepared.peers[place]), tag


class _Addresses:
    """Positions of elements of the collective's full buffer in one buffer of a rank."""

    def __init__(self, layout: Layout, rank: int, buffer: Buffer) -> None:
        spans = layout.spans(rank, buffer)
        self._area = int(buffer)
        self._firsts = [first for first, _ in spans]
        self._places = list(accumulate((past - first for first, past in spans), initial=0))

    def span(self, start: int, end: int) -> Span:
        """The span of elements `start` to `end` - 1, which lie in one range of the buffer."""
        number = bisect_right(self._firsts, start) - 1
        shift = self._places[number] - self._firsts[number]
        return Span(self._area, start + shift, end + shift)


class _RingMemory:
    """Spare memory whose parts are taken and freed in the same order."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._taken: deque[tuple[int, int, list[Span]]] = deque()
        self.used = 0

    def take(self, lengths: list[int]) -> list[Span] | None:
        """Return consecutive spans of these lengths; None if they do not fit now."""
        total = sum(lengths)
        start = self._room(total)
        if start is None:
            return None
        bounds = list(accumulate(lengths, initial=start))
        spans = [Span(SPARE, low, high) for low, high in pairwise(bounds)]
        self._taken.append((start, start + total, spans))
        self.used = max(self.used, start + total)
        return spans

    def free(self) -> list[Span]:
        """Give back what was taken first, and return it."""
        return self._taken.popleft()[2]

    def _room(self, total: int) -> int | None:
        if not self._taken:
            return 0
        oldest, (newest, end, _) = self._taken[0][0], self._taken[-1]
        if newest < oldest:  # wrapped round: the room between the newest and the oldest piece
            return end if end + total <= oldest else None
        if end + total <= self._capacity:
            return end
        return 0 if total <= oldest else None
