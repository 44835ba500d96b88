"""``treadle compare``."""

from __future__ import annotations

from pathlib import Path

from treadle import planning
from treadle.atomic import write_bytes
from treadle.cli.cost_model_option import told_cost_model
from treadle.cli.output import Output, ProgressLine, late, warn
from treadle.cli.quantities import Rates, busbw, counted
from treadle.cli.solving.comparison_report import IN_NETWORK_NAME, in_network_line, print_measures, row_name
from treadle.cli.solving.group_report import cut_off, mesh_values, print_groups, print_mesh
from treadle.cli.solving.report import print_bound, print_problem
from treadle.cli.status import FAILED
from treadle.errors import FormatError
from treadle.options.rows import keywords
from treadle.options.shared import Costs, Problem, Seed, TimeLimit, Trim, Workers
from treadle.options.solving import Compare
from treadle.planning import Comparison, ComparisonRow, parse_sizes
from treadle.planning.comparison_summary import comparison_summary
from treadle.planning.workers import workers
from treadle.schedules.collective import CollectiveKind

_HEADINGS = ("algorithm", "algbw", "busbw", "% optimum", "trees", "height", "steps", "CPU s", "verified")
_ALLTOALL_HEADINGS = ("algorithm", "algbw", "busbw", "time / optimum", "steps", "CPU s", "verified")
_LEAST = ("CPU s", "height", "trees", "steps")
_ALLTOALL_LEAST = ("CPU s", "steps")
"""Columns that are left out first on a narrow terminal."""


def command(o: Compare) -> int:
    """Show schedulers side by side, each schedule verified, beside the optimum."""
    output = Output.of(o)
    if o.cost_model is not None and o.size is None:
        raise FormatError("--cost-model: valid only for times at sizes; give --size too")
    if o.picture is not None:
        if o.size is None or len(parse_sizes(o.size)) < 2:
            raise FormatError("--picture: of times by size; expected --size A..B beside it")
        planning.check_figure_name(o.picture)
    try:
        with ProgressLine(quiet=output.is_silent) as progress, workers(**keywords(o, Workers)):
            result = planning.compare(
                o.topology,
                o.collective,
                algorithms=o.algorithms,
                beside=[Path(name) for name in o.beside or ()],
                sizes=[] if o.size is None else parse_sizes(o.size),
                progress=progress,
                **keywords(o, Costs, Trim, Seed, TimeLimit, Problem),
            )
    except planning.CutOffGroupError as error:
        return cut_off(output, error, o.mesh, o.axes, {"schedules": []})
    except planning.TimeLimitError:
        return late("the optimum of the groups is not known; allow more time (--time-limit)")
    for fault in planning.plug_in_faults():
        warn(fault)
    print_problem(output, result.topology, result.collective)
    print_mesh(output, o.mesh, o.axes)
    if result.shared is not None:
        in_words = result.bound.model or planning.model_of(result.topology, result.collective)
        print_groups(output, result.topology, result.collective, result.shared, in_words)
    else:
        print_bound(output, result.topology, result.collective, result.bound)
    output.line()
    rows = [row for row in result.rows if not row.refusal]
    if result.collective.kind is CollectiveKind.ALLTOALL:
        cells = [_alltoall_cells(result, row, output.rates) for row in rows]
        output.table(_ALLTOALL_HEADINGS, cells, least=_ALLTOALL_LEAST)
    else:
        cells = [_cells(result, row, output.rates) for row in rows]
        if result.in_network is not None:
            able = _cells(result, result.in_network.row, output.rates)
            cells.insert(0, (IN_NETWORK_NAME, *able[1:3], "-", *able[4:]))
        output.table(_HEADINGS, cells, least=_LEAST)
    if result.in_network is not None:
        output.line(in_network_line(result.in_network, output.rates))
    for row in result.rows:
        if row.refusal:
            reason = row.refusal.removeprefix(f"{row.algorithm}: ")
            output.line(f"{row.algorithm}: {reason}")
    print_measures(output, result)
    told = told_cost_model(result.cost_model if o.size is not None else None)
    if o.picture is not None:
        title = f"{result.topology.name}, {result.collective.kind}"
        kind = o.picture.suffix[1:].lower()
        write_bytes(o.picture, planning.comparison_picture(result, title=title, file_format=kind))
        output.line(f"picture     {o.picture}")
        told["picture"] = str(o.picture)
    output.result({**comparison_summary(result), **mesh_values(o.mesh, o.axes), **told})
    if any(row.report is not None and not row.report.is_ok for row in result.rows):
        return FAILED
    unfinished = ", ".join(row.algorithm for row in result.rows if row.is_late)
    return late(f"without a schedule: {unfinished}") if unfinished else 0


def _cells(result: Comparison, row: ComparisonRow, rates: Rates) -> tuple[str, ...]:
    assert row.report is not None
    if row.algbw is None:
        violations = f"NO: {counted(row.report.n_violations, 'violation')}"
        return row_name(row), "-", "-", "-", _number(row.trees), "-", "-", f"{row.seconds:.2f}", violations
    return (
        row_name(row),
        rates(row.algbw),
        rates(busbw(row.algbw, result.collective)),
        f"{float(row.algbw / result.bound.algbw):.1%}",
        _number(row.trees),
        _number(row.report.height_max),
        _number(row.report.n_steps),
        f"{row.seconds:.2f}",
        "yes",
    )


def _alltoall_cells(result: Comparison, row: ComparisonRow, rates: Rates) -> tuple[str, ...]:
    assert row.report is not None
    steps = "-" if row.form else "routes"
    if row.report.n_steps is not None:
        steps = str(row.report.n_steps)
    if row.algbw is None:
        violations = f"NO: {counted(row.report.n_violations, 'violation')}"
        return row_name(row), "-", "-", "-", steps, f"{row.seconds:.2f}", violations
    ratio = float(result.bound.algbw / row.algbw)
    scaled = rates(busbw(row.algbw, result.collective))
    return row_name(row), rates(row.algbw), scaled, f"{ratio:.3f}", steps, f"{row.seconds:.2f}", "yes"


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)
