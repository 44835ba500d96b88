"""Started by mpirun with eight processes: runs all-to-all programs and prints what rank 0 saw as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from samples import exchange_samples as samples
from treadle.program.any_schedule import lower
from treadle.program.program import OperationKind, Program
from treadle.runtime.data import ElementType
from treadle.runtime.mpi import load_mpi, measure_mpi
from treadle.synthesis.alltoall.steps.time_stepped import time_stepped_flow
from treadle.synthesis.alltoall.steps.timed_paths import chunked_exchange
from treadle.topologies import parse

FABRICS = ("hypercube(3)", "twisted_hypercube(3)", "complete_bipartite(4, 4)", "generalized_kautz(2, 8)")
"""The first three are those of the paper's testbed."""

SIZES = [0, 4, 36, 8 * 1004, 50_000]


def cases() -> Iterator[tuple[str, Program]]:
    """Steps from the time-stepped flow for even demands, from routes for uneven ones."""
    for name in FABRICS:
        fabric = parse(name)
        everyone = samples.alltoall(fabric)
        built = chunked_exchange(fabric, everyone, time_stepped_flow(fabric, everyone, 4), chunks=12)
        yield f"{name} tsmcf", lower(fabric, everyone, built.schedule)
        uneven = samples.alltoall(fabric, samples.random_demands(8, seed=len(name)))
        schedule = samples.over_shortest_paths(fabric, uneven, rounds=4)
        yield f"{name} pipelined, uneven", lower(fabric, uneven, schedule, channels=2)


def short(program: Program) -> Program:
    """Rank 0 copies one chunk less of what it has for itself."""
    copy = int(np.flatnonzero(program.operation_kind == OperationKind.COPY)[0])
    count = program.count.copy()
    assert count[copy] > 1
    count[copy] -= 1
    return replace(program, count=count)


def main() -> None:
    """Every byte of every buffer, as integers in which each element differs."""
    world = load_mpi().COMM_WORLD
    wrong: dict[str, list[int]] = {}
    # made once: eight processes share few cores
    programs = world.bcast(list(cases()) if world.Get_rank() == 0 else None)
    for label, program in programs:
        rows = measure_mpi(program, SIZES, element=ElementType.INT32, iterations=1, warmup=0, slice_bytes=512)
        wrong[label] = [row.wrong for row in rows]
    mutant = measure_mpi(short(programs[0][1]), [8 * 1004], element=ElementType.INT32, iterations=1, warmup=0)
    if world.Get_rank() == 0:
        report = {"processes": world.Get_size(), "wrong": wrong, "mutant": mutant[0].wrong}
        json.dump(report, sys.stdout)


if __name__ == "__main__":
    main()
