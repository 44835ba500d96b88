"""A program as a graph of tasks: each message on each link, and what follows what."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property

import numpy as np

from treadle.arrays import BoolArray, Int32Array, Int64Array, mask_of, offsets_of, positions_of
from treadle.brief import brief
from treadle.errors import ScheduleError
from treadle.program.message_levels import dataflow
from treadle.program.operation_lists import OperationKind, OperationLists
from treadle.runtime.order import describe, is_receive, match_messages
from treadle.simulation.costs.link_classes import link_classes
from treadle.simulation.switch_dataflow import NetworkJoin, group_crossings, network_joins, path_ends
from treadle.topologies.topology import Topology


class Follows(IntEnum):
    """How a task follows another."""

    WAIT = 0
    """After the other has ended: a dependence within a rank."""
    HOP = 1
    """From a link to the next one, through a switch or forwarder."""
    HOST = 2
    """Between a link and the port of its host, which never stores messages."""
    DELIVERY = 3
    """From a message's last link to its receive."""


@brief("topology", "resource_bytes_per_s", "chunks")
@dataclass(frozen=True, eq=False)
class TaskGraph:
    """What a program asks of a fabric, whatever its size.

    Resources are the links, then the outbound ports of hosts with an injection cap, then their inbound ports.

    Parameters
    ----------
    topology : Topology
    program : OperationLists
    capped : array of int64
        Nodes with an injection cap.
    resource_bytes_per_s, resource_latency_ns : arrays of int64, shape (resources,)
    operation, chunks : arrays of int64, shape (tasks,)
        Operation of the program, and how many chunks it moves. Tasks are numbered by step, place in the
        rank's list, rank, hop.
    resource : array of int32, shape (tasks,)
        -1: none; receives and copies.
    pays_alpha : array of bool, shape (tasks,)
        Tasks with which a rank's software starts a message.
    is_aside : array of bool, shape (tasks,)
        What an operation's group crosses beside the paths of the program, as part of the asker's send.
    edge_offset : array of int64, shape (tasks + 1,)
        Edges of task i are edge_offset[i] up to edge_offset[i + 1].
    edge_target, edge_kind : arrays of int32
        The task that follows, and how: `Follows`.
    """

    topology: Topology
    program: OperationLists
    capped: Int64Array
    resource_bytes_per_s: Int64Array
    resource_latency_ns: Int64Array
    operation: Int64Array
    chunks: Int64Array
    resource: Int32Array
    pays_alpha: BoolArray
    is_aside: BoolArray
    edge_offset: Int64Array
    edge_target: Int32Array
    edge_kind: Int32Array

    @cached_property
    def coalesced(self) -> TaskGraph:
        """The same with messages of a step, from a rank to another over one path, in one."""
        return coalesced(self)

    @property
    def n_tasks(self) -> int:
        """Number of tasks of one slice."""
        return len(self.operation)

    @property
    def n_resources(self) -> int:
        """Number of links and of capped hosts' ports."""
        return len(self.resource_bytes_per_s)

    @property
    def edge_source(self) -> Int64Array:
        """Task that each edge leaves."""
        return np.repeat(np.arange(self.n_tasks, dtype=np.int64), np.diff(self.edge_offset))

    @cached_property
    def resource_class(self) -> Int64Array:
        """Class of each resource, a number of `CLASSES`; a host's port is of the last class of its links."""
        topology = self.topology
        classes = link_classes(topology)
        ports = np.zeros((2, topology.n_nodes), dtype=np.int64)
        np.maximum.at(ports[0], topology.tails, classes)
        np.maximum.at(ports[1], topology.heads, classes)
        return np.concatenate([classes, ports[0, self.capped], ports[1, self.capped]])

    def resource_name(self, resource: int) -> str:
        """A link as ``tail->head``, a host's port as ``out of a`` or ``into a``."""
        m, ports = self.topology.n_links, len(self.capped)
        if resource < m:
            return self.topology.link_name(resource)
        node = self.topology.node_names[self.capped[(resource - m) % ports]]
        return f"out of {node}" if resource < m + ports else f"into {node}"


def task_graph(
    topology: Topology,
    program: OperationLists,
    *,
    partner: Int64Array | None = None,
    link_of: Int64Array | None = None,
) -> TaskGraph:
    """Everything that happens in a program, and in which order at least.

    Parameters
    ----------
    topology : Topology
        The fabric that the program was lowered for.
    program : OperationLists
    partner : array of int64, shape (n,), optional
        Operation at the other end of each message, -1 for copies; default as `match_messages` pairs them.
    link_of : array of int64, shape (links,), optional
        The link that each stands for, of the same kind: of a part that says what all do
        (`program.trees.box_program`).

    Raises
    ------
    ScheduleError
        If sends and receives do not match, or a send has no path on the fabric.

    Notes
    -----
    A send ends, for operations that wait for it, when its data have left on the first link: sends are
    buffered. Where a path begins at a switch, the data come from the send that brings them there, whatever
    the program's own waits: nobody at a rank acts. Where it ends at a switch, its receive waits for no
    message: what arrives comes with the send that takes the sum along.

    Where a switch works for a rank that asks, its group's other links are crossed too: those of a store once
    the data are at the switch, those of a sum before it leaves, the asker's own when the asker could add up.
    """
    partner = match_messages(program) if partner is None else partner
    _check_paths(topology, program)
    joins = network_joins(topology, program, partner)
    capped = np.flatnonzero(topology.injection_bytes_per_s).astype(np.int64)
    hop_offset, hop_resource = _hops(topology, program, capped)
    is_send = program.operation_kind == OperationKind.SEND
    path = program.path.astype(np.int64)
    lengths = np.where(is_send, np.diff(hop_offset)[path] if program.n_paths else 0, 1)
    begin = offsets_of(lengths)
    operation = np.repeat(np.arange(program.n_operations, dtype=np.int64), lengths)
    hop = np.arange(len(operation)) - begin[operation]
    resource = np.full(len(operation), -1, dtype=np.int64)
    moves = is_send[operation]
    resource[moves] = hop_resource[hop_offset[path[operation[moves]]] + hop[moves]]
    edges = _edges(topology, program, partner, begin, resource, joins)
    aside = _aside(topology, program, partner, capped, begin, resource, joins)
    chunks = np.concatenate([program.count[operation], aside[1]])
    operation = np.concatenate([operation, aside[0]])
    resource = np.concatenate([resource, aside[2]])
    edges = np.concatenate([edges, aside[3]], axis=1)
    place = np.arange(program.n_operations) - program.operation_offset[program.operation_rank]
    order = np.lexsort((np.arange(len(operation)), place[operation], program.step[operation]))
    number = np.empty_like(order)
    number[order] = np.arange(len(order))
    source, target, kind = number[edges[0]], number[edges[1]], edges[2]
    by_source = np.argsort(source, kind="stable")
    counts = np.bincount(source, minlength=len(order))
    own_node = program.nodes[program.operation_rank]
    first_link = np.zeros(len(operation), dtype=np.bool_)
    onto = np.flatnonzero((resource >= 0) & (resource < topology.n_links))
    first_link[onto] = topology.tails[resource[onto]] == own_node[operation[onto]]
    # what a rank adds to a sum that another rank asks a switch for is fetched: nobody at the rank acts
    fetched = [
        join.giver
        for join in joins
        if not topology.turns_round[topology.heads[join.giver_link]]
        and not topology.is_compute[topology.heads[path_ends(program, join.giver)[1]]]
    ]
    first_link &= ~np.isin(operation, fetched)
    if link_of is not None:
        resource = np.append(link_of, -1)[resource]  # no ports: -1 is that of none
    return TaskGraph(
        topology,
        program,
        capped,
        np.concatenate([topology.bandwidths, *[topology.injection_bytes_per_s[capped]] * 2]),
        np.concatenate([topology.latencies_ns, np.zeros(2 * len(capped), dtype=np.int64)]),
        operation[order],
        chunks[order],
        resource[order].astype(np.int32),
        first_link[order],
        order >= begin[-1],
        offsets_of(counts),
        target[by_source].astype(np.int32),
        kind[by_source].astype(np.int32),
    )


def _check_paths(topology: Topology, program: OperationLists) -> None:
    """Every send needs a path: a walk of links from its rank, or a switch, to its peer, or a switch."""
    sends = np.flatnonzero(program.operation_kind == OperationKind.SEND)
    path = program.path[sends]
    links, offset = program.path_links, program.path_offset
    for place in np.flatnonzero(path < 0)[:1]:
        raise ScheduleError(
            f"simulation: {describe(program, int(sends[place]))} names no physical path; expected the links "
            f"that it takes"
        )
    if links.size and (links.min() < 0 or links.max() >= topology.n_links):
        raise ScheduleError(
            f"simulation: a path names link {links.max()}, {topology.name} has {topology.n_links} links"
        )
    empty = np.diff(offset) == 0
    inner = np.ones(max(0, len(links) - 1), dtype=np.bool_)
    inner[(offset[1:-1] - 1)[(offset[1:-1] > 0) & (offset[1:-1] < len(links))]] = False
    broken = inner & (topology.heads[links[:-1]] != topology.tails[links[1:]])
    for place in np.flatnonzero(broken)[:1]:
        raise ScheduleError(
            f"simulation: a path goes over {topology.link_name(int(links[place]))}, then over "
            f"{topology.link_name(int(links[place + 1]))}: expected links that follow each other"
        )
    for place in np.flatnonzero(empty[path])[:1]:
        raise ScheduleError(f"simulation: {describe(program, int(sends[place]))} has a path without links")
    begin, end = topology.tails[links[offset[path]]], topology.heads[links[offset[path + 1] - 1]]
    own, peer = program.nodes[program.operation_rank[sends]], program.nodes[program.peer[sends]]
    wrong = ((begin != own) & topology.is_compute[begin]) | ((end != peer) & topology.is_compute[end])
    for place in np.flatnonzero(wrong)[:1]:
        raise ScheduleError(
            f"simulation: {describe(program, int(sends[place]))} takes a path from "
            f"{topology.node_names[begin[place]]!r} to {topology.node_names[end[place]]!r}; was the program "
            f"lowered for another fabric?"
        )


def _hops(topology: Topology, program: OperationLists, capped: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Resources of every path in order, with the ports of capped hosts that its links leave and enter."""
    slots = _slots(topology, capped, program.path_links.astype(np.int64))
    used = slots >= 0
    return offsets_of(used.sum(axis=1))[program.path_offset], slots[used]


def _slots(topology: Topology, capped: Int64Array, links: Int64Array) -> Int64Array:
    """The port that each link leaves, the link, the port that it enters: (links, 3), -1 for no port."""
    port = np.full(topology.n_nodes, -1, dtype=np.int64)
    port[capped] = topology.n_links + np.arange(len(capped))
    leaves, enters = port[topology.tails[links]], port[topology.heads[links]]
    enters[enters >= 0] += len(capped)
    return np.stack([leaves, links, enters], axis=1)


def _aside(
    topology: Topology,
    program: OperationLists,
    partner: Int64Array,
    capped: Int64Array,
    begin: Int64Array,
    resource: Int64Array,
    joins: tuple[NetworkJoin, ...],
) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
    """Tasks beside the program's paths: operation, chunks, resource, and their edges as `_edges` has them."""
    rows: list[tuple[int, int, int]] = []
    edges: list[tuple[int, int, int]] = []
    total = int(begin[-1])
    for crossing in group_crossings(topology, program, joins):
        first = total + len(rows)
        slots = _slots(topology, capped, np.array([crossing.link]))[0].tolist()
        rows += [(crossing.send, crossing.chunks, place) for place in slots if place >= 0]
        last = total + len(rows) - 1
        edges += [(task, task + 1, Follows.HOST) for task in range(first, last)]
        called = _task_on(crossing.send, crossing.call, begin, resource)
        if topology.is_compute[topology.heads[crossing.call]]:
            edges.append((last, called, Follows.HOP))
            if topology.tails[crossing.link] == topology.heads[crossing.call]:
                # of its own data the asker adds up what it has waited for
                receive = int(partner[crossing.send])
                waits = program.waits[program.wait_offset[receive] : program.wait_offset[receive + 1]]
                edges += [(begin[wait], first, Follows.WAIT) for wait in waits.tolist()]
        else:
            edges.append((called, first, Follows.HOP))
    operation, chunks, places = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    return operation, chunks, places, np.array(edges, dtype=np.int64).reshape(-1, 3).T


def _edges(
    topology: Topology,
    program: OperationLists,
    partner: Int64Array,
    begin: Int64Array,
    resource: Int64Array,
    joins: tuple[NetworkJoin, ...],
) -> Int64Array:
    """All edges, shape (3, edges): source and target before tasks are renumbered, and kind."""
    total, m = program.n_operations, topology.n_links
    first, last = begin[:-1], begin[1:] - 1
    waiting = np.repeat(np.arange(total, dtype=np.int64), np.diff(program.wait_offset))
    takers = [join.taker for join in joins if path_ends(program, join.taker)[0] == join.taker_link]
    givers = [join.giver for join in joins if path_ends(program, join.giver)[1] == join.giver_link]
    copied, added = mask_of(total, takers), mask_of(total, givers)
    # a join is a copy or a sum; only its passing partner keeps its own beginning and end
    acts = ~copied[waiting]
    waits = _rows(first[program.waits[acts]], first[waiting[acts]], Follows.WAIT)
    goes_on = np.flatnonzero(np.diff(np.repeat(np.arange(total), np.diff(begin))) == 0)
    hops = _rows(goes_on, goes_on + 1, Follows.HOP)
    at_host = (resource[goes_on] >= m) | (resource[goes_on + 1] >= m)
    hops[2, at_host] = Follows.HOST
    receives = np.flatnonzero(is_receive(program))
    receives = receives[~added[partner[receives]]]
    deliveries = _rows(last[partner[receives]], first[receives], Follows.DELIVERY)
    givers = [_task_on(join.giver, join.giver_link, begin, resource) for join in joins]
    takers = [_task_on(join.taker, join.taker_link, begin, resource) for join in joins]
    passed = _rows(np.array(givers, dtype=np.int64), np.array(takers, dtype=np.int64), Follows.HOP)
    return np.concatenate([waits, hops, deliveries, passed], axis=1)


def _rows(source: Int64Array, target: Int64Array, kind: Follows) -> Int64Array:
    return np.stack([source, target, np.full(len(source), kind)]).astype(np.int64)


def _task_on(send: int, link: int, begin: Int64Array, resource: Int64Array) -> int:
    """The task of a send on a link of its path."""
    tasks = resource[int(begin[send]) : int(begin[send + 1])]
    return int(begin[send]) + int(np.flatnonzero(tasks == link)[0])


def coalesced(graph: TaskGraph) -> TaskGraph:
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
    # what begins or ends at a switch is a copy or a sum in the network
    links, offset, is_compute = program.path_links, program.path_offset, graph.topology.is_compute
    starts, ends = graph.topology.tails[links[offset[:-1]]], graph.topology.heads[links[offset[1:] - 1]]
    if graph.is_aside.any() or not (is_compute[starts].all() and is_compute[ends].all()):
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
    number = positions_of(graph.n_tasks, kept)
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
