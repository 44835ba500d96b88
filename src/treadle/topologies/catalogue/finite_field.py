"""Finite fields GF(q) by tables, for graphs that are made of points and lines."""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt

import numpy as np

from treadle.arrays import Int32Array, frozen
from treadle.errors import TopologyError

MAX_ORDER = 1024
"""Largest field that `finite_field` tabulates."""


@dataclass(frozen=True, eq=False)
class FiniteField:
    """GF(q): elements are 0 to q - 1, their digits in base p the coefficients of a polynomial.

    Parameters
    ----------
    order, characteristic : int
        q and p, q a power of p.
    powers : array of int32, shape (q - 1,)
        Powers 0, 1, ... of a primitive element.
    sums, products : array of int32, shape (q, q)
    negatives : array of int32, shape (q,)
    """

    order: int
    characteristic: int
    powers: Int32Array
    sums: Int32Array
    products: Int32Array
    negatives: Int32Array


def prime_power(q: int) -> tuple[int, int] | None:
    """The prime p and the exponent k with p**k = q, or None if `q` is not a prime power.

    Examples
    --------
    >>> prime_power(27), prime_power(12)
    ((3, 3), None)
    """
    if q < 2:
        return None
    p = next((factor for factor in range(2, isqrt(q) + 1) if q % factor == 0), q)
    exponent, rest = 0, q
    while rest % p == 0:
        rest //= p
        exponent += 1
    return (p, exponent) if rest == 1 else None


def finite_field(q: int) -> FiniteField:
    """GF(q), its primitive element the root of the first primitive polynomial.

    Parameters
    ----------
    q : int
        A prime power, at most `MAX_ORDER`.

    Raises
    ------
    TopologyError
        If `q` is not.

    Examples
    --------
    >>> field = finite_field(4)
    >>> field.powers.tolist(), int(field.products[2, 3])
    ([1, 2, 3], 1)
    """
    decomposed = prime_power(q) if isinstance(q, int) and 2 <= q <= MAX_ORDER else None
    if decomposed is None:
        raise TopologyError(f"GF(q): q must be a prime power from 2 to {MAX_ORDER}, found {q!r}")
    p, k = decomposed
    powers = np.array(next(filter(None, (_powers(q, p, k, tail) for tail in range(1, q)))))
    digits = np.arange(q)[:, None] // p ** np.arange(k) % p
    weights = p ** np.arange(k)
    products = np.zeros((q, q), dtype=np.int64)
    logs = np.arange(q - 1)
    products[np.ix_(powers, powers)] = powers[(logs[:, None] + logs) % (q - 1)]
    return FiniteField(
        order=q,
        characteristic=p,
        powers=frozen(powers, np.int32),
        sums=frozen((digits[:, None] + digits) % p @ weights, np.int32),
        products=frozen(products, np.int32),
        negatives=frozen(-digits % p @ weights, np.int32),
    )


def _powers(q: int, p: int, k: int, tail: int) -> list[int] | None:
    """Return powers of x modulo x**k - (the polynomial whose digits are `tail`), if they are all q - 1 units.

    If so every non-zero residue is a unit: the residues form a field and x is primitive.
    """
    top = q // p
    tail_digits = [tail // p**i % p for i in range(k)]
    powers, element = [1], _times_x(1, top, p, tail_digits)
    while element != 1:
        if element == 0 or len(powers) == q - 1:
            return None
        powers.append(element)
        element = _times_x(element, top, p, tail_digits)
    return powers if len(powers) == q - 1 else None


def _times_x(element: int, top: int, p: int, tail_digits: list[int]) -> int:
    """Return x times an element: shift the digits, and put the tail in for what overflows."""
    carry, rest = divmod(element, top)
    shifted = rest * p
    return sum(((shifted // p**i + carry * digit) % p) * p**i for i, digit in enumerate(tail_digits))
