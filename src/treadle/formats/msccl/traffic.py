"""MSCCL XML as messages: the steps of all thread blocks in an order that their waits allow.

A thread block is one thread of steps, so each of its steps waits for the one before. Messages have the sizes,
the streams and the order of the text. Its memory is another than a program's: scratch that holds several
versions of a chunk side by side has no counterpart, so buffers are not told apart, and what the text does
with data is its judge's affair.
"""

from __future__ import annotations

from treadle.errors import ScheduleError
from treadle.formats.msccl.interpreter_order import find_edges, find_order
from treadle.formats.msccl.reader import RECEIVING, SENDING, Algorithm, MscclStep, first_parsed
from treadle.formats.verdict import Terms, decoded
from treadle.program.foreign.traffic import Traffic, even_shards
from treadle.program.program import Operation, OperationKind, program_from_operations
from treadle.schedules.collective import CollectiveKind

_KINDS = {"reducescatter": "reduce-scatter", "reduce_scatter": "reduce-scatter"}
_ADDING = {"rrc", "rrs", "rrcs"}


def traffic(data: bytes, terms: Terms) -> Traffic:
    """What the ranks send each other."""
    text, source = decoded(data, terms, "MSCCL XML")
    algorithm = first_parsed(text, terms.profile, source)
    kind = CollectiveKind(_KINDS.get(algorithm.collective, algorithm.collective))
    n, p = algorithm.n_ranks, algorithm.n_chunks
    edges = find_edges(algorithm)
    order = find_order(algorithm, edges)
    if order is None:
        raise ScheduleError(f"{source}: its steps wait for each other in a circle")
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
        before = [by_place[step.block, step.place - 1]] if step.place else []
        before += [edges.awaited[number]] if edges.awaited[number] >= 0 else []
        waits = tuple(sorted({place for other in before for place in done[other]}))
        known = [*before, *([sender[number]] if number in sender else [])]
        depth[number] = 1 + max((depth[other] for other in known), default=-1)
        done[number] = _add(algorithm, operations[step.rank], step, waits, first.get(number), depth[number])
    program = program_from_operations(
        kind,
        operations,
        n_chunks=p,
        shard_offset=even_shards(kind, n, p, terms.root),
        root=terms.root if kind.is_rooted else -1,
    )
    return Traffic(program, is_runnable=False)


def _add(
    algorithm: Algorithm,
    operations: list[Operation],
    step: MscclStep,
    waits: tuple[int, ...],
    first: int | None,
    depth: int,
) -> tuple[int, ...]:
    """Append what a step does; what its end is known by."""
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
