"""Views of ``train``: training steps and serving."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from treadle.render.rows import Row, Rows, Table, facts, fields_of, framed, given, labelled, row
from treadle.training.costs import format_traffic
from treadle.training.device_memory import MemoryParts, missing_bytes
from treadle.training.forms.axes import AXIS_FORMS
from treadle.units import format_seconds

if TYPE_CHECKING:
    from treadle.training.serve_result import ServeResult
    from treadle.training.train_result import TrainResult, TrainRow

_MFU = "model FLOPs (backward 2x forward, nothing recomputed) / (peak x ranks x step)"
_EXPOSED = "time in which a rank communicates and does not compute"


def format_count(number: float) -> str:
    """A number in three digits and the prefix that fits: 8.03B."""
    for letter, scale in (("T", 1e12), ("B", 1e9), ("M", 1e6), ("K", 1e3)):
        value = number / scale
        if value >= 0.9995:  # what rounds to a thousand has the next prefix
            return (f"{value:#.3g}".rstrip(".") if value < 999.5 else f"{value:.0f}") + letter
    return f"{number:.0f}" if number >= 10 else f"{number:.3g}"


def gigabytes(size: float) -> str:
    """A size in units of 2^30 bytes, three digits."""
    return f"{size / 2**30:.3g} GB"


def _model_rows(result: TrainResult | ServeResult, source: str = "") -> Iterator[Row]:
    """Model and mesh."""
    model, active = result.model, result.model.active_parameters
    some = "" if active == model.parameters else f", {format_count(active)} active"
    if some and (without := active - model.embedding_parameters) < active:
        some += f" ({format_count(without)} without the embedding)"
    own = f" ({source})" if source else ""
    yield row(
        "model",
        f"{model.name}: {format_count(model.parameters)} parameters{some}, {model.n_layers} layers{own}",
        key=True,
        model=model.name,
        parameters=model.parameters,
        active_parameters=active,
    )


def _time_model_rows(rows: Sequence[tuple[str, Sequence[str]]]) -> Iterator[Row]:
    """The models of the times of each schedule, which is named unless all have the same."""
    users: dict[str, dict[str, None]] = {}
    for schedule, models in rows:
        for text in models:
            users.setdefault(text, {})[schedule] = None
    everyone = len({schedule for schedule, _ in rows})
    texts = [
        f"{'' if len(schedules) == everyone else ', '.join(schedules) + ': '}{text}"
        for text, schedules in users.items()
    ]
    yield row("times", "\n".join(texts) or None)


def step_rows(result: TrainResult) -> Rows:
    """Model, mesh, assumptions, a row for each fabric and schedule, and what the columns mean."""
    setup, options, mesh, first = result.setup, result.setup.options, result.mesh, result.rows[0]
    missing = missing_bytes(first.outcome.memory, setup.device.memory_bytes)
    if missing:
        words = [f"does not fit: {missing}"]
        for other in result.alternatives:
            start = "fits with" if other.fits else "nothing tried fits; least:"
            words.append(f"{start} {other.options} ({gigabytes(other.memory_bytes)})")
        yield row("warning", "\n".join(words), key=True)
    yield facts(fits=not missing, alternatives=[asdict(one) for one in result.alternatives])
    yield from _model_rows(result, result.model.source)
    axes = [
        f"{name}: {AXIS_FORMS[name].words}"
        for name, size in zip(mesh.axis_names, mesh.shape, strict=True)
        if size > 1
    ]
    text = f"{mesh.notation} on {mesh.n_ranks} {setup.device.name}, {setup.precision}"
    yield row(
        "mesh",
        "\n".join([text, *axes]),
        key=True,
        mesh=mesh.notation,
        ranks=mesh.n_ranks,
        gpu=setup.device.name,
        precision=setup.precision,
    )
    yield row(
        "step",
        _step_text(result),
        batch=setup.sequences,
        tokens={name or "all": count for name, count in setup.tokens.items()},
        micro_batches=options.micro_batches,
        interleave=options.interleave,
    )
    yield row("compute", setup.times.summary, compute_times=setup.times.summary)
    yield from _assumption_rows(result)
    parts = _largest(first)
    sizes = ", ".join(f"{name} {gigabytes(size)}" for name, size in parts.by_part.items() if size >= 2**20)
    device = gigabytes(setup.device.memory_bytes)
    text = f"{gigabytes(parts.total_bytes)} of {device} at the peak: {sizes}"
    yield row("memory", text, memory_by_part=parts.by_part)
    yield from labelled("note", result.notes)
    yield facts(notes=[*([f"does not fit: {missing}"] if missing else []), *result.notes])
    yield from _step_tables(result)
    yield row("exposed", f"{_EXPOSED}, by what it waits for")
    yield row("MFU", _MFU)
    for one in {one.schedule: one for one in result.rows}.values():
        yield row(one.schedule, one.words)
    yield from _time_model_rows([(one.schedule, one.model_words) for one in result.rows])
    steps = [_step_values(one) for one in result.rows]
    yield facts(steps_simulated=steps, seconds={"total": result.seconds})


def _assumption_rows(result: TrainResult) -> Iterator[Row]:
    """The fitted efficiency, and the assumed contention and network efficiency."""
    if (fitted := result.calibration) is not None:
        yield row(
            "fitted",
            f"efficiency {fitted.efficiency:.4f}, so that {fitted.row} takes "
            f"{format_seconds(fitted.measured_s)} as measured; all other rows are predictions",
            fitted={"efficiency": fitted.efficiency, "measured_s": fitted.measured_s, "row": fitted.row},
        )
    found, kappa = result.contention, float(result.setup.options.kappa)
    values = {"kappa": kappa, "contention": found.words, "contention_given": found.is_given}
    yield Row("contention", f"{found.kappa:g}: {found.words}", values)
    network = f"{result.network_words}; bounds stay as they are" if result.network_words else None
    yield Row("network", network, {"network": result.network_words})


def _largest(one: TrainRow) -> MemoryParts:
    """The memory of the pipeline stage that needs most."""
    return max(one.outcome.memory, key=lambda parts: parts.total_bytes)


def _step_text(result: TrainResult) -> str:
    setup, options = result.setup, result.setup.options
    words = [f"{setup.sequences} samples"]
    if result.model.unit != "sample":
        tokens = [f"{n} tokens{f' ({name})' if name else ''}" for name, n in setup.tokens.items()]
        words = [f"{setup.sequences} sequences of {' + '.join(tokens)}"]
    if options.micro_batches > 1:
        words.append(f"{options.micro_batches} micro-batches")
    if options.zero:
        words.append(f"ZeRO-{options.zero}")
    if options.interleave > 1:
        words.append(f"{options.interleave} virtual stages per rank")
    orders = {order for one in result.rows if (order := one.outcome.setup.options.expert_order)}
    words += [f"experts {' or '.join(sorted(orders))}"] if orders else []
    words.append(f"recompute {options.recompute}")
    if not options.has_fused_attention:
        words.append("attention not fused")
    if options.gradient_bytes != options.element_bytes:
        words.append(f"gradients of {options.gradient_bytes} bytes")
    if any(one.outcome.bucket_bytes is not None for one in result.rows):
        words.append(f"buckets {'best' if options.bucket_bytes is None else 'as given'}")
    return ", ".join([*words, f"streams {options.streams}"])


def _step_tables(result: TrainResult) -> Rows:
    """Times by fabric and schedule."""
    categories = result.exposed_categories
    several = len({one.fabric for one in result.rows}) > 1
    if not several:
        yield row("topology", result.rows[0].fabric)
    kinds = [category.value for category in categories]
    headings = ["fabric"] * several + ["schedule", "step", "compute", "exposed", *kinds]
    headings += ["idle", "MFU", "per s"]
    cells = [
        [
            *[one.fabric] * several,
            one.schedule,
            *map(format_seconds, (float(one.outcome.iteration_s), float(one.outcome.compute_s))),
            format_seconds(one.exposed_s),
            *(format_seconds(float(one.outcome.exposed_s.get(category, 0))) for category in categories),
            format_seconds(float(one.outcome.idle_s)),
            f"{one.outcome.mfu:.1%}",
            format_count(one.outcome.tokens_per_s),
        ]
        for one in result.rows
    ]
    yield from framed(Table(headings, cells, 1 + several, ["per s", "idle", *kinds, "compute"]))
    what = "samples" if result.model.unit == "sample" else "tokens"
    yield row("per s", f"{what} per second, all ranks together")


def _step_values(one: TrainRow) -> dict[str, object]:
    found = one.outcome
    return {
        **fields_of(one, "fabric", "schedule"),
        "bound_only": one.is_bound,
        "iteration_s": float(found.iteration_s),
        "compute_s": float(found.compute_s),
        "contention_s": float(found.contention_s),
        "exposed_s": one.exposed_s,
        "exposed_by_kind": {kind.value: float(seconds) for kind, seconds in found.exposed_s.items()},
        "idle_s": float(found.idle_s),
        **fields_of(found, "mfu", "flops_per_rank_per_s", "tokens_per_s"),
        "memory_bytes": _largest(one).total_bytes,
        **given(bucket_bytes=found.bucket_bytes, expert_order=found.setup.options.expert_order),
        "communications": [
            {
                "communication": format_traffic((price.kind, price.axes)),
                "algbw_bytes_per_s": float(price.algbw),
                "delay_s": price.delay_s,
                "time_model": price.model.value,
            }
            for price in one.priced
        ],
    }


def phase_rows(result: ServeResult) -> Rows:
    """View of ``train --phase``: a row for each fabric, schedule and batch."""
    setup, mesh = result.rows[0].outcome.setup, result.mesh
    device = setup.device
    yield from _model_rows(result)
    text = f"{mesh.notation} on {mesh.n_ranks} {device.name}"
    yield row("mesh", text, key=True, mesh=mesh.notation, ranks=mesh.n_ranks, gpu=device.name)
    tokens = " + ".join(f"{count}{f' ({name})' if name else ''}" for name, count in setup.tokens.items())
    what = "time to the first token of prompts of" if result.phase == "prefill" else "time per token after"
    named = {name or "all": count for name, count in setup.tokens.items()}
    yield row(result.phase.value, f"{what} {tokens} tokens", phase=result.phase.value, tokens=named)
    yield row("compute", setup.times.summary, compute_times=setup.times.summary)
    yield from labelled("note", result.notes)
    yield facts(notes=list(result.notes))
    for one in result.rows:
        if missing := missing_bytes([one.outcome.memory], device.memory_bytes):
            yield row("note", f"batch {one.sequences} does not fit: {missing}")
            break
    several = len({one.fabric for one in result.rows}) > 1
    headings = [*["fabric"] * several, "schedule", "batch", "time", "exposed", "per s", "memory"]
    exposed = [float(sum(one.outcome.device_time.exposed_s.values())) for one in result.rows]
    cells = [
        [
            *[one.fabric] * several,
            one.schedule,
            str(one.sequences),
            format_seconds(float(one.outcome.seconds)),
            format_seconds(waits),
            format_count(one.outcome.tokens_per_s),
            gigabytes(one.outcome.memory.total_bytes),
        ]
        for one, waits in zip(result.rows, exposed, strict=True)
    ]
    yield from framed(Table(headings, cells, 1 + several, ("memory", "per s")))
    yield row("batch", "concurrent sequences on all ranks; per s: tokens per second, all together")
    yield row("exposed", _EXPOSED)
    yield from _time_model_rows([(one.schedule, one.model_words) for one in result.rows])
    phases = [
        {
            **fields_of(one, "fabric", "schedule"),
            "batch": one.sequences,
            "time_s": float(one.outcome.seconds),
            "exposed_s": waits,
            "tokens_per_s": one.outcome.tokens_per_s,
            "memory_bytes": one.outcome.memory.total_bytes,
        }
        for one, waits in zip(result.rows, exposed, strict=True)
    ]
    yield facts(phases_simulated=phases, seconds={"total": result.seconds})
