"""Messages with many ranges of chunks: what a rank sends another in one step, in one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from treadle.arrays import Int64Array, offsets_of
from treadle.program.message_levels import dataflow
from treadle.program.operation_lists import OperationKind
from treadle.simulation.tasks import Follows, TaskGraph


def bundled(graph: TaskGraph) -> TaskGraph:
    """The same tasks, but sends of one step from a rank to another over one path are one message.

    Parameters
    ----------
    graph : TaskGraph

    Returns
    -------
    TaskGraph
        `graph` itself where nothing can be joined, or where switches copy or add up: those messages are one
        by one.

    Notes
    -----
    It leaves when all its parts could, and each part is received as before. Runtimes over MPI send small
    messages so. Where sends wait for messages of earlier steps only, as in all programs that are lowered
    here, no circle arises; in others levels of the dataflow (`program.message_levels`) take the place of
    steps.
    """
    program = graph.program
    sends = program.operation_kind == OperationKind.SEND
    if graph.is_aside.any() or _begins_or_ends_at_switches(graph):
        return graph
    head = _first_of_bundles(graph)
    operation, moves = graph.operation, sends[graph.operation]
    task_of = _first_tasks(graph)
    hop = np.arange(graph.n_tasks) - task_of[operation]
    joined = np.arange(graph.n_tasks)
    joined[moves] = task_of[head[operation[moves]]] + hop[moves]
    kept = np.unique(joined)
    if len(kept) == graph.n_tasks:
        return graph
    number = np.full(graph.n_tasks, -1, dtype=np.int64)
    number[kept] = np.arange(len(kept))
    place = number[joined]
    chunks = np.bincount(place, graph.chunks, len(kept)).astype(np.int64)
    edges = np.unique(np.stack([place[graph.edge_source], place[graph.edge_target], graph.edge_kind]), axis=1)
    return replace(
        graph,
        operation=operation[kept],
        chunks=chunks,
        resource=graph.resource[kept],
        pays_alpha=graph.pays_alpha[kept],
        is_aside=graph.is_aside[kept],
        edge_offset=offsets_of(np.bincount(edges[0], minlength=len(kept))),
        edge_target=edges[1].astype(np.int32),
        edge_kind=edges[2].astype(np.int32),
    )


def _first_tasks(graph: TaskGraph) -> Int64Array:
    """Number of the first task of each operation; its others follow."""
    first = np.full(graph.program.n_operations, graph.n_tasks, dtype=np.int64)
    np.minimum.at(first, graph.operation, np.arange(graph.n_tasks))
    return first


def _first_of_bundles(graph: TaskGraph) -> Int64Array:
    """For each operation the first, in the order of tasks, of the sends with which it is one message."""
    program = graph.program
    head = np.arange(program.n_operations)
    sends = np.flatnonzero(program.operation_kind == OperationKind.SEND)
    level = program.step.astype(np.int64) if _goes_by_steps(graph) else dataflow(program).level
    keys = np.stack([program.operation_rank[sends], program.peer[sends], program.path[sends], level[sends]])
    order = np.argsort(_first_tasks(graph)[sends], kind="stable")
    _, first, bundle = np.unique(keys[:, order], axis=1, return_index=True, return_inverse=True)
    head[sends[order]] = sends[order][first[bundle.reshape(-1)]]
    return head


def _goes_by_steps(graph: TaskGraph) -> bool:
    """Whether steps never fall along waits and messages, and rise from a receive to what it is sent on by."""
    program = graph.program
    is_send = program.operation_kind == OperationKind.SEND
    is_copy = program.operation_kind == OperationKind.COPY
    waiting = np.repeat(np.arange(program.n_operations), np.diff(program.wait_offset))
    step, awaited = program.step, program.waits
    must_rise = (is_send | is_copy)[waiting] & ~is_copy[awaited]
    if np.any(step[waiting] < step[awaited] + must_rise):
        return False
    source, target = graph.operation[graph.edge_source], graph.operation[graph.edge_target]
    arrives = graph.edge_kind == Follows.DELIVERY
    return bool(np.all(step[source[arrives]] == step[target[arrives]]))


def _begins_or_ends_at_switches(graph: TaskGraph) -> bool:
    """Whether some path is of a copy or a sum in the network."""
    topology, program = graph.topology, graph.program
    if not program.n_paths:
        return False
    links, offset = program.path_links, program.path_offset
    ends = topology.tails[links[offset[:-1]]], topology.heads[links[offset[1:] - 1]]
    return not all(bool(topology.is_compute[side].all()) for side in ends)
