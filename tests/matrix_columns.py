"""Columns of the table of schedules and runtimes: each moves data by every plan, or says why not.

A runner returns, for each of its columns and each plan that it is given, "" where every element came out
right, else the refusal. Wrong elements raise AssertionError.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from pathlib import Path
from typing import Any

from child_processes import finished, search_path
from harness.forked_ranks import forked_ranks
from samples.matrix_cases import Key, Plans, modes
from treadle import planning
from treadle.errors import TreadleError
from treadle.program.program import Program
from treadle.runtime.measured_sizes import measure
from treadle.runtime.mpi_build import build_interpreter, find_mpi
from treadle.runtime.mpi_c import launch_environment, measure_mpi_c
from treadle.schedules.plan import Plan
from treadle.schedules.plan_files.archive import save_plan
from treadle.schedules.steps.steps import StepSchedule
from treadle.schedules.trees.forest import ForestSchedule
from treadle.simulation.simgrid import simulate_with_simgrid
from treadle.testbed.launch import Timing, run_program
from treadle.testbed.layout import check_paths, make_layout
from treadle.testbed.network import network, new_prefix
from treadle.testbed.testbed import emulate

Outcomes = Mapping[Key, str]
Runner = Callable[[Path, Plans], tuple[Outcomes, ...]]
SIZES = (4, 4100)
TESTS = Path(__file__).resolve().parent
RATE = 12_500_000


def attempt(call: Callable[..., object], *arguments: object) -> str:
    """What a call is refused with; "" if it is not."""
    try:
        call(*arguments)
    except TreadleError as error:
        return str(error)
    return ""


def each(call: Callable[[Key, Plan, bool], object], plans: Plans) -> Outcomes:
    """The refusals of a call for every plan, in and out of place; they must not differ."""
    found = {}
    for key, plan in plans.items():
        refusals = [attempt(call, key, plan, mode) for mode in modes(key[1])]
        assert len({bool(refusal) for refusal in refusals}) == 1, (key, refusals)
        found[key] = refusals[0]
    return found


def right(key: Key, wrong: int) -> None:
    assert wrong == 0, f"{key}: {wrong} wrong elements"


def in_process(folder: Path, plans: Plans) -> tuple[Outcomes, ...]:
    def run(key: Key, plan: Plan, in_place: bool) -> None:
        program = planning.program_of(plan, 0, in_place=in_place)
        right(key, sum(row.wrong for row in measure(program, SIZES, iterations=1, warmup=0)))

    return (each(run, plans),)


def mpi_c(folder: Path, plans: Plans) -> tuple[Outcomes, ...]:
    build_interpreter(find_mpi())

    found = {}
    for key, plan in plans.items():
        # in place where there is such a thing: the harder case
        program = planning.program_of(plan, 0, in_place=modes(key[1])[-1])
        found[key] = attempt(run_mpi_c, key, program)
    return (found,)


def run_mpi_c(key: Key, program: Program) -> None:
    rows = measure_mpi_c(program, SIZES, iterations=1, warmup=0, slice_bytes=256)
    right(key, sum(row.wrong for row in rows))


def simulated(folder: Path, plans: Plans) -> tuple[Outcomes, ...]:
    def run(key: Key, plan: Plan, in_place: bool) -> None:
        (row,) = planning.simulate(plan, [2**20]).rows
        assert row.time > 0
        bound = plan.optimal_algbw
        assert bound is None or row.time >= Fraction(2**20) / bound

    return (each(run, plans),)


def simgrid(folder: Path, plans: Plans) -> tuple[Outcomes, ...]:
    def run(key: Key, plan: Plan) -> None:
        program = planning.program_of(plan, 0, in_place=modes(key[1])[-1])
        rows = simulate_with_simgrid(plan.topology, program, [4096, 4100])
        right(key, sum(row.wrong for row in rows))

    return ({key: attempt(run, key, plan) for key, plan in plans.items()},)


def lowering_options(target: str, plan: Plan, *, in_place: bool) -> dict[str, Any]:
    """What a format asks for, and what it heeds: any root, the size of a trace, memory in place."""
    options: dict[str, Any] = {} if target == "nccl-graph" else {"in_place": in_place}
    if target == "chakra":
        options["size_bytes"] = 4096
    if target in ("msccl-xml", "mscclpp-json") and plan.collective.root is not None:
        options["accept_any_root"] = True
    return options


def interpreted(target: str) -> Runner:
    """A text read back and interpreted by code that shares nothing with its writer."""

    def column(folder: Path, plans: Plans) -> tuple[Outcomes, ...]:
        def run(key: Key, plan: Plan, in_place: bool) -> None:
            options = lowering_options(target, plan, in_place=in_place)
            found = planning.lower(plan, to=target, **options)
            assert found.faults == (), f"{key}: {found.faults}"

        return (each(run, plans),)

    return column


def mpi_and_texts(folder: Path, plans: Plans) -> tuple[Outcomes, ...]:
    """Open MPI runs the programs with mpi4py and executes both kinds of XML: four processes for all."""
    refused: dict[str, dict[Key, str]] = {"msccl-xml": {}, "cpu-xml": {}}
    programs, texts = [], []
    for number, (key, plan) in enumerate(plans.items()):
        path = folder / f"{number}.plan"
        save_plan(path, plan)
        programs.append([*key, str(path)])
        for target, why in refused.items():
            for in_place in modes(key[1]):
                path = folder / f"{number}-{in_place}.{target}"
                try:
                    options = lowering_options(target, plan, in_place=in_place)
                    lowered = planning.lower(plan, to=target, **options)
                except TreadleError as error:
                    why[key] = str(error)
                    continue
                path.write_text(lowered.text, encoding="utf-8")
                texts.append([target, *key, str(path), lcm(4, lowered.n_chunks) * 3])
    job = folder / "job.json"
    job.write_text(json.dumps({"sizes": SIZES, "programs": programs, "texts": texts}))
    report = run_mpi_worker("matrix_mpi_worker.py", [str(job)])
    found = {column: {(row, kind): why for row, kind, why in rows} for column, rows in report.items()}
    for target, why in refused.items():
        assert not set(why) & set(found[target])
    order = list(plans)
    merged = [found["mpi"], *(found[target] | why for target, why in refused.items())]
    return tuple({key: one[key] for key in order} for one in merged)


def run_mpi_worker(worker: str, arguments: list[str]) -> dict[str, list[list[str]]]:
    """What the first of four processes printed."""
    launch = [str(find_mpi().mpirun), "-n", "4", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1"]
    done = finished(
        [*launch, sys.executable, "-m", "mpi4py", TESTS / worker, *arguments],
        environment={**launch_environment(), "PYTHONPATH": search_path()},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def torch(folder: Path, plans: Plans) -> tuple[Outcomes, ...]:
    """Four processes of torch.distributed; a group for each row, with its plans in a directory."""
    rows: dict[str, Path] = {}
    for number, ((row, kind), plan) in enumerate(plans.items()):
        home = rows.setdefault(row, folder / f"row{len(rows)}")
        home.mkdir(exist_ok=True)
        save_plan(home / f"{number}-{kind}.plan", plan)
    job = folder / "job.json"
    found = [[row, kind, plan.topology.name, str(rows[row])] for (row, kind), plan in plans.items()]
    job.write_text(json.dumps(found))
    environment = {**os.environ, "PYTHONPATH": search_path()}
    environment |= {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    worker = TESTS / "matrix_torch_worker.py"
    for done in forked_ranks(worker, [[rank, job] for rank in range(4)], environment):
        assert done.returncode == 0, done.stderr[-3000:]
    reports = [json.loads((folder / f"found-{rank}.json").read_text()) for rank in range(4)]
    assert all([entry[:3] for entry in one] == [entry[:3] for entry in reports[0]] for one in reports)
    return ({(row, kind): why for row, kind, why, _ in reports[0]},)


def emulated(plan: Plan) -> None:
    emulate(plan.topology, [4096], rate_bytes_per_s=RATE, plans=[plan])


def testbed(folder: Path, plans: Plans) -> tuple[Outcomes, ...]:
    """Open MPI over the links of an emulated fabric; one network for all plans of a fabric."""
    mpi = find_mpi()
    interpreter = build_interpreter(mpi)
    found: dict[Key, str] = {}
    runnable: dict[str, list[Key]] = {}
    for key, plan in plans.items():
        entry = plan.entries[-1].schedule
        if plan.topology.switches.size or not isinstance(entry, ForestSchedule | StepSchedule):
            found[key] = attempt(emulated, plan)
        else:
            runnable.setdefault(plan.topology.name, []).append(key)
    for keys in runnable.values():
        topology, prefix = plans[keys[0]].topology, new_prefix()
        layout = make_layout(topology, RATE, prefix=prefix)
        with network(layout, prefix) as space:
            for key in keys:
                program = planning.program_of(plans[key], 0)
                found[key] = attempt(check_paths, topology, program, layout)
                if found[key]:
                    continue
                rows = run_program(
                    program,
                    [4096],
                    layout=layout,
                    folder=space.folder,
                    mpi=mpi,
                    interpreter=interpreter,
                    slice_bytes=2**17,
                    timing=Timing(iterations=1, warmup=0, limit_s=60),
                )
                right(key, sum(row.wrong for row in rows))
    return ({key: found[key] for key in plans},)


@dataclass(frozen=True)
class Job:
    """What fills columns of the table: their titles, the engine that it needs, and the runner.

    Where each plan starts processes, `is_dear`, tests run one of each row.
    """

    columns: tuple[str, ...]
    engines: tuple[str, ...]
    run: Runner
    is_dear: bool = False


JOBS = (
    Job(("in process",), (), in_process),
    Job(("mpi", "MSCCL XML by Open MPI", "CPU XML by Open MPI"), ("MPI",), mpi_and_texts, is_dear=True),
    Job(("mpi-c",), ("MPI",), mpi_c, is_dear=True),
    Job(("torch",), ("torch",), torch, is_dear=True),
    Job(("testbed",), ("MPI", "testbed"), testbed),
    Job(("simulate",), (), simulated),
    Job(("SimGrid",), ("SimGrid",), simgrid, is_dear=True),
    Job(("MSCCL XML",), (), interpreted("msccl-xml")),
    Job(("MSCCL++ JSON",), (), interpreted("mscclpp-json")),
    Job(("CPU XML",), (), interpreted("cpu-xml")),
    Job(("NCCL graph",), (), interpreted("nccl-graph")),
    Job(("Chakra",), ("Chakra",), interpreted("chakra")),
)
