"""CPU XML from a program: what an interpreter over MPI or UCX executes, rank by rank."""

from __future__ import annotations

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
    """Write a program as CPU XML.

    Parameters
    ----------
    program : Program
        Checked by the caller; any collective, any shard sizes.
    name : str
        Letters, digits and ``_.-``.
    min_bytes, max_bytes : int
        Sizes for which it is meant; max_bytes 0 means no limit.
    only : int, optional
        Write this rank's part alone; the lists of the others may be empty.

    Returns
    -------
    str
        See the notes.

    Raises
    ------
    FormatError
        For a name or sizes that cannot be.
    ScheduleError
        If sends and receives do not match.

    Notes
    -----
    The form of the instructions that the all-to-all paper (section 4) adds to oneCCL: send, receive, reduce,
    copy and sync, with scratch buffers. ``<cpu>`` holds one ``<rank>`` for each rank, its instructions in
    order:

    - ``<send peer buf chunk cnt/>`` and ``<recv peer buf chunk cnt/>`` begin a transfer and do not wait;
      ``<recv peer slot chunk cnt/>`` receives to scratch slots of the rank's own;
    - ``<sync/>`` waits for all transfers that this rank has begun;
    - ``<reduce slot buf chunk cnt/>`` adds slots to chunks, ``<copy buf dbuf chunk cnt/>`` copies.

    Chunks have the collective's numbers. Buffers are i (input), o (output), s (scratch); the rank's
    attributes i, o and s list the chunks that each holds, in order; ``slots`` counts the slots. Chunk c of P
    (``chunks``) of a buffer of n elements is elements floor(c n / P) to floor((c + 1) n / P), so any n is
    served, and a slot has room for ceil(n / P). The i-th send from a to b meets the i-th receive there. Ranks
    list their instructions in one common linear order, so waiting adds no cycle, whatever is buffered.

    The part of one rank is ``<cpupart>`` with the attributes of ``<cpu>`` and the one ``<rank>``.

    A receive-reduce is a receive to slots, whose sum is made after the next sync. A sync ends every step of
    the program (its depth), and is written wherever an instruction needs a transfer begun since the last one.
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
        top.append(_Rank(program, rank).element())
    return etree.tostring(top, pretty_print=True, encoding="unicode")


def _check_one_order(program: Program) -> None:
    """The format has no channels: two ranks' streams on several must have one order at both ends."""
    order: dict[tuple[int, int], tuple[list[tuple[int, int]], list[tuple[int, int]]]] = {}
    count: dict[tuple[int, int, int, bool], int] = {}
    owner = program.operation_rank.tolist()
    for number, kind in enumerate(program.operation_kind.tolist()):
        if kind == OperationKind.COPY:
            continue
        is_send = kind == OperationKind.SEND
        here, there = owner[number], int(program.peer[number])
        pair = (here, there) if is_send else (there, here)
        channel = int(program.channel[number])
        turn = count.get((*pair, channel, is_send), 0)
        count[*pair, channel, is_send] = turn + 1
        order.setdefault(pair, ([], []))[not is_send].append((channel, turn))
    for (sender, receiver), (sent, received) in order.items():
        if sent != received:
            raise ScheduleError(
                f"CPU XML: ranks {sender}->{receiver} send and receive in different orders; "
                "lower with one channel"
            )


class _Rank:
    """The instructions of one rank."""

    def __init__(self, program: Program, rank: int) -> None:
        self._program, self._rank = program, rank
        self._element = etree.Element("rank", id=str(rank))
        numbers = program.operations(rank)
        span = slice(numbers.start, numbers.stop)
        columns = (program.source, program.target, program.peer, program.first, program.count)
        self._rows = list(zip(*(column[span].tolist() for column in columns), strict=True))
        self._kinds, self._steps = program.operation_kind[span].tolist(), program.step[span].tolist()
        offsets = program.wait_offset[numbers.start : numbers.stop + 1]
        waits = (program.waits[int(offsets[0]) : int(offsets[-1])] - numbers.start).tolist()
        bounds = (offsets - offsets[0]).tolist()
        self._waits = [waits[low:high] for low, high in pairwise(bounds)]
        self._pending: set[int] = set()
        self._sums: list[tuple[int, int]] = []
        """Receive-reduces whose sums are due after the next sync, and their slots."""
        self._slots = 0

    def element(self) -> etree._Element:
        """The rank's part of the text."""
        program, at = self._program, 0
        for number, (kind, step) in enumerate(zip(self._kinds, self._steps, strict=True)):
            # a receive to slots waits for nothing: its sum is made later, in the list's order
            is_sum = kind == _RECEIVE_REDUCE
            waits = not is_sum and self._pending.intersection(self._waits[number])
            if waits or (self._pending and step != at):
                self._sync()
            at = step
            self._write(number, kind)
        if self._pending:
            self._sync()
        for letter, buffer in zip("ios", Buffer, strict=True):
            has_chunks = buffer is not Buffer.SCRATCH or program.uses_scratch(self._rank)
            spans = program.ranges(self._rank, buffer) if has_chunks else []
            self._element.set(letter, " ".join(f"{low}-{past - 1}" for low, past in spans))
        self._element.set("slots", str(self._slots))
        return self._element

    def _write(self, number: int, kind: int) -> None:
        source, target, peer, _, count = self._rows[number]
        if kind == _COPY:
            self._add("copy", number, buf="ios"[source], dbuf="ios"[target])
            return
        self._pending.add(number)
        if kind == _SEND:
            self._add("send", number, peer=str(peer), buf="ios"[source])
        elif kind == _RECEIVE_REDUCE:
            self._add("recv", number, peer=str(peer), slot=str(self._slots))
            self._sums.append((number, self._slots))
            self._slots += count
        else:
            self._add("recv", number, peer=str(peer), buf="ios"[target])

    def _add(self, tag: str, number: int, **attributes: str) -> None:
        _, _, _, first, count = self._rows[number]
        etree.SubElement(self._element, tag, {**attributes, "chunk": str(first), "cnt": str(count)})

    def _sync(self) -> None:
        etree.SubElement(self._element, "sync")
        for number, slot in self._sums:
            source, target, *_ = self._rows[number]
            if source != target:
                self._add("copy", number, buf="ios"[source], dbuf="ios"[target])
            self._add("reduce", number, slot=str(slot), buf="ios"[target])
        self._pending.clear()
        self._sums.clear()


def write(request: FileRequest) -> Written:
    """What was asked for as one XML, of all ranks or of one."""
    program = request.program(merge=True)
    text = emit_cpu_xml(
        program,
        name=request.name,
        min_bytes=request.entry.min_bytes,
        max_bytes=request.max_bytes,
        only=request.options.rank,
    )
    return Written(files=(("", text.encode()),), program=program)
