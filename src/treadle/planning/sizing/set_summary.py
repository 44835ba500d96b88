"""Sets by size as JSON objects."""

from __future__ import annotations

from treadle.planning.measuring.size_bounds import size_bound_values
from treadle.planning.problem import busbw_values
from treadle.planning.sizing.model_corners import Doubt
from treadle.planning.sizing.size_sets import SizedChoice, SizeSet
from treadle.planning.summary import exact_text, problem_summary
from treadle.schedules.plan import PlanEntry


def size_set_summary(result: SizeSet) -> dict[str, object]:
    """What ``solve --size --json`` and ``retune --json`` print, but for the plan's path."""
    plan = result.plan
    return {
        **problem_summary(plan.topology, plan.collective),
        "algorithm": plan.algorithm,
        "algbw_bytes_per_s": float(plan.algbw),
        "algbw_exact": exact_text(plan.algbw),
        **busbw_values("busbw", plan.algbw, plan.collective),
        "entries": [_entry(entry) for entry in plan.entries],
        "rows": [_row(row) for row in result.rows],
        "worst_ratio": result.worst_ratio,
        "mean_ratio": result.mean_ratio,
        "doubts": [_doubt(doubt) for doubt in result.doubts],
        "candidates": result.n_candidates,
        "timed": result.n_timed,
        "left_out": list(result.left_out),
        "verified": all(report.is_ok for report in result.reports),
        "violations": [str(one) for report in result.reports for one in report.violations],
        "n_violations": sum(report.n_violations for report in result.reports),
        "time_limit_reached": result.is_late,
        "seconds": dict(result.seconds),
    }


def _entry(entry: PlanEntry) -> dict[str, object]:
    return {
        "min_bytes": entry.min_bytes,
        "max_bytes": entry.max_bytes,
        "algorithm": entry.algorithm,
        "options": entry.options,
        "pipelining": [
            {"min_bytes": one.min_bytes, "slices": one.slices, "protocol": one.protocol}
            for one in entry.pipelining
        ],
    }


def _row(row: SizedChoice) -> dict[str, object]:
    values: dict[str, object] = {
        "size_bytes": row.size_bytes,
        "schedule": row.title,
        "slices": row.slices,
        "time_s": row.seconds,
        "best_time_s": row.best_seconds,
    }
    if row.protocol:
        values["protocol"] = row.protocol
    if row.baseline_seconds is not None:
        values |= {"baseline": row.baseline, "baseline_time_s": row.baseline_seconds}
    return values | size_bound_values(row.bound)


def _doubt(doubt: Doubt) -> dict[str, object]:
    return {
        "size_bytes": doubt.size_bytes,
        "schedule": doubt.chosen,
        "other": doubt.other,
        "gain": doubt.gain,
        "corner": doubt.corner,
    }
