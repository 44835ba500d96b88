"""All-to-all programs on real data, every element checked."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from samples import exchange_samples as samples
from shortcuts.executed import execute, expected
from treadle.errors import ScheduleError
from treadle.program.any_schedule import lower
from treadle.program.program import OperationKind, Program
from treadle.runtime.data import ElementType
from treadle.runtime.measured_sizes import measure
from treadle.schedules.collective import CollectiveKind
from treadle.synthesis.alltoall.steps.time_stepped import time_stepped_flow
from treadle.synthesis.alltoall.steps.timed_paths import chunked_exchange
from treadle.topologies import parse

SIZES = [0, 4, 52, 1000, 2**16 + 12]


def wrong_elements(program: Program, **options: int) -> list[int]:
    rows = measure(program, SIZES, iterations=1, warmup=0, element=ElementType.INT32, **options)
    return [row.wrong for row in rows]


def by_definition(program: Program, count: int) -> None:
    """Outputs against the definition, on inputs in which every element differs."""
    n = program.n_ranks
    bounds = [program.element(int(chunk), count) for chunk in program.shard_offset]
    inputs = [np.arange(bounds[v * n], bounds[v * n + n], dtype=np.int32) for v in range(n)]
    outputs = execute(program, inputs)
    for output, wanted in zip(outputs, expected(program.kind, inputs, shard_bounds=bounds), strict=True):
        assert output is not None
        assert wanted is not None
        assert np.array_equal(output, wanted)


@pytest.mark.parametrize("name", ["hypercube:3", "torus:3,3", "generalized_kautz:2,5"])
@pytest.mark.parametrize("rounds", [None, 4])
def test_every_element_arrives(name: str, rounds: int | None) -> None:
    topology = parse(name)
    n = len(topology.compute_nodes)
    for demands in (None, samples.random_demands(n, seed=n)):
        collective = samples.alltoall(topology, demands)
        program = lower(
            topology, collective, samples.over_shortest_paths(topology, collective, rounds=rounds), channels=2
        )
        assert wrong_elements(program) == [0] * len(SIZES)
        assert wrong_elements(program, slice_bytes=64, seed=1) == [0] * len(SIZES)
        for count in (n, 1003):
            by_definition(program, count)


def test_time_stepped_schedules_move_the_right_data() -> None:
    kautz = parse("generalized_kautz:4,27")
    collective = samples.alltoall(kautz)
    built = chunked_exchange(kautz, collective, time_stepped_flow(kautz, collective, 4), chunks=8)
    assert wrong_elements(lower(kautz, collective, built.schedule)) == [0] * len(SIZES)


def test_wrong_programs_are_found_out() -> None:
    torus = parse("torus:3,3")
    collective = samples.alltoall(torus)
    program = lower(torus, collective, samples.over_shortest_paths(torus, collective))
    copies = np.flatnonzero(program.operation_kind == OperationKind.COPY)
    other = int(program.shard_offset[1])
    first = program.first.copy()
    first[copies[0]] = other  # rank 0 copies what is for rank 1, where its output has no place for it
    with pytest.raises(ScheduleError, match=r"writes OUTPUT, which has chunks 0 to 1, 18 to 19, .* there"):
        measure(replace(program, first=first), [1000])
    waits = np.zeros_like(program.wait_offset)
    early = replace(program, wait_offset=waits, waits=np.zeros(0, dtype=np.int64))
    assert sum(wrong_elements(early)) > 0


def test_counts_are_those_of_a_pair() -> None:
    cube = parse("hypercube:3")
    collective = samples.alltoall(cube)
    (row,) = measure(lower(cube, collective, samples.over_shortest_paths(cube, collective)), [8 * 40])
    assert (row.size_bytes, row.count, row.reduction, row.root) == (320, 10, None, -1)
    assert row.busbw_bytes_per_s == pytest.approx(row.algbw_bytes_per_s * 7 / 8)


def test_the_definition_needs_the_bounds_of_all_pairs() -> None:
    with pytest.raises(ScheduleError, match="needs 5 shard bounds"):
        expected(CollectiveKind.ALLTOALL, [np.zeros(2), np.zeros(2)])
