"""A layer of a model as numbers: its weights, work, saved elements and sent elements, per token.

Everything is counted before sharding, in elements and floating-point operations (a multiplication with its
addition counts as two). For models of samples (images, clicks) a token is a sample.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

from treadle.errors import TreadleError
from treadle.notebook import displayed, own_fields

LOGITS = "logits"
"""Name of the tensor that a head saves for the loss, even with full recomputation."""


class WorkKind(Enum):
    """Limiting resource of an operation, and cost of its backward pass."""

    MATMUL = "matmul"
    """Peak of the matrix units; backward costs two forwards (gradients of inputs and of weights)."""
    ATTENTION = "attention"
    """Scores and weighted sum, per token and context token; backward 2 forwards, 2.5 by a flash kernel."""
    ELEMENTWISE = "elementwise"
    """Memory bandwidth; backward moves twice as much."""
    LOOKUP = "lookup"
    """Rows of a table, by index: memory bandwidth; backward adds to the rows."""


@dataclass(frozen=True)
class Attended:
    """The tokens to which a token attends.

    Parameters
    ----------
    stream : str
        Stream of these tokens: "" for the layer's own, or "encoder" for cross attention.
    is_causal : bool
        A token attends only to tokens before it.
    window : int
        Largest number of tokens, the nearest before it; 0: no limit.
    is_chunked : bool
        Windows divide the sequence; a token attends within its own window (Llama 4).
    """

    stream: str = ""
    is_causal: bool = True
    window: int = 0
    is_chunked: bool = False

    def mean(self, tokens: int) -> Fraction:
        """Return the context tokens of a token, on average over a sequence of `tokens`.

        Causal attention has half of them (the diagonal counts half, as in published FLOP counts).

        Examples
        --------
        >>> Attended().mean(4096), Attended(is_causal=False).mean(4096), Attended(window=1024).mean(4096)
        (Fraction(2048, 1), Fraction(4096, 1), Fraction(896, 1))
        """
        if not self.is_causal or not tokens:
            return Fraction(tokens)
        reach = min(self.window or tokens, tokens)
        if self.is_chunked:
            n_chunks, rest = divmod(tokens, reach)
            return Fraction(n_chunks * reach**2 + rest**2, 2 * tokens)
        return reach - Fraction(reach * reach, 2 * tokens)

    def last(self, tokens: int) -> int:
        """Return the context tokens of the next token after `tokens`, for decoding."""
        return min(self.window or tokens, tokens)


@dataclass(frozen=True)
class Weight:
    """A parameter tensor.

    Parameters
    ----------
    name : str
    elements : int
        Elements; for experts, of all together.
    split : bool
        Tensor parallelism splits the weight; else each of its ranks has all of it.
    expert : bool
        Expert parallelism shards the weight (experts, or embedding tables) and never replicates it.
    """

    name: str
    elements: int
    split: bool = True
    expert: bool = False


@dataclass(frozen=True)
class Work:
    """A forward operation, per token of its layer's stream (or of its own).

    Parameters
    ----------
    name : str
    kind : WorkKind
    flops : int
        Floating-point operations per token; for experts, those of all experts that a token visits.
    flops_per_context : int
        Additional ones per token and attended token; 0 unless `attended` is given.
    flops_per_cached : int
        The same for a decoded token, if they differ (a latent that is not unfolded); 0: equal.
    moved_elements : int
        Elements of activations read and written per token, if nothing stays in caches.
    moved_backward : int, optional
        The same in the backward pass; default twice as many.
    moved_whole : int
        Elements per token that each rank of tensor parallelism moves, although the work is split.
    moved_per_context : int
        Elements of keys and values read per context token of a sequence when one token is decoded.
    moved_decoding : int
        Additional elements read and written per decoded token: the state of a sequence.
    score_elements : tuple of two numbers
        Elements of score matrices that pass through the memory per token and attended token, forward and
        backward, without a fused kernel.
    weight_elements : int
        Elements of weights read in each run; for experts, of all together.
    split : bool
        Tensor parallelism splits the work; else each of its ranks does all of it (with sequence parallelism,
        for its part of the tokens).
    expert : bool
        Runs on the ranks to which tokens are routed, between the layer's exchanges.
    attended : Attended or None
        The context of `flops_per_context`.
    stream : str
        Stream of the tokens, if it is not the layer's (keys and values of cross attention).
    """

    name: str
    kind: WorkKind
    flops: int = 0
    flops_per_context: int = 0
    flops_per_cached: int = 0
    moved_elements: int = 0
    moved_backward: int | None = None
    moved_whole: int = 0
    moved_per_context: int = 0
    moved_decoding: int = 0
    score_elements: tuple[int | Fraction, int | Fraction] = (0, 0)
    weight_elements: int = 0
    split: bool = True
    expert: bool = False
    attended: Attended | None = None
    stream: str = ""

    def __post_init__(self) -> None:
        if (self.attended is None) != (self.flops_per_context == 0):
            raise TreadleError(f"work {self.name}: flops_per_context and attended must be given together")

    def flops_at(self, tokens: int, *, causal_in_full: bool = False) -> Fraction:
        """Return the FLOPs of a token on average, in sequences with `tokens` of the attended stream.

        `causal_in_full` also counts masked scores, which kernels without fusion compute and some MFUs
        include.
        """
        if self.attended is None:
            return Fraction(self.flops)
        mean = Fraction(tokens) if causal_in_full else self.attended.mean(tokens)
        return self.flops + self.flops_per_context * mean


def product_work(
    name: str,
    rows: int,
    columns: int,
    *,
    copies: int = 1,
    split: bool = True,
    expert: bool = False,
    stream: str = "",
) -> Work:
    """Return a product with a matrix of `rows` x `columns`, or with one of several copies (experts)."""
    return Work(
        name,
        WorkKind.MATMUL,
        flops=2 * rows * columns,
        moved_elements=rows + columns,
        weight_elements=copies * rows * columns,
        split=split,
        expert=expert,
        stream=stream,
    )


@dataclass(frozen=True)
class Saved:
    """An activation saved in the forward pass for the backward pass, per token.

    Parameters
    ----------
    name : str
    elements : Fraction or int
        Elements of the training precision: a mask of one byte is half an element of two bytes.
    split : bool
        Tensor parallelism splits it; else each of its ranks saves all of it, or with sequence parallelism its
        part of the tokens.
    expert : bool
        Saved for the tokens routed to the rank.
    attended : Attended or None
        Multiplied by the context tokens (score matrices, without fused attention).
    in_attention : bool
        Not saved if attention is recomputed.
    stream : str
        See `Work`.
    """

    name: str
    elements: Fraction | int
    split: bool = True
    expert: bool = False
    attended: Attended | None = None
    in_attention: bool = False
    stream: str = ""


@displayed(own_fields)
@dataclass(frozen=True)
class ModelLayer:
    """A layer: the unit of FSDP's gathers, of pipeline stages, and of recomputation.

    The forward pass runs the works outside experts. If there are experts, an exchange (all-to-all of
    `routed_elements` per token), the experts' works, and an exchange back follow. With a single exchange
    (embedding tables), the experts' works come before it.

    Parameters
    ----------
    name : str
        Unique in its model.
    stream : str
        Stream of the tokens: "", or "encoder" and "decoder".
    weights : tuple of Weight
    works : tuple of Work
        In order of the forward pass.
    saved : tuple of Saved
    boundary_elements : int
        Output per token, which a pipeline sends and full recomputation saves.
    reductions : int
        Sums over the ranks of tensor parallelism per forward pass, of `boundary_elements` per token each.
    experts : int
        Number of shards into which the expert weights can be cut; 0 without experts.
    top_k : int
        Experts that a token visits.
    routed_elements : int
        Elements per token in an exchange (top_k x hidden for experts).
    exchanges : int
        All-to-alls per forward pass: 2 for experts, 1 for embedding tables, else 0.
    kv_elements : int
        Keys and values per token that context parallelism sends.
    cache_elements : int
        Elements that a token leaves for the decoding of later ones.
    kv_pieces : int
        Largest number of parts into which tensor parallelism can cut both: heads of keys and values (1 for a
        latent that all heads share). Further ranks hold copies.
    cache_window : int
        Number of last tokens in the cache; 0: all.
    shares : str
        Name of the layer whose first weight this one also uses (tied embedding); "" if none.
    """

    name: str
    stream: str = ""
    weights: tuple[Weight, ...] = ()
    works: tuple[Work, ...] = ()
    saved: tuple[Saved, ...] = ()
    boundary_elements: int = 0
    reductions: int = 0
    experts: int = 0
    top_k: int = 0
    routed_elements: int = 0
    exchanges: int = 0
    kv_elements: int = 0
    cache_elements: int = 0
    kv_pieces: int = 1
    cache_window: int = 0
    shares: str = ""

    def __post_init__(self) -> None:
        parts: tuple[Weight | Work | Saved, ...] = (*self.weights, *self.works, *self.saved)
        uses_experts = any(part.expert for part in parts)
        if uses_experts != bool(self.experts) or bool(self.routed_elements) != bool(self.exchanges):
            raise TreadleError(
                f"layer {self.name}: experts, expert weights and routed_elements must be given together"
            )
        if self.exchanges not in (0, 1, 2):
            raise TreadleError(f"layer {self.name}: expected 0, 1 or 2 exchanges, found {self.exchanges}")

    @property
    def parameters(self) -> int:
        """Elements of all weights, including all experts."""
        return sum(weight.elements for weight in self.weights)

    @property
    def expert_parameters(self) -> int:
        """Elements of the experts' weights."""
        return sum(weight.elements for weight in self.weights if weight.expert)

    @property
    def is_lookup(self) -> bool:
        """Whether all works only read rows of tables, so that the backward pass needs no inputs."""
        return bool(self.works) and all(work.kind is WorkKind.LOOKUP for work in self.works)

    @property
    def is_checkpointed(self) -> bool:
        """Whether full recomputation repeats the layer: not tables, nor a head, whose logits are saved."""
        return not self.is_lookup and all(part.name != LOGITS for part in self.saved)

    @property
    def active_parameters(self) -> Fraction:
        """Elements of the weights that a token uses, counting only the experts that it visits."""
        active = Fraction(self.top_k, self.experts) if self.experts else Fraction(0)
        return self.parameters - self.expert_parameters * (1 - active)

    def forward_flops(self, tokens: Mapping[str, int], *, causal_in_full: bool = False) -> Fraction:
        """Return the FLOPs of the forward pass of a sequence with `tokens` of each stream."""
        total = Fraction(0)
        for work in self.works:
            context = tokens[self.attended_stream(work)] if work.attended else 0
            passing = tokens[work.stream or self.stream]
            total += passing * work.flops_at(context, causal_in_full=causal_in_full)
        return total

    def attended_stream(self, part: Work | Saved) -> str:
        """Return the stream to which a part of this layer attends; default the layer's."""
        return (part.attended.stream if part.attended else "") or self.stream
