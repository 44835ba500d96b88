"""Options of a simulated step as keywords, and the values that they define."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from math import isfinite
from pathlib import Path
from typing import TypeVar

from treadle.errors import FormatError, TreadleError
from treadle.input_files import naming_file, read_input_string
from treadle.options.keywords import TrainKeywords
from treadle.schedules.mesh import Mesh
from treadle.spelling import counted, known_name, similarly_spelt
from treadle.training.compute_times import (
    MEMORY_EFFICIENCY,
    MeasuredTimes,
    RooflineTimes,
    read_layer_times,
)
from treadle.training.device_memory import ADAM_MOMENT_BYTES, ADAM_STATE_BYTES
from treadle.training.devices import ACCELERATORS, ELEMENT_BYTES, Accelerator, accelerator, read_accelerator
from treadle.training.forms.axes import ParallelLayout
from treadle.training.models.model_layer import WorkKind
from treadle.training.models.training_model import TrainingModel
from treadle.training.prices.contention_presets import ContentionChoice, contention_of
from treadle.training.prices.efficiency_presets import roofline_times
from treadle.training.prices.measured_network import NetworkEfficiency, as_network_efficiency
from treadle.training.training_options import (
    CommunicationStreams,
    ContextExchange,
    Recompute,
    TrainingOptions,
)

_MASTER_BYTES = 4
"""Bytes of an fp32 master weight: a separate copy if weights are stored in less."""
_MOST_FILE = 10**7
_MOST_TOKENS = 2**30
_MOST_CAPACITY = 1000


@dataclass(frozen=True)
class StepRequest:
    """Resolved options; `notes` are the assumptions."""

    device: Accelerator
    precision: str
    times: RooflineTimes | MeasuredTimes
    sequences: int
    tokens: Mapping[str, int]
    options: TrainingOptions
    contention: ContentionChoice
    network: NetworkEfficiency
    notes: tuple[str, ...]


def step_request(
    model: TrainingModel, mesh: Mesh, gpu: Accelerator | Path | str, given: TrainKeywords
) -> StepRequest:
    """Resolve the given options; errors are those of `train`."""
    notes: list[str] = []
    device = as_accelerator(gpu)
    precision = _precision(given.get("precision"), device)
    element_bytes = gradient_bytes = ELEMENT_BYTES[precision]
    if (gradients := given.get("gradients")) is not None:
        gradient_bytes = ELEMENT_BYTES[known_name("precision", gradients, ELEMENT_BYTES)]
    contention = contention_of(given.get("contention"), device.name)
    options = TrainingOptions(
        kappa=contention.kappa,
        micro_batches=given.get("micro_batches", 1),
        interleave=given.get("interleave", 1),
        bucket_bytes=given.get("bucket_bytes"),
        prefetch=given.get("prefetch", 1),
        reshard_after_forward=given.get("reshard"),
        zero=given.get("zero", 0),
        sequence_parallel=given.get("sequence_parallel", True),
        context_exchange=_word(ContextExchange, given.get("context_exchange", "gather"), "context exchange"),
        recompute=_word(Recompute, given.get("recompute", "none"), "recompute"),
        has_fused_attention=given.get("fused_attention", True),
        element_bytes=element_bytes,
        gradient_bytes=gradient_bytes,
        weight_bytes=element_bytes,
        optimizer_bytes=ADAM_MOMENT_BYTES if element_bytes == _MASTER_BYTES else ADAM_STATE_BYTES,
        capacity_factor=_capacity(given.get("capacity_factor", 1)),
        alltoall_overtakes=given.get("alltoall_overtakes", False),
        streams=_word(CommunicationStreams, given.get("streams", "per-axis"), "streams"),
    )
    check_options_matter(model, mesh, options)
    tokens = _tokens(model, given.get("sequence"), notes)
    return StepRequest(
        device,
        precision,
        _times(model, device, precision, given),
        _batch(model, mesh, given.get("batch"), options, notes),
        tokens,
        options,
        contention,
        as_network_efficiency(given.get("network_efficiency")),
        tuple(notes),
    )


def _capacity(given: float) -> Fraction:
    """Parse the number of tokens sent to experts over tokens routed."""
    if not (isfinite(given) and 0 < given <= _MOST_CAPACITY):
        raise FormatError(f"--capacity-factor {given}: expected a number above 0, at most {_MOST_CAPACITY}")
    return Fraction(str(given))


def as_accelerator(gpu: Accelerator | Path | str) -> Accelerator:
    """Return an accelerator from a value, the name of a preset, or a TOML file."""
    if isinstance(gpu, Accelerator):
        return gpu
    if isinstance(gpu, str) and similarly_spelt(gpu, ACCELERATORS) is not None:
        return accelerator(gpu)
    if isinstance(gpu, Path) or Path(gpu).suffix == ".toml":
        with naming_file(gpu):
            return read_accelerator(read_input_string(gpu, _MOST_FILE))
    return accelerator(gpu)


def _precision(given: str | None, device: Accelerator) -> str:
    if given is not None:
        known = known_name("precision", given, ELEMENT_BYTES)
        device.peak(known)
        return known
    found = next((one for one in ("bf16", "fp16", "fp32") if one in device.peak_flops), None)
    if found is None:
        raise FormatError(f"precision: {device.name} has none of bf16, fp16 and fp32; name one")
    return found


_Word = TypeVar("_Word", bound=StrEnum)


def _word(kind: type[_Word], given: str, what: str) -> _Word:
    return kind(known_name(what, given, kind))


def _times(
    model: TrainingModel, device: Accelerator, precision: str, given: TrainKeywords
) -> RooflineTimes | MeasuredTimes:
    path, efficiency = given.get("layer_times"), given.get("efficiency")
    if path is not None:
        for name in ("efficiency", "calibrate_s"):
            if given.get(name) is not None:
                raise FormatError(
                    f"--layer-times are measured: --{name.replace('_s', '')} (of a roofline) does not apply; "
                    f"leave one of them out"
                )
        with naming_file(path):
            times = read_layer_times(read_input_string(path, _MOST_FILE, expected="layer times as CSV"))
            times.check(model)
        return times
    if efficiency is not None and given.get("calibrate_s") is not None:
        raise FormatError("--efficiency is what --calibrate finds; leave one of them out")
    return replace(
        roofline_times(device, precision, efficiency),
        memory_efficiency=given.get("memory_efficiency", MEMORY_EFFICIENCY),
        fused_attention=given.get("fused_attention", True),
    )


def _tokens(
    model: TrainingModel, given: int | str | Mapping[str, int] | None, notes: list[str]
) -> dict[str, int]:
    """Return the tokens of a sequence by stream, 1 for samples."""
    if model.unit == "sample":
        if given is not None:
            raise FormatError(f"--sequence: {model.name} is trained on samples, which have no tokens")
        return {"": 1}
    streams = model.streams
    if given is None:
        if not (own := model.default_tokens):
            raise FormatError(
                f"--sequence: {model.name} does not define the number of tokens of a sequence; give it"
            )
        why = f", as {model.name} was made for"
        if own < model.max_tokens:
            why = f"; {model.name} takes up to {model.max_tokens}"
        notes.append(f"sequences of {own} tokens{why} (--sequence)")
        return dict.fromkeys(streams, own)
    if isinstance(given, Mapping):
        found = {str(name): int(count) for name, count in given.items()}
        if set(found) != set(streams):
            names = ", ".join(repr(name) for name in streams)
            raise FormatError(f"--sequence: expected tokens of the streams {names}, found {', '.join(found)}")
    else:
        parts = str(given).split(",")
        if not all(part.strip().isascii() and part.strip().isdigit() and len(part) < 12 for part in parts):
            raise FormatError(
                f"--sequence {str(given)[:40]!r}: expected a number of tokens up to {_MOST_TOKENS}, for each "
                f"stream of {model.name}"
            )
        if len(parts) not in (1, len(streams)):
            raise FormatError(
                f"--sequence {str(given)[:40]}: {model.name} has {counted(len(streams), 'stream')} of "
                f"tokens, found {counted(len(parts), 'number')}"
            )
        counts = [int(part) for part in parts] * (len(streams) if len(parts) == 1 else 1)
        found = dict(zip(streams, counts, strict=True))
    if min(found.values()) < 1 or max(found.values()) > _MOST_TOKENS:
        raise FormatError(f"--sequence {str(given)[:40]}: expected from 1 to {_MOST_TOKENS} tokens")
    return found


def _batch(
    model: TrainingModel, mesh: Mesh, given: int | None, options: TrainingOptions, notes: list[str]
) -> int:
    """Return the sequences of a step on all ranks together."""
    if given is not None:
        if given < 1:
            raise FormatError(f"--batch {given}: expected at least 1")
        return given
    least = ParallelLayout(mesh).replicas * options.micro_batches
    if model.unit == "sample":
        raise TreadleError(
            f"--batch: {model.name} is trained on samples; give the number of samples of a step"
        )
    notes.append(f"batch of {least} sequences: one for each replica and micro-batch (--batch)")
    return least


def check_options_matter(model: TrainingModel, mesh: Mesh, options: TrainingOptions) -> None:
    """Raise FormatError for the first option without effect on this mesh or model."""
    layout = ParallelLayout(mesh)
    attends = any(work.kind is WorkKind.ATTENTION for layer in model.layers for work in layer.works)
    ring, replicas = options.context_exchange is ContextExchange.RING, "replicas (dp, cp or ep) without fsdp"
    for name, is_given, axis in (
        ("--prefetch", options.prefetch != 1, "fsdp"),
        ("--reshard", options.reshard_after_forward is not None, "fsdp"),
        ("--no-sequence-parallel", not options.sequence_parallel, "tp"),
        ("--context-exchange ring", ring, "cp"),
        ("--capacity-factor", options.capacity_factor != 1, "ep"),
        ("--alltoall-overtakes", options.alltoall_overtakes, "ep"),
        ("--zero", options.zero > 0, ""),
        ("--bucket", options.bucket_bytes is not None, ""),
    ):
        if is_given and not (layout.size(axis) > 1 if axis else layout.has_buckets):
            need = f"an axis {axis}" if axis else replicas
            raise FormatError(f"{name}: it needs {need}, which mesh {mesh.notation} lacks; leave it out")
    if options.recompute is Recompute.ATTENTION and not attends:
        raise FormatError(f"--recompute attention: {model.name} has no attention: leave it out, or use full")
    if not options.has_fused_attention and not attends:
        raise FormatError(f"--no-fused-attention: {model.name} has no attention: leave it out")
    if options.recompute is Recompute.ATTENTION and options.has_fused_attention:
        raise FormatError(
            "--recompute attention: a fused kernel saves no scores and recomputes them by itself; leave it "
            "out, or use --no-fused-attention"
        )
