"""A layer of a model as numbers: its weights, its work, what it saves and what it sends, per token.

Everything is counted before sharding and without a unit of bytes: elements and floating-point operations (a
multiplication with its addition is two). For models of samples (images, clicks) a token is a sample.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

from treadle.errors import TreadleError
from treadle.notebook import displayed, own_fields

LOGITS = "logits"
"""What a head saves for the loss, however much else is computed again."""


class WorkKind(Enum):
    """What bounds an operation, and what its backward pass costs."""

    MATMUL = "matmul"
    """Peak of the matrix units; backward twice the forward (gradients of inputs and of weights)."""
    ATTENTION = "attention"
    """Scores and weighted sum, per token and context token; backward 2 forwards, 2.5 by a flash kernel."""
    ELEMENTWISE = "elementwise"
    """Bandwidth of the memory; backward moves twice as much."""
    LOOKUP = "lookup"
    """Rows of a table, by number: bandwidth of the memory; backward adds to the rows."""


@dataclass(frozen=True)
class Attended:
    """The tokens to which a token attends.

    Parameters
    ----------
    stream : str
        Whose tokens: "" for the layer's own, or "encoder" for cross attention.
    is_causal : bool
        Only those before it.
    window : int
        At most so many, the nearest before it; 0: no limit.
    is_chunked : bool
        Windows divide the sequence; a token attends within its own (Llama 4).
    """

    stream: str = ""
    is_causal: bool = True
    window: int = 0
    is_chunked: bool = False

    def mean(self, tokens: int) -> Fraction:
        """Context tokens of a token, on average over a sequence of so many.

        Half of them where attention is causal (the diagonal counts half, as in published FLOP counts).

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
        """Context tokens of the next token after so many: the work of decoding."""
        return min(self.window or tokens, tokens)


@dataclass(frozen=True)
class Weight:
    """A parameter tensor.

    Parameters
    ----------
    name : str
    elements : int
        Of all experts together, where it belongs to experts.
    split : bool
        Tensor parallelism cuts it; else each of its ranks has all of it.
    expert : bool
        Cut among the ranks of expert parallelism (experts, or embedding tables), never replicated by it.
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
        Floating-point operations per token; of an expert, those of all experts that a token visits.
    flops_per_context : int
        More of them per token and token attended; 0 unless `attended` is given.
    flops_per_cached : int
        The same for a token that is decoded, where they differ (a latent that is not unfolded); 0: as above.
    moved_elements : int
        Elements of activations read and written per token, if nothing stays in caches.
    moved_backward : int, optional
        The same of the backward pass; None: twice as many.
    moved_whole : int
        The same that each rank of tensor parallelism moves of a token, though it splits the work.
    moved_per_context : int
        Elements of keys and values read per context token of a sequence when one token is decoded.
    moved_decoding : int
        Elements read and written besides per token that is decoded: the state of a sequence.
    score_elements : tuple of two numbers
        Elements of score matrices that pass through the memory per token and token attended, forward and
        backward, if no fused kernel spares them.
    weight_elements : int
        Elements of weights read whenever it runs; of all experts together, where it belongs to experts.
    split : bool
        Tensor parallelism divides it; else each of its ranks does all of it (with sequence parallelism, for
        its part of the tokens).
    expert : bool
        Runs where the tokens were routed to, between the layer's exchanges.
    attended : Attended or None
        The context of `flops_per_context`.
    stream : str
        Whose tokens pass, where that is another stream than the layer's (keys and values of cross attention).
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
            raise TreadleError(f"work {self.name}: FLOPs per context token need to say what is attended")

    def flops_at(self, tokens: int, *, causal_in_full: bool = False) -> Fraction:
        """FLOPs of a token on average, in sequences of so many tokens of the stream attended.

        Parameters
        ----------
        tokens : int
        causal_in_full : bool
            Count masked scores too, as kernels that are not fused compute and as some MFU counts have it.
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
    """A product with a matrix of `rows` x `columns`; of experts, with one of so many copies."""
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
    """An activation kept from the forward pass for the backward pass, per token.

    Parameters
    ----------
    name : str
    elements : Fraction or int
        Of the training precision: a mask of one byte is half an element of two.
    split : bool
        Tensor parallelism divides it; else each of its ranks keeps it whole, or with sequence parallelism its
        part of the tokens.
    expert : bool
        Of the tokens routed here.
    attended : Attended or None
        Times the context tokens (score matrices, where attention is not fused).
    in_attention : bool
        Not kept if attention is recomputed.
    stream : str
        As of `Work`.
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
    """A layer: the unit that FSDP gathers, pipelines cut between, and recomputation repeats.

    Its forward pass is: the works that are no expert's; if it has experts, an exchange (all-to-all of
    `routed_elements` per token), the experts' works, and an exchange back. With one exchange only (embedding
    tables) the experts' works come before it.

    Parameters
    ----------
    name : str
        Unique in its model.
    stream : str
        Which tokens pass: "" or "encoder" and "decoder".
    weights : tuple of Weight
    works : tuple of Work
        In order of the forward pass.
    saved : tuple of Saved
    boundary_elements : int
        Per token, handed to the next layer: what a pipeline sends, and what full recomputation keeps.
    reductions : int
        Sums over the ranks of tensor parallelism per forward pass, of `boundary_elements` per token each.
    experts : int
        Pieces among which the expert weights can be cut; 0: none.
    top_k : int
        Experts that a token visits.
    routed_elements : int
        Per token, what an exchange sends (top_k x hidden for experts).
    exchanges : int
        All-to-alls per forward pass: 2 for experts, 1 for embedding tables, 0 without either.
    kv_elements : int
        Keys and values per token, as context parallelism passes them round.
    cache_elements : int
        What a token leaves for the decoding of later ones.
    kv_pieces : int
        Into how many parts tensor parallelism can cut both of these: heads of keys and values (1: a latent
        that all heads share). More ranks than that hold copies.
    cache_window : int
        Only of so many last tokens; 0: of all.
    shares : str
        Name of the layer whose first weight it uses as well (tied embedding); "" if none.
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
                f"layer {self.name}: experts, their weights and what is routed to them must be given together"
            )
        if self.exchanges not in (0, 1, 2):
            raise TreadleError(f"layer {self.name}: expected 0, 1 or 2 exchanges, found {self.exchanges}")

    @property
    def parameters(self) -> int:
        """Elements of its weights, all experts counted."""
        return sum(weight.elements for weight in self.weights)

    @property
    def expert_parameters(self) -> int:
        """Elements of the weights that belong to experts."""
        return sum(weight.elements for weight in self.weights if weight.expert)

    @property
    def is_lookup(self) -> bool:
        """Only rows of tables are read: there is no product whose input the backward pass needs."""
        return bool(self.works) and all(work.kind is WorkKind.LOOKUP for work in self.works)

    @property
    def is_checkpointed(self) -> bool:
        """Full recomputation repeats it: not tables, and no head, whose logits are kept for the loss."""
        return not self.is_lookup and all(part.name != LOGITS for part in self.saved)

    @property
    def active_parameters(self) -> Fraction:
        """Elements of the weights that a token meets: of the experts, those that it visits."""
        active = Fraction(self.top_k, self.experts) if self.experts else Fraction(0)
        return self.parameters - self.expert_parameters * (1 - active)

    def forward_flops(self, tokens: Mapping[str, int], *, causal_in_full: bool = False) -> Fraction:
        """FLOPs of the forward pass of one sequence of so many tokens of each stream."""
        total = Fraction(0)
        for work in self.works:
            context = tokens[self.attended_stream(work)] if work.attended else 0
            passing = tokens[work.stream or self.stream]
            total += passing * work.flops_at(context, causal_in_full=causal_in_full)
        return total

    def attended_stream(self, part: Work | Saved) -> str:
        """The stream to which a part of this layer attends: its own, unless it says otherwise."""
        return (part.attended.stream if part.attended else "") or self.stream
