"""Shares in rationals, one for each class of pairs, and what they are checked for on every link."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
        Amount that each member injects into each family, bytes/s times the denominator.
    """

    rate: Fraction
    denominator: int
    shares: tuple[tuple[tuple[int, ...], ...], ...]
    roots: tuple[tuple[int, ...], ...]


Fractions = Iterable[Fraction]
"""Fractions of one representative: a list, or an array of objects."""


def over_one_denominator(
    rate: Fraction, shares: Sequence[Sequence[Fractions]], roots: Sequence[Fractions]
) -> RationalAllocation:
    """Return the allocation in integers over one denominator."""
    rows = [values for family in (*shares, roots) for values in family]
    scale = lcm(*{value.denominator for values in rows for value in values})

    def to_integers(values: Fractions) -> tuple[int, ...]:
        return tuple(value.numerator * (scale // value.denominator) for value in values)

    return RationalAllocation(
        rate=rate,
        denominator=scale,
        shares=tuple(tuple(to_integers(values) for values in family) for family in shares),
        roots=tuple(to_integers(values) for values in roots),
    )


def fits(union: GroupUnion, number: Int64Array, shares: RationalAllocation) -> bool:
    """Whether shares are not negative, fit every fabric link, and are balanced wherever no member is.

    `number` has the class of each pair, all representatives' classes in turn. Shares of all pairs of all
    groups are summed in limbs of 30 bits, whose sums are exact in floats.
    """
    all_shares = [[v for values in family for v in values] for family in shares.shares]
    if min(v for values in (*all_shares, *shares.roots) for v in values) < 0:
        return False
    together = [sum(values) for values in zip(*all_shares, strict=True)]
    copies = np.where(union.is_own, 1, np.repeat(union.copies, np.diff(union.offsets)))
    loads = _sums(union.links, number, together, union.topology.n_links, copies)
    if np.any(loads > union.topology.bandwidths.astype(object) * shares.denominator):
        return False
    relay, n = ~union.is_member, len(union.node)
    for values in all_shares:
        into, out = (_sums(ends, number, values, n)[relay] for ends in (union.heads, union.tails))
        if (into != out).any():
            return False
    return True


def _sums(
    keys: Int64Array,
    number: Int64Array,
    values: Sequence[int],
    size: int,
    times: Int64Array | None = None,
) -> NDArray[Any]:
    """Return the sums of values[number] by key, as Python integers (int64 where they fit)."""
    n_limbs = max(-(-max(values, default=0).bit_length() // _LIMB), 1)
    # up to 2**23 pairs with copies: beyond, limbs are shorter than sums need
    total: NDArray[Any] = np.zeros(size, dtype=np.int64 if n_limbs == 1 else object)
    for limb in range(n_limbs):
        part = np.array([(v >> (_LIMB * limb)) & ((1 << _LIMB) - 1) for v in values], dtype=np.float64)
        weights = part[number] if times is None else part[number] * times
        found = np.bincount(keys, weights=weights, minlength=size).astype(np.int64)
        total = total + (found if n_limbs == 1 else found.astype(object) << (_LIMB * limb))
    return total
