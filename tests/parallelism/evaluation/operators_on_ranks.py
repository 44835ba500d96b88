"""Operators done by each rank on the block that it holds: what a state means, said with arrays.

Shares nothing with the rules under test. A rank lacks rows of a table that is cut (a lookup of them gives
zeros), and of a table that it writes it has its own rows only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from parallelism.state.shards_on_ranks import Held, Rank, check_state, lay_out, mask, ranks
from treadle.parallelism.graph.compute_graph import (
    Index,
    Node,
    Operand,
    OperatorKind,
    Phase,
    Result,
    TensorRef,
)
from treadle.parallelism.state.sharding import Sharding

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


def computes_the_same(
    sample: Sample,
    letters: Mapping[str, int],
    inputs: tuple[Sharding, ...],
    outputs: tuple[Sharding, ...],
    sizes: Mapping[str, int],
    seed: int,
) -> bool:
    """Whether all ranks, each on its blocks, make the operator's results in these states."""
    rng = np.random.default_rng(seed)
    whole = []
    for at, word in enumerate(sample.inputs):
        shape = tuple(letters[letter] for letter in word)
        if at in sample.indices:
            whole.append(
                rng.integers(0, letters[sample.ranges[sample.indices.index(at)]], shape).astype(float)
            )
        else:
            whole.append(rng.uniform(-2, 2, shape))
    wanted = _tuple(sample.function(*whole, **{f"at_{letter}": slice(0, n) for letter, n in letters.items()}))
    held = [
        lay_out(one, state, sizes, seed + at)
        for at, (one, state) in enumerate(zip(whole, inputs, strict=True))
    ]
    made: list[Held] = [{} for _ in outputs]
    for rank in ranks(sizes):
        local, places = _blocks(sample, letters, inputs, outputs, sizes, rank, held)
        try:
            found = _tuple(sample.function(*local, **places))
        except (ValueError, IndexError):
            return False  # blocks that do not fit each other
        for slot, (value, state) in enumerate(zip(found, outputs, strict=True)):
            shape = tuple(letters[letter] for letter in sample.outputs[slot])
            here = mask(state, shape, sizes, rank)
            if value.size != here.sum():
                return False
            made[slot][rank] = np.full(shape, np.nan)
            made[slot][rank][here] = value.ravel()
    try:
        for one, value, state in zip(made, wanted, outputs, strict=True):
            check_state(one, value, state, sizes)
    except AssertionError:
        return False
    return True


def _blocks(
    sample: Sample,
    letters: Mapping[str, int],
    inputs: tuple[Sharding, ...],
    outputs: tuple[Sharding, ...],
    sizes: Mapping[str, int],
    rank: Rank,
    held: list[Held],
) -> tuple[list[np.ndarray], dict[str, slice]]:
    local, places = [], {f"at_{letter}": slice(0, n) for letter, n in letters.items()}
    for one, state, word in zip(held, inputs, sample.inputs, strict=True):
        shape = tuple(letters[letter] for letter in word)
        here = mask(state, shape, sizes, rank)
        block = _shape(here)
        local.append(one[rank][here].reshape(block))
    for words, states in ((sample.inputs, inputs), (sample.outputs, outputs)):
        for word, state in zip(words, states, strict=True):
            here = mask(state, tuple(letters[letter] for letter in word), sizes, rank)
            for at, letter in enumerate(word):
                if state.dims[at]:
                    taken = np.unique(np.nonzero(here)[at])
                    places[f"at_{letter}"] = slice(int(taken[0]), int(taken[-1]) + 1)
    return local, places


def _shape(here: np.ndarray) -> tuple[int, ...]:
    return tuple(len(np.unique(index)) for index in np.nonzero(here))


def _tuple(value: np.ndarray | tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    return value if isinstance(value, tuple) else (np.asarray(value),)
