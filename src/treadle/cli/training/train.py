"""``treadle train``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, cast

import typer

from treadle import planning
from treadle.atomic import write_bytes
from treadle.cli.cost_model_option import CostModelOption, asked_cost_model
from treadle.cli.output import JsonOption, Output, ProgressLine, QuietOption
from treadle.cli.step_options import AlphaOption, DeviceOption, EfficiencyOption, ForwardOption, named_fabrics
from treadle.cli.training.serve_report import phase_values, print_phases
from treadle.cli.training.step_report import print_steps, step_values
from treadle.errors import FormatError
from treadle.planning import TrainKeywords, TrainResult, TrainRow
from treadle.units import parse_size, parse_time_ns


def command(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL", help="A name (llama-3-8b), a Hugging Face config.json, or a table of layers."
        ),
    ],
    mesh: Annotated[
        str,
        typer.Option(
            help="Axes and ranks, the last the fastest, as fsdp=16,tp=8: dp replicas, fsdp sharded weights, "
            "tp tensors, cp context, ep experts, pp pipeline stages.",
            metavar="MESH",
        ),
    ],
    gpu: DeviceOption,
    fabric: Annotated[
        list[str] | None,
        typer.Option(
            "--fabric",
            help="What to train on; again for several side by side; default that of treadle.toml.",
            metavar="FABRIC",
        ),
    ] = None,
    schedule: Annotated[
        list[str] | None,
        typer.Option(
            "--schedule",
            help="treadle, ring, tree, bound, shifted-ring, double-binary-tree, torus, any-fabric; again, or "
            "with commas; default treadle,ring,bound.",
            metavar="NAME",
        ),
    ] = None,
    batch: Annotated[
        str | None,
        typer.Option(
            help="Sequences of a step, on all ranks; default one a replica. With --phase several, each of a "
            "replica, as 1,8,64.",
            metavar="N",
        ),
    ] = None,
    phase: Annotated[
        str | None,
        typer.Option(
            help="Of serving, instead of a training step: prefill (time to the first token) or decode (per "
            "token after --sequence others).",
            metavar="NAME",
        ),
    ] = None,
    samples: Annotated[
        bool, typer.Option("--samples", help="The table of layers counts per sample, not per token.")
    ] = False,
    sequence: Annotated[
        str | None,
        typer.Option(help="Tokens of a sequence; of encoder and decoder as 512,114.", metavar="TOKENS"),
    ] = None,
    micro_batches: Annotated[
        int, typer.Option(help="Parts of a replica's batch, one after the other.", metavar="N")
    ] = 1,
    interleave: Annotated[int, typer.Option(help="Pieces of the model on each stage.", metavar="N")] = 1,
    bucket: Annotated[
        str | None,
        typer.Option(
            help="Of gradients: 25MB, or best (of 1, 10, 100 MB, 1 GB); default best.", metavar="SIZE"
        ),
    ] = None,
    prefetch: Annotated[int, typer.Option(help="Layers whose weights are gathered ahead.", metavar="N")] = 1,
    reshard: Annotated[
        bool | None,
        typer.Option(
            "--reshard/--no-reshard",
            help="Gather weights again for the backward pass; default: unless there is a pipeline.",
        ),
    ] = None,
    sequence_parallel: Annotated[
        bool,
        typer.Option(
            "--sequence-parallel/--no-sequence-parallel",
            help="Over tp: gather and scatter tokens, or sum all.",
        ),
    ] = True,
    context_exchange: Annotated[
        str, typer.Option(help="Over cp: gather keys and values, or pass them round a ring.", metavar="NAME")
    ] = "gather",
    recompute: Annotated[
        str,
        typer.Option(help="In the backward pass: none, attention (if not fused) or full.", metavar="NAME"),
    ] = "none",
    fused_attention: Annotated[
        bool,
        typer.Option(
            "--fused-attention/--no-fused-attention",
            help="Attention keeps no scores and computes them again by itself.",
        ),
    ] = True,
    precision: Annotated[
        str | None, typer.Option(help="Of products: bf16, fp16, fp8, fp32, tf32.", metavar="NAME")
    ] = None,
    gradients: Annotated[
        str | None,
        typer.Option(help="Of gradients that are reduced, as fp32; default as --precision.", metavar="NAME"),
    ] = None,
    layer_times: Annotated[
        Path | None, typer.Option(help="Measured: CSV of layer,forward_s,backward_s.", metavar="FILE")
    ] = None,
    efficiency: EfficiencyOption = None,
    memory_efficiency: Annotated[
        str,
        typer.Option(help="Share of its memory's bandwidth; none: bytes cost nothing.", metavar="X|none"),
    ] = "0.8",
    calibrate: Annotated[
        str | None,
        typer.Option(
            help="Time of a measured step on the first fabric by the first schedule: finds the efficiency.",
            metavar="TIME",
        ),
    ] = None,
    contention: Annotated[
        str | None,
        typer.Option(
            help="Cost of computing and communicating at once: torchtitan-h100, msccl-a100, free, serial, or "
            "1 to 2; default by GPU, told in the report.",
            metavar="NAME|X",
        ),
    ] = None,
    network_efficiency: Annotated[
        list[str] | None,
        typer.Option(
            help="Share of all modelled rates, as 0.85; or measured: allgather=nccl.log, again for more.",
            metavar="X|KIND=FILE",
        ),
    ] = None,
    streams: Annotated[
        str,
        typer.Option(help="one: a communication at a time; per-axis: one along each axis.", metavar="NAME"),
    ] = "one",
    capacity_factor: Annotated[
        float, typer.Option(help="Tokens sent to experts over tokens routed.", metavar="X")
    ] = 1.0,
    alltoall_overtakes: Annotated[
        bool, typer.Option("--alltoall-overtakes", help="All-to-alls go before what has not begun.")
    ] = False,
    alpha: AlphaOption = None,
    cost_model: CostModelOption = None,
    forward: ForwardOption = False,
    simulate: Annotated[
        bool,
        typer.Option(
            "--simulate/--no-simulate",
            help="Simulate schedules of up to 64 ranks, or price all by alpha and rate.",
        ),
    ] = True,
    trace: Annotated[
        Path | None,
        typer.Option(
            help="Timeline of the first row: .json, .pftrace, or .gz of them.", metavar="FILE", writable=True
        ),
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(help="The same as .png, .svg or .pdf.", metavar="FILE", writable=True)
    ] = None,
    chakra: Annotated[
        Path | None, typer.Option(help="The same as Chakra execution traces, one a rank.", metavar="FOLDER")
    ] = None,
    workload: Annotated[
        Path | None,
        typer.Option(help="What it communicates, for design --workload.", metavar="FILE", writable=True),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            help="Page with the timelines and tables of all rows: .html.", metavar="FILE", writable=True
        ),
    ] = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Simulate a step of training: its time, exposed communication and MFU, by fabric and schedule."""
    output = Output(json, quiet)
    fabrics = named_fabrics(fabric, " side by side")
    names = [part.strip() for text in schedule or ["treadle,ring,bound"] for part in text.split(",")]
    if trace is not None:
        planning.check_trace_name(trace)
    if picture is not None:
        planning.check_figure_name(picture)
    if report is not None:
        planning.check_page_name(report, "--report FILE")
    if phase is not None:
        files = {"--trace": trace, "--picture": picture, "--chakra": chakra, "--report": report}
        for option, value in files.items():
            if value is not None:
                raise FormatError(f"{option} is of training steps; --phase {phase} has rows by batch only")
        if workload is not None:
            raise FormatError(f"--workload is of training steps; --phase {phase} has rows by batch only")
    options: TrainKeywords = {
        "batch": None if batch is None or phase is not None else _batches(batch, 1)[0],
        "sequence": sequence,
        "micro_batches": micro_batches,
        "interleave": interleave,
        "bucket_bytes": _bucket(bucket),
        "prefetch": prefetch,
        "reshard": reshard,
        "sequence_parallel": sequence_parallel,
        "context_exchange": context_exchange,
        "recompute": recompute,
        "fused_attention": fused_attention,
        "precision": precision,
        "gradients": gradients,
        "layer_times": layer_times,
        "efficiency": efficiency,
        "memory_efficiency": _share(memory_efficiency),
        "calibrate_s": None if calibrate is None else parse_time_ns(calibrate) / 1e9,
        "contention": contention,
        "network_efficiency": network_efficiency,
        "streams": streams,
        "capacity_factor": capacity_factor,
        "alltoall_overtakes": alltoall_overtakes,
        "alpha_s": None if alpha is None else parse_time_ns(alpha) / 1e9,
        "cost_model": asked_cost_model(cost_model, alpha),
        "forward": forward,
        "simulates": simulate,
        "samples": samples,
    }
    if phase is not None:
        batches = planning.DEFAULT_BATCHES if batch is None else _batches(batch, None)
        kept = {
            name: value for name, value in options.items() if value != _TRAINING_DEFAULTS.get(name, _NONE)
        }
        with ProgressLine(quiet=output.is_silent) as progress:
            served = planning.serve(
                model,
                fabrics,
                mesh=mesh,
                gpu=gpu,
                phase=phase,
                batches=batches,
                schedules=names,
                progress=progress,
                **cast(TrainKeywords, kept),
            )
        print_phases(output, served)
        output.result(phase_values(served), variant="phase")
        return 0
    with ProgressLine(quiet=output.is_silent) as progress:
        result = planning.train(
            model, fabrics, mesh=mesh, gpu=gpu, schedules=names, progress=progress, **options
        )
    written = _files(result, result.rows[0], trace, picture, chakra, workload)
    if report is not None:
        write_bytes(report, planning.report(result).encode())
        written["report"] = str(report)
    print_steps(output, result)
    values = step_values(result) | written
    for name in ("trace", "picture", "chakra", "workload"):
        if name in values:
            row = result.rows[0]
            output.line(f"{name:<12}{values[name]}: {row.fabric}, {row.schedule}")
    if report is not None:
        output.line(f"report      {report}")
    output.result(values)
    return 0


def _files(
    result: TrainResult,
    row: TrainRow,
    trace: Path | None,
    picture: Path | None,
    chakra: Path | None,
    workload: Path | None,
) -> dict[str, object]:
    """Write what was asked for; paths as JSON has them."""
    given = {"trace": trace, "picture": picture, "workload": workload}
    places = [path.resolve() for path in given.values() if path is not None]
    if len(set(places)) < len(places):
        raise FormatError("--trace, --picture and --workload: expected different files")
    if trace is not None:
        planning.write_trace(trace, planning.step_trace_of(result, row))
    if picture is not None:
        image = planning.step_picture_of(result, row, file_format=picture.suffix[1:].lower())
        write_bytes(picture, image)
    if workload is not None:
        write_bytes(workload, planning.step_workload_of(result, row).encode())
    if chakra is not None:
        planning.write_step_chakra(chakra, result, row)
    return {
        **{name: str(path) for name, path in given.items() if path is not None},
        **({} if chakra is None else {"chakra": str(chakra)}),
    }


_NONE = object()
_TRAINING_DEFAULTS: dict[str, object] = {
    "micro_batches": 1,
    "interleave": 1,
    "prefetch": 1,
    "recompute": "none",
    "fused_attention": True,
    "streams": "one",
    "alltoall_overtakes": False,
    "context_exchange": "gather",
    "sequence_parallel": True,
}
"""Of options that a phase of serving refuses: left at these, nobody asked for them."""


def _batches(text: str, most: int | None) -> tuple[int, ...]:
    """Whole numbers of at least 1, with commas between."""
    parts = [part.strip() for part in text.split(",")]
    is_right = all(part.isascii() and part.isdigit() and 0 < len(part) < 10 for part in parts)
    if not is_right or (most is not None and len(parts) > most):
        expected = "a whole number" if most == 1 else "whole numbers with commas between"
        raise FormatError(f"--batch {text[:40]!r}: expected {expected}")
    return tuple(map(int, parts))


def _bucket(text: str | None) -> int | None:
    if text is None or text == "best":
        return None
    size = parse_size(text)
    if size < 1:
        raise FormatError(f"--bucket {text}: expected at least 1 byte, or best")
    return size


def _share(text: str) -> float | None:
    if text == "none":
        return None
    try:
        return float(text)
    except ValueError:
        raise FormatError(
            f"--memory-efficiency {text[:40]!r}: expected a share such as 0.8, or none"
        ) from None
