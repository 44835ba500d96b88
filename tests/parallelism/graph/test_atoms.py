import pytest

from treadle.parallelism.graph.base_dims import BaseDims, IncommensurableError


@pytest.mark.parametrize(
    ("first", "second", "reason"), [((2, 3), (3, 2), "no common factors"), ((2, 3), (5,), "different sizes")]
)
def test_what_has_no_common_factors_is_refused(first, second, reason: str) -> None:
    atoms = BaseDims()
    with pytest.raises(IncommensurableError, match=reason):
        atoms.unify([atoms.fresh(n) for n in first], [atoms.fresh(n) for n in second])
