"""What comes before what in a parsed text: streams, dependences, deadlocks."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from treadle.formats.msccl.reader import RECEIVING, SENDING, Algorithm

_Stream = tuple[int, int, int]
"""Sender, receiver and channel."""


@dataclass(frozen=True)
class Edges:
    """What orders the steps of an algorithm.

    Parameters
    ----------
    after : list of lists of int
        Steps that each step must precede: the next of its thread block, those that wait for it, and the
        receiving end of its message. A step's effects end before the next of these begins.
    messages : list of lists of (int, int)
        Sending and receiving step of every message, in order, for each stream.
    awaited : list of int
        The step that each step waits for; -1: none.
    """

    after: list[list[int]]
    messages: list[list[tuple[int, int]]]
    awaited: list[int]


def find_edges(algorithm: Algorithm) -> Edges:
    """Order of thread blocks, dependences and messages; what does not fit is noted as a violation."""
    after: list[list[int]] = [[] for _ in algorithm.steps]
    waits = [-1] * len(after)
    where = {(step.block, step.place): number for number, step in enumerate(algorithm.steps)}
    sends: dict[_Stream, list[int]] = defaultdict(list)
    receives: dict[_Stream, list[int]] = defaultdict(list)
    for number, step in enumerate(algorithm.steps):
        rank, send, receive, channel = algorithm.blocks[step.block]
        if step.place:
            after[number - 1].append(number)
        if step.wait[0] >= 0:
            awaited = _awaited(algorithm, number, where)
            if awaited is not None:
                after[awaited].append(number)
                waits[number] = awaited
        for kinds, peer, table, key in (
            (SENDING, send, sends, (rank, send, channel)),
            (RECEIVING, receive, receives, (receive, rank, channel)),
        ):
            if step.type in kinds:
                table[key].append(number)
                if peer < 0:
                    algorithm.violations.append(f"{step}: its thread block has no such peer")
    messages = [_paired(algorithm, key, sends[key], receives[key]) for key in sorted({*sends, *receives})]
    for stream in messages:
        for one, other in stream:
            after[one].append(other)
    return Edges(after, messages, waits)


def _awaited(algorithm: Algorithm, number: int, where: dict[tuple[int, int], int]) -> int | None:
    """The step that a step waits for, if there is one."""
    step = algorithm.steps[number]
    block = algorithm.first_block[step.rank] + step.wait[0]
    awaited = where.get((block, step.wait[1]))
    if awaited is None or block >= algorithm.first_block[step.rank + 1]:
        algorithm.violations.append(f"{step} waits for tb {step.wait[0]} step {step.wait[1]}: there is none")
        return None
    if not algorithm.steps[awaited].has_dependent:
        algorithm.violations.append(f"{algorithm.steps[awaited]} is awaited and has hasdep=0")
    if step.wait[0] > 127:
        algorithm.violations.append(
            f"{step} waits for tb {step.wait[0]}: the highest that may be awaited is 127"
        )
    return awaited


def _paired(
    algorithm: Algorithm, stream: _Stream, sends: list[int], receives: list[int]
) -> list[tuple[int, int]]:
    name = f"{stream[0]}->{stream[1]} channel {stream[2]}"
    if len(sends) != len(receives):
        algorithm.violations.append(f"{name}: {len(sends)} sends, {len(receives)} receives")
    messages = list(zip(sends, receives, strict=False))
    for one, other in messages:
        counts = algorithm.steps[one].count, algorithm.steps[other].count
        if counts[0] != counts[1]:
            algorithm.violations.append(
                f"{name}: {algorithm.steps[one]} sends {counts[0]} chunks, "
                f"{algorithm.steps[other]} receives {counts[1]}"
            )
    return messages


def find_order(algorithm: Algorithm, edges: Edges) -> list[int] | None:
    """An order of execution; None, and a violation with the cycle, if there is a deadlock."""
    order = _sorted(edges.after)
    if len(order) == len(edges.after):
        return order
    algorithm.violations.append(f"deadlock: {_cycle(algorithm, edges.after, set(order))}")
    return None


def check_slots(algorithm: Algorithm, edges: Edges, depth: int) -> None:
    """Note a deadlock of streams that hold no more than `depth` messages.

    A send then waits for the receive `depth` messages before it. With depth 0 both ends of a message take
    part at the same time (and so do all steps of a chain of fused steps): those steps are one node of the
    graph, and an order inside it is a cycle.
    """
    after = [list(successors) for successors in edges.after]
    for messages in edges.messages if depth else ():
        for (_, receive), (send, _) in zip(messages, messages[depth:], strict=False):
            after[receive].append(send)
    if not depth:
        after = _joined(edges)
    order = _sorted(after)
    if len(order) < len(after):
        cycle = _cycle(algorithm, after, set(order))
        algorithm.violations.append(f"deadlock with {depth} slots a stream: {cycle}")


def _joined(edges: Edges) -> list[list[int]]:
    """Edges between groups of steps that messages join, each under the number of one of its steps."""
    leader = list(range(len(edges.after)))

    def find(step: int) -> int:
        while leader[step] != step:
            leader[step] = leader[leader[step]]
            step = leader[step]
        return step

    joins = {message for messages in edges.messages for message in messages}
    for one, other in joins:
        leader[find(one)] = find(other)
    after: list[list[int]] = [[] for _ in leader]
    for number, successors in enumerate(edges.after):
        after[find(number)].extend(find(other) for other in successors if (number, other) not in joins)
    return after


def _sorted(after: list[list[int]]) -> list[int]:
    """Steps in an order that respects all edges, without those on or behind a cycle."""
    blocked = [0] * len(after)
    for successors in after:
        for number in successors:
            blocked[number] += 1
    order = [number for number, count in enumerate(blocked) if not count]
    for number in order:
        for successor in after[number]:
            blocked[successor] -= 1
            if not blocked[successor]:
                order.append(successor)
    return order


def _cycle(algorithm: Algorithm, after: list[list[int]], done: set[int]) -> str:
    """A cycle among the steps that are not done."""
    before = {
        successor: number
        for number, successors in enumerate(after)
        if number not in done
        for successor in successors
    }
    number = next(number for number in range(len(after)) if number not in done)
    trail: dict[int, None] = {}
    while number not in trail:
        trail[number] = None
        number = before[number]
    cycle = list(trail)[list(trail).index(number) :][::-1]
    shown = " -> ".join(str(algorithm.steps[step]) for step in cycle[:8])
    return f"cycle of {len(cycle)} steps: {shown}"
