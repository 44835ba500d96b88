"""Chakra execution traces from a program: what network simulators read as a workload (extra ``chakra``)."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.errors import FormatError, ScheduleError
from treadle.formats.chakra.schema import schema
from treadle.formats.request import TextRequest, Written
from treadle.program.program import OperationKind, Program

VERSION = "0.0.4"
"""Of the Chakra schema."""
MAX_NODES = 10**7
"""Most nodes of a rank's trace."""

COMPUTE, SEND, RECEIVE = 4, 5, 6
"""Numbers of the schema's node types."""


def emit_chakra(
    program: Program, size_bytes: int, *, name: str = "treadle", only: int | None = None
) -> tuple[bytes, ...]:
    """Write a program as Chakra execution traces.

    Parameters
    ----------
    program : Program
        Checked by the caller.
    size_bytes : int
        Of the larger per-rank buffer: a trace holds sizes, not shares.
    name : str
        Begins the nodes' names.
    only : int, optional
        Write this rank's trace alone. The program may lack the other ranks' lists if it orders the messages
        between two ranks alike at both ends, on all channels together, as the lowering of one rank's trees
        does.

    Returns
    -------
    tuple of bytes
        For each rank its file (PREFIX.RANK.et): length-delimited messages, the metadata, then nodes.

    Raises
    ------
    ScheduleError
        If sends and receives do not match, or there are too many nodes.
    FormatError
        If the size is no positive number.

    Notes
    -----
    A send and its receive are COMM nodes that carry comm_size (bytes), comm_src, comm_dst and a comm_tag of
    their own; a sum or a copy within a rank is a COMP node with tensor_size (and num_ops: additions of 4
    bytes). data_deps are the program's waits, and a sum's receive. Traces hold no addresses: that the right
    chunks are meant is the program's business.
    """
    if size_bytes < 1:
        raise FormatError(f"Chakra: size {size_bytes}: expected a positive number of bytes")
    classes, tags = schema(), _tags(program) if only is None else _tags_in_order(program)
    return tuple(
        _RankTrace(program, rank, size_bytes, name, classes, tags).data()
        for rank in (range(program.n_ranks) if only is None else (only,))
    )


def _tags_in_order(program: Program) -> list[int]:
    """As `_tags`, from one end alone: messages between two ranks are counted in the order of the list."""
    tags: list[int] = []
    following: dict[tuple[int, int], int] = {}
    for kind, peer in zip(program.operation_kind.tolist(), program.peer.tolist(), strict=True):
        way = (peer, int(kind == OperationKind.SEND))
        following[way] = following.get(way, -1) + 1
        tags.append(-1 if kind == OperationKind.COPY else following[way])
    return tags


def _tags(program: Program) -> list[int]:
    """For each operation the number of its message between the two ranks, streams by channel; copies -1."""
    tags = [-1] * program.n_operations
    waiting: dict[tuple[int, int, int], list[int]] = {}
    following: dict[tuple[int, int], int] = {}
    owner, kinds = program.operation_rank.tolist(), program.operation_kind.tolist()
    peers, channels = program.peer.tolist(), program.channel.tolist()
    for number, kind in enumerate(kinds):
        if kind == OperationKind.SEND:
            pair = (owner[number], peers[number])
            tags[number] = following.get(pair, 0)
            following[pair] = tags[number] + 1
            waiting.setdefault((*pair, channels[number]), []).append(tags[number])
    streams = {stream: iter(found) for stream, found in waiting.items()}
    for number, kind in enumerate(kinds):
        if kind in (OperationKind.RECEIVE, OperationKind.RECEIVE_REDUCE):
            tag = next(streams.get((peers[number], owner[number], channels[number]), iter(())), None)
            if tag is None:
                raise ScheduleError(f"Chakra: operation {number} receives what nobody sends")
            tags[number] = tag
    return tags


class _RankTrace:
    """The trace of one rank."""

    def __init__(
        self, program: Program, rank: int, size: int, name: str, classes: dict[str, Any], tags: list[int]
    ) -> None:
        self._program, self._rank, self._size, self._name = program, rank, size, name
        self._classes, self._tags = classes, tags
        self._parts: list[bytes] = []
        self._last: dict[int, int] = {}
        """The node that ends each operation."""
        self._following = 0

    def data(self) -> bytes:
        """The file."""
        program = self._program
        if 2 * len(program.operations(self._rank)) > MAX_NODES:
            raise ScheduleError(f"Chakra: rank {self._rank} needs more than {MAX_NODES} nodes")
        metadata = self._classes["GlobalMetadata"](version=VERSION)
        metadata.attr.add(name="schema", string_val="symbolic")
        self._append(metadata)
        for number in program.operations(self._rank):
            self._write(number)
        return b"".join(self._parts)

    def _write(self, number: int) -> None:
        program = self._program
        kind, peer = OperationKind(int(program.operation_kind[number])), int(program.peer[number])
        first, past = int(program.first[number]), int(program.first[number] + program.count[number])
        size = program.element(past, self._size) - program.element(first, self._size)
        waits = sorted({self._last[wait] for wait in program.waits_of(number).tolist()})
        label = f"{self._name}.{kind.name.lower()}.{first}-{past - 1}"
        if kind is OperationKind.SEND:
            self._last[number] = self._message(SEND, label, waits, size, self._rank, peer, number)
        elif kind is OperationKind.RECEIVE:
            self._last[number] = self._message(RECEIVE, label, waits, size, peer, self._rank, number)
        elif kind is OperationKind.COPY:
            self._last[number] = self._compute(label, waits, size, 0)
        else:
            came = self._message(RECEIVE, f"{label}.receive", [], size, peer, self._rank, number)
            self._last[number] = self._compute(label, [*waits, came], size, size // 4)

    def _message(
        self, kind: int, name: str, waits: list[int], size: int, source: int, target: int, number: int
    ) -> int:
        node = self._node(kind, name, waits)
        node.attr.add(name="is_cpu_op", bool_val=False)
        node.attr.add(name="comm_size", int64_val=size)
        for key, value in (("comm_src", source), ("comm_dst", target), ("comm_tag", self._tags[number])):
            node.attr.add(name=key, int32_val=value)
        return self._append(node)

    def _compute(self, name: str, waits: list[int], size: int, additions: int) -> int:
        node = self._node(COMPUTE, name, waits)
        node.attr.add(name="is_cpu_op", bool_val=False)
        node.attr.add(name="num_ops", int64_val=additions)
        node.attr.add(name="tensor_size", int64_val=size)
        return self._append(node)

    def _node(self, kind: int, name: str, waits: list[int]) -> Any:
        self._following += 1
        return self._classes["Node"](id=self._following - 1, name=name, type=kind, data_deps=waits)

    def _append(self, message: Any) -> int:
        self._parts.append(length_delimited(message))
        return self._following - 1


def length_delimited(message: Any) -> bytes:
    """A message with its length before it, as traces hold them one after the other."""
    data: bytes = message.SerializeToString(deterministic=True)
    return _varint(len(data)) + data


def _varint(value: int) -> bytes:
    """Base 128, least significant group first, as protobuf's length-delimited streams use."""
    groups = [value & 127]
    while value := value >> 7:
        groups[-1] |= 128
        groups.append(value & 127)
    return bytes(np.array(groups, dtype=np.uint8))


def write(request: TextRequest) -> Written:
    """What was asked for as a trace of each rank, or of one."""
    program = request.program(merge=True)
    if request.options.size_bytes < 1:
        raise FormatError("Chakra: traces hold sizes in bytes; give one (--size 64MB)")
    only = request.options.rank
    traces = emit_chakra(program, request.options.size_bytes, name=request.name, only=only)
    ranks = range(program.n_ranks) if only is None else (only,)
    return Written(
        files=tuple((f".{rank}.et", trace) for rank, trace in zip(ranks, traces, strict=True)),
        program=program,
    )
