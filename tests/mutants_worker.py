"""Started by mpirun with four processes: runs wrong programs and texts, prints what came of each."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from samples.program_mutants import mutants
from treadle.errors import TreadleError
from treadle.program.any_schedule import lower
from treadle.runtime.mpi import load_mpi, measure_mpi
from treadle.runtime.mpi_run import execute_file
from treadle.schedules.plan_files.archive import load_plan


def main() -> None:
    plan_file, size, *texts = sys.argv[1:]
    world = load_mpi().COMM_WORLD
    plan = load_plan(plan_file)
    program = lower(plan.topology, plan.collective, plan.entries[-1].schedule)
    found: dict[str, int | str] = {}
    for name, one in {"right": program, **mutants(program)}.items():
        try:
            rows = measure_mpi(one, [int(size)], iterations=1, warmup=0)
            found[f"mpi {name}"] = sum(row.wrong for row in rows)
        except TreadleError as error:
            found[f"mpi {name}"] = str(error)
    for path in texts:
        channel = world.Dup()  # what one text leaves behind, the next does not receive
        try:
            wrong = execute_file(Path(path).read_text(encoding="utf-8"), channel, 240, source=path)
            found[Path(path).name] = int(world.allreduce(sum(wrong)))
        except TreadleError as error:
            found[Path(path).name] = str(error)
    if world.Get_rank() == 0:
        json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
