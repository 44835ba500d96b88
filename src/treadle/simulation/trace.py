"""Simulations as traces: lanes for each link and each rank, and how many links are busy."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from treadle.arrays import Int64Array
from treadle.program.group_lists import GroupLists
from treadle.program.operation_lists import OperationKind, OperationLists
from treadle.simulation.result import Simulation
from treadle.simulation.utilization_drawing import utilisation_over_time
from treadle.traces.timed_lanes import (
    TICKS_PER_NS,
    Trace,
    TraceCounter,
    TraceSpan,
    Track,
    lanes_apart,
    ticks,
)
from treadle.traces.trace_files import check_event_count

_LINKS, _RANKS = "links", "ranks"
_PARTS, _MOST_CELLS = 1000, 10**7
"""Equal parts of the time for each of which it is told how busy links were; links times parts."""


def simulation_trace(simulation: Simulation) -> Trace:
    """Who does what when.

    Process "links" has lanes for each link (and each capped host's port) with the messages that hold it, and
    a counter of how busy all links are; process "ranks" has lanes for each rank with its operations, from the
    start of each slice to its end. What runs at once has lanes of its own. Of several groups, names say which
    one: lanes of ranks, and what is sent.

    Raises
    ------
    ScheduleError
        If there are more events than viewers show.

    Examples
    --------
    >>> import treadle
    >>> from treadle import planning
    >>> run = treadle.simulate(treadle.solve("ring:4", "allgather"), "1K")
    >>> planning.write_trace("run.json", planning.simulation_trace(run.last))
    """
    graph = simulation.graph
    onto = int(np.count_nonzero(graph.resource >= 0))
    total = (onto + graph.program.n_operations) * simulation.options.slices
    check_event_count(total, "use fewer slices, or a smaller fabric")
    parts = max(1, min(_PARTS, _MOST_CELLS // max(1, simulation.graph.n_resources)))
    shares = utilisation_over_time(simulation, parts).mean(axis=0) if simulation.graph.n_resources else [0.0]
    total_s = float(simulation.time - simulation.launch)  # spans begin after the launch
    width = total_s / parts
    points = tuple((ticks(part * width), round(100 * float(share), 3)) for part, share in enumerate(shares))
    return Trace(
        (*_link_lanes(simulation), *_rank_lanes(simulation)),
        (TraceCounter(_LINKS, "links busy", "%", (*points, (ticks(total_s), 0.0))),),
        {
            "fabric": graph.topology.name,
            "size_bytes": simulation.size_bytes,
            "time_s": float(simulation.time_s),
        },
    )


def _link_lanes(simulation: Simulation) -> Iterator[Track]:
    graph, program = simulation.graph, simulation.graph.program
    spans: dict[int, list[TraceSpan]] = {}
    begin, end = _ticks(simulation, simulation.start), _ticks(simulation, simulation.end)
    rank = program.operation_rank
    for task in np.flatnonzero(graph.resource >= 0).tolist():
        operation = int(graph.operation[task])
        sender = f"{_group(program, int(rank[operation]))}{rank[operation]}"
        name = f"{sender}->{program.peer[operation]} {_chunks(simulation, operation)}"
        own = spans.setdefault(int(graph.resource[task]), [])
        for part in range(simulation.options.slices):
            about = {"operation": operation, "slice": part, "step": int(program.step[operation])}
            own.append(TraceSpan(name, begin[part][task], end[part][task], about))
    for resource, own in sorted(spans.items()):
        yield from lanes_apart(_LINKS, f"{resource}: {graph.resource_name(resource)}", own)


def _rank_lanes(simulation: Simulation) -> Iterator[Track]:
    graph, program = simulation.graph, simulation.graph.program
    order = np.argsort(graph.operation, kind="stable")
    order = order[~graph.is_aside[order]]
    starts = np.searchsorted(graph.operation[order], np.arange(program.n_operations))
    begin = _ticks(simulation, np.minimum.reduceat(simulation.start[:, order], starts, axis=1))
    end = _ticks(simulation, np.maximum.reduceat(simulation.end[:, order], starts, axis=1))
    spans: list[list[TraceSpan]] = [[] for _ in program.nodes]
    peers = program.peer.tolist()
    for operation, kind in enumerate(program.operation_kind.tolist()):
        word = OperationKind(kind).name.lower().replace("_", "-")
        peer = "" if peers[operation] < 0 else f" {peers[operation]}"
        name = f"{word}{peer} {_chunks(simulation, operation)}"
        own = spans[int(program.operation_rank[operation])]
        for part in range(simulation.options.slices):
            about = {"operation": operation, "slice": part}
            own.append(TraceSpan(name, begin[part][operation], end[part][operation], about))
    for rank, node in enumerate(program.nodes.tolist()):
        name = f"{_group(program, rank)}rank {rank}: {graph.topology.node_names[node]}"
        yield from lanes_apart(_RANKS, name, spans[rank])


def _ticks(simulation: Simulation, moments: Int64Array) -> list[list[int]]:
    """Of the simulation's own ticks, shape as it is."""
    scaled = moments * (float(simulation.tick_s) * 1e9 * TICKS_PER_NS)
    return [list(map(round, row)) for row in scaled.tolist()]  # links of graphs take weeks: beyond int64


def _group(program: OperationLists, rank: int) -> str:
    """The words before a rank that say of which group it is; none where there is one."""
    return f"group {program.group_of[rank]}, " if isinstance(program, GroupLists) else ""


def _chunks(simulation: Simulation, operation: int) -> str:
    program = simulation.graph.program
    first = int(program.first[operation])
    if isinstance(program, GroupLists):  # numbered over all groups
        first %= program.n_chunks
    return f"[{first},{first + int(program.count[operation])})"
