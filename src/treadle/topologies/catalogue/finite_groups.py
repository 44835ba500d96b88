"""Finite groups as small values: cyclic extensions of abelian groups, elements numbered from 0."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import ArrayLike

from treadle.arrays import Int64Array
from treadle.errors import TopologyError
from treadle.topologies.limits import MAX_NODES

MAX_FACTORS = 20
"""Most cyclic factors of the abelian part."""


@dataclass(frozen=True)
class FiniteGroup:
    """Abelian group A extended by a cyclic one: pairs (x, y), x in A = Z_m1 x ... x Z_mr, 0 <= y < k.

    (x, y)(x', y') = (x + M^y x' + [y + y' >= k] c, (y + y') mod k). The number of an element is x k + y,
    with x in mixed radix, first factor most significant; 0 is the identity. M = identity and c = 0 give a
    direct product, r = 1 the metacyclic groups Z_m :_M Z_k, c != 0 extensions that need not split
    (quaternion groups).

    Parameters
    ----------
    moduli : tuple of int, length r
        m1, ..., mr, each at least 2 (1 if it is the only one).
    k : int
        Order of the cyclic quotient.
    action : tuple of r tuples of r int
        M by rows, an automorphism of A with M^k = identity.
    carry : tuple of int, length r
        c in A with M c = c.

    Raises
    ------
    TopologyError
        If these do not define a group, or it has more than 2**20 elements.

    Examples
    --------
    >>> quaternions = FiniteGroup((4,), 2, ((3,),), (2,))
    >>> int(quaternions.multiply(1, 1)), int(quaternions.inverse(1))
    (4, 5)
    """

    moduli: tuple[int, ...]
    k: int
    action: tuple[tuple[int, ...], ...]
    carry: tuple[int, ...]

    def __post_init__(self) -> None:
        r = len(self.moduli)
        if not 1 <= r <= MAX_FACTORS or self.k < 1 or min(self.moduli) < (1 if r == 1 else 2):
            expected = f"expected 1 to {MAX_FACTORS} moduli of at least 2 and a positive quotient"
            raise TopologyError(f"group: {expected}, found {self.moduli} and {self.k}")
        # Bit lengths first: the product of absurd numbers is not worth computing.
        if sum(m.bit_length() - 1 for m in (*self.moduli, self.k)) > 20 or self.order > MAX_NODES:
            raise TopologyError(f"group: its order is above {MAX_NODES}, the largest that is built")
        if len(self.carry) != r or len(self.action) != r or any(len(row) != r for row in self.action):
            raise TopologyError(f"group: expected a {r} by {r} action and {r} carry values, one per modulus")
        object.__setattr__(self, "carry", tuple(c % m for c, m in zip(self.carry, self.moduli, strict=True)))
        rows = zip(self.action, self.moduli, strict=True)
        object.__setattr__(self, "action", tuple(tuple(a % m for a in row) for row, m in rows))
        self._check_action()

    def _check_action(self) -> None:
        matrix, modulus = np.array(self.action, dtype=np.int64), np.array(self.moduli, dtype=np.int64)
        if np.any(matrix * modulus % modulus[:, None]):
            raise TopologyError(f"group: the action {self.action} is not a map of the moduli {self.moduli}")
        last = matrix @ self._powers[-1] % modulus[:, None]
        if np.any(last != np.eye(len(modulus), dtype=np.int64) % modulus[:, None]):
            identity = f"the identity modulo {self.moduli} after {self.k} applications"
            raise TopologyError(f"group: the action {self.action} must be {identity}")
        if np.any(matrix @ np.array(self.carry, dtype=np.int64) % modulus != self.carry):
            raise TopologyError(f"group: the action must fix the carry {self.carry}")

    @property
    def order(self) -> int:
        """Number of elements."""
        return prod(self.moduli) * self.k

    @cached_property
    def _powers(self) -> Int64Array:
        """M^0, ..., M^(k-1), shape (k, r, r)."""
        r = len(self.moduli)
        modulus = np.array(self.moduli, dtype=np.int64)[:, None]
        powers = np.empty((self.k, r, r), dtype=np.int64)
        powers[0] = np.eye(r, dtype=np.int64) % modulus
        step, known = np.array(self.action, dtype=np.int64), 1
        while known < self.k:
            # step = M^known: each pass doubles the powers known.
            more = min(known, self.k - known)
            powers[known : known + more] = step @ powers[:more] % modulus
            step, known = step @ step % modulus, known + more
        powers.setflags(write=False)
        return powers

    def multiply(self, one: ArrayLike, other: ArrayLike) -> Int64Array:
        """Products of elements, arrays broadcast against each other."""
        a, b = np.broadcast_arrays(np.asarray(one, dtype=np.int64), np.asarray(other, dtype=np.int64))
        y, carried = a % self.k, a % self.k + b % self.k
        wraps = carried >= self.k
        left, right = a // self.k, b // self.k
        digits_a, digits_b = self._digits(left), self._digits(right)
        index = np.zeros_like(a)
        for i, m in enumerate(self.moduli):
            digit = digits_a[i] + wraps * self.carry[i]
            for j, other_digit in enumerate(digits_b):
                digit = digit + self._powers[y, i, j] * other_digit
            index = index * m + digit % m
        product: Int64Array = index * self.k + carried - wraps * self.k
        return product

    def _digits(self, x: Int64Array) -> list[Int64Array]:
        digits: list[Int64Array] = []
        for m in reversed(self.moduli):
            digits.append(x % m)
            x = x // m
        return digits[::-1]

    def inverse(self, elements: ArrayLike) -> Int64Array:
        """Inverses of elements."""
        a = np.asarray(elements, dtype=np.int64)
        # (x, y)(0, -y) = (x + [y > 0] c, 0), whose inverse in A is the negative.
        back = -a % self.k
        digits = self._digits(self.multiply(a, back) // self.k)
        index = np.zeros_like(a)
        for digit, m in zip(digits, self.moduli, strict=True):
            index = index * m + -digit % m
        return self.multiply(back, index * self.k)

    def table(self) -> Int64Array:
        """All products, shape (order, order): entry (a, b) is a b."""
        elements = np.arange(self.order)
        return self.multiply(elements[:, None], elements)


def abelian_group(*moduli: int) -> FiniteGroup:
    """Z_m1 x ... x Z_mr; the element number is the mixed-radix index, first factor most significant."""
    r = len(moduli)
    return FiniteGroup(moduli, 1, tuple(tuple(int(i == j) for j in range(r)) for i in range(r)), (0,) * r)


def metacyclic_group(m: int, k: int, r: int) -> FiniteGroup:
    """Z_m :_r Z_k: (x, y)(x', y') = (x + r^y x', y + y'), where r^k = 1 modulo m."""
    return FiniteGroup((m,), k, ((r,),), (0,))
