"""Union-find with splitting: what dimensions of tensors are made of.

Every dimension is a product of base dimensions, the outermost first. Two dimensions that an operator aligns
are unified; where one is the product of several others, as after a view, it is split first, everywhere. So
heads and head sizes, or groups of key heads, come out of the views of a model by themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import gcd, prod

from treadle.errors import TreadleError


class IncommensurableError(TreadleError):
    """Two dimensions are of one size, but no common factors make them up."""


class BaseDims:
    """A growing set of base dimensions, numbered from 0.

    Examples
    --------
    >>> dims = BaseDims()
    >>> flat, heads, size = dims.fresh(4096), dims.fresh(32), dims.fresh(128)
    >>> dims.unify([flat], [heads, size])
    >>> [dims.size(leaf) for leaf in dims.leaves([flat])]
    [32, 128]
    """

    def __init__(self) -> None:
        self._sizes: list[int] = []
        self._parts: list[tuple[int, ...] | None] = []  # None: a leaf; one part: the same as that one

    def fresh(self, size: int) -> int:
        """Add a base dimension of this size (elements, >= 1)."""
        if size < 1:
            raise TreadleError(f"a dimension has {size} elements; expected 1 or more")
        self._sizes.append(size)
        self._parts.append(None)
        return len(self._sizes) - 1

    def size(self, atom: int) -> int:
        """Return the elements of a base dimension."""
        return self._sizes[atom]

    def leaves(self, atoms: Iterable[int]) -> tuple[int, ...]:
        """Return the current parts of base dimensions: representatives, split as far as they are."""
        found: list[int] = []
        stack = list(atoms)[::-1]
        while stack:
            atom = stack.pop()
            parts = self._parts[atom]
            if parts is None:
                found.append(atom)
                continue
            if len(parts) == 1 and (further := self._parts[parts[0]]) is not None:
                self._parts[atom] = further  # shorter next time
            stack.extend(parts[::-1])
        return tuple(found)

    def split(self, leaf: int, outer: int) -> tuple[int, int]:
        """Split a leaf into an outer base dimension of this size and an inner one."""
        parts = self.fresh(outer), self.fresh(self._sizes[leaf] // outer)
        self._parts[leaf] = parts
        return parts

    def unify(self, first: Sequence[int], second: Sequence[int]) -> None:
        """Unify two row-major products of base dimensions; those of size 1 are left out on both sides.

        Raises
        ------
        IncommensurableError
            If the sizes differ, or neither of two aligned factors divides the other (2 x 3 against 3 x 2).
        """
        here, there = self._stack(first), self._stack(second)
        while here and there:
            x, y = here.pop(), there.pop()
            if self._parts[x] is not None or self._parts[y] is not None:  # split since it was put there
                here.extend(self._stack([x]))
                there.extend(self._stack([y]))
                continue
            if x == y:
                continue
            m, n = self._sizes[x], self._sizes[y]
            if m == n:
                self._parts[max(x, y)] = (min(x, y),)
            elif gcd(m, n) != min(m, n):
                raise self._incommensurable(first, second)
            else:
                self.split(x if m > n else y, min(m, n))
                here.append(x)
                there.append(y)
        if here or there:
            raise self._incommensurable(first, second)

    def _stack(self, atoms: Iterable[int]) -> list[int]:
        return [leaf for leaf in self.leaves(atoms) if self._sizes[leaf] > 1][::-1]

    def _incommensurable(self, first: Sequence[int], second: Sequence[int]) -> IncommensurableError:
        left, right = ([self._sizes[leaf] for leaf in self.leaves(side)] for side in (first, second))
        reason = "no common factors" if prod(left) == prod(right) else "different sizes"
        one, other = (" x ".join(map(str, sizes)) or "1" for sizes in (left, right))
        return IncommensurableError(f"dimensions {one} and {other} have {reason}")
