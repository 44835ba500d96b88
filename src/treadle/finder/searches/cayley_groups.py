"""Groups of a given order for the search of Cayley digraphs, each with its catalogue expression."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd, isqrt

import numpy as np

from treadle.arrays import Int64Array
from treadle.topologies.catalogue.finite_groups import FiniteGroup, abelian_group, metacyclic_group

_MATRIX_SAMPLES = 400
_ACTIONS_PER_SHAPE = 4
_MOST_METACYCLIC = 60


@dataclass(frozen=True)
class NamedGroup:
    """A group and the catalogue call of its Cayley digraphs up to the generators.

    Parameters
    ----------
    prefix : str
        Such as ``metacyclic_cayley(8, 2, 7``.
    group : FiniteGroup
    """

    prefix: str
    group: FiniteGroup

    def expression(self, generators: tuple[int, ...]) -> str:
        """Return the catalogue expression of the Cayley digraph with these generators."""
        return f"{self.prefix}, {', '.join(map(str, generators))})"


def groups_of_order(n: int, *, seed: int) -> tuple[NamedGroup, ...]:
    """Return abelian, metacyclic and sampled cyclic extensions of order `n`: not all groups, some repeatedly.

    Parameters
    ----------
    n : int
        At least 2.
    seed : int
        Of the sample of matrix actions.
    """
    rng = np.random.default_rng([seed, n])
    metacyclic = list(_metacyclic(n))
    if len(metacyclic) > _MOST_METACYCLIC:
        kept = np.sort(rng.choice(len(metacyclic), _MOST_METACYCLIC, replace=False))
        metacyclic = [metacyclic[i] for i in kept]
    abelian = [
        NamedGroup(f'abelian_cayley("{"x".join(map(str, factors))}"', abelian_group(*factors))
        for factors in abelian_moduli(n)
    ]
    matrix_extensions = [
        named
        for order in divisors(n)[:-1]
        for chain in _chains(order)
        if 2 <= len(chain) <= 3
        for named in _sampled_actions(chain[::-1], n // order, rng)
    ]
    return tuple({named.prefix: named for named in (*abelian, *metacyclic, *matrix_extensions)}.values())


def divisors(n: int) -> list[int]:
    """Return the divisors of a number, ascending."""
    small = [i for i in range(1, isqrt(n) + 1) if n % i == 0]
    return sorted({*small, *(n // i for i in small)})


def _chains(n: int, multiple_of: int = 1) -> Iterator[tuple[int, ...]]:
    """Yield the invariant factors: every factor divides the next, product n."""
    if n == 1:
        yield ()
    for first in divisors(n):
        if first > 1 and first % multiple_of == 0:
            for rest in _chains(n // first, first):
                yield (first, *rest)


def abelian_moduli(n: int) -> tuple[tuple[int, ...], ...]:
    """Return the cyclic factors of every abelian group of order `n`, each a multiple of the next.

    Examples
    --------
    >>> abelian_moduli(12)
    ((6, 2), (12,))
    """
    return tuple(chain[::-1] for chain in _chains(n))


def _metacyclic(n: int) -> Iterator[NamedGroup]:
    """Yield non-abelian Z_m by Z_k, one action per cyclic subgroup of actions; split and not."""
    for m in divisors(n):
        k = n // m
        seen: set[int] = set()
        for r in range(2, m if k > 1 else 0):
            if gcd(r, m) > 1 or pow(r, k, m) != 1 or r in seen:
                continue
            seen.update(pow(r, j, m) for j in range(1, k + 1) if gcd(j, k) == 1)
            yield NamedGroup(f"metacyclic_cayley({m}, {k}, {r}", metacyclic_group(m, k, r))
            for carry in divisors(m)[:-1]:
                # c is fixed by r; where gcd(c, m) and k are coprime the extension splits anyway.
                if (r - 1) * carry % m == 0 and gcd(m // carry, k) > 1:
                    group = FiniteGroup((m,), k, ((r,),), (carry,))
                    yield NamedGroup(f'extension_cayley("{m}", "{r}", "{carry}", {k}', group)


def _sampled_actions(moduli: tuple[int, ...], k: int, rng: np.random.Generator) -> Iterator[NamedGroup]:
    r, modulus = len(moduli), np.array(moduli, dtype=np.int64)[:, None]
    # Entry (i, j) maps Z_mj to Z_mi: a multiple of mi / gcd(mi, mj).
    unit = modulus // np.gcd(modulus, modulus.T)
    matrices = rng.integers(0, 2**40, size=(_MATRIX_SAMPLES, r, r)) * unit % modulus
    identity = np.eye(r, dtype=np.int64)
    is_action = (_power(matrices, k, modulus) == identity).all(axis=(1, 2))
    useful = np.unique(matrices[is_action & (matrices != identity).any(axis=(1, 2))], axis=0)
    for matrix in rng.permutation(useful)[:_ACTIONS_PER_SHAPE]:
        action = tuple(tuple(row) for row in matrix.tolist())
        carries = [np.zeros(r, dtype=np.int64), *rng.integers(0, modulus[:, 0], size=(4, r))]
        fixed = [c for c in carries if np.array_equal(matrix @ c % modulus[:, 0], c)]
        for carry in fixed[:2]:
            group = FiniteGroup(moduli, k, action, tuple(carry.tolist()))
            yield NamedGroup(_prefix(group), group)


def _power(matrices: Int64Array, exponent: int, modulus: Int64Array) -> Int64Array:
    result = np.broadcast_to(np.eye(matrices.shape[-1], dtype=np.int64), matrices.shape)
    while exponent:
        if exponent & 1:
            result = result @ matrices % modulus
        matrices, exponent = matrices @ matrices % modulus, exponent >> 1
    return result


def _prefix(group: FiniteGroup) -> str:
    if len(group.moduli) == 2 and group.moduli[0] == group.moduli[1] and not any(group.carry):
        (a, b), (c, d) = group.action
        return f"plane_cayley({group.moduli[0]}, {group.k}, {a}, {b}, {c}, {d}"
    moduli = "x".join(map(str, group.moduli))
    action = "/".join(",".join(map(str, row)) for row in group.action)
    carry = ",".join(map(str, group.carry))
    return f'extension_cayley("{moduli}", "{action}", "{carry}", {group.k}'
