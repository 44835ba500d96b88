"""Lowering of programs to thread blocks: operations of each block, waits, and switch operations."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush
from itertools import pairwise

from treadle.errors import ScheduleError
from treadle.program.passes import replicate
from treadle.program.program import Buffer, Program
from treadle.runtime.device.block_nodes import RECEIVES, BlockNode, BlockNodes
from treadle.runtime.device.block_parts import PartKind, cut_into_parts
from treadle.runtime.device.block_program import (
    BlockAction,
    BlockFlag,
    BlockOperation,
    BlockProgram,
    DeviceProtocol,
    FlagPurpose,
    FlagWait,
    RankBlock,
    entering,
)
from treadle.runtime.device.switch_parts import SwitchParts
from treadle.topologies.topology import Topology

MOST_LANES = 64
"""Largest number of blocks of a rank."""


def lower_to_blocks(
    program: Program,
    protocol: DeviceProtocol,
    *,
    lanes: int,
    averages: bool = False,
    switches: Topology | None = None,
    switch_sums: bool = True,
    reached: Collection[Buffer] = tuple(Buffer),
) -> BlockProgram:
    """Lower a program to thread blocks.

    Parameters
    ----------
    lanes : int
        Most thread blocks of a rank, 1 to `MOST_LANES`; a rank of fewer parts has fewer.
    averages : bool
        Sums are divided by the number of ranks at the end.
    switches : Topology, optional
        The fabric of the program's paths: the plan's GPU-initiated switch operations are
        left to switches, with protocol Simple. Every rank's part of them is spread over all its blocks.
    switch_sums : bool
        Whether these switches can add up, or combine, the elements.
    reached : collection of Buffer
        Buffers that peers reach: messages and switch operations use no others.

    Raises
    ------
    ScheduleError
        If the program cannot be executed, the number of blocks is out of range, or switches would be used so
        that little passes.
    """
    if not 1 <= lanes <= MOST_LANES:
        raise ScheduleError(f"--lanes: expected 1 to {MOST_LANES}, found {lanes}")
    program, bounds, graph, groups = _make_graph(program, protocol, lanes, switches, switch_sums, reached)
    writer = _Writer(graph, protocol)
    averages = averages and program.kind.reduces
    lists: list[RankBlock] = []
    weights = [past - first for first, past in pairwise(bounds)]
    own_nodes: list[list[BlockNode]] = [[] for _ in range(program.n_ranks)]
    for node in graph.nodes.values():
        own_nodes[node.operation.rank].append(node)
    for rank, own in enumerate(own_nodes):
        parts = program_parts(program, rank, bounds) if averages else []
        for chosen in _assign_parts(own, parts, weights, lanes):
            listed = [node for node in own if node.operation.part in chosen]
            listed.sort(key=lambda node: (node.stage, node.depth, node.number))
            made = [one for one in map(writer.operation_of, listed) if one is not None]
            for part in sorted(chosen.intersection(parts)):  # divided behind all that the lane does with it
                stage = max((one.stage for one in made if one.part == part), default=0)
                made.append(BlockOperation(BlockAction.FINISH, part, stage, Buffer.OUTPUT, Buffer.OUTPUT))
            lists.append(RankBlock(rank, tuple(sorted(made, key=lambda one: one.stage))))
    found = BlockProgram(
        program,
        protocol,
        averages,
        tuple(bounds),
        tuple(lists),
        tuple(graph.messages),
        tuple(writer.flags),
        tuple(groups),
    )
    return replace(found, lanes=entering(found))


_ACTIONS = {
    PartKind.COPY: BlockAction.COPY,
    PartKind.SUM: BlockAction.SUM,
    PartKind.RECEIVE_REDUCE: BlockAction.REDUCE,
}

_Graph = tuple[Program, list[int], BlockNodes, list[tuple[int, ...]]]
"""A program, bounds of parts, nodes, groups."""


def _make_graph(
    program: Program,
    protocol: DeviceProtocol,
    lanes: int,
    switches: Topology | None,
    sums: bool,
    reached: Collection[Buffer],
) -> _Graph:
    """Return the program, perhaps in more chunks, its parts and nodes, and the groups of used switches."""
    if switches is not None and protocol is DeviceProtocol.SIMPLE and reached:
        found = _choose_switch_operations(program, switches, sums, reached)
        if found is not None:
            found[0].check_blocks(lanes)
            found[0].check_spread(found[1])
            # every rank's share in parts for all its lanes
            spread = replicate(program, lanes)
            found = _choose_switch_operations(spread, switches, sums, reached)
            assert found is not None
            parts, bounds, graph = found
            return spread, bounds, graph, parts.groups
    operations, bounds = cut_into_parts(program)
    nodes = BlockNodes(operations, protocol, in_place=program.in_place, reached=reached)
    return program, bounds, nodes, []


def _choose_switch_operations(
    program: Program, switches: Topology, sums: bool, reached: Collection[Buffer] = tuple(Buffer)
) -> tuple[SwitchParts, list[int], BlockNodes] | None:
    """Choose the switch operations, such that all stores can write directly to their targets."""
    parts = SwitchParts(switches, program, sums, reached)
    if not parts.groups:
        return None
    while True:
        operations, bounds = cut_into_parts(program, parts.rewritten)
        if not parts.asked:
            return None
        try:
            graph = BlockNodes(operations, DeviceProtocol.SIMPLE, in_place=program.in_place, reached=reached)
        except ScheduleError:  # loads that wait for all of a group at once
            return None
        if not graph.staged_stores:
            return parts, bounds, graph
        stores = [operations[number] for number in graph.staged_stores]
        parts.refused |= {(one.rank, one.part, one.group, True) for one in stores}


def left_to_switches(
    program: Program, switches: Topology, *, switch_sums: bool
) -> tuple[frozenset[tuple[int, int]], frozenset[tuple[int, int]]]:
    """Stores and sums by switches for protocol Simple: (initiating rank, chunk)."""
    found = _choose_switch_operations(program, switches, switch_sums)
    if found is None:
        return frozenset(), frozenset()
    parts, bounds, _ = found
    stores, sums = (
        frozenset(
            (rank, chunk)
            for rank, part, _, is_store in parts.asked
            if is_store == wanted
            for chunk in range(bounds[part], bounds[part + 1])
        )
        for wanted in (True, False)
    )
    return stores, sums


def program_parts(program: Program, rank: int, bounds: Sequence[int]) -> list[int]:
    """Parts of a rank's OUTPUT."""
    inside = program.ranges(rank, Buffer.OUTPUT)
    return [
        part for part, first in enumerate(bounds[:-1]) if any(low <= first < past for low, past in inside)
    ]


def _assign_parts(
    nodes: Sequence[BlockNode], parts: Sequence[int], weights: Sequence[int], lanes: int
) -> list[set[int]]:
    """Assign parts to a rank's blocks, the longest first to the least loaded; one block if none."""
    work: dict[int, int] = dict.fromkeys(parts, 0)
    for node in nodes:
        part = node.operation.part
        asks = (node.operation.kind is PartKind.SUM) + (node.store >= 0)
        work[part] = work.get(part, 0) + weights[part] * (1 + len(node.sends) + asks)
    chosen: list[set[int]] = [set() for _ in range(max(1, min(lanes, len(work))))]
    loads = [(0, lane) for lane in range(len(chosen))]
    heapify(loads)
    for part in sorted(work, key=lambda part: (-work[part], part)):
        load, lane = heappop(loads)
        chosen[lane].add(part)
        heappush(loads, (load + work[part], lane))
    return chosen


class _Writer:
    """Makes the operations of thread blocks from nodes, and numbers flags as they are needed first."""

    def __init__(self, graph: BlockNodes, protocol: DeviceProtocol) -> None:
        self._graph, self._is_simple = graph, protocol is DeviceProtocol.SIMPLE
        self.flags: dict[BlockFlag, int] = {}

    def _flag(self, rank: int, purpose: FlagPurpose, subject: int) -> int:
        return self.flags.setdefault(BlockFlag(rank, purpose, subject), len(self.flags))

    def operation_of(self, node: BlockNode) -> BlockOperation | None:
        """The operation of a node; None where nothing is left of it."""
        graph, operation, number = self._graph, node.operation, node.number
        if operation.kind is PartKind.EXPOSE:
            if not node.waits:
                return None
            flag = self._flag(graph.operations[operation.partner].rank, FlagPurpose.EXPOSED, number)
            return BlockOperation(BlockAction.EXPOSE, operation.part, node.stage, raises=(flag,))
        if operation.kind is PartKind.RECLAIM:
            if number not in graph.reclaims:
                return None
            waited = FlagWait(self._flag(operation.rank, FlagPurpose.READ, number))
            return BlockOperation(BlockAction.RECLAIM, operation.part, node.stage, waits=(waited,))
        store = graph.operations[node.store] if node.store >= 0 else None
        puts = tuple(graph.message_of[send] for send in node.sends)
        taken = graph.message_of[number] if operation.kind in RECEIVES else -1
        action, source, target = self._movement(node, taken)
        is_stored_too = store is not None and target is not None and graph.is_same(target, store.target)
        if is_stored_too and action is not BlockAction.AWAIT:
            target = None  # this rank is of the group as well
        if action is BlockAction.COPY and target is None:
            action = BlockAction.PUT
        if action is BlockAction.PUT and not puts and store is None:
            return None
        waits, raises = self._signals(node, taken, puts)
        return BlockOperation(
            *(action, operation.part, node.stage, source, target, taken, puts),
            sums=operation.group if operation.kind is PartKind.SUM else -1,
            multicast=-1 if store is None else store.group,
            copied_to=None if store is None else store.target,
            copies=() if store is None else tuple(graph.copies[node.store]),
            waits=tuple(dict.fromkeys(waits)),
            raises=tuple(raises),
        )

    def _movement(self, node: BlockNode, taken: int) -> tuple[BlockAction, Buffer | None, Buffer | None]:
        """Action, source and target."""
        operation, kind = node.operation, node.operation.kind
        is_at_rest = kind is PartKind.COPY and self._graph.is_same(operation.source, operation.target)
        if kind in (PartKind.SEND, PartKind.STORE) or is_at_rest:
            return BlockAction.PUT, operation.source, None
        if kind in _ACTIONS:
            return _ACTIONS[kind], operation.source, operation.target
        if self._graph.messages[taken].is_staged:
            return BlockAction.TAKE, None, operation.target
        is_read = bool(node.sends) or node.store >= 0
        return BlockAction.AWAIT, operation.target if is_read else None, operation.target

    def _signals(self, node: BlockNode, taken: int, puts: Sequence[int]) -> tuple[list[FlagWait], list[int]]:
        """Flags that a node waits for and raises: for its messages, what it sums, and copies of a store."""
        graph, rank, flag = self._graph, node.operation.rank, self._flag
        waits: list[FlagWait] = []
        raises: list[int] = []
        if taken >= 0 and self._is_simple:
            waits.append(FlagWait(flag(rank, FlagPurpose.ARRIVAL, taken)))
            if graph.messages[taken].is_staged:
                raises.append(flag(graph.messages[taken].sender, FlagPurpose.CREDIT, taken))
        for put in puts:
            message = graph.messages[put]
            entered = flag(rank, FlagPurpose.ENTERED, message.receiver)
            waits.append(FlagWait(entered, launches=0 if self._is_simple else 1))
            if self._is_simple:
                if message.is_staged:
                    waits.append(FlagWait(flag(rank, FlagPurpose.CREDIT, put), message.slots))
                raises.append(flag(message.receiver, FlagPurpose.ARRIVAL, put))
        exposed = graph.exposed[node.number] if node.operation.kind is PartKind.SUM else ()
        for number in exposed:
            # waited for in any case: with it comes whether the rank calls the same
            waits.append(FlagWait(flag(rank, FlagPurpose.ENTERED, graph.nodes[number].operation.rank)))
            if graph.nodes[number].waits:
                waits.append(FlagWait(flag(rank, FlagPurpose.EXPOSED, number)))
        raises += [
            flag(graph.nodes[number].operation.rank, FlagPurpose.READ, number + 1)
            for number in exposed
            if number + 1 in graph.reclaims  # a RECLAIM stands behind its EXPOSE
        ]
        for copy in graph.copies[node.store] if node.store >= 0 else ():
            receiver = graph.messages[copy].receiver
            waits.append(FlagWait(flag(rank, FlagPurpose.ENTERED, receiver)))
            raises.append(flag(receiver, FlagPurpose.ARRIVAL, copy))
        return waits, raises
