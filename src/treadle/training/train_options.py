"""What may be asked of a simulated step, as keywords, and the values that they make."""

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
"""Of a weight in fp32, to which the optimizer adds: a copy where weights are kept in less."""
_MOST_FILE = 10**7
_MOST_TOKENS = 2**30
_MOST_CAPACITY = 1000


@dataclass(frozen=True)
class StepRequest:
    """What was asked for, resolved.

    Parameters
    ----------
    device : Accelerator
    precision : str
    times : RooflineTimes or MeasuredTimes
    sequences : int
    tokens : mapping of str to int
    options : TrainingOptions
    contention : ContentionChoice
    network : NetworkEfficiency
    notes : tuple of str
        What was assumed.
    """

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
    model: TrainingModel, mesh: Mesh, gpu: Accelerator | Path | str, asked: TrainKeywords
) -> StepRequest:
    """Resolve what was asked for; errors are those of `train`."""
    notes: list[str] = []
    device = as_accelerator(gpu)
    precision = _precision(asked.get("precision"), device, "precision")
    element_bytes = gradient_bytes = ELEMENT_BYTES[precision]
    if (gradients := asked.get("gradients")) is not None:
        gradient_bytes = ELEMENT_BYTES[known_name("precision", gradients, ELEMENT_BYTES)]
    contention = contention_of(asked.get("contention"), device.name)
    options = TrainingOptions(
        kappa=contention.kappa,
        micro_batches=asked.get("micro_batches", 1),
        interleave=asked.get("interleave", 1),
        bucket_bytes=asked.get("bucket_bytes"),
        prefetch=asked.get("prefetch", 1),
        reshard_after_forward=asked.get("reshard"),
        zero=asked.get("zero", 0),
        sequence_parallel=asked.get("sequence_parallel", True),
        context_exchange=_word(ContextExchange, asked.get("context_exchange", "gather"), "context exchange"),
        recompute=_word(Recompute, asked.get("recompute", "none"), "recompute"),
        has_fused_attention=asked.get("fused_attention", True),
        element_bytes=element_bytes,
        gradient_bytes=gradient_bytes,
        weight_bytes=element_bytes,
        optimizer_bytes=ADAM_MOMENT_BYTES if element_bytes == _MASTER_BYTES else ADAM_STATE_BYTES,
        capacity_factor=_capacity(asked.get("capacity_factor", 1)),
        alltoall_overtakes=asked.get("alltoall_overtakes", False),
        streams=_word(CommunicationStreams, asked.get("streams", "per-axis"), "streams"),
    )
    check_options_matter(model, mesh, options)
    tokens = _tokens(model, asked.get("sequence"), notes)
    return StepRequest(
        device,
        precision,
        _times(model, device, precision, asked),
        _batch(model, mesh, asked.get("batch"), options, notes),
        tokens,
        options,
        contention,
        as_network_efficiency(asked.get("network_efficiency")),
        tuple(notes),
    )


def _capacity(asked: float) -> Fraction:
    """Tokens sent to experts over tokens routed; a number that is one."""
    if not (isfinite(asked) and 0 < asked <= _MOST_CAPACITY):
        raise FormatError(f"--capacity-factor {asked}: expected a number above 0, at most {_MOST_CAPACITY}")
    return Fraction(str(asked))


def as_accelerator(gpu: Accelerator | Path | str) -> Accelerator:
    """A preset, a value, or what a TOML file describes."""
    if isinstance(gpu, Accelerator):
        return gpu
    if isinstance(gpu, str) and similarly_spelt(gpu, ACCELERATORS) is not None:
        return accelerator(gpu)
    if isinstance(gpu, Path) or Path(gpu).suffix == ".toml":
        with naming_file(gpu):
            return read_accelerator(read_input_string(gpu, _MOST_FILE))
    return accelerator(gpu)


def _precision(asked: str | None, device: Accelerator, what: str) -> str:
    if asked is not None:
        known = known_name("precision", asked, ELEMENT_BYTES)
        device.peak(known)
        return known
    found = next((one for one in ("bf16", "fp16", "fp32") if one in device.peak_flops), None)
    if found is None:
        raise FormatError(f"{what}: {device.name} has none of bf16, fp16 and fp32; name one")
    return found


_Word = TypeVar("_Word", bound=StrEnum)


def _word(kind: type[_Word], asked: str, what: str) -> _Word:
    return kind(known_name(what, asked, kind))


def _times(
    model: TrainingModel, device: Accelerator, precision: str, asked: TrainKeywords
) -> RooflineTimes | MeasuredTimes:
    path, efficiency = asked.get("layer_times"), asked.get("efficiency")
    if path is not None:
        for name in ("efficiency", "calibrate_s"):
            if asked.get(name) is not None:
                raise FormatError(
                    f"--layer-times are measured: --{name.replace('_s', '')} (of a roofline) does not apply; "
                    f"leave one of them out"
                )
        with naming_file(path):
            times = read_layer_times(read_input_string(path, _MOST_FILE, expected="layer times as CSV"))
            times.check(model)
        return times
    if efficiency is not None and asked.get("calibrate_s") is not None:
        raise FormatError("--efficiency is what --calibrate finds; leave one of them out")
    return replace(
        roofline_times(device, precision, efficiency),
        memory_efficiency=asked.get("memory_efficiency", MEMORY_EFFICIENCY),
        fused_attention=asked.get("fused_attention", True),
    )


def _tokens(
    model: TrainingModel, asked: int | str | Mapping[str, int] | None, notes: list[str]
) -> dict[str, int]:
    """Tokens of a sequence by stream; of samples one."""
    if model.unit == "sample":
        if asked is not None:
            raise FormatError(f"--sequence: {model.name} is trained on samples, which have no tokens")
        return {"": 1}
    streams = model.streams
    if asked is None:
        if not (own := model.default_tokens):
            raise FormatError(
                f"--sequence: {model.name} does not say how many tokens a sequence has; give it"
            )
        why = f", as {model.name} was made for"
        if own < model.max_tokens:
            why = f"; {model.name} takes up to {model.max_tokens}"
        notes.append(f"sequences of {own} tokens{why} (--sequence)")
        return dict.fromkeys(streams, own)
    if isinstance(asked, Mapping):
        found = {str(name): int(count) for name, count in asked.items()}
        if set(found) != set(streams):
            names = ", ".join(repr(name) for name in streams)
            raise FormatError(f"--sequence: expected tokens of the streams {names}, found {', '.join(found)}")
    else:
        parts = str(asked).split(",")
        if not all(part.strip().isascii() and part.strip().isdigit() and len(part) < 12 for part in parts):
            raise FormatError(
                f"--sequence {str(asked)[:40]!r}: expected a number of tokens up to {_MOST_TOKENS}, for each "
                f"stream of {model.name}"
            )
        if len(parts) not in (1, len(streams)):
            raise FormatError(
                f"--sequence {str(asked)[:40]}: {model.name} has {counted(len(streams), 'stream')} of "
                f"tokens, found {counted(len(parts), 'number')}"
            )
        counts = [int(part) for part in parts] * (len(streams) if len(parts) == 1 else 1)
        found = dict(zip(streams, counts, strict=True))
    if min(found.values()) < 1 or max(found.values()) > _MOST_TOKENS:
        raise FormatError(f"--sequence {str(asked)[:40]}: expected from 1 to {_MOST_TOKENS} tokens")
    return found


def _batch(
    model: TrainingModel, mesh: Mesh, asked: int | None, options: TrainingOptions, notes: list[str]
) -> int:
    """Sequences of a step on all ranks together."""
    if asked is not None:
        if asked < 1:
            raise FormatError(f"--batch {asked}: expected at least 1")
        return asked
    least = ParallelLayout(mesh).replicas * options.micro_batches
    if model.unit == "sample":
        raise TreadleError(f"--batch: {model.name} is trained on samples; say how many a step has")
    notes.append(f"batch of {least} sequences: one for each replica and micro-batch (--batch)")
    return least


def check_options_matter(model: TrainingModel, mesh: Mesh, options: TrainingOptions) -> None:
    """Refuses what is asked of a form of parallelism that the mesh lacks, or of works that the model lacks.

    Raises
    ------
    FormatError
        Naming the first such option and what it needs.
    """
    layout = ParallelLayout(mesh)
    has_buckets = layout.size("fsdp") == 1 and any(layout.replica_axes(expert=one) for one in (False, True))
    is_exchanging = layout.size("ep") > 1
    attends = any(work.kind is WorkKind.ATTENTION for layer in model.layers for work in layer.works)
    asked = (
        ("--prefetch", options.prefetch != 1, layout.size("fsdp") > 1, "an axis fsdp"),
        ("--reshard", options.reshard_after_forward is not None, layout.size("fsdp") > 1, "an axis fsdp"),
        ("--no-sequence-parallel", not options.sequence_parallel, layout.size("tp") > 1, "an axis tp"),
        (
            "--context-exchange ring",
            options.context_exchange is ContextExchange.RING,
            layout.size("cp") > 1,
            "an axis cp",
        ),
        ("--capacity-factor", options.capacity_factor != 1, is_exchanging, "an axis ep"),
        ("--alltoall-overtakes", options.alltoall_overtakes, is_exchanging, "an axis ep"),
        ("--zero", options.zero > 0, has_buckets, "replicas (dp, cp or ep) without fsdp"),
        (
            "--bucket",
            options.bucket_bytes is not None,
            has_buckets,
            "replicas (dp, cp or ep) without fsdp",
        ),
    )
    for name, is_asked, matters, need in asked:
        if is_asked and not matters:
            raise FormatError(f"{name}: it needs {need}, which mesh {mesh.notation} lacks; leave it out")
    if options.recompute is Recompute.ATTENTION and not attends:
        raise FormatError(f"--recompute attention: {model.name} has no attention: leave it out, or say full")
    if not options.has_fused_attention and not attends:
        raise FormatError(f"--no-fused-attention: {model.name} has no attention: leave it out")
    if options.recompute is Recompute.ATTENTION and options.has_fused_attention:
        raise FormatError(
            "--recompute attention: a fused kernel keeps no scores and computes them again by itself; leave "
            "it out, or say --no-fused-attention"
        )
