"""How a simulated phase of serving is told, to people and in JSON."""

from __future__ import annotations

from treadle.cli.output import Output
from treadle.cli.training.step_report import count_text, gigabytes, print_models
from treadle.planning import ServeResult
from treadle.training.device_memory import shortfall
from treadle.units import format_seconds


def print_phases(output: Output, result: ServeResult) -> None:
    """A row for each fabric, schedule and batch."""
    setup = result.rows[0].outcome.setup
    model, device = result.model, setup.device
    output.line(
        f"model       {model.name}: {count_text(model.parameters)} parameters, {model.n_layers} layers"
    )
    output.line(f"mesh        {result.mesh.text} on {result.mesh.n_ranks} {device.name}")
    tokens = " + ".join(f"{count}{f' ({name})' if name else ''}" for name, count in setup.tokens.items())
    what = "time to the first token of prompts of" if result.phase == "prefill" else "time per token after"
    output.line(f"{result.phase:<12}{what} {tokens} tokens")
    output.line(f"compute     {setup.times.words}")
    for note in result.notes:
        output.line(f"note        {note}")
    for row in result.rows:
        if missing := shortfall([row.outcome.memory], device.memory_bytes):
            output.line(f"note        batch {row.sequences} does not fit: {missing}")
            break
    output.line()
    several = len({row.fabric for row in result.rows}) > 1
    headings = [*(["fabric"] if several else []), "schedule", "batch", "time", "exposed", "per s", "memory"]
    rows = [
        (
            *([row.fabric] if several else []),
            row.schedule,
            str(row.sequences),
            format_seconds(float(row.outcome.seconds)),
            format_seconds(float(sum(row.outcome.device_time.exposed_s.values()))),
            count_text(row.outcome.tokens_per_s),
            gigabytes(row.outcome.memory.total_bytes),
        )
        for row in result.rows
    ]
    output.table(headings, rows, left=2 if several else 1, least=("memory", "per s"))
    output.line()
    output.line("batch       sequences at once, on all ranks; per s: tokens a second, all together")
    output.line("exposed     time in which a rank communicates and does not compute")
    print_models(output, [(row.schedule, row.model_words) for row in result.rows])


def phase_values(result: ServeResult) -> dict[str, object]:
    """What JSON says."""
    setup = result.rows[0].outcome.setup
    return {
        "model": result.model.name,
        "parameters": result.model.parameters,
        "active_parameters": result.model.active_parameters,
        "mesh": result.mesh.text,
        "ranks": result.mesh.n_ranks,
        "gpu": setup.device.name,
        "phase": result.phase.value,
        "tokens": {name or "all": count for name, count in setup.tokens.items()},
        "compute_times": setup.times.words,
        "notes": list(result.notes),
        "phases_simulated": [
            {
                "fabric": row.fabric,
                "schedule": row.schedule,
                "batch": row.sequences,
                "time_s": float(row.outcome.seconds),
                "exposed_s": float(sum(row.outcome.device_time.exposed_s.values())),
                "tokens_per_s": row.outcome.tokens_per_s,
                "memory_bytes": row.outcome.memory.total_bytes,
            }
            for row in result.rows
        ],
        "seconds": {"total": result.seconds},
    }
