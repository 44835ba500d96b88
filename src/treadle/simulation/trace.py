"""Simulations as traces that Chrome's and Perfetto's viewers show: a lane for each link and each rank."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np

from treadle.errors import ScheduleError
from treadle.program.group_lists import GroupLists
from treadle.program.operation_lists import OperationKind, OperationLists
from treadle.simulation.result import Simulation

MAX_EVENTS = 10**6
"""Viewers fail beyond; about 100 bytes each."""

_LINKS, _RANKS = 1, 2
"""Process numbers of the two groups of lanes."""


def chrome_trace(simulation: Simulation, *, max_events: int = MAX_EVENTS) -> str:
    """JSON in the Trace Event Format: complete events ("ph": "X") in microseconds.

    Process "links" has a lane for each link (and each capped host's port) with the messages that hold it;
    process "ranks" has a lane for each rank with its operations, from the start of each slice to its end. Of
    several groups, names say which one: lanes of ranks, and what is sent.

    Parameters
    ----------
    simulation : Simulation
    max_events : int

    Raises
    ------
    ScheduleError
        If there are more events; a trace with a part missing would mislead.
    """
    graph = simulation.graph
    onto = int(np.count_nonzero(graph.resource >= 0))
    total = (onto + graph.program.n_operations) * simulation.options.slices
    if total > max_events:
        raise ScheduleError(
            f"trace: {total} events, expected at most {max_events}; use fewer slices, or a smaller fabric"
        )
    events = [*_names(simulation), *_link_events(simulation), *_rank_events(simulation)]
    body = ",\n".join(json.dumps(event, separators=(",", ":"), allow_nan=False) for event in events)
    about = json.dumps(
        {"fabric": graph.topology.name, "size_bytes": simulation.size_bytes, "time_s": simulation.time_s}
    )
    return f'{{"displayTimeUnit":"ns","otherData":{about},"traceEvents":[\n{body}\n]}}\n'


_Event = dict[str, object]


def _names(simulation: Simulation) -> Iterator[_Event]:
    graph = simulation.graph
    for process, name in ((_LINKS, "links"), (_RANKS, "ranks")):
        yield {"name": "process_name", "ph": "M", "pid": process, "args": {"name": name}}
    for resource in np.unique(graph.resource[graph.resource >= 0]).tolist():
        yield _lane(_LINKS, resource, f"{resource}: {graph.resource_name(resource)}")
    for rank, node in enumerate(graph.program.nodes.tolist()):
        group = _group(graph.program, rank)
        yield _lane(_RANKS, rank, f"{group}rank {rank}: {graph.topology.node_names[node]}")


def _lane(process: int, lane: int, name: str) -> _Event:
    return {"name": "thread_name", "ph": "M", "pid": process, "tid": lane, "args": {"name": name}}


def _link_events(simulation: Simulation) -> Iterator[_Event]:
    graph, program = simulation.graph, simulation.graph.program
    microseconds = float(simulation.tick_s) * 1e6
    rank, end = program.operation_rank, simulation.end
    for part, row in enumerate(simulation.start):
        for task in np.flatnonzero(graph.resource >= 0).tolist():
            operation = int(graph.operation[task])
            yield _span(
                _LINKS,
                int(graph.resource[task]),
                f"{_group(program, int(rank[operation]))}{rank[operation]}->{program.peer[operation]} "
                f"{_chunks(simulation, operation)}",
                float(row[task]) * microseconds,
                float(end[part, task]) * microseconds,
                {"operation": operation, "slice": part, "step": int(program.step[operation])},
            )


def _rank_events(simulation: Simulation) -> Iterator[_Event]:
    graph, program = simulation.graph, simulation.graph.program
    microseconds = float(simulation.tick_s) * 1e6
    order = np.argsort(graph.operation, kind="stable")
    order = order[~graph.is_aside[order]]
    starts = np.searchsorted(graph.operation[order], np.arange(program.n_operations))
    begin = np.minimum.reduceat(simulation.start[:, order], starts, axis=1) * microseconds
    end = np.maximum.reduceat(simulation.end[:, order], starts, axis=1) * microseconds
    rank, kinds, peers = (
        program.operation_rank.tolist(),
        program.operation_kind.tolist(),
        program.peer.tolist(),
    )
    for operation, kind in enumerate(kinds):
        word = OperationKind(kind).name.lower().replace("_", "-")
        peer = "" if peers[operation] < 0 else f" {peers[operation]}"
        for part in range(simulation.options.slices):
            yield _span(
                _RANKS,
                rank[operation],
                f"{word}{peer} {_chunks(simulation, operation)}",
                float(begin[part, operation]),
                float(end[part, operation]),
                {"operation": operation, "slice": part},
            )


def _group(program: OperationLists, rank: int) -> str:
    """The words before a rank that say of which group it is; none where there is one."""
    return f"group {program.group_of[rank]}, " if isinstance(program, GroupLists) else ""


def _chunks(simulation: Simulation, operation: int) -> str:
    program = simulation.graph.program
    first = int(program.first[operation])
    if isinstance(program, GroupLists):  # numbered over all groups
        first %= program.n_chunks
    return f"[{first},{first + int(program.count[operation])})"


def _span(process: int, lane: int, name: str, begin: float, end: float, about: _Event) -> _Event:
    return {
        "name": name,
        "ph": "X",
        "pid": process,
        "tid": lane,
        "ts": round(begin, 6),
        "dur": round(end - begin, 6),
        "args": about,
    }
