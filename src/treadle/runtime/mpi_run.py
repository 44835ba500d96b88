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
from collections.abc import Callable, Iterator, Sequence
from functools import partial
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


def _run_msccl(algorithm: Algorithm, world: Any, elements: int, in_place: bool, root: int) -> _Data:
    """One rank of an MSCCL XML: its thread blocks take turns, for ever if the file waits so; its output."""
    rank, chunk = int(world.Get_rank()), elements // algorithm.n_chunks
    sizes = {letter: count * chunk for letter, count in algorithm.sizes[rank].items()}
    memory = {letter: np.full(size, -1, dtype=np.int64) for letter, size in sizes.items()}
    if in_place:
        larger = max(sizes["i"], sizes["o"])
        whole = np.full(larger, -1, dtype=np.int64)
        for letter in "io":
            start = rank * sizes[letter] if sizes[letter] < larger else 0
            memory[letter] = whole[start : start + sizes[letter]]
    if algorithm.collective != "broadcast" or rank == root:
        memory["i"][:] = contribution(rank, sizes["i"])
    first, past = algorithm.first_block[rank], algorithm.first_block[rank + 1]
    done = [0] * (past - first)
    sends: list[tuple[Any, _Data]] = []

    def view(end: tuple[str, int], count: int) -> _Data:
        start = max(end[1], 0) * chunk
        return memory[end[0]][start : start + count * chunk]

    def turns(number: int) -> Iterator[None]:
        """The steps of a thread block, with a pause wherever it has to wait."""
        _, send_peer, receive_peer, channel = algorithm.blocks[first + number]
        for step in algorithm.steps:
            if step.block != first + number:
                continue
            block, place = step.wait
            while block >= 0 and done[block] <= place:
                yield
            data = view(step.source, step.count)
            if step.type in RECEIVING:
                came = np.empty(step.count * chunk, dtype=np.int64)
                request = world.Irecv(came, source=receive_peer, tag=channel)
                while not request.Test():
                    yield
                data = data + came if step.type in ("rrs", "rrc", "rrcs") else came
            if step.type in ("r", "rcs", "rrc", "rrcs", "cpy"):
                view(step.target, step.count)[:] = data
            elif step.type == "re":
                view(step.target, step.count)[:] += data
            if step.type in SENDING:
                held = np.array(data)
                sends.append((world.Isend(held, dest=send_peer, tag=channel), held))
            done[number] += 1

    blocks = [turns(number) for number in range(past - first)]
    while blocks:
        blocks = [block for block in blocks if next(block, False) is None]  # False at its end
    for request, _ in sends:
        request.Wait()
    return memory["o"]


def _run_cpu(text: CpuFile, world: Any, elements: int) -> _Data:
    """One rank of a CPU XML, which waits for ever if the file does; its output."""
    rank = int(world.Get_rank())
    mine, slot_length = text.ranks[rank], _slot_elements(text, elements)

    def length(first: int, past: int) -> int:
        """Elements of chunks."""
        return past * elements // text.n_chunks - first * elements // text.n_chunks

    def before(letter: str, chunk: int) -> int:
        """Elements of a buffer before a chunk."""
        spans = mine.chunks[letter]
        return sum(length(span.start, min(span.stop, chunk)) for span in spans if span.start < chunk)

    memory = {
        letter: np.full(sum(length(span.start, span.stop) for span in spans), -1, dtype=np.int64)
        for letter, spans in mine.chunks.items()
    }
    slots = np.full(mine.slots * slot_length, -1, dtype=np.int64)
    if text.in_place:
        larger, smaller = sorted("io", key=lambda letter: -len(memory[letter]))
        if mine.chunks[smaller]:
            start = before(larger, mine.chunks[smaller][0].start)
            memory[smaller] = memory[larger][start : start + len(memory[smaller])]
    if text.collective != "broadcast" or rank == text.root:
        memory["i"][:] = contribution(rank, len(memory["i"]))

    def view(letter: str, step: Instruction) -> _Data:
        start = before(letter, step.chunk)
        return memory[letter][start : start + length(step.chunk, step.chunk + step.count)]

    def slot(step: Instruction) -> _Data:
        return slots[step.slot * slot_length :][: length(step.chunk, step.chunk + step.count)]

    requests: list[Any] = []
    for step in mine.instructions:
        if step.kind == "sync":
            for request in requests:
                request.Wait()
            requests.clear()
        elif step.kind == "send":
            requests.append(world.Isend(view(step.buffer, step), dest=step.peer))
        elif step.kind == "recv":
            room = slot(step) if step.slot >= 0 else view(step.buffer, step)
            requests.append(world.Irecv(room, source=step.peer))
        elif step.kind == "copy":
            view(step.target, step)[:] = view(step.buffer, step)
        else:
            view(step.buffer, step)[:] += slot(step)
    return memory["o"]


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
        runs: list[Callable[[], _Data]] = [partial(_run_cpu, parsed, world, elements)]
    else:
        algorithm = first_parsed(text, None, source)
        kind = algorithm.collective
        _check(source, n, algorithm.n_ranks, elements, algorithm.n_chunks)
        runs = [
            partial(_run_msccl, algorithm, world, elements, in_place, root) for in_place in algorithm.in_place
        ]
    wrong = []
    for run in runs:
        output = run()
        world.Barrier()
        if world.allreduce(int(world.Iprobe())):
            raise FormatError("a message was sent that no rank receives", source=source)
        wanted = expected(kind, rank, n, elements, root)
        wrong.append(0 if wanted is None else int(np.count_nonzero(output != wanted)))
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
