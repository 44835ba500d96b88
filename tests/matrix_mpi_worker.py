"""Started by mpirun with four processes: runs the programs and texts of a job, prints what came out."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from treadle.errors import TreadleError
from treadle.program.any_schedule import lower
from treadle.runtime.mpi import load_mpi, measure_mpi
from treadle.runtime.mpi_run import execute_file
from treadle.schedules.plan_files.archive import load_plan


def modes(kind: str) -> tuple[bool, ...]:
    return (False,) if kind == "alltoall" else (False, True)


def run_program(kind: str, path: str, sizes: list[int]) -> str:
    plan = load_plan(path)
    try:
        for in_place in modes(kind):
            program = lower(plan.topology, plan.collective, plan.entries[-1].schedule, in_place=in_place)
            rows = measure_mpi(program, sizes, iterations=1, warmup=0, slice_bytes=256)
            wrong = sum(row.wrong for row in rows)
            assert wrong == 0, f"{path}: {wrong} wrong elements"
    except TreadleError as error:
        return str(error)
    return ""


def main() -> None:
    job: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text())
    world = load_mpi().COMM_WORLD
    found: dict[str, list[list[str]]] = {"mpi": [], "msccl-xml": [], "cpu-xml": []}
    for row, kind, path in job["programs"]:
        found["mpi"].append([row, kind, run_program(kind, path, job["sizes"])])
    for target, row, kind, path, elements in job["texts"]:
        wrong = execute_file(Path(path).read_text(encoding="utf-8"), world, elements, source=path)
        assert wrong, f"{path}: nothing was run"
        assert not any(wrong), f"{path}: {wrong} wrong elements"
        found[target].append([row, kind, ""])
    if world.Get_rank() == 0:
        json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
