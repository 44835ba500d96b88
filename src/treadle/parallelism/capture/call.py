"""A call of an operator as rules see it: arguments by name, shapes of tensors; no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import ascii_letters

Shape = tuple[int, ...]


@dataclass(frozen=True)
class OperatorCall:
    """One call.

    Parameters
    ----------
    operator : str
        As rules name it: ``aten.mm.default``.
    arguments : mapping of str to object
        By the names of the operator's schema, defaults included. A tensor is None; a list of them gives
        which are there.
    operands : tuple of Shape
        Shapes of tensors, in the order of the arguments; those in lists count one by one.
    results : tuple of Shape
        Shapes of what it returns.
    names : tuple of str
        The argument that each operand came as.
    """

    operator: str
    arguments: Mapping[str, object]
    operands: tuple[Shape, ...]
    results: tuple[Shape, ...]
    names: tuple[str, ...] = ()

    def axis(self, name: str = "dim", rank: int | None = None) -> int:
        """Return an argument that is a dimension, counted from 0; by default of the first operand's rank."""
        value = self.arguments[name]
        assert isinstance(value, int), f"{self.operator}: {name} is {value!r}"
        return value % max(1, len(self.operands[0]) if rank is None else rank)

    def axes(self, name: str = "dim") -> tuple[int, ...]:
        """Return an argument that is one or several dimensions; all of them if it is absent or empty."""
        rank, value = len(self.operands[0]), self.arguments.get(name)
        given = [value] if isinstance(value, int) else value or range(rank)
        assert isinstance(given, Sequence), f"{self.operator}: {name} is {value!r}"
        return tuple(int(axis) % max(1, rank) for axis in given)

    @property
    def labels(self) -> list[str]:
        """A label for each dimension of the first operand."""
        return labels(len(self.operands[0]))


def labels(rank: int) -> list[str]:
    """Return labels of dimensions; ``x``, ``y`` and ``z`` stay free for what a rule adds."""
    return [letter for letter in ascii_letters if letter not in "xyz"][:rank]
