"""Simulate a step of training on fabrics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from time import process_time
from typing import Unpack

from treadle.checking import checked, left_alone
from treadle.context import Context, Progress, context, under
from treadle.inputs.fabrics_and_plans import FabricLike
from treadle.inputs.meshes import as_mesh
from treadle.options.keywords import TrainKeywords
from treadle.schedules.mesh import Mesh
from treadle.training.compute_times import RooflineTimes
from treadle.training.device_memory import missing_bytes
from treadle.training.devices import Accelerator
from treadle.training.fitting_settings import fitting_settings
from treadle.training.forms.axes import ParallelLayout
from treadle.training.model_argument import as_model
from treadle.training.models.training_model import TrainingModel
from treadle.training.prices.calibrated_efficiency import CalibratedEfficiency, calibrated_efficiency
from treadle.training.prices.fabric_costs import FabricCosts
from treadle.training.step import TrainingSetup, simulate_step
from treadle.training.step_inputs import costs_of_rows, slow_links
from treadle.training.train_options import step_request
from treadle.training.train_result import DEFAULT_SCHEDULES, TrainResult, TrainRow
from treadle.training.training_options import CommunicationStreams

_BASELINES = ("ring", "tree")
_SHOWN_DIFFERENCE = 1e-3
"""Smallest relative difference between steps that a report shows."""


@checked(model=left_alone, fabrics=left_alone, options=left_alone)
def train(
    model: TrainingModel | Path | str,
    fabrics: FabricLike | Sequence[FabricLike],
    *,
    mesh: Mesh | str,
    gpu: Accelerator | Path | str,
    schedules: Sequence[str] | str = DEFAULT_SCHEDULES,
    progress: Progress | None = None,
    **options: Unpack[TrainKeywords],
) -> TrainResult:
    """Simulate a step of training: compute and communication streams of a rank, on fabrics by schedules.

    Parameters
    ----------
    model : TrainingModel, Path or str
        A value, a name (``llama-3-8b``), a Hugging Face ``config.json``, or a table of layers (CSV or TOML).
    fabrics : fabric or sequence of fabrics
        What `bound` takes; each with as many compute nodes as the mesh has ranks.
    mesh : Mesh or str
        ``fsdp=16,tp=8``. Axes: dp (replicas), fsdp (sharded weights; with dp: HSDP), tp, cp (context), ep
        (experts), pp (stages). The last axis is the fastest.
    gpu : Accelerator, Path or str
        A preset (``a100``, ``h100``), or a TOML file.
    schedules : str or sequence of str
        See `step_costs`.
    progress : callable, optional
    batch : int, optional
        Sequences (or samples) of a step, on all ranks together; default one a replica and micro-batch.
    sequence : int, str or mapping, optional
        Tokens of a sequence; of several streams ``"512,114"``. Default: those that the model was made for.
    micro_batches, interleave : int
        Micro-batches of a replica's batch, and virtual stages per pipeline stage.
    bucket_bytes : int, optional
        Of gradients summed by allreduce; default the best of 1, 10, 100 MB and 1 GB.
    prefetch : int
        Layers whose weights are gathered ahead.
    reshard : bool, optional
        Weights are gathered again for the backward pass; default: unless there is a pipeline.
    zero : {0, 1, 2}
        Stage of ZeRO over replicas: shard the optimizer's state, or gradients too; stage 3 is an axis fsdp.
    sequence_parallel : bool
    context_exchange : {"gather", "ring"}
    recompute : {"none", "attention", "full"}
        In the backward pass; attention only where it is not fused.
    fused_attention : bool
        A kernel that keeps no scores and computes them again by itself; default yes.
    precision, gradients : str, optional
        Of products and activations (default bf16), and of the gradients that are reduced (default as these).
    layer_times : Path or str, optional
        CSV of measured seconds: layer,forward_s,backward_s.
    efficiency, memory_efficiency : float, optional
        Shares of the peak (of products and attention) and of the memory's bandwidth; default the preset of
        device and precision, and .8. A memory efficiency of None: bytes cost nothing.
    calibrate_s : float, optional
        Seconds of a measured step on the first fabric by the first schedule: finds the efficiency.
    contention : str or float, optional
        A preset of `contention_presets.PRESETS`, or kappa from 1 to 2; default the device's preset.
    network_efficiency : NetworkEfficiency, float, str or sequence of str, optional
        A share of all modelled rates, or ``KIND=FILE`` with measured times.
    streams : {"per-axis", "one"}
        Communication along different axes concurrently, as with a communicator per axis, or one at a time.
    capacity_factor : float
        Tokens sent to experts over tokens routed.
    alltoall_overtakes : bool
        An all-to-all goes before collectives that have not begun.
    samples : bool
        The layers of a table that `model` names count per sample, not per token.
    alpha_s, cost_model, forward, simulates, file_format
        See `step_costs`.

    Raises
    ------
    TreadleError
        For malformed input; InfeasibleError if ranks of a group do not reach each other.

    Notes
    -----
    A step that needs more memory than the device has is simulated all the same; `TrainResult.fits` is False
    then, and `alternatives` names settings that fit.

    MFU is model FLOPs (forward and backward, attention scores and head counted, nothing recomputed) over
    peak x ranks x iteration.

    Examples
    --------
    >>> import treadle
    >>> found = treadle.train("llama-3-8b", "dgx_h100:1", mesh="fsdp=8", gpu="h100", schedules="bound")
    >>> f"{found.rows[0].outcome.mfu:.2f}"
    '0.45'
    """
    start = process_time()
    with under(Context(progress)):
        found_model, meant = as_model(model, samples=options.get("samples", False)), as_mesh(mesh)
        ParallelLayout(meant)
        asked = step_request(found_model, meant, gpu, options)
        costs = costs_of_rows(fabrics, schedules, meant, asked, options)
        setup = TrainingSetup(
            found_model,
            meant,
            asked.device,
            asked.precision,
            asked.times,
            asked.sequences,
            asked.tokens,
            asked.options,
        )
        calibration = None
        if (measured_s := options.get("calibrate_s")) is not None:
            calibration, setup = _calibrated(setup, measured_s, costs[0])
        rows = []
        for place, own in enumerate(costs):
            context().report("steps", place, len(costs))
            outcome = simulate_step(setup, own)
            fabric, name = own.topology.name, own.scheduler.name
            rows.append(
                TrainRow(fabric, name, outcome, own.summary, own.is_bound, own.priced, own.model_summary)
            )
        first = rows[0].outcome
        is_short = missing_bytes(first.memory, asked.device.memory_bytes)
        notes = [*asked.notes, *_held_back(setup), *slow_links(costs), *_quicker_baselines(rows)]
        if setup.precision == "fp8":
            width = setup.options.weight_bytes
            notes.append(f"fp8 is for operands of products: weights and activations stay in {width} bytes")
        return TrainResult(
            found_model,
            meant,
            setup,
            tuple(rows),
            asked.contention,
            asked.network.words,
            calibration,
            tuple(notes),
            process_time() - start,
            fitting_settings(first.setup) if is_short else (),
        )


def _held_back(setup: TrainingSetup) -> Iterator[str]:
    """On one stream layers that wait for small collectives of their own wait for large ones issued before."""
    wide = {name for name, size in zip(setup.mesh.axis_names, setup.mesh.shape, strict=True) if size > 1}
    inside, beside = wide & {"tp", "cp"}, wide & {"dp", "fsdp", "ep"}
    if inside and beside and setup.options.streams is CommunicationStreams.ONE:
        yield (
            f"one communication at a time: those of {', '.join(sorted(inside))} wait behind those of "
            f"{', '.join(sorted(beside))} (--streams per-axis)"
        )


def _calibrated(
    setup: TrainingSetup, measured_s: float, costs: FabricCosts
) -> tuple[CalibratedEfficiency, TrainingSetup]:
    """The efficiency at which this row takes as long as it was measured, and the setup with it."""
    times = setup.times
    assert isinstance(times, RooflineTimes), "layer times have no efficiency"

    def at(efficiency: float) -> TrainingSetup:
        return replace(setup, times=times.with_efficiency(efficiency))

    context().announce("calibration")
    row = f"{costs.topology.name}, {costs.scheduler.name}"
    found = calibrated_efficiency(
        lambda share: float(simulate_step(at(share), costs).iteration_s), measured_s, row
    )
    return found, at(found.efficiency)


def _quicker_baselines(rows: Sequence[TrainRow]) -> list[str]:
    """Return notes about steps that are shorter with a baseline than with Treadle's schedules."""
    own = {row.fabric: float(row.outcome.iteration_s) for row in rows if row.schedule == "treadle"}
    found = []
    for row in rows:
        if row.schedule not in _BASELINES or row.fabric not in own:
            continue
        less = 1 - float(row.outcome.iteration_s) / own[row.fabric]
        if less > _SHOWN_DIFFERENCE:
            found.append(
                f"{row.fabric}: a step takes {less:.1%} less by {row.schedule} than by Treadle's schedules; "
                f"the rate of those is optimal, but at these sizes latency and chunks count as well"
            )
    return found
