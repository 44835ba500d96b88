"""Lowered forests keep the rules of programs and deliver what the collective asks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from samples.program_cases import random_case
from treadle.errors import ScheduleError
from treadle.program.program import Operation, OperationKind, Program, program_from_operations
from treadle.program.trees.forest_program import lower
from treadle.schedules.collective import CollectiveKind


def test_shares_must_fit_the_collective() -> None:
    topology, collective, schedule = random_case(1, CollectiveKind.ALLGATHER)
    uneven = replace(collective, weights=(7,) * (collective.n_ranks - 1) + (5,))
    with pytest.raises(ScheduleError, match="expected the share"):
        lower(topology, uneven, schedule)
    with pytest.raises(ScheduleError, match="channels"):
        lower(topology, collective, schedule, channels=0)


def _pair(*operations: list[Operation], kind: CollectiveKind = CollectiveKind.ALLREDUCE) -> Program:
    return program_from_operations(kind, list(operations), n_chunks=2, shard_offset=[0, 1, 2])


@pytest.mark.parametrize(
    "change",
    [
        {"first": 2},
        {"count": 0},
        {"count": 3},
        {"peer": -1},
        {"peer": 0},
        {"peer": 9},
        {"path": 0},
        {"waits": (0,)},
    ],
)
def test_constructor_refuses(change: dict[str, int]) -> None:
    send = Operation(OperationKind.SEND, 0, 1, peer=1)
    with pytest.raises(ScheduleError):
        _pair([replace(send, **change)], [])
