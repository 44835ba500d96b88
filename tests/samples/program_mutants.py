"""Programs with one fault each, for the tests of runtimes: what a runtime must not pass off as right."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from treadle.program.program import Buffer, Operation, OperationKind, Program, program_from_operations

Lists = list[list[Operation]]


def operations_of(program: Program) -> Lists:
    """All operations written out, waits counted within the rank."""
    lists: Lists = []
    for rank in range(program.n_ranks):
        span = program.operations(rank)
        lists.append(
            [
                Operation(
                    OperationKind(int(program.operation_kind[i])),
                    int(program.first[i]),
                    int(program.count[i]),
                    peer=int(program.peer[i]),
                    source=Buffer(int(program.source[i])),
                    target=Buffer(int(program.target[i])),
                    channel=int(program.channel[i]),
                    step=int(program.step[i]),
                    path=int(program.path[i]),
                    waits=tuple(int(wait) - span.start for wait in program.waits_of(i)),
                )
                for i in span
            ]
        )
    return lists


def rebuilt(program: Program, lists: Lists) -> Program:
    """The program with other operations."""
    return program_from_operations(
        program.kind,
        lists,
        n_chunks=program.n_chunks,
        shard_offset=program.shard_offset.tolist(),
        root=program.root,
        in_place=program.in_place,
        nodes=program.nodes.tolist(),
        paths=[program.links(path).tolist() for path in range(program.n_paths)],
    )


def without(operations: list[Operation], place: int) -> list[Operation]:
    """The others, which wait for it no more."""
    return [
        replace(one, waits=tuple(wait - (wait > place) for wait in one.waits if wait != place))
        for number, one in enumerate(operations)
        if number != place
    ]


def twice(operations: list[Operation], place: int) -> list[Operation]:
    """One of them two times in a row; the others wait for the second."""
    doubled = [replace(one, waits=tuple(wait + (wait >= place) for wait in one.waits)) for one in operations]
    first = replace(operations[place])
    return [*operations[:place], first, replace(first), *doubled[place + 1 :]]


def sends_to_one_peer(operations: list[Operation]) -> list[int]:
    """Places of the sends to the peer that gets most."""
    sends = [place for place, one in enumerate(operations) if one.kind is OperationKind.SEND]
    peers = [operations[place].peer for place in sends]
    chosen = max(set(peers), key=peers.count)
    return [place for place in sends if operations[place].peer == chosen]


def partner(lists: Lists, rank: int, place: int) -> int:
    """Where the receiver of a send has its receive."""
    send = lists[rank][place]
    before = sum(
        one.kind is OperationKind.SEND and one.peer == send.peer and one.channel == send.channel
        for one in lists[rank][:place]
    )
    receives = (OperationKind.RECEIVE, OperationKind.RECEIVE_REDUCE)
    places = [
        number
        for number, one in enumerate(lists[send.peer])
        if one.kind in receives and one.peer == rank and one.channel == send.channel
    ]
    return places[before]


def dropped_send(lists: Lists) -> Lists:
    return [without(lists[0], sends_to_one_peer(lists[0])[0]), *lists[1:]]


def dropped_message(lists: Lists) -> Lists:
    place = sends_to_one_peer(lists[0])[0]
    peer, receive = lists[0][place].peer, partner(lists, 0, place)
    changed = [without(lists[0], place), *lists[1:]]
    changed[peer] = without(lists[peer], receive)
    return changed


def swapped_sends(lists: Lists) -> Lists:
    """Two sends to one peer in each other's place, each with the waits that belong there."""
    first, second = sends_to_one_peer(lists[0])[:2]
    changed = list(lists[0])
    one, other = changed[first], changed[second]
    changed[first] = replace(other, waits=one.waits)
    changed[second] = replace(one, waits=other.waits)
    return [changed, *lists[1:]]


def duplicated_send(lists: Lists) -> Lists:
    return [twice(lists[0], sends_to_one_peer(lists[0])[0]), *lists[1:]]


def hasty(lists: Lists) -> Lists:
    """Nobody waits for anything."""
    return [[replace(one, waits=()) for one in operations] for operations in lists]


FAULTS: Mapping[str, Callable[[Lists], Lists]] = {
    "dropped send": dropped_send,
    "dropped message": dropped_message,
    "swapped sends": swapped_sends,
    "duplicated send": duplicated_send,
    "missing dependences": hasty,
}


def mutants(program: Program) -> dict[str, Program]:
    """The program with each fault; all differ from it."""
    lists = operations_of(program)
    assert rebuilt(program, lists) == program
    found = {name: rebuilt(program, change(lists)) for name, change in FAULTS.items()}
    assert all(mutant != program for mutant in found.values())
    return found


def size_in_elements(program: Program, per_chunk: int = 50) -> int:
    """Elements of a buffer in which no chunk is empty."""
    return int(np.int64(program.n_chunks) * per_chunk)
