"""Compute times of a device: by a roofline with an efficiency, or measured layer by layer.

Roofline: an operation takes the longer of its FLOPs at `efficiency` times the peak and of its bytes at
`memory_efficiency` times the bandwidth (Williams, Waterman, Patterson 2009). Products and attention have
separate efficiencies, from a preset or from the user. Calibration scales both by one factor. No time grows
with this factor, so bisection finds it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from fractions import Fraction
from math import isfinite
from typing import Protocol

from treadle.errors import FormatError, TreadleError
from treadle.notebook import displayed, own_fields
from treadle.training.csv_rows import csv_rows
from treadle.training.devices import ELEMENT_BYTES, Accelerator
from treadle.training.models.model_layer import ModelLayer, Work, WorkKind
from treadle.training.models.training_model import TrainingModel

ADAM_BYTES_PER_PARAMETER = 30
"""Bytes that Adam moves: fp32 gradient read; fp32 master, moments read and written; bf16 weight written."""
ADAM_BYTES_PER_FP32_PARAMETER = 28
"""The same if the weight is its own master, so that no copy is written."""
FUSED_ATTENTION_BACKWARD = 2.5
"""FLOPs of a flash kernel, backward over forward: five products for two, one recomputed (Dao 2023)."""
MEMORY_EFFICIENCY = 0.8
"""Default share of the memory's bandwidth."""
_PLAIN_BACKWARD = 2.0
_MOST_ROWS = 100_000
_MOST_TEXT = 10_000_000


@displayed(own_fields)
@dataclass(frozen=True)
class LocalWork:
    """One device's part of a micro-batch.

    Parameters
    ----------
    sequences : int or Fraction
        Sequences of the micro-batch that this device takes part in.
    tokens : mapping of stream to int
        Tokens of an entire sequence; for samples {"": 1}.
    tp, cp, ep : int
        Ranks of tensor, context and expert parallelism. A device has 1/cp of each sequence's tokens, 1/tp of
        split works, and 1/ep of the experts' weights (but not less of their work: under even load, as many
        tokens arrive as leave).
    sequence_parallel : bool
        Works that do not split have 1/tp of the tokens.
    is_decoding : bool
        One token per sequence is computed, after `tokens` that are cached.
    """

    sequences: int | Fraction
    tokens: Mapping[str, int]
    tp: int = 1
    cp: int = 1
    ep: int = 1
    sequence_parallel: bool = False
    is_decoding: bool = False

    def tokens_here(self, stream: str) -> Fraction:
        """Return the tokens of a stream on this device in a micro-batch, before tensor parallelism."""
        return Fraction(self.sequences) * (1 if self.is_decoding else Fraction(self.tokens[stream], self.cp))


@dataclass(frozen=True)
class WorkTime:
    """Seconds of an operation in one micro-batch."""

    forward_s: float
    backward_s: float


class ComputeTimes(Protocol):
    """Source of compute times."""

    @property
    def summary(self) -> str:
        """The source, for reports."""

    def work_times(self, layer: ModelLayer, local: LocalWork) -> tuple[WorkTime, ...]:
        """Return the time of each of the layer's works, in their order."""

    def optimizer_s(self, parameters: float) -> float:
        """Return the seconds of the optimizer's step over this device's number of parameters."""


@displayed(own_fields)
@dataclass(frozen=True)
class LayerTimes:
    """Seconds of a layer in one micro-batch: before its exchanges, and of its experts.

    Parameters
    ----------
    forward_s, backward_s : float
        All works outside experts, including attention.
    expert_forward_s, expert_backward_s : float
        The experts' works.
    attention_forward_s, attention_backward_s : float
        The attention within the first two: the part that recomputing attention repeats, and that can hide a
        ring of context parallelism.
    """

    forward_s: float
    backward_s: float
    expert_forward_s: float = 0.0
    expert_backward_s: float = 0.0
    attention_forward_s: float = 0.0
    attention_backward_s: float = 0.0


def layer_times(times: ComputeTimes, layer: ModelLayer, local: LocalWork) -> LayerTimes:
    """Return the seconds of a layer's parts, without recomputation."""
    found = list(zip(layer.works, times.work_times(layer, local), strict=True))
    dense = [time for work, time in found if not work.expert]
    experts = [time for work, time in found if work.expert]
    attention = [time for work, time in found if work.kind is WorkKind.ATTENTION]
    sums: list[float] = []
    for part in (dense, experts, attention):
        sums += sum(time.forward_s for time in part), sum(time.backward_s for time in part)
    return LayerTimes(*sums)


@displayed(own_fields)
@dataclass(frozen=True)
class RooflineTimes:
    """Compute times by a roofline.

    Parameters
    ----------
    device : Accelerator
    precision : str
        Precision of matrix products and attention, one that the device supports.
    efficiency : float
        Share of the peak that matrix products reach, above 0 and at most 1.
    memory_efficiency : float or None
        Share of the memory's bandwidth that all other operations reach; None: bytes cost nothing, and the
        efficiency represents the entire step.
    kernel_s : float
        Additional seconds of each operation to launch its kernels; twice that in the backward pass.
    fused_attention : bool
        A flash kernel skips masked scores, and its backward pass computes the scores again. Otherwise masked
        scores are computed too, by products, and score matrices pass through the memory.
    block_weight_bytes : int, optional
        Bytes of a weight of blocks (layers that leave keys and values) in memory; default those of all
        elements.
    attention_efficiency : float, optional
        Share of the same peak that a flash kernel reaches; default that of products.
    source : str
        Source of the efficiencies, for reports; "" if they are given.

    Raises
    ------
    TreadleError
        For shares outside (0, 1], or a precision that the device does not support.
    """

    device: Accelerator
    precision: str
    efficiency: float
    memory_efficiency: float | None = MEMORY_EFFICIENCY
    kernel_s: float = 0.0
    fused_attention: bool = True
    block_weight_bytes: int | None = None
    attention_efficiency: float | None = None
    source: str = ""

    def __post_init__(self) -> None:
        self.device.peak(self.precision)
        for name in ("efficiency", "memory_efficiency", "attention_efficiency"):
            share, name = getattr(self, name), name.replace("_", " ")
            if share is not None and not 0 < share <= 1:
                raise TreadleError(f"{name} {share}: expected a share of the peak, above 0 and at most 1")
        if not 0 <= self.kernel_s < 1:
            raise TreadleError(
                f"kernel_s {self.kernel_s}: expected seconds of one launch, 0 or more and below 1"
            )

    @property
    def summary(self) -> str:
        """The assumptions, for reports."""
        share, attention = self.memory_efficiency, self.attention_efficiency
        rest = "" if share is None else f", {share:.3g} of its memory's bandwidth"
        if attention is None:
            return f"roofline: {self.efficiency:.3g} of {self.device.name}'s {self.precision} peak{rest}"
        source = f"\n{self.source}" if self.source else ""
        products, attends = (f"{one:.1%}" for one in (self.efficiency, attention))
        return (
            f"roofline: {self.device.name} {self.precision}: products {products}, attention {attends} of the "
            f"peak{rest}{source}"
        )

    def with_efficiency(self, efficiency: float) -> RooflineTimes:
        """Return times with another share of the peak and proportional attention, for calibration."""
        attention = self.attention_efficiency
        if attention is not None:
            attention = min(1.0, attention * efficiency / self.efficiency)
        return replace(self, efficiency=efficiency, attention_efficiency=attention, source="")

    @property
    def attention_flops_per_s(self) -> float:
        """FLOP/s that attention reaches, by a flash kernel or by plain products."""
        share = self.attention_efficiency if self.fused_attention else None
        return self.device.peak(self.precision) * (self.efficiency if share is None else share)

    def work_times(self, layer: ModelLayer, local: LocalWork) -> tuple[WorkTime, ...]:
        """Return the seconds of each of the layer's works, in their order."""
        return tuple(self._work_time(layer, work, local) for work in layer.works)

    def _work_time(self, layer: ModelLayer, work: Work, local: LocalWork) -> WorkTime:
        width = ELEMENT_BYTES[self.precision]
        shards = local.tp if work.split or local.sequence_parallel else 1
        tokens = float(local.tokens_here(work.stream or layer.stream)) / shards
        weights = work.weight_elements / (local.tp if work.split else 1)
        if work.expert:
            # experts without tokens are not read, which matters when few tokens are decoded
            visits = tokens * shards * layer.top_k * local.ep
            weights *= min(1.0, visits / layer.experts) / local.ep
        if self.block_weight_bytes is not None and layer.cache_elements:
            weights *= self.block_weight_bytes / width
        moved = tokens * (work.moved_elements + local.is_decoding * work.moved_decoding)
        moved += tokens * shards * work.moved_whole
        score_forward = score_backward = 0.0
        flops = tokens * work.flops
        if work.attended is not None:
            seen = local.tokens[layer.attended_stream(work)]
            # context tokens whose scores are computed per token, and those whose keys come from a cache
            context, cached = float(work.attended.mean(seen) if self.fused_attention else seen), 0.0
            if local.is_decoding:
                context = cached = work.attended.last(seen) / local.cp
            per_context = (local.is_decoding and work.flops_per_cached) or work.flops_per_context
            flops += tokens * per_context * context
            copies = shards / min(shards, layer.kv_pieces)  # further ranks read the same heads
            moved += tokens * work.moved_per_context * cached * copies
            if not (self.fused_attention or local.is_decoding):
                score_forward, score_backward = (tokens * context * float(one) for one in work.score_elements)
        is_attention = work.kind is WorkKind.ATTENTION
        forward_s = self.seconds(flops, width * (moved + weights + score_forward), is_attention)
        # the gradients of inputs and of weights each take the forward work; weight gradients are also written
        factor = _PLAIN_BACKWARD
        if is_attention and self.fused_attention:
            factor = FUSED_ATTENTION_BACKWARD
        back = 2 * moved if work.moved_backward is None else tokens * work.moved_backward
        backward_bytes = width * (back + 2 * weights + score_backward)
        backward_s = self.seconds(factor * flops, backward_bytes, is_attention)
        return WorkTime(forward_s + self.kernel_s, backward_s + 2 * self.kernel_s)

    def seconds(self, flops: float, moved_bytes: float, is_attention: bool = False) -> float:
        """Return the seconds of one operation without its launch."""
        products = self.device.peak(self.precision) * self.efficiency
        arithmetic = flops / (self.attention_flops_per_s if is_attention else products)
        if self.memory_efficiency is None:
            return arithmetic
        memory = moved_bytes / (self.device.memory_bytes_per_s * self.memory_efficiency)
        # Casts to fp8 pass over the operands of a product before it runs: they read 2 bytes and write 1, and
        # 1 more transposed, which is about as much as the product itself moves.
        has_casts = self.precision == "fp8" and not is_attention
        return arithmetic + memory if has_casts else max(arithmetic, memory)

    def optimizer_s(self, parameters: float) -> float:
        """Return the seconds of a step of Adam, which the memory limits."""
        if self.memory_efficiency is None:
            return 0.0
        is_master = ELEMENT_BYTES[self.precision] == ELEMENT_BYTES["fp32"]
        moved = ADAM_BYTES_PER_FP32_PARAMETER if is_master else ADAM_BYTES_PER_PARAMETER
        return parameters * moved / (self.device.memory_bytes_per_s * self.memory_efficiency)


@dataclass(frozen=True)
class MeasuredLayer:
    """Seconds of layers whose names match a pattern, per micro-batch, for a device's number of tokens."""

    pattern: str
    forward_s: float
    backward_s: float
    tokens: int = 0


@dataclass(frozen=True)
class MeasuredTimes:
    """Measured times of layers.

    Parameters
    ----------
    rows : tuple of MeasuredLayer
        The first match applies. Its seconds are those of the entire layer and are divided among its works by
        FLOPs. A row with a number of tokens is scaled to those of the micro-batch; any other row holds for
        the device's part of a micro-batch.
    optimizer_seconds : float
        Seconds of the optimizer's step.
    """

    rows: tuple[MeasuredLayer, ...]
    optimizer_seconds: float = 0.0

    @property
    def summary(self) -> str:
        """The source, for reports."""
        return f"measured: {len(self.rows)} rows of layer times"

    def check(self, model: TrainingModel) -> None:
        """Raise FormatError for the first layer without a row, or row without a layer."""
        for layer in model.layers:
            self._row(layer)
        for row in self.rows:
            if not any(fnmatchcase(layer.name, row.pattern) for layer in model.layers):
                names = ", ".join(layer.name for layer in model.layers[:3])
                raise FormatError(
                    f"layer times: no layer of {model.name} is called {row.pattern!r}: {names}, ..."
                )

    def _row(self, layer: ModelLayer) -> MeasuredLayer:
        for row in self.rows:
            if fnmatchcase(layer.name, row.pattern):
                return row
        raise FormatError(f"layer times: no row for the layer {layer.name!r}; * matches any characters")

    def work_times(self, layer: ModelLayer, local: LocalWork) -> tuple[WorkTime, ...]:
        """Return the layer's seconds, divided among its works by FLOPs (evenly if it has none)."""
        row = self._row(layer)
        scale = float(local.tokens_here(layer.stream)) / row.tokens if row.tokens else 1.0
        flops = []
        for work in layer.works:
            context = local.tokens[layer.attended_stream(work)] if work.attended else 0
            flops.append(local.tokens_here(work.stream or layer.stream) * work.flops_at(context))
        total = sum(flops)
        shares = [float(one / total) if total else 1 / len(flops) for one in flops]
        return tuple(WorkTime(row.forward_s * scale * one, row.backward_s * scale * one) for one in shares)

    def optimizer_s(self, parameters: float) -> float:
        """Return the given seconds of the optimizer's step."""
        del parameters
        return self.optimizer_seconds


_COLUMNS = ("layer", "forward_s", "backward_s", "tokens")


def read_layer_times(text: str) -> MeasuredTimes:
    """Parse layer times from CSV with the columns layer, forward_s, backward_s and optionally tokens.

    Raises
    ------
    FormatError
        With its line: for missing or unknown columns, and invalid numbers.

    Examples
    --------
    >>> read_layer_times("layer,forward_s,backward_s\\nblock *,1e-3,2e-3\\n").rows[0].backward_s
    0.002
    """
    if len(text) > _MOST_TEXT:
        raise FormatError(f"layer times: expected at most {_MOST_TEXT} characters, found {len(text)}")
    rows = []
    for number, row in csv_rows(text, "layer times", _check_columns):
        forward_s, backward_s = (_seconds_of(row[name], number) for name in _COLUMNS[1:3])
        tokens = row.get("tokens", "")
        if tokens and not (tokens.isascii() and tokens.isdigit() and 0 < len(tokens) < 13):
            raise FormatError(
                f"layer times: line {number}: tokens: expected an integer, found {tokens[:20]!r}"
            )
        rows.append(MeasuredLayer(row["layer"], forward_s, backward_s, int(tokens or 0)))
        if len(rows) > _MOST_ROWS:
            raise FormatError(f"layer times: expected at most {_MOST_ROWS} rows")
    if not rows:
        raise FormatError("layer times: expected a row per layer below the header, found none")
    return MeasuredTimes(tuple(rows))


def _check_columns(header: list[str]) -> None:
    if header not in ([*_COLUMNS[:3]], [*_COLUMNS]):
        raise FormatError(
            f"layer times: line 1: expected the columns {','.join(_COLUMNS)} (tokens may be left out), "
            f"found {','.join(header)[:60]!r}"
        )


def _seconds_of(cell: str, line: int) -> float:
    try:
        seconds = float(cell)
    except ValueError:
        seconds = -1.0
    if not isfinite(seconds) or not 0 <= seconds < 1e6:
        raise FormatError(f"layer times: line {line}: expected seconds, 0 or more, found {cell[:20]!r}")
    return seconds
