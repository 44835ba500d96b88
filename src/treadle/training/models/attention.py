"""Attention as weights, works and saved activations: grouped heads, latent (MLA), and across streams.

What is saved follows Korthikanti et al. 2022 ("Reducing activation recomputation in large transformer
models", section 4): inputs of each product, and without a fused kernel the score matrices; log-sums of fused
kernels (a number per head) are left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from treadle.training.models.model_layer import Attended, Saved, Weight, Work, WorkKind, product_work

MASK = Fraction(1, 2)
"""Elements of a dropout mask's entry: one byte, where an element has two."""


@dataclass(frozen=True)
class BlockParts:
    """Parts of a block, added up; `+` appends."""

    weights: tuple[Weight, ...] = ()
    works: tuple[Work, ...] = ()
    saved: tuple[Saved, ...] = ()

    def __add__(self, other: BlockParts) -> BlockParts:
        return BlockParts(self.weights + other.weights, self.works + other.works, self.saved + other.saved)


@dataclass(frozen=True)
class Heads:
    """Grouped-query attention.

    Parameters
    ----------
    heads, kv_heads, head_dim : int
    has_bias : bool
        Of queries, keys and values.
    output_bias : bool
    has_norms : bool
        Norms of queries and of keys, one scale per dimension of a head.
    has_wide_norms : bool
        Norms of queries and of keys over all heads together (OLMo 2).
    has_sinks : bool
        A learned score per head to which no value belongs (gpt-oss).
    """

    heads: int
    kv_heads: int
    head_dim: int
    has_bias: bool = False
    output_bias: bool = False
    has_norms: bool = False
    has_wide_norms: bool = False
    has_sinks: bool = False

    @property
    def kv_elements(self) -> int:
        """Keys and values of a token."""
        return 2 * self.kv_heads * self.head_dim

    @property
    def cache_elements(self) -> int:
        """What a token leaves for later ones."""
        return self.kv_elements

    @property
    def kv_slices(self) -> int:
        """Heads of keys and values."""
        return self.kv_heads

    @property
    def score_flops(self) -> int:
        """FLOPs per token and token attended: scores and weighted sum."""
        return 4 * self.heads * self.head_dim

    def parts(self, hidden: int, attended: Attended, *, has_dropout: bool = False) -> BlockParts:
        """From the norm's output to the output product, without the residual."""
        queries, keys = self.heads * self.head_dim, self.kv_elements
        is_cross = bool(attended.stream)
        cross = "cross " if is_cross else ""
        weights = [
            Weight(f"{cross}query", queries * (hidden + self.has_bias)),
            Weight(f"{cross}key and value", keys * (hidden + self.has_bias)),
            Weight(f"{cross}output", queries * hidden),
        ]
        if self.output_bias:
            weights.append(Weight(f"{cross}output bias", hidden, split=False))
        if self.has_norms:
            weights.append(Weight(f"{cross}head norms", 2 * self.head_dim, split=False))
        if self.has_wide_norms:
            weights.append(Weight("head norms", queries + keys // 2))
        if self.has_sinks:
            weights.append(Weight("sinks", self.heads))
        works = [
            product_work(f"{cross}query", hidden, queries),
            # two products, each of which reads the tokens
            replace(
                product_work(f"{cross}key and value", hidden, keys, stream=attended.stream),
                moved_elements=keys,
                moved_whole=2 * hidden,
            ),
        ]
        if not is_cross:
            # Rotations (or norms) of queries and keys: read and written once.
            turned = 2 * (queries + keys // 2)
            works.append(Work("rotation", WorkKind.ELEMENTWISE, moved_elements=turned, moved_backward=turned))
        works += [
            Work(
                f"{cross}scores",
                WorkKind.ATTENTION,
                flops_per_context=self.score_flops,
                moved_elements=2 * queries + keys,
                moved_per_context=keys,
                score_elements=score_traffic(self.heads, has_dropout=has_dropout),
                attended=attended,
            ),
            product_work(f"{cross}output", queries, hidden),
        ]
        saved = (
            Saved(f"{cross}query", queries),
            Saved(f"{cross}key and value", keys, stream=attended.stream),
            Saved(f"{cross}attention output", queries),
            *score_matrices(self.heads, attended, has_dropout=has_dropout, name=cross),
        )
        return BlockParts(tuple(weights), tuple(works), saved)


@dataclass(frozen=True)
class LatentHeads:
    """Multi-head latent attention (DeepSeek-V2, section 2.1): keys and values come from a short latent.

    Parameters
    ----------
    heads : int
    query_rank : int
        Of the queries' low-rank product; 0: queries come straight from the hidden state.
    kv_rank : int
        Length of the latent that is cached.
    plain_dim, rotated_dim, value_dim : int
        Of a head: query and key without rotation, with rotation (one key for all heads), and value.
    """

    heads: int
    query_rank: int
    kv_rank: int
    plain_dim: int
    rotated_dim: int
    value_dim: int

    @property
    def kv_elements(self) -> int:
        """What context parallelism passes round: the latent, from which keys and values are made again."""
        return self.cache_elements

    @property
    def cache_elements(self) -> int:
        """The latent and the rotated key."""
        return self.kv_rank + self.rotated_dim

    @property
    def kv_slices(self) -> int:
        """All heads share the latent."""
        return 1

    @property
    def score_flops(self) -> int:
        """FLOPs per token and token attended, keys and values unfolded, as in training and prefill."""
        return 2 * self.heads * (self.plain_dim + self.rotated_dim + self.value_dim)

    @property
    def latent_score_flops(self) -> int:
        """The same when decoding: queries meet the latents themselves, which are their own values."""
        return 2 * self.heads * (self.cache_elements + self.kv_rank)

    def parts(self, hidden: int, attended: Attended, *, has_dropout: bool = False) -> BlockParts:
        """From the norm's output to the output product, without the residual."""
        queries = self.heads * (self.plain_dim + self.rotated_dim)
        unfolded = self.heads * (self.plain_dim + self.value_dim)
        values = self.heads * self.value_dim
        weights = [
            Weight("latent", hidden * self.cache_elements, split=False),
            Weight("latent norm", self.kv_rank, split=False),
            Weight("key and value", self.kv_rank * unfolded),
            Weight("output", values * hidden),
        ]
        works = [
            product_work("latent", hidden, self.cache_elements, split=False),
            product_work("key and value", self.kv_rank, unfolded),
        ]
        saved = [Saved("latent", self.cache_elements, split=False)]
        if self.query_rank:
            weights += [
                Weight("query latent", hidden * self.query_rank, split=False),
                Weight("query latent norm", self.query_rank, split=False),
            ]
            works.append(product_work("query latent", hidden, self.query_rank, split=False))
            saved.append(Saved("query latent", self.query_rank, split=False))
        entry = self.query_rank or hidden
        weights.append(Weight("query", entry * queries))
        works += [
            product_work("query", entry, queries),
            Work("rotation", WorkKind.ELEMENTWISE, moved_elements=2 * self.heads * self.rotated_dim),
            Work(
                "scores",
                WorkKind.ATTENTION,
                flops_per_context=self.score_flops,
                flops_per_cached=self.latent_score_flops,
                moved_elements=queries + unfolded + values,
                moved_per_context=self.cache_elements,
                score_elements=score_traffic(self.heads, has_dropout=has_dropout),
                attended=attended,
            ),
            product_work("output", values, hidden),
        ]
        saved += [
            Saved("query", queries),
            Saved("key and value", self.heads * (self.plain_dim + self.rotated_dim + self.value_dim)),
            Saved("attention output", values),
            *score_matrices(self.heads, attended, has_dropout=has_dropout),
        ]
        return BlockParts(tuple(weights), tuple(works), tuple(saved))


def score_matrices(heads: int, attended: Attended, *, has_dropout: bool, name: str = "") -> tuple[Saved, ...]:
    """What attention saves without a fused kernel: softmax, and dropout's mask and result."""
    whole = Attended(attended.stream, is_causal=False)  # masked entries are stored as well
    elements = heads * (2 + MASK if has_dropout else Fraction(1))
    return (Saved(f"{name}score matrices", elements, attended=whole, in_attention=True),)


def score_traffic(heads: int, *, has_dropout: bool) -> tuple[Fraction, Fraction]:
    """Return elements per token and context token that attention moves without a fused kernel.

    Forward a product writes the scores, the softmax reads and writes, a product reads; dropout reads, writes
    and writes its mask. Backward the gradients of these are written and read, and two products read
    the softmax and the gradient of the scores.
    """
    forward, backward = (6 + MASK, 9 + MASK) if has_dropout else (Fraction(4), Fraction(7))
    return heads * forward, heads * backward
