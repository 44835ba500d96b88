"""Started by mpirun from the MPI runtime's tests: runs programs and prints what rank 0 saw as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from samples.runtime_programs import exchange, overwritten, random_program
from shortcuts.group_plans import random_groups, without_sum
from treadle.errors import TreadleError
from treadle.program.any_schedule import lower_groups
from treadle.program.program import OperationKind, Program
from treadle.runtime.data import ElementType, Reduction
from treadle.runtime.mpi import load_mpi, measure_mpi
from treadle.schedules.collective import SPANNING_KINDS, CollectiveKind

SIZES = [0, 4, 36, 4096, 50_000]


def cases(n: int) -> Iterator[tuple[str, Program, ElementType, Reduction, int]]:
    for kind in SPANNING_KINDS:
        for in_place in (False, True):
            program = random_program(
                kind, n, seed=3, trees_per_root=2, in_place=in_place, channels=1 + in_place
            )
            for slice_bytes in (2**20, 256):
                label = f"{kind} in_place={in_place} slice_bytes={slice_bytes}"
                yield label, program, ElementType.FLOAT32, Reduction.SUM, slice_bytes
    program = random_program(CollectiveKind.ALLREDUCE, n, seed=4)
    for element in ElementType:
        for reduction in Reduction:
            yield f"allreduce {element} {reduction}", program, element, reduction, 2**20


def wrong_reduction(n: int) -> Program:
    program = random_program(CollectiveKind.ALLREDUCE, n, seed=4)
    kinds = program.operation_kind.copy()
    kinds[np.flatnonzero(kinds == OperationKind.RECEIVE_REDUCE)[0]] = OperationKind.RECEIVE
    return replace(program, operation_kind=kinds)


def problem(program: Program) -> str:
    try:
        measure_mpi(program, [64])
    except TreadleError as error:
        return str(error)
    return ""


def groups_at_once(n: int) -> dict[str, object]:
    """Two groups of all ranks: wrong elements, and the worst group where the second leaves out a sum."""
    wrong = {}
    for kind in SPANNING_KINDS:
        programs = lower_groups(*random_groups(1, kind, 2, size=n // 2))
        rows = measure_mpi(programs, SIZES, iterations=1, with_reference=True)
        wrong[kind.value] = [row.wrong for row in rows]
    programs = lower_groups(*random_groups(1, CollectiveKind.ALLREDUCE, 2, size=n // 2))
    mutant = measure_mpi(without_sum(programs, 1), [4096], iterations=1)
    return {"wrong": wrong, "worst_group": [row.worst_group for row in mutant]}


def main() -> None:
    world = load_mpi().COMM_WORLD
    n = world.Get_size()
    wrong = {}
    for label, program, element, reduction, slice_bytes in cases(n):
        rows = measure_mpi(
            program,
            SIZES,
            element=element,
            reduction=reduction,
            iterations=2,
            warmup=0,
            slice_bytes=slice_bytes,
            with_reference="slice_bytes=256" in label,
        )
        wrong[label] = [row.wrong for row in rows]
    mutant = measure_mpi(wrong_reduction(n), [4096], iterations=1)
    # far beyond what MPI sends before the receiver is ready
    swap = measure_mpi(exchange(n, in_place=True), [2**22], iterations=1, slice_bytes=2**30)
    left = measure_mpi(overwritten(n), [2**24], iterations=1, warmup=0, slice_bytes=2**30)
    library = measure_mpi(exchange(n, in_place=False), [4096], iterations=3, with_reference=True)
    misfit = problem(random_program(CollectiveKind.ALLREDUCE, n + 1, seed=1))
    other = problem(random_program(CollectiveKind.ALLREDUCE, n, seed=world.Get_rank() // (n - 1)))
    groups = groups_at_once(n)
    problems = world.gather(misfit)
    others = world.gather(other)
    if world.Get_rank() == 0:
        report = {
            "wrong": wrong,
            "mutant": mutant[0].wrong,
            "swap": swap[0].wrong,
            "groups": groups,
            "left": left[0].wrong,
            "library_s": library[0].reference_time_s,
            "problems": problems,
            "others": others,
        }
        json.dump(report, sys.stdout)


if __name__ == "__main__":
    main()
