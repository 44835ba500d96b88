"""What ``compare`` prints below its table: what is wrong, where messages congest, and times at sizes."""

from __future__ import annotations

from treadle import planning
from treadle.cli.output import Output
from treadle.cli.quantities import Rates, counted
from treadle.cli.solving.report import SHOWN_VIOLATIONS
from treadle.planning import Comparison, ComparisonRow
from treadle.planning.solving.comparison import InNetwork
from treadle.schedules.collective import busbw_factor
from treadle.units import format_size

_WIDE, _ABREAST = 3, 6
"""Above so many sizes only times are told, so many of them beside each other."""
IN_NETWORK_NAME = "nvls (in-network)"


def in_network_line(found: InNetwork, rates: Rates) -> str:
    """What the row of switches that sum stands for."""
    assert found.row.algbw is not None
    return (
        f"{IN_NETWORK_NAME}: on NVSwitches that sum and copy (NVLink SHARP), which the fabric does not say; "
        f"{float(found.row.algbw / found.bound.algbw):.1%} of their optimum, {rates(found.bound.algbw)}; "
        "'dgx_h100(1, nvls=True)' has such"
    )


def row_name(row: ComparisonRow) -> str:
    """A scheduler's name, a peer's marked as such; or a file's and its format."""
    if row.form:
        return f"{row.algorithm} ({row.form})"
    return f"{row.algorithm} (peer)" if row.is_peer else row.algorithm


def print_measures(output: Output, result: Comparison) -> None:
    """Violations and notes of what was brought; links and times of all, where these were asked for."""
    for row in result.rows:
        if row.form and row.report is not None:
            _print_brought(output, row)
    able = [] if result.in_network is None else [(IN_NETWORK_NAME, result.in_network.row)]
    measured = [
        (name, row)
        for name, row in (*able, *((row_name(row), row) for row in result.rows))
        if row.measured is not None and row.measured.congestion is not None
    ]
    if measured:
        output.line()
        headings = ("algorithm", "longest busy links", "links", "busy / optimum")
        output.table(headings, [_link_cells(*one) for one in measured], left=2)
    if result.sizes and measured:
        _print_sizes(output, result, measured)
    for row in result.rows:
        if row.measured is not None and row.measured.refusal:
            output.line(f"{row.algorithm}: not simulated: {row.measured.refusal}")


def _print_brought(output: Output, row: ComparisonRow) -> None:
    assert row.report is not None
    for violation in row.report.violations[:SHOWN_VIOLATIONS]:
        output.line(f"{row.algorithm}: {planning.violation_text(violation)}")
    if row.report.n_violations > SHOWN_VIOLATIONS:
        more = row.report.n_violations - SHOWN_VIOLATIONS
        output.line(f"{row.algorithm}: and {counted(more, 'more violation')} (see --json)")
    for note in row.notes:
        output.line(f"{row.algorithm}: {note}")


def _link_cells(name: str, row: ComparisonRow) -> tuple[str, ...]:
    assert row.measured is not None
    assert row.measured.congestion is not None
    found = row.measured.congestion
    more = ", ..." if found.n_links > len(found.links) else ""
    links = ", ".join(found.links) + more
    return name, links, str(found.n_links), f"{float(found.times_optimum):.3f}"


def _print_sizes(output: Output, result: Comparison, rows: list[tuple[str, ComparisonRow]]) -> None:
    """Simulated times: a row per scheduler, columns per size."""
    assert result.cost_model is not None
    model = f"costs {result.cost_model.name}"
    factor = busbw_factor(result.collective.kind, result.collective.group_size)
    output.line()
    output.line(
        f"simulated   {model}"
        if len(result.sizes) > _WIDE
        else f"simulated   {model}; {output.rates.column} of algbw, busbw is {factor} of it; "
        "%opt is the bound of the size over the time"
    )
    if len(result.sizes) > _WIDE:
        _print_times(output, result, rows)
        return
    headings = ["algorithm"]
    for size in result.sizes:
        name = format_size(size)
        headings += [f"{name} us", f"{name} {output.rates.column}", f"{name} %opt"]
    cells = []
    for name, row in rows:
        assert row.measured is not None
        line = [name]
        for found in row.measured.sizes:
            # the row of switches that sum has an optimum of its own, which its line says
            share = "-" if found.efficiency is None or name == IN_NETWORK_NAME else f"{found.efficiency:.1%}"
            line += [f"{float(found.time) * 1e6:.2f}", output.rates.number(found.algbw_bytes_per_s, 3), share]
        cells.append(line)
    output.table(headings, cells, least=[name for name in headings if name.endswith("%opt")])


def _print_times(output: Output, result: Comparison, rows: list[tuple[str, ComparisonRow]]) -> None:
    """Times of many sizes in tables below each other, so that none is wider than a terminal."""
    times = {
        name: [float(found.time) for found in row.measured.sizes]
        for name, row in rows
        if row.measured is not None and row.measured.sizes
    }
    least = [min(column) for column in zip(*times.values(), strict=True)]
    for first in range(0, len(result.sizes), _ABREAST):
        places = range(first, min(first + _ABREAST, len(result.sizes)))
        cells = [
            (name, *(f"{own[at] * 1e6:.4g}{'*' if own[at] <= least[at] else ''}" for at in places))
            for name, own in times.items()
        ]
        bounds = _bound_cells(rows, places)
        output.line()
        headings = ("us", *(format_size(result.sizes[at]) for at in places))
        output.table(headings, [*cells, *([("bound", *bounds)] if any(bounds) else [])])
    output.line("*           the quickest of its size")


def _bound_cells(rows: list[tuple[str, ComparisonRow]], places: range) -> list[str]:
    """Least times of sizes, which all rows share; "" where none is known."""
    measured = next((row.measured for _, row in rows if row.measured and row.measured.sizes), None)
    found = [None if measured is None else measured.sizes[at].bound for at in places]
    return ["" if one is None else f"{float(one.time) * 1e6:.4g}" for one in found]
