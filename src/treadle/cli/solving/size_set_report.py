"""What ``solve --size`` and ``retune`` print: ranges of sizes, what serves them, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from treadle import planning
from treadle.cli.cost_model_option import told_cost_model
from treadle.cli.output import COMMAND, Output, ProgressLine, late, warn
from treadle.cli.quantities import counted
from treadle.cli.solving.report import print_bound, print_problem, print_seconds
from treadle.cli.status import FAILED
from treadle.context import Context
from treadle.errors import FormatError
from treadle.options.rows import keywords
from treadle.options.shared import Costs, Problem, TimeLimit
from treadle.options.solving import Solve
from treadle.planning.sizing.set_summary import size_set_summary
from treadle.schedules.plan import PlanEntry
from treadle.schedules.plan_files.archive import save_plan
from treadle.units import format_size

_HEADINGS = ("sizes", "schedule", "slices", "us", "best baseline", "% bound")
_LEAST = ("slices", "best baseline")
_SHOWN = 8
"""Most doubts that are told; --json has all."""


def solve_size_set(output: Output, o: Solve) -> int:
    """``solve --size``."""
    assert o.size is not None
    try:
        with ProgressLine(quiet=output.is_silent) as progress:
            result = planning.solve_sizes(
                o.topology,
                o.collective,
                planning.parse_sizes(o.size),
                max_schedules=o.max_schedules,
                algorithms=None if o.algorithm is None else o.algorithm.split(","),
                progress=progress,
                **keywords(o, Costs, TimeLimit, Problem),
            )
            _save(o, result, progress)
    except planning.TimeLimitError:
        return late("no candidate is there yet; allow more time (--time-limit)")
    except planning.RejectedError as error:
        warn(str(error))
        return FAILED
    return report_size_set(output, result, o.output, variant="sizes")


def retune(output: Output, o: Solve) -> int:
    """``solve --retune``."""
    assert o.retune is not None
    if o.cost_model is None:
        raise FormatError("--cost-model is missing: what messages cost now, a file or a name")
    COMMAND.set("retune")
    with ProgressLine(quiet=output.is_silent) as progress:
        result = planning.retune(
            o.retune,
            o.cost_model,
            planning.parse_sizes(o.size or "1K..1G"),
            max_schedules=o.max_schedules,
            progress=progress,
        )
        _save(o, result, progress)
    return report_size_set(output, result, o.output)


def _save(o: Solve, result: planning.SizeSet, progress: ProgressLine) -> None:
    if o.output is not None:
        Context(progress).announce("writing")
        save_plan(o.output, result.plan)


def report_size_set(output: Output, result: planning.SizeSet, plan: Path | None, *, variant: str = "") -> int:
    """Print a set; the exit status."""
    made = result.plan
    print_problem(output, made.topology, made.collective)
    if result.bound is not None:
        print_bound(output, made.topology, made.collective, result.bound)
    tried = counted(result.n_candidates, "schedule")
    output.line(
        f"simulated   costs {result.cost_model.name}; {tried}, all verified, {result.n_timed} of them timed"
    )
    if result.left_out:
        output.line(f"left out    {', '.join(result.left_out)}")
    output.line()
    output.table(_HEADINGS, [_cells(entry, result) for entry in made.entries], left=2, least=_LEAST)
    if result.worst_ratio > 1:
        output.line(
            f"beside the fastest of all: at worst {result.worst_ratio:.3f} times its time, "
            f"{result.mean_ratio:.3f} on average over {counted(len(result.rows), 'size')}"
        )
    _print_doubts(output, result)
    output.line(f"verified    yes: {counted(len(result.reports), 'schedule')}, by an independent checker")
    print_seconds(output, result.seconds)
    written = {}
    if plan is not None:
        output.line(f"plan        {plan}")
        written = {"plan": str(plan)}
    model = told_cost_model(result.cost_model)
    output.result({**size_set_summary(result), **model, **written}, variant=variant)
    return late("sizes that were not reached are left to their neighbours") if result.is_late else 0


def _cells(entry: PlanEntry, result: planning.SizeSet) -> tuple[str, ...]:
    last = entry.max_bytes
    rows = [row for row in result.rows if _serves(entry, row.size_bytes)]
    if last is None:
        sizes = "all" if not entry.min_bytes else f"{format_size(entry.min_bytes)} and more"
    else:
        sizes = f"up to {format_size(last)}"
        if entry.min_bytes:
            sizes = f"{format_size(entry.min_bytes)} to {format_size(last)}"
    times = [rows[0].seconds * 1e6, rows[-1].seconds * 1e6] if rows else []
    cut = sorted({row.slices for row in rows})
    return (
        sizes,
        entry.title,
        _span([str(number) for number in cut]),
        _span([f"{value:.4g}" for value in dict.fromkeys(times)]),
        _baseline(rows),
        _standing(rows),
    )


def _serves(entry: PlanEntry, size: int) -> bool:
    return entry.min_bytes <= size and (entry.max_bytes is None or size <= entry.max_bytes)


def _span(values: Sequence[str]) -> str:
    return values[0] if len(values) == 1 else f"{values[0]} to {values[-1]}" if values else "-"


def _baseline(rows: Sequence[planning.SizedChoice]) -> str:
    """The baseline that comes nearest in a range, and how near."""
    known = [(row.baseline_seconds / row.seconds, row.baseline) for row in rows if row.baseline_seconds]
    if not known:
        return "-"
    ratio, name = min(known)
    return f"{name} {ratio:.2f}x"


def _standing(rows: Sequence[planning.SizedChoice]) -> str:
    """How near the bound of each size a range comes, from its worst to its best."""
    shares = sorted(float(row.bound.time) / row.seconds for row in rows if row.bound is not None)
    return _span(list(dict.fromkeys(f"{share:.0%}" for share in (shares[0], shares[-1])))) if shares else "-"


def _print_doubts(output: Output, result: planning.SizeSet) -> None:
    if not result.cost_model.bands:
        output.line("certainty   the costs have no bands, so nothing is known of how sure these choices are")
        return
    if not result.doubts:
        output.line("certainty   no choice falls otherwise at any corner of the bands that was tried")
        return
    for doubt in result.doubts[:_SHOWN]:
        output.line(
            f"certainty   {format_size(doubt.size_bytes)}: {doubt.other} would save {doubt.gain:.1%} of "
            f"{doubt.chosen}, {doubt.corner}"
        )
    if len(result.doubts) > _SHOWN:
        output.line(f"certainty   and {len(result.doubts) - _SHOWN} more sizes (see --json)")
