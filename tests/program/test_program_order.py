"""What the checker accepts is right in every order of execution: closures and exhaustive interleavings."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from reference.every_order import Interleavings, any_order_fails, later_than
from reference.program_check import check_program
from samples.program_cases import fabric, random_case, random_forest, reference_errors
from treadle.errors import ScheduleError
from treadle.program.program import Operation, OperationKind, Program, program_from_operations
from treadle.program.trees.forest_program import lower
from treadle.schedules.collective import SPANNING_KINDS, CollectiveKind, on_all_ranks
from treadle.schedules.trees.forest import Direction, ForestSchedule


def small_program(kind: CollectiveKind, seed: int, *, in_place: bool) -> Program:
    """Of two or three ranks with one tree a root, few enough operations for all interleavings."""
    rng = random.Random(f"{kind} {seed}")
    copies = kind is CollectiveKind.ALLGATHER and not in_place
    n = 2 if copies or (kind is CollectiveKind.ALLREDUCE and seed % 2) else 3
    topology = fabric(n, star=True)
    root = rng.randrange(n) if kind.is_rooted else None
    collective = on_all_ranks(topology, kind, root=root)
    units = list(collective.shard_weights)
    if kind is CollectiveKind.ALLREDUCE and n == 3:
        units = [1, 0, 0]
    schedule = ForestSchedule(
        kind,
        reduce=random_forest(topology, rng, Direction.REDUCE, units) if kind.reduces else None,
        broadcast=random_forest(topology, rng, Direction.BROADCAST, units) if kind.broadcasts else None,
    )
    return lower(topology, collective, schedule, in_place=in_place)


def without_wait(program: Program, wait: int) -> Program:
    offsets = program.wait_offset - (program.wait_offset > wait)
    return replace(program, waits=np.delete(program.waits, wait), wait_offset=offsets)


@pytest.mark.parametrize("kind", SPANNING_KINDS)
@pytest.mark.parametrize("in_place", [False, True])
def test_a_dropped_wait_is_accepted_just_if_the_others_imply_it(kind: CollectiveKind, in_place: bool) -> None:
    """Every wait of a lowered program keeps two conflicting operations apart."""
    tried = 0
    for seed in range(3):
        program = lower(*random_case(seed, kind), channels=1 + seed % 2, in_place=in_place)
        waiting = np.repeat(np.arange(program.n_operations), np.diff(program.wait_offset)).tolist()
        edges = list(zip(program.waits.tolist(), waiting, strict=True))
        for place, (one, other) in enumerate(edges[:40]):
            implied = other in later_than(one, edges[:place] + edges[place + 1 :])
            assert bool(check_program(without_wait(program, place))) != implied, f"{one} before {other}"
            tried += 1
    assert tried > 2


def mutants(program: Program, rng: random.Random) -> Iterator[tuple[str, Program | None]]:
    """Programs with one wait dropped or turned, one field changed, or two operations changed about."""
    for wait in range(len(program.waits)):
        yield f"without wait {wait}", without_wait(program, wait)
    ranks = program.operation_rank
    n = program.n_operations
    for i in range(n):
        changes = [("source", rng.randrange(3)), ("target", rng.randrange(3)), ("channel", 1)]
        changes += [("operation_kind", rng.randrange(3)), ("first", rng.randrange(program.n_chunks))]
        for key, value in changes:
            column = getattr(program, key).copy()
            if column[i] != value and (key != "operation_kind" or column[i] != OperationKind.COPY):
                column[i] = value
                yield f"{key} of {i} is {value}", changed(program, **{key: column})
        if i + 1 < n and ranks[i] == ranks[i + 1]:
            swapped = {}
            for key in ("operation_kind", "peer", "channel", "source", "target", "path", "first", "count"):
                column = getattr(program, key).copy()
                column[[i, i + 1]] = column[[i + 1, i]]
                swapped[key] = column
            yield f"{i} and {i + 1} changed about", changed(program, **swapped)
    for place in range(len(program.waits)):
        waits = program.waits.copy()
        waits[place] = program.operations(int(ranks[waits[place]])).start
        if waits[place] != program.waits[place]:
            yield f"wait {place} turned", changed(program, waits=waits)


def changed(program: Program, **columns: np.ndarray) -> Program | None:
    try:
        return replace(program, **columns)
    except ScheduleError:
        return None


@pytest.mark.parametrize("kind", SPANNING_KINDS)
@pytest.mark.parametrize("in_place", [False, True])
def test_accepted_mutants_are_right_in_every_order(kind: CollectiveKind, in_place: bool) -> None:
    """Accepted by the checker and right in list order: then no interleaving differs."""
    rng = random.Random(7)
    rejected = accepted = 0
    for seed in range(1):
        program = small_program(kind, seed, in_place=in_place)
        assert check_program(program) == ()
        assert not any_order_fails(program)
        for what, mutant in mutants(program, rng):
            if mutant is None or check_program(mutant) or reference_errors(mutant):
                rejected += 1
                continue
            accepted += 1
            assert not any_order_fails(mutant), f"{kind} {seed}: {what}"
    assert rejected > accepted


def test_the_reference_sees_a_race_and_a_deadlock() -> None:
    program = small_program(CollectiveKind.ALLREDUCE, 0, in_place=True)
    failing = [any_order_fails(without_wait(program, wait)) for wait in range(len(program.waits))]
    assert any(failing)
    receive = Operation(OperationKind.RECEIVE, 0, 1, peer=1)
    send = Operation(OperationKind.SEND, 0, 1, peer=1, waits=(0,))
    stuck = program_from_operations(
        CollectiveKind.ALLGATHER,
        [[receive, send], [replace(receive, peer=0), replace(send, peer=0)]],
        n_chunks=2,
        shard_offset=[0, 1, 2],
    )
    assert any_order_fails(stuck)


def test_streams_keep_their_order() -> None:
    """Rank 1 sends chunk 1, which must wait, before chunk 2, which need not: it is stuck only if in order."""
    receives = [Operation(OperationKind.RECEIVE, chunk, 1, peer=1) for chunk in (1, 2)]
    sends = [
        Operation(OperationKind.SEND, 1, 1, peer=0, waits=(0,)),
        Operation(OperationKind.SEND, 2, 1, peer=0),
    ]
    program = program_from_operations(
        CollectiveKind.ALLGATHER,
        [
            [*receives, Operation(OperationKind.SEND, 0, 1, peer=1, waits=(1,))],
            [Operation(OperationKind.RECEIVE, 0, 1, peer=0), *sends],
        ],
        n_chunks=3,
        shard_offset=[0, 1, 3],
        in_place=True,
    )
    assert not Interleavings(program, streams_in_order=False).wrong()
    assert Interleavings(program, streams_in_order=True).wrong()
    assert any("deadlock" in violation for violation in check_program(program))
