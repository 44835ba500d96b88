"""Dimensions of an operator in the notation of ``einsum``: ``"ij,jk->ik"``.

A character is a role: wherever it appears, dimensions are unified. ``(kg)`` is a dimension that is a product
of roles, the outermost first; ``...`` are any leading dimensions, the same wherever it stands; ``1`` is a
dimension of size 1, kept by no operand; a character followed by ``!`` is a role that the operator cannot be
split over. An empty word is a scalar.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from treadle.errors import TreadleError

Word = tuple[tuple[str, ...], ...]
"""Roles of each dimension of one tensor; none for a dimension of size 1."""


@dataclass(frozen=True)
class Specification:
    """A specification, read for operands and results of known ranks."""

    operands: tuple[Word, ...]
    results: tuple[Word, ...]
    whole: frozenset[str]


def read_specification(text: str, operands: tuple[int, ...], results: tuple[int, ...]) -> Specification:
    """Read a specification for tensors of these ranks.

    Raises
    ------
    TreadleError
        If the words do not fit the tensors.

    Examples
    --------
    >>> read_specification("va,...->...a", (2, 2), (3,)).results
    ((('.0',), ('.1',), ('a',)),)
    """
    before, arrow, after = text.partition("->")
    sides = [
        side.split(",") if side or ranks else [] for side, ranks in ((before, operands), (after, results))
    ]
    if not arrow or [len(side) for side in sides] != [len(operands), len(results)]:
        raise TreadleError(
            f"specification {text!r}: expected {len(operands)} operands and {len(results)} results"
        )
    whole: set[str] = set()
    words = [
        tuple(_word(word, rank, text, whole) for word, rank in zip(side, ranks, strict=True))
        for side, ranks in zip(sides, (operands, results), strict=True)
    ]
    return Specification(words[0], words[1], frozenset(whole))


def _word(word: str, rank: int, text: str, whole: set[str]) -> Word:
    dims: list[tuple[str, ...]] = []
    tokens = word.replace("...", ".")
    # dimensions besides those of "...": brackets are one each
    given = len(re.sub(r"\([^)]*\)", "g", tokens.replace("!", ""))) - ("." in tokens)
    group: list[str] | None = None
    for token in tokens:
        if token == ".":
            dims += [(f".{number}",) for number in range(rank - given)]
        elif token == "(":
            group = []
        elif token == ")":
            assert group is not None, text
            dims.append(tuple(group))
            group = None
        elif token == "!":
            whole.add(dims[-1][-1] if group is None else group[-1])
        elif token == "1":
            dims.append(())
        elif group is not None:
            group.append(token)
        else:
            dims.append((token,))
    if len(dims) != rank:
        fault = f"{word!r} has {len(dims)} dimensions; the tensor has {rank}"
        raise TreadleError(f"specification {text!r}: {fault}")
    return tuple(dims)
