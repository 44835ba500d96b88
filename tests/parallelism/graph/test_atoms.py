import random
from itertools import pairwise
from math import prod

import pytest

from treadle.parallelism.graph.base_dims import BaseDims, IncommensurableError


def test_a_view_splits_what_it_divides_everywhere() -> None:
    atoms = BaseDims()
    hidden, other = atoms.fresh(4096), atoms.fresh(4096)
    atoms.unify([hidden], [other])
    heads, size = atoms.fresh(32), atoms.fresh(128)
    atoms.unify([other], [heads, size])
    assert atoms.leaves([hidden]) == atoms.leaves([other]) == atoms.leaves([heads, size])
    assert [atoms.size(leaf) for leaf in atoms.leaves([hidden])] == [32, 128]


def test_later_splits_reach_what_was_unified_before() -> None:
    atoms = BaseDims()
    flat, batch, rest = atoms.fresh(24), atoms.fresh(4), atoms.fresh(6)
    atoms.unify([flat], [batch, rest])
    atoms.unify([rest], [atoms.fresh(2), atoms.fresh(3)])
    atoms.unify([batch], [atoms.fresh(2), atoms.fresh(2)])
    assert [atoms.size(leaf) for leaf in atoms.leaves([flat])] == [2, 2, 2, 3]


def test_ones_are_left_out() -> None:
    atoms = BaseDims()
    one, three = atoms.fresh(1), atoms.fresh(3)
    atoms.unify([one, three], [three])
    assert atoms.leaves([one]) == (one,)


@pytest.mark.parametrize(
    ("first", "second", "reason"), [((2, 3), (3, 2), "no common factors"), ((2, 3), (5,), "different sizes")]
)
def test_what_has_no_common_factors_is_refused(first, second, reason: str) -> None:
    atoms = BaseDims()
    with pytest.raises(IncommensurableError, match=reason):
        atoms.unify([atoms.fresh(n) for n in first], [atoms.fresh(n) for n in second])


def test_random_views_agree_with_prime_factors() -> None:
    """Powers of two always have common factors: after any views, sides stay equal and sizes are kept."""
    seeds = random.Random(3)
    for _ in range(50):
        atoms = BaseDims()
        flats = [atoms.fresh(64) for _ in range(3)]
        sides = []
        for _ in range(6):
            cuts = [0, *sorted(seeds.sample(range(1, 6), seeds.randint(0, 3))), 6]
            parts = [atoms.fresh(2 ** (b - a)) for a, b in pairwise(cuts)]
            flat = seeds.choice(flats)
            atoms.unify([flat], parts)
            sides.append((flat, parts))
        for flat, parts in sides:
            assert atoms.leaves([flat]) == atoms.leaves(parts)
            assert prod(atoms.size(leaf) for leaf in atoms.leaves(parts)) == 64
