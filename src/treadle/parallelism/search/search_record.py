"""How a search split the plans, kept so that its bound can be proven again without it.

Of each part the weights that bounded it, and the node at which it was split. What the search cut away between
splits is not kept: a proof bounds whole boxes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from treadle.arrays import Int64Array
from treadle.parallelism.search.factor_graph import FloatArray
from treadle.parallelism.search.slices import Domains


@dataclass(eq=False)
class PartRecord:
    """A part of the plans.

    Parameters
    ----------
    weights : array of shape (forms,)
        Of the bound.
    node : int
        At which it was split; -1: it was not.
    groups : list of int arrays
        States of the node, by piece.
    parts : list of PartRecord
        The pieces.
    """

    weights: FloatArray
    node: int = -1
    groups: list[Int64Array] = field(default_factory=list)
    parts: list[PartRecord] = field(default_factory=list)

    def split(self, before: Domains, pieces: Sequence[Domains]) -> None:
        """Note how a part was split: pieces differ from it, and from each other, at one node."""
        self.node = next(
            node for node, states in enumerate(before) if any(one[node] is not states for one in pieces)
        )
        self.groups = [one[self.node] for one in pieces]
        self.parts = [PartRecord(self.weights) for _ in pieces]
