"""Dimensions of a transformer, the source of its layers and its graph."""

from __future__ import annotations

from dataclasses import dataclass

from treadle.training.models.attention import Heads, LatentHeads
from treadle.training.models.feed_forward import Experts
from treadle.training.models.state_space import StateSpace


@dataclass(frozen=True)
class BlockKind:
    """Properties in which the blocks of a transformer differ.

    Parameters
    ----------
    has_experts : bool
        A router and experts, not a dense feed-forward half.
    window : int
        Number of last tokens that attention reads; 0: all.
    half : str
        The only half, a symbol of `TransformerShape.pattern`; "": attention and a feed-forward half.
    """

    has_experts: bool
    window: int
    half: str = ""


@dataclass(frozen=True)
class TransformerShape:
    """Dimensions of a transformer, as configurations give them.

    Parameters
    ----------
    name : str
    hidden, feed_forward, vocabulary, layers : int
        `layers`: blocks of the decoder, or of the only stack; `feed_forward`: inner width of dense layers.
    attention : Heads or LatentHeads
        If the pattern has no attention, the heads of its state space.
    encoder_layers : int
        If there are any, blocks of `layers` are decoders that also attend to the encoder.
    is_gated : bool
        Two products up (SwiGLU, GEGLU), not one.
    is_tied : bool
        The head uses the embedding's table.
    has_bias : bool
        The feed-forward products have biases.
    norms_per_block : int
        Norms of a block with one attention; cross attention has one more.
    norms_follow : bool
        The two norms apply to the outputs of the halves, not to their inputs (OLMo 2).
    norm_has_bias : bool
        LayerNorm (scale and bias), not RMSNorm (scale).
    positions : int
        Rows of a table of learned positions; 0: none.
    position_buckets : int
        Relative positions per head, learned in the first block of each stack (T5).
    windows : tuple of int
        Number of last tokens that attention of each block reads (0: all), repeated cyclically. Empty: all.
    has_chunks : bool
        See `Attended.is_chunked`.
    pattern : str
        Blocks with one half each (Nemotron-H): M state space, * attention, - feed-forward, E experts.
    state_space : StateSpace or None
    experts : Experts or None
    expert_every, first_dense : int
        After `first_dense` dense blocks, the last one in each group of `expert_every` blocks has experts.
    has_dropout : bool
    max_tokens : int
    source : str
    """

    name: str
    hidden: int
    feed_forward: int
    vocabulary: int
    layers: int
    attention: Heads | LatentHeads
    encoder_layers: int = 0
    is_gated: bool = True
    is_tied: bool = False
    has_bias: bool = False
    norms_per_block: int = 2
    norms_follow: bool = False
    norm_has_bias: bool = False
    positions: int = 0
    position_buckets: int = 0
    windows: tuple[int, ...] = ()
    has_chunks: bool = False
    pattern: str = ""
    state_space: StateSpace | None = None
    experts: Experts | None = None
    expert_every: int = 1
    first_dense: int = 0
    has_dropout: bool = False
    max_tokens: int = 0
    source: str = ""

    def block_kind(self, index: int) -> BlockKind:
        """Return the kind of a block, with indices from 0 in its stack."""
        if self.pattern:
            return BlockKind(self.pattern[index] == "E", 0, self.pattern[index])
        since = index - self.first_dense
        return BlockKind(
            has_experts=self.experts is not None
            and since >= 0
            and since % self.expert_every == self.expert_every - 1,
            window=self.windows[index % len(self.windows)] if self.windows else 0,
        )
