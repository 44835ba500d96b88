"""Executes emitted files over MPI with data: every process is one rank (extra ``mpi``).

``mpirun -n RANKS python -m mpi4py -m treadle.runtime.mpi_run FILE ...`` reads MSCCL XMLs or CPU XMLs, moves
integers as they say, and compares every element of the output with the collective's definition. It reads the
files alone: neither the plans nor the programs that they were made from.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treadle.errors import FormatError, TreadleError
from treadle.formats.cpu.reader import CpuFile, Instruction, parse_cpu_xml
from treadle.formats.msccl.reader import (
    MAX_TEXT,
    RECEIVING,
    SENDING,
    Algorithm,
    MscclStep,
    first_parsed,
)
from treadle.runtime.mpi import load_mpi

_Data = NDArray[np.int64]
MAX_SLOT_ELEMENTS = 2**27
"""Most elements in the slots of a rank: a gigabyte."""


def contribution(rank: int, elements: int) -> _Data:
    """Contribution of a rank: numbers that differ from rank to rank and position to position."""
    return (rank + 1) * 1_000_003 + np.arange(elements, dtype=np.int64) * (2 * rank + 1)


def expected(kind: str, rank: int, n: int, elements: int, root: int) -> _Data | None:
    """Expected output of a rank for a larger buffer of this many elements; None if undefined.

    Parameters
    ----------
    kind : str
        As either format spells it.
    rank, n, elements, root : int
        `elements` divides by n for shards.
    """
    name = kind.replace("-", "").replace("_", "")
    share = elements // n
    if name == "allgather":
        return np.concatenate([contribution(other, share) for other in range(n)])
    if name == "alltoall":
        parts = [contribution(other, elements)[rank * share : (rank + 1) * share] for other in range(n)]
        return np.concatenate(parts)
    if name == "broadcast":
        return contribution(root, elements)
    total: _Data = np.sum([contribution(other, elements) for other in range(n)], axis=0, dtype=np.int64)
    if name == "reducescatter":
        return total[rank * share : (rank + 1) * share]
    return total if name == "allreduce" or rank == root else None


class _MscclRank:
    """One rank of an MSCCL XML: its thread blocks take turns."""

    def __init__(self, algorithm: Algorithm, world: Any, elements: int, in_place: bool, root: int) -> None:
        self._world, self._algorithm = world, algorithm
        self._rank = rank = int(world.Get_rank())
        self._chunk = elements // algorithm.n_chunks
        sizes = {letter: count * self._chunk for letter, count in algorithm.sizes[rank].items()}
        larger = max(sizes["i"], sizes["o"])
        self.memory = {letter: np.full(size, -1, dtype=np.int64) for letter, size in sizes.items()}
        if in_place:
            whole = np.full(larger, -1, dtype=np.int64)
            for letter in "io":
                start = rank * sizes[letter] if sizes[letter] < larger else 0
                self.memory[letter] = whole[start : start + sizes[letter]]
        if algorithm.collective != "broadcast" or rank == root:
            self.memory["i"][:] = contribution(rank, sizes["i"])
        first, past = algorithm.first_block[rank], algorithm.first_block[rank + 1]
        self._first = first
        self._blocks = [
            [step for step in algorithm.steps if step.block == block] for block in range(first, past)
        ]
        self._done = [0] * len(self._blocks)
        self._receives: dict[int, tuple[Any, _Data]] = {}
        self._sends: list[Any] = []

    def run(self) -> None:
        """Run all steps; waits for ever if the file does."""
        while any(done < len(steps) for done, steps in zip(self._done, self._blocks, strict=True)):
            for number, steps in enumerate(self._blocks):
                while self._done[number] < len(steps) and self._step(number, steps[self._done[number]]):
                    self._done[number] += 1
        for request, _ in self._sends:
            request.Wait()

    def _step(self, number: int, step: MscclStep) -> bool:
        block, place = step.wait
        if block >= 0 and self._done[block] <= place:
            return False
        data = self._view(step.source, step.count)
        _, send_peer, receive_peer, channel = self._algorithm.blocks[self._first + number]
        if step.type in RECEIVING:
            came = self._receive(number, receive_peer, channel, step.count * self._chunk)
            if came is None:
                return False
            data = data + came if step.type in ("rrs", "rrc", "rrcs") else came
        if step.type in ("r", "rcs", "rrc", "rrcs", "cpy"):
            self._view(step.target, step.count)[:] = data
        elif step.type == "re":
            self._view(step.target, step.count)[:] += data
        if step.type in SENDING:
            held = np.array(data)
            self._sends.append((self._world.Isend(held, dest=send_peer, tag=channel), held))
        return True

    def _receive(self, number: int, peer: int, channel: int, elements: int) -> _Data | None:
        if number not in self._receives:
            room = np.empty(elements, dtype=np.int64)
            self._receives[number] = (self._world.Irecv(room, source=peer, tag=channel), room)
        request, room = self._receives[number]
        if not request.Test():
            return None
        del self._receives[number]
        return room

    def _view(self, end: tuple[str, int], count: int) -> _Data:
        letter, offset = end
        return self.memory[letter][max(offset, 0) * self._chunk : (max(offset, 0) + count) * self._chunk]


class _CpuRank:
    """One rank of a CPU XML."""

    def __init__(self, text: CpuFile, world: Any, elements: int) -> None:
        self._world, self._text = world, text
        self._rank = int(world.Get_rank())
        self._elements = elements
        mine = text.ranks[self._rank]
        self.memory = {
            letter: np.full(sum(self._length(span) for span in mine.chunks[letter]), -1, dtype=np.int64)
            for letter in "ios"
        }
        self._room = _slot_elements(text, elements)
        self.memory["slot"] = np.full(mine.slots * self._room, -1, dtype=np.int64)
        if text.in_place:
            larger, smaller = sorted("io", key=lambda letter: -len(self.memory[letter]))
            if mine.chunks[smaller]:
                chunk = mine.chunks[smaller][0].start
                start = self._before(larger, chunk)
                self.memory[smaller] = self.memory[larger][start : start + len(self.memory[smaller])]
        if text.collective != "broadcast" or self._rank == text.root:
            self.memory["i"][:] = contribution(self._rank, len(self.memory["i"]))
        self._requests: list[Any] = []

    def run(self) -> None:
        """Run all instructions; waits for ever if the file does."""
        for step in self._text.ranks[self._rank].instructions:
            if step.kind == "sync":
                for request in self._requests:
                    request.Wait()
                self._requests.clear()
            elif step.kind == "send":
                self._requests.append(self._world.Isend(self._view(step.buffer, step), dest=step.peer))
            elif step.kind == "recv":
                room = self._slot(step) if step.slot >= 0 else self._view(step.buffer, step)
                self._requests.append(self._world.Irecv(room, source=step.peer))
            elif step.kind == "copy":
                self._view(step.target, step)[:] = self._view(step.buffer, step)
            else:
                self._view(step.buffer, step)[:] += self._slot(step)

    def _element(self, chunk: int) -> int:
        return chunk * self._elements // self._text.n_chunks

    def _length(self, span: range) -> int:
        return self._element(span.stop) - self._element(span.start)

    def _before(self, letter: str, chunk: int) -> int:
        """Elements of a buffer before a chunk."""
        spans = self._text.ranks[self._rank].chunks[letter]
        return sum(self._length(range(s.start, min(s.stop, chunk))) for s in spans if s.start < chunk)

    def _view(self, letter: str, step: Instruction) -> _Data:
        start = self._before(letter, step.chunk)
        return self.memory[letter][start : start + self._length(range(step.chunk, step.chunk + step.count))]

    def _slot(self, step: Instruction) -> _Data:
        start = step.slot * self._room
        length = self._length(range(step.chunk, step.chunk + step.count))
        return self.memory["slot"][start : start + length]


def execute_file(text: str, world: Any, elements: int, *, root: int = 0, source: str = "text") -> list[int]:
    """Move integers as a file says; return the wrong elements here, for each supported mode.

    Parameters
    ----------
    text : str
        MSCCL XML or CPU XML.
    world : MPI communicator
        One process for each rank.
    elements : int
        Of the larger per-rank buffer; MSCCL XML and shards need a multiple of the chunks.
    root : int
        Of broadcast and reduce in MSCCL XML, which does not name it.

    Raises
    ------
    FormatError
        In every process: if the file is malformed, is for another number of ranks, does not support this many
        elements, or sends a message that is never received.
    """
    rank, n = int(world.Get_rank()), int(world.Get_size())
    if text.lstrip().startswith("<cpu"):
        parsed = parse_cpu_xml(text, source=source)
        kind, root = parsed.collective, max(0, parsed.root)
        _check(source, n, len(parsed.ranks), elements, n if "all" in kind or "scatter" in kind else 1)
        # the other buffers have at most `elements` each; slots are as many as the text says
        most = max(rank.slots for rank in parsed.ranks) * _slot_elements(parsed, elements)
        if most > MAX_SLOT_ELEMENTS:
            raise FormatError(
                f"a rank's slots take {most} elements, expected at most {MAX_SLOT_ELEMENTS}", source=source
            )
        runs: Sequence[_CpuRank | _MscclRank] = [_CpuRank(parsed, world, elements)]
    else:
        algorithm = first_parsed(text, None, source)
        kind = algorithm.collective
        _check(source, n, algorithm.n_ranks, elements, algorithm.n_chunks)
        runs = [_MscclRank(algorithm, world, elements, mode, root) for mode in algorithm.in_place]
    wrong = []
    for run in runs:
        run.run()
        world.Barrier()
        if world.allreduce(int(world.Iprobe())):
            raise FormatError("a message was sent that no rank receives", source=source)
        wanted = expected(kind, rank, n, elements, root)
        wrong.append(0 if wanted is None else int(np.count_nonzero(run.memory["o"] != wanted)))
    return wrong


def _check(source: str, n: int, ranks: int, elements: int, divisor: int) -> None:
    if n != ranks:
        raise FormatError(f"is for {ranks} ranks, found {n} processes", source=source)
    if elements < 1 or elements % divisor:
        raise FormatError(f"{elements} elements: expected a multiple of {divisor}", source=source)


def _slot_elements(text: CpuFile, elements: int) -> int:
    """The length of a slot: of the largest chunk."""
    return -(-elements // text.n_chunks)


@contextlib.contextmanager
def _limited(world: Any, seconds: float, source: str) -> Iterator[None]:
    """End all processes after a time limit: a file may wait for a message that is never sent."""

    def give_up() -> None:
        sys.stderr.write(f"treadle: {source}: rank {world.Get_rank()} still waits after {seconds:g} s\n")
        sys.stderr.flush()
        world.Abort(3)

    timer = threading.Timer(seconds, give_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def execute_files(arguments: Sequence[str], world: Any) -> int:
    """Execute files and print, at the first rank, the number of wrong elements in each.

    Parameters
    ----------
    arguments : sequence of str
        Files and options, as on the command line.
    world : MPI communicator, or what has its methods

    Returns
    -------
    int
        The exit status: 1 if any element is wrong.
    """
    parser = argparse.ArgumentParser(prog="mpi_run", description="Execute XMLs over MPI and check the data.")
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--elements", type=int, default=5040, help="of the larger buffer (default 5040)")
    parser.add_argument("--root", type=int, default=0, help="of broadcast and reduce in MSCCL XML")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for one file (default 300)")
    asked = parser.parse_args(arguments)
    report: dict[str, list[int]] = {}
    for path in asked.files:
        if path.stat().st_size > MAX_TEXT:
            raise FormatError(f"more than {MAX_TEXT} bytes", source=str(path))
        text = path.read_text(encoding="utf-8")
        with _limited(world, asked.limit, str(path)):
            wrong = execute_file(text, world, asked.elements, root=asked.root, source=str(path))
        report[path.name] = [sum(found) for found in zip(*world.allgather(wrong), strict=True)]
    if world.Get_rank() == 0:
        json.dump(report, sys.stdout)
        sys.stdout.write("\n")
    return int(any(map(any, report.values())))


if __name__ == "__main__":
    try:
        sys.exit(execute_files(sys.argv[1:], load_mpi().COMM_WORLD))
    except (OSError, UnicodeError, TreadleError) as problem:
        sys.stderr.write(f"treadle: {problem}\n")
        sys.exit(2)
