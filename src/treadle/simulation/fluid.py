"""Simulation of messages as fluids: they share links with max-min fair rates."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int64Array, frozen, offsets_of
from treadle.engine import core, run_core
from treadle.program.program import OperationKind
from treadle.simulation.core_values import FluidArrays, FluidTimes
from treadle.simulation.costs.message_prices import prices
from treadle.simulation.deadlock import deadlock_error
from treadle.simulation.result import Simulation
from treadle.simulation.simulation_options import LatencyModel, SimulationOptions
from treadle.simulation.tasks import Follows, TaskGraph

_END, _START = 0, 1


def simulate_fluid(graph: TaskGraph, size_bytes: int, options: SimulationOptions) -> Simulation:
    """Run a program whose messages flow over all links of their paths at a time.

    Rates are max-min fair over links and capped hosts' ports, shared anew whenever a message starts or ends.
    The slices of a send follow each other. A latency (links of the path and alpha) comes before the flow if
    every message pays it, else after; it holds no link, but where every message pays, it keeps the next slice
    of the same send waiting, and so does an occupancy. Sends are buffered from their start. A copy made at a
    switch flows beside what brings its data and ends no earlier; a sum likewise, and what an operation's
    group crosses besides.

    Parameters
    ----------
    graph : TaskGraph
    size_bytes : int
    options : SimulationOptions

    Raises
    ------
    ScheduleError
        If the program deadlocks.

    Notes
    -----
    In doubles: relative errors of about 1e-12. O(k) per start or end for k messages under way; for networks
    of many more than a thousand, use the other ways of sharing.
    """
    flow, flows = _flows(graph, size_bytes, options)
    n = len(flows.work)
    _, found = run_core("simulate", lambda control: core.simulate_flows(flows, options.slices, control))
    times = FluidTimes(*found)
    start, end = (column.reshape(options.slices, n) for column in (times.start, times.end))
    if times.done < n * options.slices:
        begun = start[:, flow].ravel()
        raise deadlock_error(graph, begun, int(np.count_nonzero(begun < 0)))
    finish_s = float(end.max(initial=0.0))
    tick = Fraction(2) ** (math.frexp(finish_s)[1] - 53) if finish_s else Fraction(1, 10**9)
    begins, leaves = (np.rint(column / float(tick)).astype(np.int64) for column in (start, end - flows.after))
    used = graph.resource >= 0
    work = np.bincount(graph.resource[used], weights=flows.work[flow[used]], minlength=graph.n_resources)
    busy = np.rint(work * options.slices / flows.capacity / float(tick)).astype(np.int64)
    last = np.unravel_index(int(end.argmax()), end.shape)
    task = int(np.flatnonzero(flow == last[1])[-1])
    return Simulation(
        graph,
        size_bytes,
        options,
        tick,
        False,
        round(finish_s / tick),
        int(last[0]) * graph.n_tasks + task,
        begins[:, flow],
        (leaves - begins)[:, flow],
        busy,
        frozen(np.zeros((0, 0)), np.int64),
    )


def _flows(graph: TaskGraph, size_bytes: int, options: SimulationOptions) -> tuple[Int64Array, FluidArrays]:
    """The flow of each task; the operations of a program as flows, then what is crossed aside."""
    program, priced = graph.program, prices(graph, options)
    of_task, chunks = _numbered(graph)
    n = len(chunks)
    slice_bytes = chunks * (size_bytes / (program.n_chunks * options.slices))
    onto = graph.resource >= 0
    uses = np.unique(of_task[onto] * graph.n_resources + graph.resource[onto])
    owner, resource = np.divmod(uses, graph.n_resources)
    latency_ns = np.bincount(
        of_task[onto], weights=priced.resource_latency_ns[graph.resource[onto]], minlength=n
    )
    kinds = np.full(n, -1)
    kinds[: program.n_operations] = program.operation_kind
    is_send = kinds == OperationKind.SEND
    of_send = np.zeros((2, n))
    of_send[:, : program.n_operations] = priced.alpha_ns, priced.occupancy_ns
    latency = (latency_ns + of_send[0] * is_send) * 1e-9
    occupied = of_send[1] * is_send * 1e-9
    pays_first = options.latency_model is LatencyModel.PER_MESSAGE
    before = occupied + latency if pays_first else occupied
    if options.reduction_bytes_per_s:
        adds = kinds == OperationKind.RECEIVE_REDUCE
        before = before + adds * slice_bytes / options.reduction_bytes_per_s
    source, target, from_start = _edges(graph, of_task, is_send)
    order = np.argsort(source, kind="stable")
    return of_task, FluidArrays(
        resource_offset=offsets_of(np.bincount(owner, minlength=n)),
        resource=resource.astype(np.int32),
        capacity=priced.resource_bytes_per_s.astype(np.float64),
        work=slice_bytes.astype(np.float64),
        before=before,
        after=np.zeros(n) if pays_first else latency,
        edge_offset=offsets_of(np.bincount(source, minlength=n)),
        edge_target=target[order].astype(np.int32),
        edge_from_start=from_start[order].astype(np.int32),
    )


def _numbered(graph: TaskGraph) -> tuple[Int64Array, Int64Array]:
    """The flow of each task, and the chunks of each flow; what is crossed aside has a flow for each link."""
    n = graph.program.n_operations
    of_task = graph.operation.copy()
    own = graph.program.count.copy()
    main = ~graph.is_aside
    own[of_task[main]] = graph.chunks[main]  # of messages that are joined more than the operation's
    aside = np.flatnonzero(graph.is_aside)
    if not aside.size:
        return of_task, own
    # a link and its hosts' ports follow each other without storing anything
    joined = graph.is_aside[graph.edge_source] & graph.is_aside[graph.edge_target]
    before = np.full(graph.n_tasks, -1, dtype=np.int64)
    before[graph.edge_target[joined]] = graph.edge_source[joined]
    heads = aside[before[aside] < 0]
    of_task[heads] = n + np.arange(len(heads))
    for _ in range(2):
        later = aside[before[aside] >= 0]
        of_task[later] = of_task[before[later]]
    chunks = np.concatenate([own, graph.chunks[heads]]).astype(np.int64)
    return of_task, chunks


def _edges(
    graph: TaskGraph, of_task: Int64Array, is_send: NDArray[np.bool_]
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Between flows: source, target, and whether the start of the source is enough."""
    source = of_task[graph.edge_source]
    target = of_task[graph.edge_target]
    kind = graph.edge_kind
    passes = (kind == Follows.HOP) & (source != target)
    joins = list(zip(source[passes].tolist(), target[passes].tolist(), strict=True))
    kept = (kind == Follows.WAIT) | (kind == Follows.DELIVERY) | passes
    begins = passes | ((kind == Follows.WAIT) & is_send[source])
    deliveries = dict(
        zip(source[kind == Follows.DELIVERY].tolist(), target[kind == Follows.DELIVERY].tolist(), strict=True)
    )
    givers: dict[int, set[int]] = {}
    for giver, taker in joins:
        givers.setdefault(taker, set()).add(giver)
    extra = [
        (giver, receive)
        for taker, receive in deliveries.items()
        if taker in givers
        for giver in sorted(_all_givers(givers, taker))
    ]
    more = np.array(extra, dtype=np.int64).reshape(-1, 2)
    return (
        np.concatenate([source[kept], more[:, 0]]).astype(np.int64),
        np.concatenate([target[kept], more[:, 1]]).astype(np.int64),
        np.concatenate([np.where(begins[kept], _START, _END), np.full(len(more), _END)]).astype(np.int64),
    )


def _all_givers(givers: dict[int, set[int]], taker: int) -> set[int]:
    found: set[int] = set()
    open_ = [taker]
    while open_:
        for giver in givers.get(open_.pop(), ()):
            if giver not in found:
                found.add(giver)
                open_.append(giver)
    return found
