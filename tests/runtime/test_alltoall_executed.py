"""All-to-all schedules of the paper's testbeds on real data: 8 MPI processes, and 27 ranks in process."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from child_processes import finished, search_path
from engines import missing_engines, mpirun
from samples import exchange_samples as samples
from shortcuts.executed import execute
from treadle.program.any_schedule import lower
from treadle.program.program import OperationKind, Program
from treadle.runtime.data import ElementType
from treadle.runtime.measured_sizes import measure
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.synthesis.alltoall.baselines.grid_phases import torus_exchange
from treadle.synthesis.alltoall.steps.time_stepped import time_stepped_flow
from treadle.synthesis.alltoall.steps.timed_paths import chunked_exchange
from treadle.topologies import parse

WORKER = Path(__file__).resolve().parents[1] / "mpi_alltoall_worker.py"
SIZES = [0, 4, 27 * 4, 27 * 1004, 100_000]


@pytest.mark.skipif("MPI" in missing_engines(), reason=missing_engines().get("MPI", ""))
def test_eight_processes_get_every_byte() -> None:
    launcher = mpirun()
    assert launcher is not None
    options = ["-n", "8", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1"]
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    done = finished(
        [launcher, *options, sys.executable, "-m", "mpi4py", WORKER],
        environment={**os.environ, **root, "PYTHONPATH": search_path()},
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["processes"] == 8
    assert len(report["wrong"]) == 4 * 2
    assert {label: wrong for label, wrong in report["wrong"].items() if wrong != [0] * 5} == {}
    assert report["mutant"] > 0


def schedules_of(name: str, kind: str) -> tuple[Program, ExchangeSchedule]:
    """A program for 27 ranks, and the schedule that it comes from."""
    fabric = parse(name)
    uneven = samples.random_demands(27, seed=27) if kind == "uneven" else None
    collective = samples.alltoall(fabric, uneven)
    if kind == "tsmcf":
        flow = time_stepped_flow(fabric, collective, 3)
        schedule = chunked_exchange(fabric, collective, flow, chunks=6).schedule
    elif kind == "torus-exchange":
        schedule = torus_exchange(fabric, collective)
    else:
        schedule = samples.over_shortest_paths(fabric, collective, rounds=8)
    return lower(fabric, collective, schedule), schedule


def by_hand(program: Program, count: int) -> None:
    """Pair (u, v) exchanges `count` elements, all different."""
    n = program.n_ranks
    tags = np.arange(n * n).reshape(n, n)[:, :, None] * count + np.arange(count)
    outputs = execute(program, [tags[u].reshape(-1).astype(np.int32) for u in range(n)])
    for v, output in enumerate(outputs):
        assert output is not None
        assert np.array_equal(output.reshape(n, count), tags[:, v])


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("torus(3, 3, 3)", "tsmcf"),
        ("torus(3, 3, 3)", "torus-exchange"),
        ("generalized_kautz(4, 27)", "pipelined"),
        ("punctured(torus(3, 3, 3), links=3)", "pipelined"),
        ("torus(3, 3, 3)", "uneven"),
    ],
)
def test_27_ranks_get_every_byte(name: str, kind: str) -> None:
    """The cluster of section 5.2, whole and with three links removed, and a graph of the same size."""
    program, schedule = schedules_of(name, kind)
    assert program.n_ranks == 27
    assert schedule.n_steps >= 3
    rows = measure(program, SIZES, iterations=1, warmup=0, element=ElementType.INT32)
    assert [row.wrong for row in rows] == [0] * len(SIZES)
    if kind != "uneven":
        by_hand(program, 13)


def test_a_chunk_that_does_not_come_is_missed() -> None:
    program, _ = schedules_of("torus(3, 3, 3)", "tsmcf")
    copy = int(np.flatnonzero(program.operation_kind == OperationKind.COPY)[0])
    count = program.count.copy()
    count[copy] -= 1
    (row,) = measure(replace(program, count=count), [27 * 1004], iterations=1, element=ElementType.INT32)
    assert row.wrong > 0
