"""State-space layers (Mamba-2) as weights, works and saved activations."""

from __future__ import annotations

from dataclasses import dataclass

from treadle.training.models.attention import BlockParts
from treadle.training.models.model_layer import Saved, Weight, Work, WorkKind, product_work


@dataclass(frozen=True)
class StateSpace:
    """Mamba-2 (Dao, Gu 2024, "Transformers are SSMs"): a scan over tokens, computed in chunks.

    Parameters
    ----------
    heads, head_dim : int
    state : int
        Elements of the state per element of a head.
    groups : int
        Groups of heads that share their input and output matrices (B and C).
    kernel : int
        Tokens that the convolution before the scan reads.
    chunk : int
        Tokens of a chunk.
    has_bias, convolution_bias : bool
        The input and output products, and the convolution, have biases.
    """

    heads: int
    head_dim: int
    state: int
    groups: int
    kernel: int = 4
    chunk: int = 256
    has_bias: bool = False
    convolution_bias: bool = True

    @property
    def inner(self) -> int:
        """Elements of all heads."""
        return self.heads * self.head_dim

    @property
    def convolved(self) -> int:
        """Elements of a token that pass the convolution: heads, B and C."""
        return self.inner + 2 * self.groups * self.state

    @property
    def cache_elements(self) -> int:
        """Elements of a sequence's state, and of the last tokens that the convolution reads."""
        return self.inner * self.state + self.convolved * (self.kernel - 1)

    def parts(self, hidden: int) -> BlockParts:
        """Return the parts from the norm's output to the output product, without the residual.

        A chunk costs its causal scores and their sum of values; each token also costs an update of the state
        and a product with it.
        """
        inner, entered = self.inner, self.inner + self.convolved + self.heads
        weights = [
            Weight("state input", entered * (hidden + self.has_bias)),
            Weight("convolution", self.convolved * (self.kernel + self.convolution_bias)),
            Weight("state", 3 * self.heads),
            Weight("state norm", inner),
            Weight("state output", inner * hidden),
        ]
        if self.has_bias:
            weights.append(Weight("state output bias", hidden, split=False))
        in_chunk = self.chunk * (self.groups * self.state + inner)
        works = (
            product_work("state input", hidden, entered),
            Work(
                "convolution",
                WorkKind.ELEMENTWISE,
                flops=2 * self.kernel * self.convolved,
                moved_elements=2 * self.convolved,
            ),
            Work(
                "scan",
                WorkKind.MATMUL,
                flops=in_chunk + 4 * inner * self.state,
                moved_elements=self.convolved + inner + 2 * inner * self.state // self.chunk,
                moved_decoding=2 * inner * self.state,
            ),
            Work("state norm", WorkKind.ELEMENTWISE, moved_elements=3 * inner),
            product_work("state output", inner, hidden),
        )
        saved = (
            Saved("state input", entered),
            Saved("convolution", self.convolved),
            Saved("scan", inner),
            Saved("state norm", inner),
        )
        return BlockParts(tuple(weights), works, saved)
