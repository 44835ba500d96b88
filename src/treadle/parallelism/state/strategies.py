"""Strategies of operators: for each mesh axis the operator's sharded dimension, and its effect on
tensors.

An operator has dimensions, as einsum has: those of inputs and outputs, where those of different
tensors that run together have the same name. Along one axis of the mesh the ranks divide its work in one
of these ways:

- by a dimension: tensors that have it are sharded there, inputs without it are replicated, outputs without it
  are partial (each rank has summed over its own part of the dimension);
- by partial sums: an operator linear in some inputs together takes them partial and gives partial outputs;
- not at all: all ranks along the axis do the same.

Choices of different axes are independent, so that a strategy is one choice per axis, and an order where
several axes shard the same dimension. The shardable dimensions are a rule per kind of operator, `RULES`: an
operator that is added needs one rule and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

from treadle.errors import ScheduleError

PARTIAL = "+"
"""Entry of a tensor in a choice: partial."""
WHOLE = ""
"""Place of a tensor in a choice: replicated."""
Letter: TypeAlias = Hashable
"""A character, or a role of a compute graph's operator; not one of the two above."""


@dataclass(frozen=True)
class Operator:
    """An operator by the dimensions of its tensors.

    Parameters
    ----------
    kind : str
        A key of `RULES`: ``EINSUM``.
    inputs, outputs : tuple of sequences of dimensions
        Names of each tensor's dimensions; a str is a sequence of characters.
    linear : tuple of tuples of int
        Sets of inputs in which it is linear, all of a set taken together: of a sum ``((0, 1),)``, of a
        product ``((0,), (1,))``. An einsum knows by itself, a gather is linear in its table, a scatter in its
        rows, the second input, unless something is said here.
    summed : bool
        Dimensions that outputs lack are summed over; else they are combined in another way (a maximum).

    Raises
    ------
    ScheduleError
        For a kind without a rule, or a dimension that appears twice in a tensor.
    """

    kind: str
    inputs: tuple[Sequence[Letter], ...]
    outputs: tuple[Sequence[Letter], ...]
    linear: tuple[tuple[int, ...], ...] = ()
    summed: bool = True

    def __post_init__(self) -> None:
        if self.kind not in RULES:
            raise ScheduleError(f"operator {self.kind[:40]!r}: no rule; there are {', '.join(RULES)}")
        for letters in (*self.inputs, *self.outputs):
            if len(set(letters)) != len(letters):
                raise ScheduleError(f"operator {self.kind}: a dimension appears twice in {letters!r}")

    @property
    def dims(self) -> tuple[Letter, ...]:
        """All of its dimensions, each once, in order of appearance."""
        return tuple(dict.fromkeys(chain.from_iterable((*self.inputs, *self.outputs))))


@dataclass(frozen=True)
class Choice:
    """Division of an operator among the ranks along one axis.

    Parameters
    ----------
    inputs, outputs : tuple of dimensions
        For each tensor the sharded dimension, `PARTIAL` or `WHOLE`.
    divides : bool
        Each rank does its part of the work; else all do all of it.
    """

    inputs: tuple[Letter, ...]
    outputs: tuple[Letter, ...]
    divides: bool = True

    @property
    def dims(self) -> frozenset[Letter]:
        """Sharded dimensions."""
        return frozenset((*self.inputs, *self.outputs)) - {PARTIAL, WHOLE}


Rule = Callable[[Operator], Iterator[Choice]]
"""All choices of an operator but the one to do the same everywhere."""


def cut_by(operator: Operator, letter: Letter) -> Choice:
    """Return the choice to shard one dimension; outputs that lack it are partial."""
    return Choice(
        tuple(letter if letter in letters else WHOLE for letters in operator.inputs),
        tuple(letter if letter in letters else PARTIAL for letters in operator.outputs),
    )


def _by_summands(operator: Operator, linear: tuple[tuple[int, ...], ...]) -> Iterator[Choice]:
    for together in linear:
        places = tuple(PARTIAL if at in together else WHOLE for at in range(len(operator.inputs)))
        yield Choice(places, (PARTIAL,) * len(operator.outputs), divides=False)


def _any_letter(operator: Operator) -> Iterator[Choice]:
    """Yield a choice for each dimension of all outputs, or of some if it is summed over."""
    for letter in operator.dims:
        if operator.summed or all(letter in letters for letters in operator.outputs):
            yield cut_by(operator, letter)
    yield from _by_summands(operator, operator.linear)


def _einsum(operator: Operator) -> Iterator[Choice]:
    """Yield a choice for each dimension, and for a partial input: it is linear in each factor."""
    for letter in operator.dims:
        yield cut_by(operator, letter)
    yield from _by_summands(operator, tuple((at,) for at in range(len(operator.inputs))))


def _attention(operator: Operator) -> Iterator[Choice]:
    """Yield a choice for each batch, head and query dimension of the first input, not those within a head.

    Softmax needs the whole sequence of keys, and scores the whole of a head's dimension, before anything is
    summed. Cut queries leave keys and values whole (context parallelism); gradients of keys and values are
    then sums. Dimensions within a head are those that tensors without the last of them lack too: queries have
    other ones than values.
    """
    first = operator.inputs[0]
    others = [letters for letters in (*operator.inputs, *operator.outputs) if first[-1] not in letters]
    outside = set(chain.from_iterable(others)) if others else set(first[:-1])
    for letter in first:
        if letter in outside:
            yield cut_by(operator, letter)


def _gather(operator: Operator) -> Iterator[Choice]:
    """Yield choices of rows of a table (first input) by index: a cut table gives zeros for other rows."""
    for letter in operator.dims:
        yield cut_by(operator, letter)
    yield from _by_summands(operator, operator.linear or ((0,),))


def _scatter(operator: Operator) -> Iterator[Choice]:
    """Yield choices of the gradient of `_gather`: ranks add their rows, or those of their part."""
    for letter in operator.dims:
        yield cut_by(operator, letter)
    yield from _by_summands(operator, operator.linear or ((1,),))


def _dispatch(operator: Operator) -> Iterator[Choice]:
    """Yield choices from tokens (``td``, and others by token) to slots of experts (``ecd``).

    Ranks with their own tokens fill their own places of every expert, a cut of ``c``: that experts are
    elsewhere is then an all-to-all from ``c`` to ``e``, which comes out as a transition. With whole tokens
    each rank fills the places of its experts.
    """
    token, expert, place, *rest = operator.inputs[0][0], *operator.outputs[0]
    yield Choice(
        tuple(token if token in letters else WHOLE for letters in operator.inputs),
        tuple(place if place in letters else PARTIAL for letters in operator.outputs),
    )
    for letter in (expert, *rest):
        yield cut_by(operator, letter)


def _combine(operator: Operator) -> Iterator[Choice]:
    """Yield choices from slots of experts (``ecd``) back to tokens (``td``)."""
    expert, place, *rest = operator.inputs[0]
    beside = operator.inputs[1] if len(operator.inputs) > 1 else operator.outputs[0]
    token = next(letter for letter in beside if letter not in operator.inputs[0])
    yield Choice(
        tuple(
            place if place in letters else token if token in letters else WHOLE for letters in operator.inputs
        ),
        (token,) * len(operator.outputs),
    )
    for letter in (expert, *rest):
        yield cut_by(operator, letter)
    yield from _by_summands(operator, operator.linear or ((0,),))


RULES: dict[str, Rule] = {
    "EINSUM": _einsum,
    "ELEMENTWISE": _any_letter,
    "REDUCTION": _any_letter,
    "GATHER": _gather,
    "SCATTER": _scatter,
    "ATTENTION": _attention,
    "DISPATCH": _dispatch,
    "COMBINE": _combine,
}
"""Rule of each kind of operator."""


def choices_of(operator: Operator) -> tuple[Choice, ...]:
    """Return the ways to share out an operator along one axis; the last is to do the same everywhere."""
    everywhere = Choice((WHOLE,) * len(operator.inputs), (WHOLE,) * len(operator.outputs), divides=False)
    return (*dict.fromkeys(RULES[operator.kind](operator)), everywhere)
