"""Accesses of a rank's operations to one memory: which of them nothing orders, what is read too soon."""

from __future__ import annotations

import numpy as np

from treadle.arrays import Int64Array
from treadle.program.program import Buffer, OperationKind, Program

_NEARBY = 64
"""Operations looked at for a chain of waits before all ancestors of the rank's operations are formed."""


def find_races(program: Program, rank: int) -> list[str]:
    """Conflicting accesses in list order that no chain of dependences orders, and reads of what is not there.

    Without races, what the list order finds in memory every other order finds there.
    """
    span = program.operations(rank)
    part = slice(span.start, span.stop)
    runs = _Runs(program, rank)
    held_in = Buffer.OUTPUT if program.in_place else Buffer.INPUT
    writers: dict[int, list[int]] = {int(buffer): [-1] * runs.count for buffer in Buffer}
    readers: dict[int, list[list[int]]] = {int(buffer): [[] for _ in range(runs.count)] for buffer in Buffer}
    found: list[str] = []
    ancestors = _Ancestors(program, rank)
    source, target = (_memory(program, column[part]) for column in (program.source, program.target))
    columns = (program.operation_kind[part], source, target, runs.first, runs.past)
    for place, row in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        kind, read, written, low, past = row
        number = span.start + place
        conflicts: set[int] = set()
        if kind != OperationKind.RECEIVE:
            there = writers[read][low:past]
            conflicts.update(there)
            if -1 in conflicts:
                found += _read_too_soon(runs, rank, number, low, there, is_input=read == held_in)
            if kind != OperationKind.RECEIVE_REDUCE or read != written:
                for run in range(low, past):
                    readers[read][run].append(number)
        if kind != OperationKind.SEND:
            conflicts.update(writers[written][low:past])
            for run in range(low, past):
                if readers[written][run]:
                    conflicts.update(readers[written][run])
                    readers[written][run] = []
            writers[written][low:past] = [number] * (past - low)
        conflicts -= {-1, number}
        if conflicts:
            found += [
                f"rank {rank}: operations {other} and {number} race"
                for other in ancestors.without(number, conflicts)
            ]
    return found


class _Runs:
    """Chunks of a rank cut wherever an operation or the input begins or ends."""

    def __init__(self, program: Program, rank: int) -> None:
        span = program.operations(rank)
        first = program.first[span.start : span.stop]
        past = first + program.count[span.start : span.stop]
        own = np.array(program.ranges(rank, Buffer.INPUT), dtype=np.int64).reshape(-1, 2)
        self.bounds: Int64Array = np.unique(np.concatenate([first, past, own.ravel()]))
        self.count = max(0, len(self.bounds) - 1)
        self.first: Int64Array = np.searchsorted(self.bounds, first)
        self.past: Int64Array = np.searchsorted(self.bounds, past)
        self.is_input = np.zeros(len(self.bounds), dtype=bool)
        """Whether the input has a run."""
        for low, high in np.searchsorted(self.bounds, own).tolist():
            self.is_input[low:high] = True


def _memory(program: Program, buffers: np.ndarray[tuple[int], np.dtype[np.int32]]) -> Int64Array:
    """The memory behind each buffer: in place, input and output are one."""
    merged = np.where((buffers == Buffer.INPUT) & program.in_place, int(Buffer.OUTPUT), buffers)
    return merged.astype(np.int64)


def _read_too_soon(
    runs: _Runs, rank: int, number: int, low: int, writers: list[int], *, is_input: bool
) -> list[str]:
    """Chunks that nobody has written, of the runs from `low` on, but for those of the input."""
    return [
        f"rank {rank}: operation {number} reads chunk {chunk}, which is not there yet"
        for run, writer in enumerate(writers, low)
        if writer < 0 and not (is_input and runs.is_input[run])
        for chunk in range(int(runs.bounds[run]), int(runs.bounds[run + 1]))
    ]


class _Ancestors:
    """What must be over before an operation of a rank starts."""

    def __init__(self, program: Program, rank: int) -> None:
        span = program.operations(rank)
        self._start = span.start
        self._offset: list[int] = program.wait_offset[span.start : span.stop + 1].tolist()
        self._waits: list[int] = program.waits[self._offset[0] : self._offset[-1]].tolist()
        self._bits: list[int] = []

    def _waits_of(self, number: int) -> list[int]:
        low, past = self._offset[number - self._start : number - self._start + 2]
        return self._waits[low - self._offset[0] : past - self._offset[0]]

    def without(self, number: int, others: set[int]) -> list[int]:
        """Those of some earlier operations that are not among them, rising."""
        left = others.difference(self._waits_of(number))
        if left and not self._bits and not self._settle_nearby(number, left):
            self._form()
        if left and self._bits:
            before = self._bits[number - self._start]
            left = {other for other in left if not before >> (other - self._start) & 1}
        return sorted(left)

    def _settle_nearby(self, number: int, left: set[int]) -> bool:
        """Take from `left` what a short search backwards finds; False if the search was cut off."""
        first = min(left)
        seen = set(self._waits_of(number))
        stack = list(seen)
        while stack and left:
            if len(seen) > _NEARBY:
                return False
            for wait in self._waits_of(stack.pop()):
                if wait >= first and wait not in seen:
                    seen.add(wait)
                    stack.append(wait)
            left -= seen
        return True

    def _form(self) -> None:
        for place in range(len(self._offset) - 1):
            before = 0
            for wait in self._waits_of(self._start + place):
                before |= self._bits[wait - self._start] | 1 << (wait - self._start)
            self._bits.append(before)
