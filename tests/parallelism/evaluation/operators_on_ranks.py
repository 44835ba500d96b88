"""Operators done by each rank on the block that it holds: what a state means, said with arrays.

Shares nothing with the rules under test. A rank lacks rows of a table that is cut (a lookup of them gives
zeros), and of a table that it writes it has its own rows only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from treadle.parallelism.graph.compute_graph import (
    Index,
    Node,
    Operand,
    OperatorKind,
    Phase,
    Result,
    TensorRef,
)

Function = Callable[..., "np.ndarray | tuple[np.ndarray, ...]"]


@dataclass(frozen=True)
class Sample:
    """An operator, by its letters and what it computes.

    Parameters
    ----------
    inputs, outputs : tuple of str
        Letters of each tensor.
    function : function
        Of arrays, and by letter the slice of the whole that a block is of.
    indices : tuple of int
        Operands that are whole numbers below the size of a letter.
    """

    kind: OperatorKind
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    function: Function
    operator: str = ""
    linear: tuple[tuple[int, ...], ...] = ()
    whole: str = ""
    indices: tuple[int, ...] = ()
    phase: Phase = Phase.FORWARD
    ranges: tuple[str, ...] = ()

    def node(self) -> Node:
        """As a node of a graph, each letter a role."""
        read = tuple(
            Operand(TensorRef(at), self.dims(word), self.dims(word)) for at, word in enumerate(self.inputs)
        )
        made = tuple(Result(self.dims(word), self.dims(word), 4) for word in self.outputs)
        whole = frozenset(index for dim in self.dims(self.whole) for index in dim)
        return Node(
            "node",
            self.kind,
            read,
            made,
            self.phase,
            operator=self.operator,
            whole=whole,
            linear=self.linear,
        )

    @staticmethod
    def dims(word: str) -> tuple[tuple[Index, ...], ...]:
        """A dimension for each letter, its atom the letter's number."""
        return tuple((Index(ord(letter)),) for letter in word)
