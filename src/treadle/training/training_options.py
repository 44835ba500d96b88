"""How a step of training is done: what may be chosen beside model, mesh and devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from treadle.errors import ScheduleError
from treadle.notebook import displayed, own_fields
from treadle.training.costs import Seconds
from treadle.training.device_memory import ADAM_STATE_BYTES

BUCKETS = (2**20, 10 * 2**20, 100 * 2**20, 2**30)
"""Capacities in bytes that the dissertation compares (A.1.4): 1, 10, 100 MB and 1 GB."""


class Recompute(StrEnum):
    """What the backward pass computes again instead of keeping it."""

    NONE = "none"
    ATTENTION = "attention"
    """Scores, where no fused kernel spares them."""
    FULL = "full"
    """Blocks, from their inputs; neither embedding nor head."""


class ContextExchange(StrEnum):
    """How the ranks of context parallelism get at each other's keys and values."""

    GATHER = "gather"
    """All at once, before attention, as Llama 3 does."""
    RING = "ring"
    """Part by part, while attention to the part before is computed."""


class ExpertOrder(StrEnum):
    """What comes first where tokens go to experts whose matrices tensor parallelism cuts."""

    EXCHANGE_FIRST = "exchange-first"
    """Copies of a rank's part of the tokens are exchanged along ep, then gathered along tp."""
    GATHER_FIRST = "gather-first"
    """Tokens are gathered along tp, then each rank exchanges copies of all of them."""


class CommunicationStreams(StrEnum):
    """What communicates one at a time."""

    ONE = "one"
    """All of a device, in the order of issue."""
    PER_AXIS = "per-axis"
    """What goes along the same axes."""


@displayed(own_fields)
@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """How a step is done.

    Parameters
    ----------
    kappa : number
        Times as long that computing and communicating take at once, 1 to 2; a property of device and
        software.
    micro_batches : int
        Parts of a replica's sequences that pass one after the other: pipelining, or accumulated gradients.
    interleave : int
        Pieces of the model on each stage of a pipeline (virtual stages).
    bucket_bytes : int, optional
        Gradients that make an allreduce start; None: the best of `BUCKETS`.
    first_bucket_bytes : int, optional
        Of the first allreduce, as PyTorch's 1 MB; None: as the others.
    prefetch : int
        Layers whose weights are gathered before it is their turn.
    reshard_after_forward : bool, optional
        Weights are gathered anew for the backward pass; None: unless there is a pipeline.
    zero : int
        Stage of ZeRO over replicas: 0 (none), 1 (the optimizer's state is sharded: each rank updates a part
        of the weights, which are gathered for the next step) or 2 (gradients too, after each micro-batch).
    sequence_parallel : bool
        Tensor parallelism gathers and scatters tokens instead of summing all of them on each rank.
    context_exchange : ContextExchange
    is_causal_balanced : bool
        Each rank of context parallelism has an early and a late part of each sequence; else the last one
        waits for nobody and has nearly twice the mean work of causal attention.
    expert_order : ExpertOrder, optional
        None: the one that takes less time.
    recompute : Recompute
    element_bytes, gradient_bytes : int
        Of weights and activations as they are sent; of gradients as they are reduced.
    weight_bytes, optimizer_bytes : int
        Per parameter, as they are kept: the weight, and what the optimizer keeps beside it.
    has_fused_attention : bool
        Matrices of attention scores never reach memory.
    capacity_factor : Fraction
        Tokens sent to experts over tokens routed: padding or drops.
    alltoall_overtakes : bool
        An all-to-all goes before collectives of its stream that have not begun.
    streams : CommunicationStreams
    has_optimizer : bool
        The step ends with the update of the weights.
    layers_per_chunk : tuple of int, optional
        Layers of each piece of the model, pieces in order of the forward pass (stage by stage, round by
        round); None: so that the longest piece is as short as possible.

    Raises
    ------
    ScheduleError
        For numbers out of their range.
    """

    kappa: Seconds
    micro_batches: int = 1
    interleave: int = 1
    bucket_bytes: int | None = None
    first_bucket_bytes: int | None = None
    prefetch: int = 1
    reshard_after_forward: bool | None = None
    zero: int = 0
    sequence_parallel: bool = True
    context_exchange: ContextExchange = ContextExchange.GATHER
    is_causal_balanced: bool = True
    expert_order: ExpertOrder | None = None
    recompute: Recompute = Recompute.NONE
    element_bytes: int = 2
    gradient_bytes: int = 2
    weight_bytes: int = 2
    optimizer_bytes: int = ADAM_STATE_BYTES
    has_fused_attention: bool = True
    capacity_factor: Fraction = Fraction(1)
    alltoall_overtakes: bool = False
    streams: CommunicationStreams = CommunicationStreams.PER_AXIS
    has_optimizer: bool = True
    layers_per_chunk: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.kappa <= 2:
            raise ScheduleError(f"kappa {self.kappa}; expected 1 (overlap is free) to 2 (it gains nothing)")
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise ScheduleError(f"{name} {value}; expected {least} or more")
        for name, words in _WORDS.items():
            value = getattr(self, name)
            if value not in list(words):
                raise ScheduleError(f"{name} {value!r}; expected {', '.join(words)}")
            object.__setattr__(self, name, words(value))
        if self.zero not in (0, 1, 2):
            raise ScheduleError(f"zero {self.zero}; expected 0, 1 or 2 (stage 3 is an axis fsdp)")
        if not self.capacity_factor > 0:
            raise ScheduleError(f"capacity factor {self.capacity_factor}; expected more than 0")
        if self.layers_per_chunk is not None and min(self.layers_per_chunk, default=0) < 1:
            raise ScheduleError("layers_per_chunk: expected at least one layer in each piece of the model")


_LEAST = {
    "micro_batches": 1,
    "interleave": 1,
    "bucket_bytes": 1,
    "first_bucket_bytes": 1,
    "prefetch": 0,
    "element_bytes": 1,
    "gradient_bytes": 1,
    "weight_bytes": 1,
    "optimizer_bytes": 0,
}
_WORDS: Mapping[str, type[StrEnum]] = {
    "context_exchange": ContextExchange,
    "recompute": Recompute,
    "streams": CommunicationStreams,
}
