"""Simulate steps of serving on fabrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from time import process_time
from typing import Unpack

from treadle.checking import checked, left_alone
from treadle.context import Context, Progress, under
from treadle.errors import FormatError
from treadle.inputs.fabrics_and_plans import FabricLike
from treadle.inputs.meshes import as_mesh
from treadle.options.keywords import TrainKeywords
from treadle.schedules.mesh import Mesh
from treadle.spelling import counted, known_name
from treadle.training.compute_times import RooflineTimes
from treadle.training.devices import SERVED_WEIGHT_BYTES, Accelerator
from treadle.training.model_argument import as_model
from treadle.training.models.training_model import TrainingModel
from treadle.training.serve_result import DEFAULT_BATCHES, ServeResult, ServeRow
from treadle.training.serving import ServingPhase, ServingSetup, simulate_phase
from treadle.training.step_inputs import costs_of_rows, slow_links
from treadle.training.train_options import step_request


@checked(model=left_alone, fabrics=left_alone)
def serve(
    model: TrainingModel | Path | str,
    fabrics: FabricLike | Sequence[FabricLike],
    *,
    mesh: Mesh | str,
    gpu: Accelerator | Path | str,
    phase: str,
    batches: Sequence[int] = DEFAULT_BATCHES,
    schedules: Sequence[str] | str = ("treadle", "ring", "bound"),
    progress: Progress | None = None,
    **options: Unpack[TrainKeywords],
) -> ServeResult:
    """Simulate a phase of serving: reading a prompt, or writing a token.

    Parameters
    ----------
    model, fabrics, mesh, gpu, schedules, progress
        See `train`; axes of the mesh are dp, tp and ep.
    phase : {"prefill", "decode"}
        All tokens of a prompt at once, to the first token; or one token after `sequence` others.
    batches : sequence of int
        Sequences at once of each rank that has its own.
    **options
        Those of `train` that are about a forward pass.

    Raises
    ------
    TreadleError
        For malformed input, or an option of training only.

    Examples
    --------
    >>> from treadle import planning
    >>> box = {"mesh": "tp=8", "gpu": "h100", "schedules": "bound"}
    >>> found = planning.serve("gpt2-medium", "dgx_h100:1", phase="decode", **box)
    >>> found.rows[0].outcome
    <ServingOutcome 8.94e-05 s, 1.12e+04 s tokens per>
    """
    start = process_time()
    meant = known_name("phase", phase, ServingPhase)
    for name in _TRAINING_ONLY:
        if options.get(name) is not None:
            raise FormatError(f"{name} is of training steps; phase {meant} is one forward pass: leave it out")
    if not batches or min(batches) < 1:
        raise FormatError("batches: expected at least one, each at least 1")
    found, laid_out = as_model(model, samples=options.get("samples", False)), as_mesh(mesh)
    asked = step_request(found, laid_out, gpu, {**options, "batch": 1, "contention": 1.0})
    with under(Context(progress)):
        costs = costs_of_rows(fabrics, schedules, laid_out, asked, options)
    narrow, times = SERVED_WEIGHT_BYTES.get(asked.precision), asked.times
    if isinstance(times, RooflineTimes):
        times = replace(times, block_weight_bytes=narrow)
    rows = []
    for own in costs:
        for batch in batches:
            setup = ServingSetup(
                found,
                laid_out,
                asked.device,
                times,
                ServingPhase(meant),
                batch * _replicas(laid_out),
                asked.tokens,
                Fraction(asked.options.capacity_factor),
                weight_bytes=asked.options.weight_bytes,
                element_bytes=asked.options.element_bytes,
                block_weight_bytes=narrow,
            )
            outcome = simulate_phase(setup, own)
            fabric, name = own.topology.name, own.scheduler.name
            rows.append(ServeRow(fabric, name, own.summary, setup.sequences, outcome, own.model_summary))
    notes = [*asked.notes, *slow_links(costs)]
    if narrow is not None:
        notes.append(
            f"weights of blocks have {counted(narrow, 'byte')} in {asked.precision}; those of embedding and "
            f"head, activations, keys and values have {asked.options.element_bytes}"
        )
    seconds = process_time() - start
    return ServeResult(found, laid_out, ServingPhase(meant), tuple(rows), tuple(notes), seconds)


_TRAINING_ONLY = (
    *(
        "batch",
        "micro_batches",
        "interleave",
        "bucket_bytes",
        "prefetch",
        "reshard",
        "zero",
        "recompute",
        "fused_attention",
        "gradients",
    ),
    *("calibrate_s", "contention", "streams", "alltoall_overtakes", "context_exchange", "sequence_parallel"),
)


def _replicas(mesh: Mesh) -> int:
    """Ranks with sequences of their own."""
    size = 1
    for name, ranks in zip(mesh.axis_names, mesh.shape, strict=True):
        size *= ranks if name in ("dp", "ep") else 1
    return size
