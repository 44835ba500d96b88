"""Programs to lanes: which lane does what, who waits for whom, and what is left to switches."""

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
"""Of a rank."""


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
    """Make the lanes of a program.

    Parameters
    ----------
    program : Program
    protocol : DeviceProtocol
    lanes : int
        Most thread blocks of a rank, 1 to `MOST_LANES`; a rank of fewer parts has fewer.
    averages : bool
        Sums are divided by the number of ranks at the end.
    switches : Topology, optional
        The fabric of the program's paths: what the plan leaves to switches that work for ranks that ask is
        left to them, with protocol Simple. Every rank's share of it is spread over all its lanes.
    switch_sums : bool
        Whether these switches can add up, or combine, the elements.
    reached : collection of Buffer
        What peers reach: no message is put straight into other buffers, and no switch is asked for them.

    Raises
    ------
    ScheduleError
        If the program cannot be executed, the number of lanes is out of range, or switches would be asked so
        that little passes.
    """
    if not 1 <= lanes <= MOST_LANES:
        raise ScheduleError(f"lanes: expected 1 to {MOST_LANES}, found {lanes}")
    program, bounds, graph, groups = _graph(program, protocol, lanes, switches, switch_sums, reached)
    writer = _Writer(graph, protocol)
    averages = averages and program.kind.reduces
    lists: list[RankBlock] = []
    weights = [past - first for first, past in pairwise(bounds)]
    own_nodes: list[list[BlockNode]] = [[] for _ in range(program.n_ranks)]
    for node in graph.nodes.values():
        own_nodes[node.operation.rank].append(node)
    for rank, own in enumerate(own_nodes):
        parts = program_parts(program, rank, bounds) if averages else []
        for chosen in _shared_out(own, parts, weights, lanes):
            listed = [node for node in own if node.operation.part in chosen]
            listed.sort(key=lambda node: (node.stage, node.depth, node.number))
            made = [one for one in map(writer.written, listed) if one is not None]
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


_Graph = tuple[Program, list[int], BlockNodes, list[tuple[int, ...]]]
"""A program, bounds of parts, nodes, groups."""


def _graph(
    program: Program,
    protocol: DeviceProtocol,
    lanes: int,
    switches: Topology | None,
    sums: bool,
    reached: Collection[Buffer],
) -> _Graph:
    """The program, perhaps in more chunks, its parts and nodes, and the groups of switches that are asked."""
    if switches is not None and protocol is DeviceProtocol.SIMPLE and reached:
        found = _settled(program, switches, sums, reached)
        if found is not None:
            found[0].check_blocks(lanes)
            found[0].check_spread(found[1])
            # every rank's share in parts for all its lanes
            spread = replicate(program, lanes)
            found = _settled(spread, switches, sums, reached)
            assert found is not None
            parts, bounds, graph = found
            return spread, bounds, graph, parts.groups
    operations, bounds = cut_into_parts(program)
    nodes = BlockNodes(operations, protocol, in_place=program.in_place, reached=reached)
    return program, bounds, nodes, []


def _settled(
    program: Program, switches: Topology, sums: bool, reached: Collection[Buffer] = tuple(Buffer)
) -> tuple[SwitchParts, list[int], BlockNodes] | None:
    """What is left to switches, such that all stores can go straight into their targets."""
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
    """Stores and sums that lanes of protocol Simple ask switches for: (rank that asks, chunk)."""
    found = _settled(program, switches, switch_sums)
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


def _shared_out(
    nodes: Sequence[BlockNode], parts: Sequence[int], weights: Sequence[int], lanes: int
) -> list[set[int]]:
    """Parts of each lane of a rank, the longest first to whom has least; one lane where there is nothing."""
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
    """Operations of lanes from nodes."""

    def __init__(self, graph: BlockNodes, protocol: DeviceProtocol) -> None:
        self._graph, self._is_simple = graph, protocol is DeviceProtocol.SIMPLE
        self.flags: dict[BlockFlag, int] = {}
        """In the order in which they were first needed, with their numbers."""

    def _flag(self, rank: int, purpose: FlagPurpose, subject: int) -> int:
        return self.flags.setdefault(BlockFlag(rank, purpose, subject), len(self.flags))

    def written(self, node: BlockNode) -> BlockOperation | None:
        """The operation of a node; None where nothing is left of it."""
        graph, operation, number = self._graph, node.operation, node.number
        rank = operation.rank
        if operation.kind is PartKind.EXPOSE:
            if not node.waits:
                return None
            flag = self._flag(graph.operations[operation.partner].rank, FlagPurpose.EXPOSED, number)
            return BlockOperation(BlockAction.EXPOSE, operation.part, node.stage, raises=(flag,))
        if operation.kind is PartKind.RECLAIM:
            if number not in graph.reclaims:
                return None
            waited = FlagWait(self._flag(rank, FlagPurpose.READ, number))
            return BlockOperation(BlockAction.RECLAIM, operation.part, node.stage, waits=(waited,))
        puts = tuple(graph.message_of[send] for send in node.sends)
        taken = graph.message_of[number] if operation.kind in RECEIVES else -1
        action, source, target = self._moved(node, taken)
        copied_to = None
        if node.store >= 0:
            copied_to = graph.operations[node.store].target
            if target is not None and graph.is_same(target, copied_to) and action is not BlockAction.AWAIT:
                target = None  # this rank is of the group as well
        if action is BlockAction.COPY and target is None:
            action = BlockAction.PUT
        if action is BlockAction.PUT and not puts and node.store < 0:
            return None
        copies = tuple(graph.copies[node.store]) if node.store >= 0 else ()
        waits, raises = self._flags_of(rank, taken, puts)
        if operation.kind is PartKind.SUM:
            for exposed in graph.exposed[number]:
                other = graph.nodes[exposed]
                # asked in any case: with it comes whether the rank calls the same
                waits.append(FlagWait(self._flag(rank, FlagPurpose.ENTERED, other.operation.rank)))
                if other.waits:
                    waits.append(FlagWait(self._flag(rank, FlagPurpose.EXPOSED, exposed)))
            for exposed in graph.exposed[number]:
                if exposed + 1 in graph.reclaims:  # a RECLAIM stands behind its EXPOSE
                    exposing = graph.nodes[exposed].operation.rank
                    raises.append(self._flag(exposing, FlagPurpose.READ, exposed + 1))
        for copy in copies:
            receiver = graph.messages[copy].receiver
            waits.append(FlagWait(self._flag(rank, FlagPurpose.ENTERED, receiver)))
            raises.append(self._flag(receiver, FlagPurpose.ARRIVAL, copy))
        return BlockOperation(
            action,
            operation.part,
            node.stage,
            source,
            target,
            taken,
            puts,
            operation.group if operation.kind is PartKind.SUM else -1,
            graph.operations[node.store].group if node.store >= 0 else -1,
            copied_to,
            copies,
            tuple(dict.fromkeys(waits)),
            tuple(raises),
        )

    def _moved(self, node: BlockNode, taken: int) -> tuple[BlockAction, Buffer | None, Buffer | None]:
        """Action, source and target."""
        operation, kind = node.operation, node.operation.kind
        is_at_rest = kind is PartKind.COPY and self._graph.is_same(operation.source, operation.target)
        if kind in (PartKind.SEND, PartKind.STORE) or is_at_rest:
            return BlockAction.PUT, operation.source, None
        if kind is PartKind.COPY:
            return BlockAction.COPY, operation.source, operation.target
        if kind is PartKind.SUM:
            return BlockAction.SUM, operation.source, operation.target
        if kind is PartKind.RECEIVE_REDUCE:
            return BlockAction.REDUCE, operation.source, operation.target
        if self._graph.messages[taken].is_staged:
            return BlockAction.TAKE, None, operation.target
        is_read = bool(node.sends) or node.store >= 0
        return BlockAction.AWAIT, operation.target if is_read else None, operation.target

    def _flags_of(self, rank: int, taken: int, puts: Sequence[int]) -> tuple[list[FlagWait], list[int]]:
        """What a message that is taken, and those that are put, wait for and raise."""
        messages, flag = self._graph.messages, self._flag
        waits: list[FlagWait] = []
        raises: list[int] = []
        if taken >= 0 and self._is_simple:
            waits.append(FlagWait(flag(rank, FlagPurpose.ARRIVAL, taken)))
            if messages[taken].is_staged:
                raises.append(flag(messages[taken].sender, FlagPurpose.CREDIT, taken))
        for put in puts:
            message = messages[put]
            entered = flag(rank, FlagPurpose.ENTERED, message.receiver)
            waits.append(FlagWait(entered, launches=0 if self._is_simple else 1))
            if self._is_simple:
                if message.is_staged:
                    waits.append(FlagWait(flag(rank, FlagPurpose.CREDIT, put), message.slots))
                raises.append(flag(message.receiver, FlagPurpose.ARRIVAL, put))
        return waits, raises
