"""What ``compare --json`` prints."""

from __future__ import annotations

from treadle.planning.group_summary import rates_of_groups
from treadle.planning.judging.placed_schedules import PlacedSchedule
from treadle.planning.measuring.congestion import congestion
from treadle.planning.measuring.size_bounds import size_bound_values
from treadle.planning.problem import busbw_values
from treadle.planning.solving.comparison import Comparison, ComparisonRow, InNetwork, RowMeasures
from treadle.planning.summary import (
    bound_values,
    exact_text,
    problem_summary,
    throughput,
    verification_values,
)
from treadle.schedules.collective import Collective
from treadle.synthesis.result import Bound


def comparison_summary(result: Comparison) -> dict[str, object]:
    """What ``compare --json`` prints."""
    return {
        **problem_summary(result.topology, result.collective),
        **bound_values(result.bound, result.topology, result.collective),
        **rates_of_groups(result.shared),
        "schedules": [_row(result.bound, result.collective, row) for row in result.rows],
        **({} if result.in_network is None else {"in_network": _in_network(result, result.in_network)}),
    }


def _in_network(result: Comparison, found: InNetwork) -> dict[str, object]:
    """NVLS on the same fabric with switches that sum, against the optimum of that."""
    best = found.bound.algbw
    return {
        "optimal_algbw_bytes_per_s": float(best),
        "optimal_algbw_exact": exact_text(best),
        **busbw_values("optimal_busbw", best, result.collective),
        "model": found.bound.model,
        "schedule": _row(found.bound, result.collective, found.row),
    }


def _row(bound: Bound, collective: Collective, row: ComparisonRow) -> dict[str, object]:
    values: dict[str, object] = {"algorithm": row.algorithm, "seconds": {"total": row.seconds}}
    if row.form:
        values["form"] = row.form
    if row.is_peer:
        values["peer"] = True
    if row.form and row.notes:
        values["notes"] = list(row.notes)
    if row.measured is not None:
        values |= _measures(row.measured)
    if row.report is None:
        return {**values, "refusal": row.refusal}
    if row.algbw is not None:
        values |= {
            "algbw_bytes_per_s": float(row.algbw),
            "algbw_exact": exact_text(row.algbw),
            **busbw_values("busbw", row.algbw, collective),
            "gap": float(1 - row.algbw / bound.algbw),
            "optimal": row.report.is_optimal or (False if bound.is_tight else None),
        }
    if row.trees is not None:
        values["trees"] = row.trees
    return {**values, **verification_values(row.report)}


def _measures(found: RowMeasures) -> dict[str, object]:
    """Where a schedule's messages congest, and their times at sizes."""
    values: dict[str, object] = {}
    if found.refusal:
        values["not_simulated"] = found.refusal
    if found.congestion is not None:
        values["busiest_links"] = list(found.congestion.links)
        values["n_busiest_links"] = found.congestion.n_links
        values["busiest_times_optimum"] = exact_text(found.congestion.times_optimum)
    if found.sizes:
        values["sizes"] = [
            {
                "size_bytes": row.size_bytes,
                "time_s": float(row.time),
                "slices": row.slices,
                **({"protocol": row.protocol} if row.protocol else {}),
                "algbw_bytes_per_s": row.algbw_bytes_per_s,
                "busbw_bytes_per_s": row.busbw_bytes_per_s,
                **({} if row.efficiency is None else {"efficiency": row.efficiency}),
                **size_bound_values(row.bound),
                "busiest_link": row.busiest,
                "utilisation": row.utilisation,
            }
            for row in found.sizes
        ]
    return values


def placed_summary(placed: PlacedSchedule) -> dict[str, object]:
    """What ``verify --topology --json`` prints of a schedule of others, but for its path."""
    values: dict[str, object] = {
        **problem_summary(placed.topology, placed.collective),
        "format": placed.form,
        "notes": list(placed.notes),
        **verification_values(placed.report),
    }
    if placed.report.is_ok and placed.optimal_algbw is not None:
        worst = congestion(placed.topology, placed.program, placed.optimal_algbw)
        values |= {
            **throughput(placed),
            "gap": float(1 - placed.algbw / placed.optimal_algbw),
            "busiest_links": list(worst.links),
            "n_busiest_links": worst.n_links,
        }
    return values
