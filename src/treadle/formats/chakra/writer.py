"""Writes a program as Chakra execution traces, the workload of network simulators (extra ``chakra``)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from treadle.errors import FormatError, ScheduleError
from treadle.formats.chakra.schema import schema
from treadle.formats.request import FileRequest, Written
from treadle.program.message_levels import message_partners
from treadle.program.program import OperationKind, Program

VERSION = "0.0.4"
"""Version of the Chakra schema."""
MAX_NODES = 10**7
"""Most nodes of a rank's trace."""

COMPUTE, SEND, RECEIVE = 4, 5, 6
"""Numbers of the schema's node types."""


def emit_chakra(
    program: Program, size_bytes: int, *, name: str = "treadle", only: int | None = None
) -> tuple[bytes, ...]:
    """Write a verified program as Chakra execution traces.

    A send and its receive are COMM nodes with comm_size (bytes), comm_src, comm_dst and a unique comm_tag; a
    sum or a copy within a rank is a COMP node with tensor_size (and num_ops: additions of 4 bytes). data_deps
    are the program's waits, and a sum's receive. Traces have no addresses, so they do not show which chunks
    are sent.

    Parameters
    ----------
    program : Program
    size_bytes : int
        Size of the larger per-rank buffer: traces have sizes, not shares.
    name : str
        Beginning of the nodes' names.
    only : int, optional
        Write only this rank's trace. The program may lack the operations of other ranks if the messages
        between two ranks have the same order at both ends, on all channels together.

    Returns
    -------
    tuple of bytes
        File of each rank (PREFIX.RANK.et): length-delimited messages, the metadata, then nodes.

    Raises
    ------
    ScheduleError
        If sends and receives do not match, or there are too many nodes.
    FormatError
        If the size is not positive.
    """
    if size_bytes < 1:
        raise FormatError(f"Chakra: size {size_bytes}: expected a positive number of bytes")
    classes, tags = schema(), _tags(program) if only is None else _tags_in_order(program)
    return tuple(
        _trace(program, rank, size_bytes, name, classes, tags)
        for rank in (range(program.n_ranks) if only is None else (only,))
    )


def _tags_in_order(program: Program) -> list[int]:
    """Number the messages like `_tags`, but from one end: they have the same order at both ends."""
    tags: list[int] = []
    following: Counter[tuple[int, bool]] = Counter()
    for kind, peer in zip(program.operation_kind.tolist(), program.peer.tolist(), strict=True):
        direction = (peer, kind == OperationKind.SEND)
        tags.append(-1 if kind == OperationKind.COPY else following[direction])
        following[direction] += 1
    return tags


def _tags(program: Program) -> list[int]:
    """Return the number of each operation's message between its two ranks, by its send; -1 for copies."""
    tags = np.full(program.n_operations, -1, dtype=np.int64)
    following: Counter[tuple[int, int]] = Counter()
    sends = np.flatnonzero(program.operation_kind == OperationKind.SEND)
    for send in sends.tolist():
        pair = (int(program.operation_rank[send]), int(program.peer[send]))
        tags[send] = following[pair]
        following[pair] += 1
    partner = message_partners(program)
    kinds = (OperationKind.RECEIVE, OperationKind.RECEIVE_REDUCE)
    receives = np.flatnonzero(np.isin(program.operation_kind, kinds))
    tags[receives] = tags[partner[receives]]
    return tags.tolist()


def _trace(
    program: Program, rank: int, size_bytes: int, name: str, classes: dict[str, Any], tags: list[int]
) -> bytes:
    """Return the file of one rank."""
    operations = program.operations(rank)
    parts = heading(rank, 2 * len(operations), classes)
    last: dict[int, int] = {}
    """The node that ends each operation."""

    def add(kind: int, label: str, waits: list[int], **attributes: int) -> int:
        node = classes["Node"](id=len(parts) - 1, name=label, type=kind, data_deps=waits)
        node.attr.add(name="is_cpu_op", bool_val=False)
        for key, value in attributes.items():
            node.attr.add(name=key, **{_FIELDS.get(key, "int64_val"): value})
        parts.append(length_delimited(node))
        return len(parts) - 2

    for number in operations:
        kind, peer = OperationKind(int(program.operation_kind[number])), int(program.peer[number])
        first, past = int(program.first[number]), int(program.first[number] + program.count[number])
        size = program.element(past, size_bytes) - program.element(first, size_bytes)
        waits = sorted({last[wait] for wait in program.waits_of(number).tolist()})
        label = f"{name}.{kind.name.lower()}.{first}-{past - 1}"
        source, target = (rank, peer) if kind is OperationKind.SEND else (peer, rank)
        ends = {"comm_size": size, "comm_src": source, "comm_dst": target, "comm_tag": tags[number]}
        if kind is OperationKind.SEND:
            last[number] = add(SEND, label, waits, **ends)
        elif kind is OperationKind.RECEIVE:
            last[number] = add(RECEIVE, label, waits, **ends)
        elif kind is OperationKind.COPY:
            last[number] = add(COMPUTE, label, waits, num_ops=0, tensor_size=size)
        else:
            waits.append(add(RECEIVE, f"{label}.receive", [], **ends))
            last[number] = add(COMPUTE, label, waits, num_ops=size // 4, tensor_size=size)
    return b"".join(parts)


_FIELDS = dict.fromkeys(("comm_src", "comm_dst", "comm_tag"), "int32_val")
"""Attributes that do not have 64 bits."""


def heading(rank: int, n_nodes: int, classes: dict[str, Any]) -> list[bytes]:
    """Return the beginning of a rank's file; ScheduleError if there are too many nodes."""
    if n_nodes > MAX_NODES:
        raise ScheduleError(f"Chakra: rank {rank} needs more than {MAX_NODES} nodes")
    metadata = classes["GlobalMetadata"](version=VERSION)
    metadata.attr.add(name="schema", string_val="symbolic")
    return [length_delimited(metadata)]


def length_delimited(message: Any) -> bytes:
    """Return a message after its length (base 128, least significant group first)."""
    data: bytes = message.SerializeToString(deterministic=True)
    length = len(data)
    groups = [length & 127]
    while length := length >> 7:
        groups[-1] |= 128
        groups.append(length & 127)
    return bytes(groups) + data


def write(request: FileRequest) -> Written:
    """Write a trace of each rank, or of one."""
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
