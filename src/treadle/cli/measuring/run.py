"""``treadle run``."""

from __future__ import annotations

from treadle import planning
from treadle.cli.measuring.solved_or_read import solved_or_read
from treadle.cli.output import Output, ProgressLine, warn
from treadle.cli.quantities import Rates, busbw, counted
from treadle.cli.solving.group_report import mesh_values, print_groups
from treadle.cli.solving.report import describe_shortfall, members
from treadle.cli.status import FAILED
from treadle.context import Context
from treadle.errors import FormatError
from treadle.options.measuring import Run, Runs
from treadle.options.rows import keywords
from treadle.planning import (
    DeviceProtocol,
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


def command(o: Run) -> int:
    """Move real data by a plan, check every element, and print the columns of nccl-tests."""
    reporter = planning.is_reporter(o.runtime)
    sizes = parse_sizes(o.size)
    moved = _run_keywords(o)
    with ProgressLine(quiet=o.quiet or o.json or not reporter) as progress:
        found = solved_or_read(o, command="run", progress=progress)
    loaded = found.plan
    output = Output(o.json, o.quiet or not reporter, Rates(o.unit or ""))
    if not reporter and not planning.has_process_per_rank(loaded, o.runtime):
        return 0  # the first process says it for all; a failure here could end it before it has
    try:
        with ProgressLine(quiet=output.is_silent) as progress:
            Context(progress).announce("running")
            result = planning.run(
                loaded,
                sizes,
                runtime=o.runtime,
                in_place=o.in_place,
                **moved,
            )
            shared = found.shared(progress) if reporter else None
    except planning.UnverifiedPlanError as error:
        if not reporter:
            return 0
        warn(f"{_named(o.plan)}: {error}")
        return FAILED
    _print(output, loaded, o.runtime, result)
    if shared is not None:
        print_groups(output, loaded.topology, loaded.collective, shared)
    if reporter:
        values = {**_summary(loaded, o.runtime, result), **shortfall_summary(result.shortfall)}
        output.result({**values, **rates_of_groups(shared), **mesh_values(o.mesh, o.axes)})
    return FAILED if result.wrong else 0


def _run_keywords(o: Run) -> RunKeywords:
    """What was said of a run, and nothing of what was not: other runtimes refuse options of devices."""
    found: RunKeywords = keywords(o, Runs, but=("device_protocols", "lane_costs"))
    protocol = o.device_protocols
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
    if o.lane_costs is not None:
        found["lane_costs"] = lane_costs(planning.as_cost_model(o.lane_costs))
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
