"""Shares in rationals, one for each class of pairs, and what they are checked for on every link."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int64Array
from treadle.synthesis.trees.groups.union import GroupUnion

_LIMB = 30


@dataclass(frozen=True, eq=False)
class RationalAllocation:
    """A rate and shares that attain it, over one denominator.

    Parameters
    ----------
    rate : Fraction
        algbw of every group, bytes/s.
    denominator : int
    shares : tuple per family of tuple per representative of tuple of int
        Bandwidth of each class of pairs, bytes/s times the denominator.
    roots : tuple per representative of tuple of int
        What each member feeds into each family, bytes/s times the denominator.
    """

    rate: Fraction
    denominator: int
    shares: tuple[tuple[tuple[int, ...], ...], ...]
    roots: tuple[tuple[int, ...], ...]


def over_one_denominator(
    rate: Fraction,
    shares: Sequence[Sequence[Sequence[Fraction]]],
    roots: Sequence[Sequence[Fraction]],
) -> RationalAllocation:
    """Integers in place of fractions."""
    scale = 1
    for family in (*shares, roots):
        for values in family:
            scale = lcm(scale, *(value.denominator for value in values))

    def to_integers(values: Sequence[Fraction]) -> tuple[int, ...]:
        return tuple(value.numerator * (scale // value.denominator) for value in values)

    return RationalAllocation(
        rate=rate,
        denominator=scale,
        shares=tuple(tuple(to_integers(values) for values in family) for family in shares),
        roots=tuple(to_integers(values) for values in roots),
    )


def fits(
    union: GroupUnion,
    number: Int64Array,
    shares: RationalAllocation,
) -> bool:
    """Whether shares are not negative, fit every fabric link, and are balanced wherever no member is.

    Parameters
    ----------
    number : array of int64, shape (P,)
        Class of each pair, all representatives' classes in turn.

    Notes
    -----
    Summed over all pairs of all groups in limbs of 30 bits, whose sums are exact in floats.
    """
    all_shares = [[v for values in family for v in values] for family in shares.shares]
    if any(v < 0 for family in all_shares for v in family) or any(v < 0 for r in shares.roots for v in r):
        return False
    together = [sum(values) for values in zip(*all_shares, strict=True)]
    copies = np.where(union.is_own, 1, np.repeat(union.copies, np.diff(union.offsets)))
    loads = _sums(union.links, number, together, union.topology.n_links, copies)
    limit = [int(b) * shares.denominator for b in union.topology.bandwidths]
    if any(load > most for load, most in zip(loads, limit, strict=True)):
        return False
    n_places = len(union.node)
    relay = ~union.is_member
    for values in all_shares:
        into = _sums(union.heads, number, values, n_places)
        out = _sums(union.tails, number, values, n_places)
        if (into[relay] != out[relay]).any():
            return False
    return True


def _sums(
    keys: Int64Array,
    number: Int64Array,
    values: Sequence[int],
    size: int,
    times: Int64Array | None = None,
) -> NDArray[Any]:
    """Sum of values[number] by key, as Python integers (int64 where they fit)."""
    n_limbs = max(-(-max(values, default=0).bit_length() // _LIMB), 1)
    # up to 2**23 pairs with copies: beyond, limbs are shorter than sums need
    total: NDArray[Any] = np.zeros(size, dtype=np.int64 if n_limbs == 1 else object)
    for limb in range(n_limbs):
        part = np.array([(v >> (_LIMB * limb)) & ((1 << _LIMB) - 1) for v in values], dtype=np.float64)[
            number
        ]
        if times is not None:
            part *= times
        found = np.bincount(keys, weights=part, minlength=size).astype(np.int64)
        total = total + (found if n_limbs == 1 else found.astype(object) << (_LIMB * limb))
    return total
