"""Routes on real data, every element checked."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from samples import route_samples as samples
from shortcuts.executed import execute, expected
from treadle.program.any_schedule import lower
from treadle.program.program import OperationKind, Program
from treadle.runtime.data import ElementType
from treadle.runtime.measured_sizes import measure
from treadle.synthesis.alltoall.routes.route_rounds import timed_routes
from treadle.topologies import parse

SIZES = [0, 4, 52, 1000, 2**15 + 12]


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


@pytest.mark.parametrize(
    "name", ["dgx_a100:2", "generalized_kautz:2,5", "torus:3,3,3", "generalized_kautz:4,27"]
)
@pytest.mark.parametrize("flows", [None, 4])
def test_every_element_arrives(name: str, flows: int | None) -> None:
    topology = parse(name)
    n = len(topology.compute_nodes)
    for demands in (None, samples.random_demands(n, seed=n)):
        collective = samples.alltoall(topology, demands)
        schedule = samples.over_shortest_paths(topology, collective)
        if flows is not None:
            schedule = timed_routes(topology, schedule, max_flows=flows)
        program = lower(topology, collective, schedule, channels=2)
        assert wrong_elements(program, slice_bytes=256, seed=1) == [0] * len(SIZES)
        by_definition(program, 1003)


def test_wrong_programs_are_found_out() -> None:
    topology = parse("torus:3,3")
    collective = samples.alltoall(topology)
    program = lower(topology, collective, samples.over_shortest_paths(topology, collective))
    sends = np.flatnonzero(program.operation_kind == OperationKind.SEND)[:2]
    receives = [
        next(
            i
            for i in program.operations(int(program.peer[send]))
            if program.operation_kind[i] == OperationKind.RECEIVE and program.first[i] == program.first[send]
        )
        for send in sends
    ]
    count = program.count.copy()
    assert count[sends].min() > 1  # four chunks a pair: one of them is left out at both ends
    count[[sends[0], receives[0]]] -= 1
    assert sum(wrong_elements(replace(program, count=count))) > 0
