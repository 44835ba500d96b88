"""All strategies of an operator on a mesh, one by one: what the problem's variables are made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations, product
from math import prod

from treadle.parallelism.state.sharding import Sharding
from treadle.parallelism.state.strategies import PARTIAL, Choice, Letter, Operator, choices_of


@dataclass(frozen=True)
class Strategy:
    """What an operator wants of its inputs and makes of its outputs on a mesh.

    Parameters
    ----------
    choices : tuple of Choice
        One for each axis.
    inputs, outputs : tuple of Sharding
    n_parts : int
        Parts that the work is cut into: each rank does 1 / n_parts of it.
    """

    choices: tuple[Choice, ...]
    inputs: tuple[Sharding, ...]
    outputs: tuple[Sharding, ...]
    n_parts: int


def strategies(
    operator: Operator, letter_sizes: Mapping[Letter, int], sizes: Mapping[str, int]
) -> Iterator[Strategy]:
    """All strategies on a mesh: a choice for each axis, every order of axes that cut the same letter.

    Parameters
    ----------
    operator : Operator
    letter_sizes : mapping from letter to int
    sizes : mapping from axis to its ranks
        As by `axis_sizes`.

    Examples
    --------
    >>> for one in strategies(Operator("EINSUM", ("ca", "ab"), ("cb",)), dict(a=8, b=8, c=7), {"tp": 2}):
    ...     print(*one.inputs, "->", *one.outputs, one.n_parts, sep="   ")
    - | tp   tp | -   ->   - | - partial tp   2
    - | -   - | tp   ->   - | tp   2
    - | - partial tp   - | -   ->   - | - partial tp   1
    - | -   - | - partial tp   ->   - | - partial tp   1
    - | -   - | -   ->   - | -   1
    """
    for choices in product(choices_of(operator), repeat=len(sizes)):
        by_axis = dict(zip(sizes, choices, strict=True))
        cut = {
            letter: [a for a, choice in by_axis.items() if letter in choice.dims] for letter in letter_sizes
        }
        if any(letter_sizes[letter] % prod(sizes[axis] for axis in axes) for letter, axes in cut.items()):
            continue
        several = [axes for axes in cut.values() if len(axes) > 1]
        seen = set()
        for orders in product(*map(permutations, several)):
            ranked = tuple(dict.fromkeys((*(axis for order in orders for axis in order), *sizes)))
            found = _strategy(operator, {axis: by_axis[axis] for axis in ranked}, tuple(sizes), sizes)
            if found not in seen:
                seen.add(found)
                yield found


def _strategy(
    operator: Operator, by_axis: Mapping[str, Choice], axes: tuple[str, ...], sizes: Mapping[str, int]
) -> Strategy:
    def sharding(letters: Sequence[Letter], places: Mapping[str, Letter]) -> Sharding:
        dims = tuple(tuple(axis for axis, place in places.items() if place == letter) for letter in letters)
        return Sharding(dims, frozenset(axis for axis, place in places.items() if place == PARTIAL))

    inputs = tuple(
        sharding(letters, {axis: choice.inputs[at] for axis, choice in by_axis.items()})
        for at, letters in enumerate(operator.inputs)
    )
    outputs = tuple(
        sharding(letters, {axis: choice.outputs[at] for axis, choice in by_axis.items()})
        for at, letters in enumerate(operator.outputs)
    )
    parts = prod(sizes[axis] for axis, choice in by_axis.items() if choice.divides)
    return Strategy(tuple(by_axis[axis] for axis in axes), inputs, outputs, parts)
