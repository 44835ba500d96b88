"""Writes a program as CPU XML, which interpreters over MPI or UCX execute rank by rank."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise

from lxml import etree

from treadle.errors import ScheduleError
from treadle.formats.file_arguments import check_heading
from treadle.formats.request import FileRequest, Written
from treadle.program.program import Buffer, OperationKind, Program

_SEND, _, _RECEIVE_REDUCE, _COPY = map(int, OperationKind)


def emit_cpu_xml(
    program: Program,
    *,
    name: str = "treadle",
    min_bytes: int = 0,
    max_bytes: int = 0,
    only: int | None = None,
) -> str:
    """Write a verified program, with any collective and shard sizes, as CPU XML.

    The instructions are those that the all-to-all paper (section 4) adds to oneCCL: send, receive, reduce,
    copy and sync, with scratch buffers. ``<cpu>`` has one ``<rank>`` for each rank, with its instructions in
    order:

    - ``<send peer buf chunk cnt/>`` and ``<recv peer buf chunk cnt/>`` begin a transfer and do not wait;
      ``<recv peer slot chunk cnt/>`` receives to scratch slots of the rank;
    - ``<sync/>`` waits for all transfers that this rank has begun;
    - ``<reduce slot buf chunk cnt/>`` adds slots to chunks, ``<copy buf dbuf chunk cnt/>`` copies.

    Chunks are numbered as in the collective. Buffers are i (input), o (output), s (scratch); the rank's
    attributes i, o and s list the chunks of each, in order; ``slots`` counts the slots. Chunk c of P
    (``chunks``) of a buffer of n elements is elements floor(c n / P) to floor((c + 1) n / P), so any n is
    supported; a slot has ceil(n / P) elements. The i-th send from a to b matches the i-th receive there.
    Ranks list their instructions in one common linear order, so waiting adds no cycle, even without buffers.

    The part of one rank is ``<cpupart>`` with the attributes of ``<cpu>`` and a single ``<rank>``.

    A receive-reduce becomes a receive to slots, which are added after the next sync. A sync ends every step
    of the program (its depth), and is written wherever an instruction needs a transfer begun since the last.

    Parameters
    ----------
    program : Program
    name : str
        Only A-Z, a-z, 0-9 and ``_.-``.
    min_bytes, max_bytes : int
        First and last size; max_bytes 0 means no limit.
    only : int, optional
        Write only this rank's part; other ranks may lack operations.

    Raises
    ------
    FormatError
        For an invalid name or size range.
    ScheduleError
        If sends and receives do not match.
    """
    check_heading("CPU XML", name, min_bytes, max_bytes)
    if only is None:
        _check_one_order(program)
    top = etree.Element(
        "cpu" if only is None else "cpupart",
        name=name,
        collective=str(program.kind),
        ranks=str(program.n_ranks),
        chunks=str(program.n_chunks),
        root=str(program.root),
        inplace=str(int(program.in_place)),
        minBytes=str(min_bytes),
        maxBytes=str(max_bytes),
    )
    for rank in range(program.n_ranks) if only is None else (only,):
        top.append(_rank_element(program, rank))
    return etree.tostring(top, pretty_print=True, encoding="unicode")


def _check_one_order(program: Program) -> None:
    """Raise ScheduleError unless the streams of two ranks, on any channels, have one order at both ends."""
    order: dict[tuple[int, int], tuple[list[tuple[int, int]], list[tuple[int, int]]]] = defaultdict(
        lambda: ([], [])
    )
    turns: Counter[tuple[int, int, int, bool]] = Counter()
    owner = program.operation_rank.tolist()
    for number, kind in enumerate(program.operation_kind.tolist()):
        if kind == _COPY:
            continue
        is_send = kind == _SEND
        here, there = owner[number], int(program.peer[number])
        pair = (here, there) if is_send else (there, here)
        channel = int(program.channel[number])
        order[pair][not is_send].append((channel, turns[*pair, channel, is_send]))
        turns[*pair, channel, is_send] += 1
    for (sender, receiver), (sent, received) in order.items():
        if sent != received:
            raise ScheduleError(
                f"CPU XML: ranks {sender}->{receiver} send and receive in different orders; "
                "lower with one channel"
            )


def _rank_element(program: Program, rank: int) -> etree._Element:
    """Return the element of one rank with its instructions."""
    element = etree.Element("rank", id=str(rank))
    numbers = program.operations(rank)
    span = slice(numbers.start, numbers.stop)
    columns = (
        *(program.operation_kind, program.step, program.source, program.target),
        *(program.peer, program.first, program.count),
    )
    rows = list(zip(*(column[span].tolist() for column in columns), strict=True))
    offsets = program.wait_offset[numbers.start : numbers.stop + 1]
    waits = (program.waits[int(offsets[0]) : int(offsets[-1])] - numbers.start).tolist()
    waits_of = [waits[low:high] for low, high in pairwise((offsets - offsets[0]).tolist())]
    pending: set[int] = set()
    sums: list[tuple[int, int]] = []
    """Receive-reduces to be added after the next sync, and their slots."""
    slots, previous = 0, 0

    def add(tag: str, number: int, **attributes: str) -> None:
        *_, first, count = rows[number]
        etree.SubElement(element, tag, {**attributes, "chunk": str(first), "cnt": str(count)})

    def sync() -> None:
        etree.SubElement(element, "sync")
        for number, slot in sums:
            _, _, source, target, *_ = rows[number]
            if source != target:
                add("copy", number, buf="ios"[source], dbuf="ios"[target])
            add("reduce", number, slot=str(slot), buf="ios"[target])
        pending.clear()
        sums.clear()

    for number, (kind, step, source, target, peer, _, count) in enumerate(rows):
        # A receive to slots waits for nothing: its sum is computed later, in the order of the list.
        must_wait = kind != _RECEIVE_REDUCE and pending.intersection(waits_of[number])
        if must_wait or (pending and step != previous):
            sync()
        previous = step
        if kind == _COPY:
            add("copy", number, buf="ios"[source], dbuf="ios"[target])
            continue
        pending.add(number)
        if kind == _SEND:
            add("send", number, peer=str(peer), buf="ios"[source])
        elif kind == _RECEIVE_REDUCE:
            add("recv", number, peer=str(peer), slot=str(slots))
            sums.append((number, slots))
            slots += count
        else:
            add("recv", number, peer=str(peer), buf="ios"[target])
    if pending:
        sync()
    for letter, buffer in zip("ios", Buffer, strict=True):
        has_chunks = buffer is not Buffer.SCRATCH or program.uses_scratch(rank)
        spans = program.ranges(rank, buffer) if has_chunks else []
        element.set(letter, " ".join(f"{low}-{past - 1}" for low, past in spans))
    element.set("slots", str(slots))
    return element


def write(request: FileRequest) -> Written:
    """Write one XML of all ranks or of one."""
    program = request.program(merge=True)
    text = emit_cpu_xml(
        program,
        name=request.name,
        min_bytes=request.entry.min_bytes,
        max_bytes=request.max_bytes,
        only=request.options.rank,
    )
    return Written(files=(("", text.encode()),), program=program)
