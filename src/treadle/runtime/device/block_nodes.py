"""Parts of a program as nodes: what is fused, in which wave each is done, and where messages land.

A send, or a store that a switch copies, that waits for nothing but the operation that made its data is fused
with it: receive, reduce and send are one pass over the data. A message is put straight into its target where
everything that the receive waits for happens before the send; else it is staged, in as many slots as keep
thread blocks from a cycle of waits: with stages a at the send and b at the receive, the wave in which slice s
is put, a + s, comes after the wave in which slice s - (b - a + 1) is taken. All waits then lead from (wave,
stage, depth) to a greater one, so that thread blocks, which follow that order, never wait in a cycle.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from treadle.program.program import Buffer
from treadle.runtime.device.block_parts import PartKind, PartOperation
from treadle.runtime.device.block_program import BlockMessage, DeviceProtocol
from treadle.runtime.order import topological_order

MOST_PUTS = 4
"""Targets of one operation, which the kernel holds in registers."""

RECEIVES = (PartKind.RECEIVE, PartKind.RECEIVE_REDUCE)
_MAKERS = (*RECEIVES, PartKind.COPY, PartKind.SUM)


@dataclass(slots=True)
class BlockNode:
    """An operation with the sends that are fused with it; `number` is that of the operation.

    `place` counts the nodes of its part.
    """

    number: int
    operation: PartOperation
    sends: list[int] = field(default_factory=list)
    store: int = -1
    """A STORE that is fused with it, or that it is."""
    waits: set[int] = field(default_factory=set)
    stage: int = 0
    depth: int = 0
    place: int = 0


class BlockNodes:
    """All nodes of a program, in order, with their messages.

    Parameters
    ----------
    reached : collection of Buffer
        What peers reach.

    Raises
    ------
    ScheduleError
        If operations wait for each other in a cycle.
    """

    def __init__(
        self,
        operations: Sequence[PartOperation],
        protocol: DeviceProtocol,
        *,
        in_place: bool,
        reached: Collection[Buffer] = tuple(Buffer),
    ) -> None:
        self.operations, self._in_place, self._reached = operations, in_place, frozenset(reached)
        self.home = list(range(len(operations)))
        """The node of every operation."""
        self.nodes: dict[int, BlockNode] = {}
        """Nodes by the number of their operation."""
        self.exposed: dict[int, list[int]] = defaultdict(list)
        """For a SUM's node, the nodes that permit its reading."""
        self.messages: list[BlockMessage] = []
        self.message_of: dict[int, int] = {}
        """Nodes of a send, and of a receive."""
        self.copies: dict[int, list[int]] = defaultdict(list)
        """Messages that a STORE is."""
        self.staged_stores: set[int] = set()
        """STOREs of which a receive cannot take its data straight away."""
        self._together: dict[tuple[int, int], list[BlockNode]] = defaultdict(list)
        self._fuse()
        self._set_order()
        is_simple = protocol is DeviceProtocol.SIMPLE
        self._past = self._ancestors() if is_simple else {}
        self._set_messages(is_simple)
        self.reclaims = {
            node.number
            for node in self.nodes.values()
            if node.operation.kind is PartKind.RECLAIM and self._is_needed(node)
        }
        """RECLAIMs that nothing else makes sure of."""

    def _fuse(self) -> None:
        for number, operation in enumerate(self.operations):
            is_send, is_store = operation.kind is PartKind.SEND, operation.kind is PartKind.STORE
            maker = self.nodes.get(operation.waits[0]) if len(operation.waits) == 1 else None
            if maker is not None and maker.operation.kind not in _MAKERS:
                maker = None
            if maker is not None and is_send and len(maker.sends) < MOST_PUTS:
                maker.sends.append(number)
                self.home[number] = maker.number
            elif maker is not None and is_store and self._makes(maker, operation):
                maker.store = number
                self.home[number] = maker.number
            else:
                node = BlockNode(number, operation, [number] if is_send else [], number if is_store else -1)
                self.nodes[number] = node
        places: dict[int, int] = defaultdict(int)
        for node in self.nodes.values():
            part = node.operation.part
            node.place = places[part]
            places[part] += 1
            node.waits = {self.home[before] for before in node.operation.waits} - {node.number}
            self._together[node.operation.rank, part].append(node)
            if node.operation.kind is PartKind.EXPOSE:
                self.exposed[self.home[node.operation.partner]].append(node.number)

    def _makes(self, maker: BlockNode, store: PartOperation) -> bool:
        """Whether a store stores what the maker made, which nothing else is fused to store."""
        made = maker.operation
        copied = made.kind is PartKind.COPY and self.is_same(made.source, store.source)
        return maker.store < 0 and (copied or self.is_same(made.target, store.source))

    def is_same(self, one: Buffer, other: Buffer) -> bool:
        """Whether two buffers are one memory."""
        return one is other or (self._in_place and Buffer.SCRATCH not in (one, other))

    def before(self, node: BlockNode) -> set[int]:
        """Nodes that a node waits for, in its rank and elsewhere."""
        kind = node.operation.kind
        if kind in RECEIVES or kind is PartKind.RECLAIM:
            return node.waits | {self.home[node.operation.partner]}
        return node.waits | set(self.exposed.get(node.number, ()))

    def _set_order(self) -> None:
        """Stage: most messages on a chain that ends at the node; depth: most nodes on it."""
        nodes = self.nodes
        for number in topological_order({number: self.before(node) for number, node in nodes.items()}):
            node = nodes[number]
            for other in self.before(node):
                is_message = other not in node.waits
                node.stage = max(node.stage, nodes[other].stage + is_message)
                node.depth = max(node.depth, nodes[other].depth + 1)

    def _ancestors(self) -> dict[int, int]:
        """Return for every node the nodes of its part that happen before it: bit `place` of each.

        A RECLAIM counts for nothing, as if it were not there.
        """
        found: dict[int, int] = {}
        for node in sorted(self.nodes.values(), key=lambda node: (node.stage, node.depth)):
            found[node.number] = 0
            is_reclaim = node.operation.kind is PartKind.RECLAIM
            for other in node.waits if is_reclaim else self.before(node):
                own = self.nodes[other]
                bit = 0 if own.operation.kind is PartKind.RECLAIM else 1 << own.place
                found[node.number] |= found[other] | bit
        return found

    def _is_before(self, one: int, other: int) -> bool:
        """Whether node `one` happens before node `other` or is it."""
        return one == other or bool(self._past[other] >> self.nodes[one].place & 1)

    def _set_messages(self, is_simple: bool) -> None:
        for number, receive in enumerate(self.operations):
            if receive.kind not in RECEIVES:
                continue
            send = receive.partner
            is_copy = self.operations[send].kind is PartKind.STORE
            self.message_of[number] = len(self.messages)
            if is_copy:
                self.copies[send].append(len(self.messages))
            else:
                self.message_of[send] = len(self.messages)
            taker, maker = self.nodes[self.home[number]], self.nodes[self.home[send]]
            is_direct = (
                is_simple
                and receive.target in self._reached
                and receive.kind is PartKind.RECEIVE
                and self._comes_after_all(maker, taker.waits)
            )
            if is_copy and not is_direct:
                self.staged_stores.add(send)
            slots = taker.stage - maker.stage + 1 if is_simple else 2
            self.messages.append(
                BlockMessage(
                    self.operations[send].rank,
                    receive.rank,
                    receive.part,
                    receive.target if is_direct else None,
                    0 if is_direct else slots,
                )
            )

    def _comes_after_all(self, maker: BlockNode, waits: set[int]) -> bool:
        """Whether what a receive waits for happens before its data are made."""
        for number in waits:
            other = self.nodes[number]
            if other.operation.kind is PartKind.RECLAIM:
                number = self.home[other.operation.partner]
                if number != maker.number and not self._is_before(number, maker.number):
                    return False
            elif number == maker.number or not self._is_before(number, maker.number):
                return False
        return True

    def _is_needed(self, reclaim: BlockNode) -> bool:
        """Whether its rank could overwrite the part, or end the launch, before the SUM has read it."""
        summing = self.home[reclaim.operation.partner]
        ends = False
        for node in self._together[reclaim.operation.rank, reclaim.operation.part]:
            if node is reclaim:
                continue
            is_after = self._is_before(summing, node.number)
            ends = ends or is_after
            if reclaim.number in node.waits and not is_after:
                return True
        return not ends
