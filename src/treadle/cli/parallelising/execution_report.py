"""How an executed plan is told, to people and in JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import isfinite

from treadle.cli.output import Output
from treadle.cli.quantities import counted
from treadle.parallelism.execution.run_comparison import CollectiveKey
from treadle.planning import PlanExecution
from treadle.units import format_size

_MOST_FAULTS = 8
"""That people see; JSON has all."""


def print_execution(output: Output, plan: str, found: PlanExecution) -> None:
    """Ranks, numbers, collectives and memory, each beside what was expected."""
    execution, prediction = found.execution, found.prediction
    mesh = ",".join(f"{name}={size}" for name, size in found.mesh)
    output.line(f"plan        {plan}: {found.model}, mesh {mesh}")
    output.line(
        f"executed    one step on {execution.n_ranks} processes of this machine, over {execution.backend}"
    )
    for word, errors in (("outputs", found.output_errors), ("gradients", found.gradient_errors)):
        if errors:
            worst = max(errors, key=lambda name: (errors[name] != errors[name], errors[name]))
            output.line(
                f"{word:<11} {len(errors)}, at most {errors[worst]:.1e} off those of one process ({worst}); "
                f"{found.tolerance:.1e} is allowed"
            )
    output.line(
        f"collectives {execution.n_collectives} called by each rank, {prediction.n_collectives} predicted"
    )
    predicted = _by_axes(prediction.collectives)
    called = _by_axes(execution.collectives)
    for key in sorted({**predicted, **called}):
        (n, size), (n_expected, expected) = (one.get(key, (0, 0)) for one in (called, predicted))
        kind, axes = key
        same = (
            "as predicted"
            if (n, size) == (n_expected, expected)
            else (f"predicted {n_expected} of {format_size(expected)}")
        )
        output.line(f"            {kind} along {axes}: {n} of {format_size(size)}, {same}")
    output.line(
        f"memory      {format_size(execution.peak_bytes)} at the fullest moment of a rank, "
        f"{execution.peak_at}; predicted {format_size(prediction.peak_bytes)} ({found.memory_error:+.1%})"
    )
    for fault in found.faults[:_MOST_FAULTS]:
        output.line(f"WRONG       {fault}")
    if len(found.faults) > _MOST_FAULTS:
        output.line(f"            ({counted(len(found.faults) - _MOST_FAULTS, 'fault')} more: --json)")
    if not found.faults:
        output.line("result      as on one process, by the collectives that were predicted")


def _by_axes(collectives: Mapping[CollectiveKey, int]) -> dict[tuple[str, str], tuple[int, int]]:
    """Calls and bytes by kind and axes."""
    calls: Counter[tuple[str, str]] = Counter()
    sizes: Counter[tuple[str, str]] = Counter()
    for (kind, axes, size), count in collectives.items():
        calls[kind.value, ",".join(axes)] += count
        sizes[kind.value, ",".join(axes)] += count * size
    return {key: (calls[key], sizes[key]) for key in calls}


def execution_values(found: PlanExecution) -> dict[str, object]:
    """What JSON says."""
    execution, prediction = found.execution, found.prediction
    keys = sorted({**prediction.collectives, **execution.collectives})
    return {
        "model": found.model,
        "mesh": ",".join(f"{name}={size}" for name, size in found.mesh),
        "ranks": execution.n_ranks,
        "backend": execution.backend,
        "largest_error": _number(execution.largest_error),
        "tolerance": found.tolerance,
        "errors": {name: _number(error) for name, error in execution.errors.items()},
        "collectives": [
            {
                "kind": kind.value,
                "axes": list(axes),
                "size_bytes": size,
                "called": execution.collectives.get((kind, axes, size), 0),
                "predicted": prediction.collectives.get((kind, axes, size), 0),
            }
            for kind, axes, size in keys
        ],
        "peak_bytes": execution.peak_bytes,
        "peak_at": execution.peak_at,
        "predicted_peak_bytes": prediction.peak_bytes,
        "memory_error": found.memory_error,
        "faults": [str(fault) for fault in found.faults],
    }


def _number(value: float) -> float | None:
    """JSON has no infinity, and nothing that is no number."""
    return value if isfinite(value) else None
