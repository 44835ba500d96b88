"""Programs to lanes: what is fused, where messages land, which lane does what, and who waits for whom.

A send that waits for nothing but the operation that made its data is fused with it: receive, reduce and send
are one pass over the data. A message is put straight into its target where everything that the receive waits
for happens before the send; else it is staged, in as many slots as keep lanes from waiting in a circle: with
stages a at the send and b at the receive, the wave in which slice s is put, a + s, comes after the wave in
which slice s - (b - a + 1) is taken. All waits then lead from (wave, stage, depth) to a greater one, so that
lanes, which go in that order, never wait for each other in a circle.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush
from itertools import pairwise

from treadle.errors import ScheduleError
from treadle.program.program import Buffer, OperationKind, Program
from treadle.runtime.device.lane_parts import PartOperation, cut_into_parts
from treadle.runtime.device.lane_program import (
    DeviceProtocol,
    FlagPurpose,
    FlagWait,
    LaneAction,
    LaneFlag,
    LaneMessage,
    LaneOperation,
    LaneProgram,
    RankLane,
)

MOST_PUTS = 4
"""Of one operation: the kernel holds so many targets in registers."""

MOST_LANES = 64
"""Of a rank."""


@dataclass(slots=True)
class _Node:
    """An operation with the sends that are fused with it; `number` is that of the operation.

    `place` counts the nodes of its part.
    """

    number: int
    operation: PartOperation
    sends: list[int] = field(default_factory=list)
    waits: set[int] = field(default_factory=set)
    stage: int = 0
    depth: int = 0
    place: int = 0


@dataclass(frozen=True, slots=True)
class _Rules:
    """What holds for all operations of a program."""

    protocol: DeviceProtocol
    in_place: bool

    receives = (OperationKind.RECEIVE, OperationKind.RECEIVE_REDUCE)

    def is_same(self, one: Buffer, other: Buffer) -> bool:
        """Whether two buffers are one memory."""
        return one is other or (self.in_place and Buffer.SCRATCH not in (one, other))


def lower_to_lanes(
    program: Program,
    protocol: DeviceProtocol,
    *,
    lanes: int,
    averages: bool = False,
    all_staged: bool = False,
) -> LaneProgram:
    """Make the lanes of a program.

    Parameters
    ----------
    program : Program
    protocol : DeviceProtocol
    lanes : int
        Most thread blocks of a rank, 1 to `MOST_LANES`; a rank of fewer parts has fewer.
    averages : bool
        Sums are divided by the number of ranks at the end.
    all_staged : bool
        No message is put straight into its target: for buffers that peers do not reach.

    Raises
    ------
    ScheduleError
        If the program cannot be executed, or the number of lanes is out of range.
    """
    if not 1 <= lanes <= MOST_LANES:
        raise ScheduleError(f"lanes: expected 1 to {MOST_LANES}, found {lanes}")
    operations, bounds = cut_into_parts(program)
    nodes, home = _fused(operations)
    _set_order(nodes, home)
    into_targets = protocol is DeviceProtocol.SIMPLE and not all_staged
    messages, number_of = _messages(
        operations,
        nodes,
        home,
        protocol,
        puts_into_targets=into_targets,
    )
    flags, rules = _Flags(), _Rules(protocol, program.in_place)
    lists: list[RankLane] = []
    weights = [past - first for first, past in pairwise(bounds)]
    for rank in range(program.n_ranks):
        own = [node for node in nodes.values() if node.operation.rank == rank]
        parts = program_parts(program, rank, bounds) if averages and program.kind.reduces else []
        for chosen in _shared_out(own, parts, weights, lanes):
            listed = [node for node in own if node.operation.part in chosen]
            listed.sort(key=lambda node: (node.stage, node.depth, node.number))
            written = [_written(node, messages, number_of, flags, rules) for node in listed]
            made = [one for one in written if one is not None]
            made += [_finish(part, made) for part in parts if part in chosen]
            lists.append(RankLane(rank, tuple(sorted(made, key=lambda one: one.stage))))
    entering = flags.entered_of(program.n_ranks)
    first_of: set[int] = set()
    for place, lane in enumerate(lists):
        if lane.rank not in first_of:
            first_of.add(lane.rank)
            lists[place] = replace(lane, enters=entering[lane.rank])
    made_of = averages and program.kind.reduces
    return LaneProgram(
        program, protocol, made_of, tuple(bounds), tuple(lists), tuple(messages), tuple(flags.made)
    )


def program_parts(program: Program, rank: int, bounds: Sequence[int]) -> list[int]:
    """Parts of a rank's OUTPUT."""
    inside = program.ranges(rank, Buffer.OUTPUT)
    return [
        part for part, first in enumerate(bounds[:-1]) if any(low <= first < past for low, past in inside)
    ]


def _fused(operations: Sequence[PartOperation]) -> tuple[dict[int, _Node], list[int]]:
    """Nodes by the number of their operation, and the node of every operation."""
    nodes: dict[int, _Node] = {}
    home = list(range(len(operations)))
    for number, operation in enumerate(operations):
        if operation.kind is OperationKind.SEND and len(operation.waits) == 1:
            maker = nodes.get(operation.waits[0])
            if (
                maker is not None
                and maker.operation.kind in (*_Rules.receives, OperationKind.COPY)
                and len(maker.sends) < MOST_PUTS
            ):
                maker.sends.append(number)
                home[number] = maker.number
                continue
        sends = [number] if operation.kind is OperationKind.SEND else []
        nodes[number] = _Node(number, operation, sends)
    places: dict[int, int] = defaultdict(int)
    for node in nodes.values():
        node.place = places[node.operation.part]
        places[node.operation.part] += 1
        node.waits = {home[before] for before in node.operation.waits} - {node.number}
    return nodes, home


def _set_order(nodes: dict[int, _Node], home: Sequence[int]) -> None:
    """Stage: most messages on a chain that ends at the node; depth: most nodes on it."""
    after: dict[int, list[tuple[int, int]]] = defaultdict(list)
    missing = dict.fromkeys(nodes, 0)
    for node in nodes.values():
        for other in _before(node, home):
            after[other].append((node.number, 0 if other in node.waits else 1))
            missing[node.number] += 1
    ready = [number for number, count in missing.items() if count == 0]
    for number in ready:  # grows on the way
        node = nodes[number]
        for follower, messages in after[number]:
            later = nodes[follower]
            later.stage = max(later.stage, node.stage + messages)
            later.depth = max(later.depth, node.depth + 1)
            missing[follower] -= 1
            if missing[follower] == 0:
                ready.append(follower)
    if len(ready) < len(nodes):
        raise ScheduleError("program: deadlock: operations wait for one another in a circle")


def _messages(
    operations: Sequence[PartOperation],
    nodes: dict[int, _Node],
    home: Sequence[int],
    protocol: DeviceProtocol,
    *,
    puts_into_targets: bool,
) -> tuple[list[LaneMessage], dict[int, int]]:
    """All messages, and the number of each by its send and its receive."""
    before = _ancestors(nodes, home) if puts_into_targets else {}
    messages: list[LaneMessage] = []
    number_of: dict[int, int] = {}
    for number, receive in enumerate(operations):
        if receive.kind not in _Rules.receives:
            continue
        send = receive.partner
        number_of[number] = number_of[send] = len(messages)
        taker, maker = nodes[home[number]], nodes[home[send]]
        is_direct = (
            puts_into_targets
            and receive.kind is OperationKind.RECEIVE
            and all(before[maker.number] >> nodes[other].place & 1 for other in taker.waits)
        )
        slots = 2 if protocol is DeviceProtocol.LL else taker.stage - maker.stage + 1
        messages.append(
            LaneMessage(
                operations[send].rank,
                receive.rank,
                receive.part,
                receive.target if is_direct else None,
                0 if is_direct else slots,
            )
        )
    return messages, number_of


def _ancestors(nodes: dict[int, _Node], home: Sequence[int]) -> dict[int, int]:
    """Of every node, which nodes of its part happen before it: bit `place` of each."""
    found: dict[int, int] = {}
    for node in sorted(nodes.values(), key=lambda node: (node.stage, node.depth)):
        found[node.number] = 0
        for other in _before(node, home):
            found[node.number] |= found[other] | 1 << nodes[other].place
    return found


def _before(node: _Node, home: Sequence[int]) -> set[int]:
    """Nodes that a node waits for, in its rank and elsewhere."""
    is_receive = node.operation.kind in _Rules.receives
    return node.waits | {home[node.operation.partner]} if is_receive else node.waits


class _Flags:
    """Flags as they are first needed."""

    def __init__(self) -> None:
        self.made: list[LaneFlag] = []
        self._number: dict[LaneFlag, int] = {}

    def number(self, rank: int, purpose: FlagPurpose, subject: int) -> int:
        flag = LaneFlag(rank, purpose, subject)
        if flag not in self._number:
            self._number[flag] = len(self.made)
            self.made.append(flag)
        return self._number[flag]

    def entered_of(self, n_ranks: int) -> list[tuple[int, ...]]:
        """Of every rank, the flags that it raises when it enters."""
        found: list[list[int]] = [[] for _ in range(n_ranks)]
        for number, flag in enumerate(self.made):
            if flag.purpose is FlagPurpose.ENTERED:
                found[flag.subject].append(number)
        return [tuple(own) for own in found]


def _shared_out(
    nodes: Sequence[_Node], parts: Sequence[int], weights: Sequence[int], lanes: int
) -> list[set[int]]:
    """Parts of each lane of a rank, the longest first to whom has least; one lane where there is nothing."""
    work: dict[int, int] = dict.fromkeys(parts, 0)
    for node in nodes:
        part = node.operation.part
        work[part] = work.get(part, 0) + weights[part] * (1 + len(node.sends))
    chosen: list[set[int]] = [set() for _ in range(max(1, min(lanes, len(work))))]
    loads = [(0, lane) for lane in range(len(chosen))]
    heapify(loads)
    for part in sorted(work, key=lambda part: (-work[part], part)):
        load, lane = heappop(loads)
        chosen[lane].add(part)
        heappush(loads, (load + work[part], lane))
    return chosen


def _written(
    node: _Node, messages: Sequence[LaneMessage], number_of: dict[int, int], flags: _Flags, rules: _Rules
) -> LaneOperation | None:
    """The operation of a node; None where nothing is left of it."""
    operation, rank = node.operation, node.operation.rank
    puts = tuple(number_of[send] for send in node.sends)
    taken = number_of[node.number] if operation.kind in rules.receives else -1
    source: Buffer | None = operation.source
    target: Buffer | None = operation.target
    if operation.kind is OperationKind.SEND or (
        operation.kind is OperationKind.COPY and rules.is_same(operation.source, operation.target)
    ):
        action, target = LaneAction.PUT, None
        if not puts:
            return None
    elif operation.kind is OperationKind.COPY:
        action = LaneAction.COPY
    elif operation.kind is OperationKind.RECEIVE_REDUCE:
        action = LaneAction.REDUCE
    elif messages[taken].is_staged:
        action, source = LaneAction.TAKE, None
    else:
        action, source = LaneAction.AWAIT, operation.target if puts else None
    waits: list[FlagWait] = []
    raises: list[int] = []
    is_simple = rules.protocol is DeviceProtocol.SIMPLE
    if taken >= 0 and is_simple:
        waits.append(FlagWait(flags.number(rank, FlagPurpose.ARRIVAL, taken)))
        if messages[taken].is_staged:
            raises.append(flags.number(messages[taken].sender, FlagPurpose.CREDIT, taken))
    for put in puts:
        message = messages[put]
        entered = flags.number(rank, FlagPurpose.ENTERED, message.receiver)
        waits.append(FlagWait(entered, launches=0 if is_simple else 1))
        if is_simple:
            if message.is_staged:
                waits.append(FlagWait(flags.number(rank, FlagPurpose.CREDIT, put), message.slots))
            raises.append(flags.number(message.receiver, FlagPurpose.ARRIVAL, put))
    distinct = tuple(dict.fromkeys(waits))
    return LaneOperation(
        action, operation.part, node.stage, source, target, taken, puts, distinct, tuple(raises)
    )


def _finish(part: int, made: Sequence[LaneOperation]) -> LaneOperation:
    """The division at the end of an average, behind all that the lane does with the part."""
    stage = max((one.stage for one in made if one.part == part), default=0)
    return LaneOperation(LaneAction.FINISH, part, stage, Buffer.OUTPUT, Buffer.OUTPUT)
