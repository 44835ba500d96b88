"""Simulation of messages as fluids: they share links with max-min fair rates."""

from __future__ import annotations

import math
from collections import defaultdict
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int64Array, frozen, offsets_of
from treadle.engine import core, run_core
from treadle.program.program import OperationKind
from treadle.simulation.core_values import FluidArrays, FluidTimes
from treadle.simulation.costs.message_prices import prices
from treadle.simulation.result import Simulation
from treadle.simulation.simulation_options import LatencyModel, SimulationOptions
from treadle.simulation.tasks import Follows, TaskGraph, deadlock_error

_END, _START = 0, 1


def simulate_fluid(graph: TaskGraph, size_bytes: int, options: SimulationOptions) -> Simulation:
    """Run a program whose messages flow over all links of their paths at a time.

    Rates are max-min fair over links and ports of hosts with caps, and change whenever a message starts or
    ends. The slices of a send follow each other. A latency (links of the path and alpha) comes before the
    flow if every message pays it, else after. It holds no link, but if every message pays, it delays the next
    slice of the same send, as an occupancy does. Sends are buffered from their start. A copy made at a switch
    flows in parallel with the message that brings its data and ends no earlier; so do a sum, and the
    crossings of a switch operation's group.

    Raises ScheduleError if the program deadlocks. Uses doubles: relative errors are about 1e-12. A start or
    end takes O(k) time for k messages under way, so use another sharing for networks of many more than a
    thousand.
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
    """Return the flow of each task, and the flows: first those of operations, then crossings aside."""
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
    """Return the flow of each task, and the chunks of each flow; crossings have a flow for each link."""
    n = graph.program.n_operations
    of_task = graph.operation.copy()
    own = graph.program.count.copy()
    main = ~graph.is_aside
    own[of_task[main]] = graph.chunks[main]  # merged messages have more chunks than their operation
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


def _edges(graph: TaskGraph, of_task: Int64Array, is_send: NDArray[np.bool_]) -> Int64Array:
    """Return edges between flows, shape (3, edges): source, target, and `_START` if its start suffices."""
    source, target, kind = of_task[graph.edge_source], of_task[graph.edge_target], graph.edge_kind
    waits, delivers = kind == Follows.WAIT, kind == Follows.DELIVERY
    passes = (kind == Follows.HOP) & (source != target)
    from_start = np.where(passes | (waits & is_send[source]), _START, _END)
    edges = np.stack([source, target, from_start])[:, waits | delivers | passes]
    givers: defaultdict[int, set[int]] = defaultdict(set)
    for giver, taker in zip(source[passes].tolist(), target[passes].tolist(), strict=True):
        givers[taker].add(giver)
    # a receive also waits for all flows that pass data on to its message, directly or not
    more: list[tuple[int, int, int]] = []
    for taker, receive in dict(
        zip(source[delivers].tolist(), target[delivers].tolist(), strict=True)
    ).items():
        before: set[int] = set()
        while new := set().union(*(givers.get(one, ()) for one in before or {taker})) - before:
            before |= new
        more += [(giver, receive, _END) for giver in sorted(before)]
    return np.concatenate([edges, np.array(more, dtype=np.int64).reshape(-1, 3).T], axis=1).astype(np.int64)
