"""``treadle run``."""

from __future__ import annotations

from typing import Annotated

import typer

from treadle import planning
from treadle.cli.measuring.solved_or_read import (
    PlanOrFabricArgument,
    SolvedAlgorithmOption,
    SolvedCollectiveArgument,
    Solving,
    solved_or_read,
)
from treadle.cli.output import JsonOption, Output, ProgressLine, QuietOption, SeedOption, UnitOption, warn
from treadle.cli.plan_file import MaxMemoryOption
from treadle.cli.quantities import Rates, busbw, counted
from treadle.cli.solving.group_report import mesh_values, print_groups
from treadle.cli.solving.problem_arguments import (
    AxesOption,
    ForwardOption,
    MeshOption,
    RanksOption,
    RootOption,
    problem_options,
)
from treadle.cli.solving.report import describe_shortfall, members
from treadle.cli.status import FAILED
from treadle.context import Context
from treadle.errors import FormatError
from treadle.planning import (
    DeviceProtocol,
    ElementType,
    Reduction,
    RunKeywords,
    RunResult,
    RuntimeName,
    SweepRow,
    parse_sizes,
)
from treadle.planning.group_summary import membership_values, rates_of_groups
from treadle.planning.measuring.lane_costs import lane_costs
from treadle.planning.summary import shortfall_summary, throughput
from treadle.schedules.plan import Plan
from treadle.topologies.topology import Topology


def command(
    plan: PlanOrFabricArgument,
    collective: SolvedCollectiveArgument = None,
    algorithm: SolvedAlgorithmOption = None,
    size: Annotated[
        str, typer.Option(help="Per-rank buffer: 64M, or 1K..64M by factors of two.", metavar="SIZES")
    ] = "1K..64M",
    runtime: Annotated[
        RuntimeName,
        typer.Option(
            help="Executor; mpi runs under mpirun, a process for each rank; mpi-c and "
            "libfabric start them; device-emulated runs a GPU kernel's thread blocks as threads, "
            "device-gpu those of all ranks on one GPU.",
        ),
    ] = RuntimeName.IN_PROCESS,
    dtype: Annotated[ElementType, typer.Option(help="Type of the elements.")] = ElementType.FLOAT32,
    redop: Annotated[Reduction, typer.Option(help="How contributions are combined.")] = Reduction.SUM,
    in_place: Annotated[bool, typer.Option("--in-place", help="Input and output are one memory.")] = False,
    iterations: Annotated[int, typer.Option(min=1, help="Most timed runs of a size.")] = 20,
    reference: Annotated[
        bool, typer.Option("--reference", help="Time MPI's own collective beside (mpi only).")
    ] = False,
    protocol: Annotated[
        str | None,
        typer.Option(
            help="Device only: auto (by size), Simple, LL, or both after a comma; a row of each.",
            metavar="PROTOCOLS",
        ),
    ] = None,
    lanes: Annotated[
        int | None,
        typer.Option(min=1, help="Device only: most thread blocks of a rank (2; by size on a GPU)."),
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Device only: of a thread block (1; by size on a GPU).")
    ] = None,
    cost_model: Annotated[
        str | None,
        typer.Option(
            help="Device only: by which sizes choose protocol, lanes, threads and slices (nccl-hopper).",
            metavar="FILE|NAME",
        ),
    ] = None,
    ranks: RanksOption = None,
    forward: ForwardOption = False,
    root: RootOption = None,
    mesh: MeshOption = None,
    axes: AxesOption = None,
    seed: SeedOption = 0,
    max_memory: MaxMemoryOption = None,
    unit: UnitOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Move real data by a plan, check every element, and print the columns of nccl-tests."""
    options = problem_options(ranks, forward, root, None, None, None, mesh, axes)
    asked = Solving(collective, algorithm, seed, options)
    reporter = planning.is_reporter(runtime)
    sizes = parse_sizes(size)
    moved = _device_options(protocol, lanes, threads, cost_model)
    moved["element"], moved["reduction"], moved["iterations"] = dtype, redop, iterations
    moved["seed"], moved["with_reference"] = seed, reference
    with ProgressLine(quiet=quiet or json or not reporter) as progress:
        found = solved_or_read(plan, asked, command="run", max_memory=max_memory, progress=progress)
    loaded = found.plan
    output = Output(json, quiet or not reporter, Rates(unit or ""))
    if not reporter and not planning.has_process_per_rank(loaded, runtime):
        return 0  # the first process says it for all; a failure here could end it before it has
    try:
        with ProgressLine(quiet=output.is_silent) as progress:
            Context(progress).announce("running")
            result = planning.run(
                loaded,
                sizes,
                runtime=runtime,
                in_place=in_place,
                **moved,
            )
            shared = found.shared(progress) if reporter else None
    except planning.UnverifiedPlanError as error:
        if not reporter:
            return 0
        warn(f"{_named(plan)}: {error}")
        return FAILED
    _print(output, loaded, runtime, result)
    if shared is not None:
        print_groups(output, loaded.topology, loaded.collective, shared)
    if reporter:
        values = {**_summary(loaded, runtime, result), **shortfall_summary(result.shortfall)}
        output.result({**values, **rates_of_groups(shared), **mesh_values(mesh, axes)})
    return FAILED if result.wrong else 0


def _device_options(
    protocol: str | None, lanes: int | None, threads: int | None, cost_model: str | None
) -> RunKeywords:
    """What was said of lanes, and nothing of what was not: other runtimes refuse each."""
    found: RunKeywords = {}
    if protocol is not None and protocol.strip().lower() == "auto":
        found["device_protocols"] = ()
    elif protocol is not None:
        known = {one.value.lower(): one for one in DeviceProtocol}
        names = [name.strip().lower() for name in protocol.split(",")]
        if not set(names) <= set(known):
            expected = " and ".join(known[name].value for name in known)
            raise FormatError(
                f"--protocol: expected auto, or some of {expected} with commas, found {protocol[:40]!r}"
            )
        found["device_protocols"] = tuple(known[name] for name in dict.fromkeys(names))
    if lanes is not None:
        found["lanes"] = lanes
    if threads is not None:
        found["threads"] = threads
    if cost_model is not None:
        found["lane_costs"] = lane_costs(planning.as_cost_model(cost_model))
    return found


def _named(plan: Topology | str) -> str:
    return plan.name if isinstance(plan, Topology) else plan


def _print(output: Output, plan: Plan, runtime: RuntimeName, result: RunResult) -> None:
    rows = result.rows
    output.line(f"measured on {result.measured_on} ({runtime}); it says nothing about the modelled fabric:")
    output.table(
        _headings(output.rates, rows), [_cells(output.rates, row) for row in rows], left=0, least=_LEAST
    )
    wrong = sum(row.wrong for row in rows)
    if wrong:
        worst = next((row.worst_group for row in rows if row.worst_group is not None), None)
        output.line(
            f"{counted(wrong, 'element')} WRONG{'' if worst is None else f', most of them in group {worst}'}"
        )
    elif any(row.count for row in rows):
        output.line("every element is right")
    else:
        output.line("nothing was moved: no size reaches one element for each rank")
    output.line()
    groups = "" if plan.collective.blocks is None else f" ({members(plan.collective)})"
    output.line(f"on the modelled fabric, {plan.topology.name}{groups}:")
    scaled = output.rates(busbw(plan.algbw, plan.collective))
    output.line(f"  asymptotic algbw of the plan  {output.rates.exact(plan.algbw)}, verified; busbw {scaled}")
    if plan.optimal_algbw is not None:
        model = planning.model_of(plan.topology, plan.collective)
        output.line(
            f"  bound on any schedule         {output.rates.exact(plan.optimal_algbw)}; "
            f"busbw {output.rates(busbw(plan.optimal_algbw, plan.collective))}"
        )
        if model:
            output.line(f"    for {model}")
    if result.shortfall is not None:
        lacking = describe_shortfall(plan, result.shortfall, f"the {runtime} runtime", output.rates)
        output.line(f"  {lacking}")


_LEAST = ("root", "redop", "type", "count\n(elements)")
"""Columns that are left out first on a narrow terminal."""


def _headings(rates: Rates, rows: tuple[SweepRow, ...]) -> list[str]:
    """Those of nccl-tests, and how long the library's own collective takes where that was timed."""
    in_unit = [f"{name}\n({rates.column})" for name in ("algbw", "busbw")]
    found = ["size\n(B)", "count\n(elements)", "type", "redop", "root", "time\n(us)", *in_unit, "#wrong"]
    found += ["protocol"] if any(row.protocol for row in rows) else []
    return [*found, "library\n(us)"] if _has_reference(rows) else found


def _has_reference(rows: tuple[SweepRow, ...]) -> bool:
    return any(row.reference_time_s is not None for row in rows)


def _cells(rates: Rates, row: SweepRow) -> list[str]:
    cells = [
        str(row.size_bytes),
        str(row.count),
        row.element.value,
        "none" if row.reduction is None else row.reduction.value,
        str(row.root),
        f"{row.time_s * 1e6:.1f}",
        rates.number(row.algbw_bytes_per_s, 2),
        rates.number(row.busbw_bytes_per_s, 2),
        str(row.wrong),
        *([] if row.protocol is None else [row.protocol]),
    ]
    return cells if row.reference_time_s is None else [*cells, f"{row.reference_time_s * 1e6:.1f}"]


def _summary(plan: Plan, runtime: RuntimeName, result: RunResult) -> dict[str, object]:
    keys = ("size_bytes", "count", "root", "time_s", "iterations", "algbw_bytes_per_s", "busbw_bytes_per_s")
    return {
        "topology": plan.topology.name,
        "collective": plan.collective.kind.value,
        "ranks": plan.collective.n_ranks,
        **membership_values(plan.collective),
        **({"model": model} if (model := planning.model_of(plan.topology, plan.collective)) else {}),
        "runtime": runtime.value,
        "measured_on": result.measured_on,
        "rows": [
            {
                **{key: getattr(row, key) for key in keys},
                "type": row.element.value,
                "redop": "none" if row.reduction is None else row.reduction.value,
                "wrong": row.wrong,
                **({} if row.worst_group is None else {"worst_group": row.worst_group}),
                **({} if row.protocol is None else {"protocol": row.protocol}),
                **({} if row.reference_time_s is None else {"reference_time_s": row.reference_time_s}),
            }
            for row in result.rows
        ],
        "wrong": result.wrong,
        **throughput(plan),
    }
