"""How a simulated step is told, to people and in JSON."""

from __future__ import annotations

from collections.abc import Sequence

from treadle.cli.output import Output
from treadle.planning import TrainResult, TrainRow
from treadle.training.costs import traffic_words
from treadle.training.device_memory import MemoryParts, shortfall
from treadle.training.forms.axes import AXIS_FORMS
from treadle.units import format_seconds

_MFU = "model FLOPs (backward 2x forward, nothing recomputed) / (peak x ranks x step)"


def print_steps(output: Output, result: TrainResult) -> None:
    """Model, mesh, what was assumed and fitted, a row for each fabric and schedule, and what figures mean."""
    _print_setting(output, result)
    output.line()
    _print_rows(output, result)
    output.line("exposed     time in which a rank communicates and does not compute, by what it waits for")
    output.line(f"MFU         {_MFU}")
    for row in {row.schedule: row for row in result.rows}.values():
        output.line(f"{row.schedule:<12}{'' if len(row.schedule) < 12 else '  '}{row.words}")
    print_models(output, [(row.schedule, row.model_words) for row in result.rows])


def print_models(output: Output, rows: Sequence[tuple[str, Sequence[str]]]) -> None:
    """What models gave the times of each schedule, which is named unless all have the same."""
    users: dict[str, dict[str, None]] = {}
    for schedule, models in rows:
        for words in models:
            users.setdefault(words, {})[schedule] = None
    everyone = len({schedule for schedule, _ in rows})
    for words, schedules in users.items():
        whose = "" if len(schedules) == everyone else f"{', '.join(schedules)}: "
        output.line(f"times       {whose}{words}")


def _print_setting(output: Output, result: TrainResult) -> None:
    setup, model = result.setup, result.model
    own = f" ({model.source})" if model.source else ""
    active = model.active_parameters
    some = "" if active == model.parameters else f", {count_text(active)} active"
    output.line(
        f"model       {model.name}: {count_text(model.parameters)} parameters{some}, "
        f"{model.n_layers} layers{own}"
    )
    output.line(
        f"mesh        {result.mesh.text} on {result.mesh.n_ranks} {setup.device.name}, {setup.precision}"
    )
    for name, size in zip(result.mesh.axis_names, result.mesh.shape, strict=True):
        if size > 1:
            output.line(f"            {name}: {AXIS_FORMS[name].words}")
    output.line(f"step        {_step(result)}")
    output.line(f"compute     {setup.times.words}")
    if result.calibration is not None:
        found = result.calibration
        output.line(
            f"fitted      efficiency {found.efficiency:.4f}, so that {found.row} takes "
            f"{format_seconds(found.measured_s)} as measured; all other rows are predictions"
        )
    output.line(f"contention  {result.contention.kappa:g}: {result.contention.words}")
    if result.network_words:
        output.line(f"network     {result.network_words}; bounds stay as they are")
    parts = _largest(result.rows[0])
    told = ", ".join(f"{name} {gigabytes(size)}" for name, size in parts.by_part.items() if size >= 2**20)
    whole = gigabytes(setup.device.memory_bytes)
    output.line(f"memory      {gigabytes(parts.total_bytes)} of {whole} at the peak: {told}")
    for note in _notes(result):
        output.line(f"note        {note}")


def _notes(result: TrainResult) -> list[str]:
    """What was assumed, after what does not fit."""
    missing = shortfall(result.rows[0].outcome.memory, result.setup.device.memory_bytes)
    return [*([f"does not fit: {missing}"] if missing else []), *result.notes]


def _largest(row: TrainRow) -> MemoryParts:
    """Of the pipeline stage that needs most."""
    return max(row.outcome.memory, key=lambda parts: parts.total_bytes)


def gigabytes(size: float) -> str:
    """Of 2^30 bytes, three digits."""
    return f"{size / 2**30:.3g} GB"


def _step(result: TrainResult) -> str:
    setup, options = result.setup, result.setup.options
    if result.model.unit == "sample":
        words = [f"{setup.sequences} samples"]
    else:
        tokens = " + ".join(
            f"{count} tokens{f' ({name})' if name else ''}" for name, count in setup.tokens.items()
        )
        words = [f"{setup.sequences} sequences of {tokens}"]
    if options.micro_batches > 1:
        words.append(f"{options.micro_batches} micro-batches")
    if options.interleave > 1:
        words.append(f"{options.interleave} pieces a stage")
    words.append(f"recompute {options.recompute}")
    if not options.has_fused_attention:
        words.append("attention not fused")
    if options.gradient_bytes != options.element_bytes:
        words.append(f"gradients of {options.gradient_bytes} bytes")
    buckets = {row.outcome.bucket_bytes for row in result.rows} - {None}
    if buckets:
        words.append(f"buckets {'best' if options.bucket_bytes is None else 'as given'}")
    words.append(f"streams {options.streams}")
    return ", ".join(words)


def _print_rows(output: Output, result: TrainResult) -> None:
    categories = result.exposed_categories
    several = len({row.fabric for row in result.rows}) > 1
    if not several:
        output.line(f"fabric      {result.rows[0].fabric}")
        output.line()
    headings = [
        *(["fabric"] if several else []),
        "schedule",
        "step",
        "compute",
        "exposed",
        *(category.value for category in categories),
        "idle",
        "MFU",
        "per s",
    ]
    rows = [
        (
            *([row.fabric] if several else []),
            row.schedule,
            format_seconds(float(row.outcome.iteration_s)),
            format_seconds(float(row.outcome.compute_s)),
            format_seconds(row.exposed_s),
            *(format_seconds(float(row.outcome.exposed_s.get(category, 0))) for category in categories),
            format_seconds(float(row.outcome.idle_s)),
            f"{row.outcome.mfu:.1%}",
            count_text(row.outcome.tokens_per_s),
        )
        for row in result.rows
    ]
    least = ["per s", "idle", *(category.value for category in categories), "compute"]
    output.table(headings, rows, left=2 if several else 1, least=least)
    what = "samples" if result.model.unit == "sample" else "tokens"
    output.line()
    output.line(f"per s       {what} a second, all ranks together")


def count_text(number: float) -> str:
    """With three digits and the prefix that fits: 8.03B."""
    for letter, scale in (("T", 1e12), ("B", 1e9), ("M", 1e6), ("K", 1e3)):
        value = number / scale
        if value >= 0.9995:  # what rounds to a thousand has the next prefix
            return (f"{value:#.3g}".rstrip(".") if value < 999.5 else f"{value:.0f}") + letter
    return f"{number:.0f}" if number >= 10 else f"{number:.3g}"


def step_values(result: TrainResult) -> dict[str, object]:
    """What JSON says."""
    setup = result.setup
    found: dict[str, object] = {
        "model": result.model.name,
        "parameters": result.model.parameters,
        "active_parameters": result.model.active_parameters,
        "mesh": result.mesh.text,
        "ranks": result.mesh.n_ranks,
        "gpu": setup.device.name,
        "precision": setup.precision,
        "batch": setup.sequences,
        "tokens": {name or "all": count for name, count in setup.tokens.items()},
        "micro_batches": setup.options.micro_batches,
        "interleave": setup.options.interleave,
        "compute_times": setup.times.words,
        "kappa": float(setup.options.kappa),
        "contention": result.contention.words,
        "contention_given": result.contention.is_given,
        "network": result.network_words,
        "notes": _notes(result),
        "memory_by_part": _largest(result.rows[0]).by_part,
        "steps_simulated": [_row_values(row) for row in result.rows],
        "seconds": {"total": result.seconds},
    }
    if result.calibration is not None:
        found["fitted"] = {
            "efficiency": result.calibration.efficiency,
            "measured_s": result.calibration.measured_s,
            "row": result.calibration.row,
        }
    return found


def _row_values(row: TrainRow) -> dict[str, object]:
    found = row.outcome
    bucket = {} if found.bucket_bytes is None else {"bucket_bytes": found.bucket_bytes}
    return {
        "fabric": row.fabric,
        "schedule": row.schedule,
        "bound_only": row.is_bound,
        "iteration_s": float(found.iteration_s),
        "compute_s": float(found.compute_s),
        "contention_s": float(found.contention_s),
        "exposed_s": row.exposed_s,
        "exposed_by_kind": {kind.value: float(seconds) for kind, seconds in found.exposed_s.items()},
        "idle_s": float(found.idle_s),
        "mfu": found.mfu,
        "flops_per_rank_per_s": found.flops_per_rank_per_s,
        "tokens_per_s": found.tokens_per_s,
        "memory_bytes": _largest(row).total_bytes,
        **bucket,
        "communications": [
            {
                "communication": traffic_words((one.kind, one.axes)),
                "algbw_bytes_per_s": float(one.algbw),
                "delay_s": one.delay_s,
                "time_model": one.model.value,
            }
            for one in row.priced
        ],
    }
