"""Converts MSCCL XML to messages: the steps of all thread blocks in an order that their waits allow.

A thread block is one thread, so each of its steps waits for the previous one. Messages keep the sizes,
streams and order of the file. Scratch that has several versions of a chunk has no counterpart in a program,
so buffers are not distinguished; the verifier checks what the file does with the data.
"""

from __future__ import annotations

from treadle.errors import ScheduleError
from treadle.formats.msccl.interpreter_order import find_edges, find_order
from treadle.formats.msccl.reader import RECEIVING, SENDING, Algorithm, MscclStep, first_parsed
from treadle.formats.schedule_source import simulated_traffic
from treadle.formats.verdict import Terms, decoded
from treadle.program.foreign.traffic import Traffic
from treadle.program.program import Operation, OperationKind

_ADDING = {"rrc", "rrs", "rrcs"}


def traffic(data: bytes, terms: Terms) -> Traffic:
    """Return the messages between the ranks."""
    text, source = decoded(data, terms, "MSCCL XML")
    algorithm = first_parsed(text, terms.profile, source)
    n, p = algorithm.n_ranks, algorithm.n_chunks
    edges = find_edges(algorithm)
    order = find_order(algorithm, edges)
    if order is None:
        raise ScheduleError(f"{source}: its steps wait for each other in a cycle")
    first: dict[int, int] = {}
    sender: dict[int, int] = {}
    for stream in edges.messages:
        for one, other in stream:
            sender[other] = one
            step = algorithm.steps[one]
            received = algorithm.steps[other].count
            if step.count != received:
                raise ScheduleError(f"{source}: {step}: sends {step.count} chunks, {received} are received")
            if step.count > p:
                raise ScheduleError(
                    f"{source}: {step}: {step.count} chunks in one message, expected at most {p}"
                )
            first[one] = first[other] = min(max(0, step.source[1]), p - step.count)
    operations: list[list[Operation]] = [[] for _ in range(n)]
    done: dict[int, tuple[int, ...]] = {}
    depth: dict[int, int] = {}
    by_place = {(step.block, step.place): number for number, step in enumerate(algorithm.steps)}
    for number in order:
        step = algorithm.steps[number]
        # A thread block runs in order; an explicit wait adds the step of another block.
        before = [by_place[step.block, step.place - 1]] if step.place else []
        before += [edges.awaited[number]] if edges.awaited[number] >= 0 else []
        waits = tuple(sorted({place for other in before for place in done[other]}))
        known = [*before, *([sender[number]] if number in sender else [])]
        depth[number] = 1 + max((depth[other] for other in known), default=-1)
        done[number] = _add(algorithm, operations[step.rank], step, waits, first.get(number), depth[number])
    return simulated_traffic(algorithm.collective, operations, p, terms.root)


def _add(
    algorithm: Algorithm,
    operations: list[Operation],
    step: MscclStep,
    waits: tuple[int, ...],
    first: int | None,
    depth: int,
) -> tuple[int, ...]:
    """Append the operations of a step; return those that show its end."""
    _, send, receive, channel = algorithm.blocks[step.block]
    if step.type == "nop":
        return waits
    if first is None and step.type in RECEIVING | SENDING:
        raise ScheduleError(f"MSCCL XML: {step} has no message")
    if first is None:
        count = min(step.count, algorithm.n_chunks)
        place = min(max(0, step.target[1]), algorithm.n_chunks - count)
        operations.append(Operation(OperationKind.COPY, place, count, step=depth, waits=waits))
        return (len(operations) - 1,)
    adds = OperationKind.RECEIVE_REDUCE if step.type in _ADDING else OperationKind.RECEIVE
    for types, kind, peer in ((RECEIVING, adds, receive), (SENDING, OperationKind.SEND, send)):
        if step.type in types:
            operations.append(
                Operation(kind, first, step.count, peer=peer, channel=channel, step=depth, waits=waits)
            )
            waits = (len(operations) - 1,)
    return waits
