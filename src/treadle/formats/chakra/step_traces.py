"""Writes Chakra execution traces of a training step: computations with durations, and entire collectives.

Unlike a program's traces (`writer`), which contain each message, these have COMM_COLL nodes, for which the
simulator chooses an algorithm; groups of ranks have names that a second file explains.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from treadle.errors import ScheduleError
from treadle.formats.chakra.schema import schema
from treadle.formats.chakra.writer import COMPUTE, RECEIVE, SEND, heading, length_delimited
from treadle.schedules.collective import CollectiveKind

COLLECTIVE = 7
"""Number of the schema's node type."""
_COLLECTIVE_TYPES = {
    CollectiveKind.ALLREDUCE: 0,
    CollectiveKind.REDUCE: 1,
    CollectiveKind.ALLGATHER: 2,
    CollectiveKind.BROADCAST: 5,
    CollectiveKind.ALLTOALL: 6,
    CollectiveKind.REDUCE_SCATTER: 7,
}
"""The schema's enum CollectiveCommType."""


@dataclass(frozen=True)
class StepNode:
    """A task of one rank: a computation, a collective (`kind`), or a message between stages (`tag`)."""

    name: str
    seconds: float
    waits_for: tuple[int, ...]
    """Positions of earlier nodes in the same list."""
    kind: CollectiveKind | None = None
    size_bytes: int = 0
    group: str = ""
    """Name of the ranks of a collective."""
    source: int = -1
    """Sender of a message; this rank is one of the two ends."""
    target: int = -1
    tag: int = -1


def emit_step_trace(rank: int, nodes: Sequence[StepNode]) -> bytes:
    """Return the file of a rank (PREFIX.RANK.et): metadata, then a node for each task.

    ScheduleError if there are too many nodes, or one waits for a later one.
    """
    classes = schema()
    parts = heading(rank, len(nodes), classes)
    for number, node in enumerate(nodes):
        if any(not 0 <= wait < number for wait in node.waits_for):
            raise ScheduleError(f"Chakra: node {number} of rank {rank} waits for a later one")
        parts.append(length_delimited(_message(classes, rank, number, node)))
    return b"".join(parts)


def _message(classes: dict[str, Any], rank: int, number: int, task: StepNode) -> Any:
    if task.kind is not None:
        node_type = COLLECTIVE
    elif task.source >= 0:
        node_type = SEND if task.source == rank else RECEIVE
    else:
        node_type = COMPUTE
    node = classes["Node"](id=number, name=task.name, type=node_type, data_deps=sorted(set(task.waits_for)))
    node.attr.add(name="is_cpu_op", bool_val=False)
    if node_type == COMPUTE:
        node.duration_micros = ceil(task.seconds * 1e6)
        node.attr.add(name="num_ops", int64_val=0)
        node.attr.add(name="tensor_size", int64_val=0)
        return node
    node.attr.add(name="comm_size", int64_val=task.size_bytes)
    if task.kind is not None:
        node.attr.add(name="comm_type", int64_val=_COLLECTIVE_TYPES[task.kind])
        node.attr.add(name="pg_name", string_val=task.group)
    else:
        for key, value in (("comm_src", task.source), ("comm_dst", task.target), ("comm_tag", task.tag)):
            node.attr.add(name=key, int32_val=value)
    return node
