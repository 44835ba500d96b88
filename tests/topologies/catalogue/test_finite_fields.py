"""Finite fields and groups by their axioms, and which are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from treadle.errors import TopologyError
from treadle.topologies.catalogue.finite_field import finite_field, prime_power
from treadle.topologies.catalogue.finite_groups import FiniteGroup, abelian_group, metacyclic_group
from treadle.topologies.catalogue.incidence import (
    affine_plane_incidence,
    projective_plane_incidence,
    symplectic_quadrangle_incidence,
)


def test_prime_powers() -> None:
    """By trial: the only prime that divides q."""
    for q in range(-2, 300):
        primes = [p for p in range(2, q + 1) if q % p == 0 and all(p % k for k in range(2, p))]
        found = prime_power(q)
        if len(primes) != 1:
            assert found is None
        else:
            assert found is not None
            assert (found[0], found[0] ** found[1]) == (primes[0], q)


@pytest.mark.parametrize("q", [2, 3, 4, 5, 7, 8, 9, 16, 25, 27])
def test_axioms_of_a_field(q: int) -> None:
    field = finite_field(q)
    sums, products, every = field.sums, field.products, np.arange(q)
    assert (field.order, field.characteristic) == (q, prime_power(q)[0])  # type: ignore[index]
    for table in (sums, products):
        assert np.array_equal(table, table.T)
        left = table[table[:, :, None], every]
        assert np.array_equal(left, table[every[:, None, None], table[None, :, :]])
    assert np.array_equal(sums[0], every)
    assert np.array_equal(products[1], every)
    assert not products[0].any()
    assert not sums[every, field.negatives].any()
    assert np.array_equal(
        products[every[:, None, None], sums[None]], sums[products[:, :, None], products[:, None, :]]
    )
    assert sorted(field.powers.tolist()) == list(range(1, q))
    assert field.powers[0] == 1
    if q > 2:
        root = field.powers[1]
        assert np.array_equal(products[root, field.powers], np.roll(field.powers, -1))
    # digits in base p add up one by one
    p = field.characteristic
    digits = [np.base_repr(k, p).rjust(6, "0") for k in range(q)]
    assert sums[q - 1, 1] == int(digits[q - 1][:-1] + np.base_repr((int(digits[q - 1][-1], p) + 1) % p, p), p)


@pytest.mark.parametrize("q", [0, 1, 6, 12, 1025, 2048, 2.0, True])
def test_orders_that_are_none(q: Any) -> None:
    with pytest.raises(TopologyError, match=r"GF\(q\): q must be a prime power from 2 to 1024, found"):
        finite_field(q)


@pytest.mark.parametrize("q", [2, 3, 4, 5])
def test_planes_by_their_axioms(q: int) -> None:
    """Any two points are on one line, and any two lines meet in one point."""
    plane = projective_plane_incidence(q).astype(int)
    n = q * q + q + 1
    assert plane.shape == (n, n)
    for table in (plane, plane.T):
        assert np.array_equal(table @ table.T, np.ones((n, n)) + q * np.eye(n))
    affine = affine_plane_incidence(q).astype(int)
    assert affine.shape == (q * q, q * q)
    for x, y, m, c in np.ndindex(q, q, q, q):
        field = finite_field(q)
        assert affine[x * q + y, m * q + c] == (y == field.sums[field.products[m, x], c])


@pytest.mark.parametrize("q", [2, 3])
def test_quadrangles_by_their_axioms(q: int) -> None:
    """A point off a line is collinear with one point of it."""
    table = symplectic_quadrangle_incidence(q).astype(int)
    n = (q + 1) * (q * q + 1)
    assert table.shape == (n, n)
    assert (table.sum(axis=0) == q + 1).all()
    assert (table.sum(axis=1) == q + 1).all()
    collinear = (table @ table.T > 0).astype(int)
    met = collinear @ table
    assert (met[table == 0] == 1).all()
    assert (met[table == 1] == q + 1).all()


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        (
            ((), 1, (), ()),
            "group: expected 1 to 20 moduli of at least 2 and a positive quotient, found () and 1",
        ),
        (
            ((1, 2), 1, ((0, 0), (0, 0)), (0, 0)),
            "group: expected 1 to 20 moduli of at least 2 and a positive quotient, found (1, 2) and 1",
        ),
        (
            ((0,), 1, ((0,),), (0,)),
            "group: expected 1 to 20 moduli of at least 2 and a positive quotient, found (0,) and 1",
        ),
        (
            ((2,), 0, ((1,),), (0,)),
            "group: expected 1 to 20 moduli of at least 2 and a positive quotient, found (2,) and 0",
        ),
        (
            ((2**21, 2), 1, ((1, 0), (0, 1)), (0, 0)),
            "group: its order is above 2097152, the largest that is built",
        ),
        (((2**21 + 1,), 1, ((1,),), (0,)), "group: its order is above 2097152, the largest that is built"),
        (((5,), 2, ((4,),), (0, 0)), "group: expected a 1 by 1 action and 1 carry values, one per modulus"),
        (((5,), 2, ((4, 1),), (0,)), "group: expected a 1 by 1 action and 1 carry values, one per modulus"),
        (
            ((5,), 2, ((4,), (1,)), (0,)),
            "group: expected a 1 by 1 action and 1 carry values, one per modulus",
        ),
        (
            ((4, 2), 2, ((1, 1), (0, 1)), (0, 0)),
            "group: the action ((1, 1), (0, 1)) is not a map of the moduli (4, 2)",
        ),
        (
            ((5,), 2, ((2,),), (0,)),
            "group: the action ((2,),) must be the identity modulo (5,) after 2 applications",
        ),
        (((4,), 2, ((3,),), (1,)), "group: the action must fix the carry (1,)"),
    ],
)
def test_groups_that_are_refused(facts: tuple[Any, ...], message: str) -> None:
    with pytest.raises(TopologyError) as refused:
        FiniteGroup(*facts)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    "group",
    [
        abelian_group(1),
        abelian_group(3, 2),
        metacyclic_group(7, 3, 2),
        FiniteGroup((4,), 2, ((-1,),), (6,)),
        FiniteGroup((4, 2), 2, ((1, 2), (0, 1)), (2, 0)),
        FiniteGroup((3, 3), 4, ((0, 2), (1, 0)), (0, 0)),
    ],
    ids=str,
)
def test_products_and_inverses(group: FiniteGroup) -> None:
    """(x, y)(x', y') = (x + M^y x' + [y + y' >= k] c, (y + y') mod k), written out digit by digit."""
    n, k, moduli = group.order, group.k, group.moduli
    matrix = np.array(group.action)

    def parts(element: int) -> tuple[np.ndarray, int]:
        return np.array(np.unravel_index(element // k, moduli)), element % k

    table = group.table()
    for one, other in np.ndindex(n, n):
        (x, y), (z, w) = parts(one), parts(other)
        total = x + np.linalg.matrix_power(matrix, y) @ z + (y + w >= k) * np.array(group.carry)
        assert table[one, other] == int(np.ravel_multi_index(tuple(total % moduli), moduli)) * k + (y + w) % k
    every = np.arange(n)
    assert not table[every, group.inverse(every)].any()
    assert not table[group.inverse(every), every].any()
    assert FiniteGroup((2**20,), 1, ((1,),), (0,)).order == 2**20
