"""Chakra execution traces of a step of training: computations with their durations, and whole collectives.

Unlike a program's traces (`writer`), which hold each message, these hold COMM_COLL nodes whose algorithm the
simulator that reads them chooses; groups of ranks are named, and listed in a file beside.
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
    """A task of one rank.

    Parameters
    ----------
    name : str
    seconds : float
        Of a computation.
    waits_for : tuple of int
        Places of earlier nodes in the same list.
    kind : CollectiveKind, optional
        Of a collective.
    size_bytes : int
        Of a communication.
    group : str
        Name of the ranks that take part in a collective.
    source, target, tag : int
        Of a message from stage to stage; the rank itself is one of the two ends. -1: none.
    """

    name: str
    seconds: float
    waits_for: tuple[int, ...]
    kind: CollectiveKind | None = None
    size_bytes: int = 0
    group: str = ""
    source: int = -1
    target: int = -1
    tag: int = -1


def emit_step_trace(rank: int, nodes: Sequence[StepNode]) -> bytes:
    """The file of a rank (PREFIX.RANK.et): metadata, then a node for each task.

    Parameters
    ----------
    rank : int
    nodes : sequence of StepNode
        In an order in which each stands after those that it waits for.

    Raises
    ------
    ScheduleError
        If there are too many, or one waits for a later one.
    MissingDependencyError
        Without protobuf.
    """
    classes = schema()
    parts = heading(rank, len(nodes), classes)
    for number, one in enumerate(nodes):
        if any(not 0 <= wait < number for wait in one.waits_for):
            raise ScheduleError(f"Chakra: node {number} of rank {rank} waits for a later one")
        parts.append(length_delimited(_node(classes, rank, number, one)))
    return b"".join(parts)


def _node(classes: dict[str, Any], rank: int, number: int, one: StepNode) -> Any:
    if one.kind is not None:
        node_type = COLLECTIVE
    elif one.source >= 0:
        node_type = SEND if one.source == rank else RECEIVE
    else:
        node_type = COMPUTE
    node = classes["Node"](id=number, name=one.name, type=node_type, data_deps=sorted(set(one.waits_for)))
    node.attr.add(name="is_cpu_op", bool_val=False)
    if node_type == COMPUTE:
        node.duration_micros = ceil(one.seconds * 1e6)
        node.attr.add(name="num_ops", int64_val=0)
        node.attr.add(name="tensor_size", int64_val=0)
        return node
    node.attr.add(name="comm_size", int64_val=one.size_bytes)
    if one.kind is not None:
        node.attr.add(name="comm_type", int64_val=_COLLECTIVE_TYPES[one.kind])
        node.attr.add(name="pg_name", string_val=one.group)
    else:
        for key, value in (("comm_src", one.source), ("comm_dst", one.target), ("comm_tag", one.tag)):
            node.attr.add(name=key, int32_val=value)
    return node
