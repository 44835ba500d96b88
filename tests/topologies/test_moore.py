"""Moore bounds against the dissertation's definitions and tables."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.errors import TopologyError
from treadle.topologies import (
    all_to_all_bound,
    all_to_all_limit,
    distance_distribution,
    hamming,
    ideal_distribution,
    is_moore_optimal,
    kautz,
    least_mean_distance,
    mean_distance,
    moore_bound,
    moore_steps,
    ring,
)

# Table A.2: N, T_L*, T_L** at d = 4.
TABLE_A2 = [
    *((6, 2, 2), (9, 2, 2), (10, 2, 2), (14, 2, 2), (15, 2, 2), (16, 2, 2), (21, 2, 3), (26, 3, 3)),
    *((32, 3, 3), (35, 3, 3), (45, 3, 3), (70, 3, 4), (80, 3, 4), (189, 4, 5), (728, 5, 6)),
]
# Table A.1: N, T_L, T_B, D and the all-to-all bound of the rows "Theoretical Bound" at d = 4.
TABLE_A1 = [
    (32, 3, 0.969, 3, 5.80e-2),
    (64, 3, 0.984, 3, 2.42e-2),
    (128, 4, 0.992, 4, 1.00e-2),
    (256, 4, 0.996, 4, 4.39e-3),
    (512, 5, 0.998, 5, 1.90e-3),
    (1024, 5, 0.999, 5, 8.57e-4),
]


def test_definition_9():
    for d in range(1, 7):
        for k in range(6):
            assert moore_bound(d, k) == sum(d**i for i in range(k + 1))
            tree = 1 + sum(d * (d - 1) ** i for i in range(k))
            assert moore_bound(d, k, bidirectional=True) == tree
    assert moore_bound(7, -1) == moore_bound(7, -1, bidirectional=True) == 0


def test_bidirectional_moore_graphs():
    # Petersen and Hoffman-Singleton attain the bound for diameter 2, degrees 3 and 7.
    assert moore_bound(3, 2, bidirectional=True) == 10
    assert moore_bound(7, 2, bidirectional=True) == 50


@given(st.integers(1, 5000), st.integers(1, 20), st.booleans())
def test_least_steps_and_distribution_agree_with_the_bound(n, d, bidirectional):
    if bidirectional and d == 1 and n > 2:
        with pytest.raises(TopologyError, match="degree 1"):
            moore_steps(n, d, bidirectional=True)
        return
    k = moore_steps(n, d, bidirectional=bidirectional)
    # Definition 10.
    assert moore_bound(d, k - 1, bidirectional=bidirectional) < n
    assert n <= moore_bound(d, k, bidirectional=bidirectional)
    assert is_moore_optimal(n, d, k, bidirectional=bidirectional)
    assert not is_moore_optimal(n, d, k + 1, bidirectional=bidirectional)
    counts = ideal_distribution(n, d, bidirectional=bidirectional)
    assert sum(counts) == n
    for t in range(k):
        assert sum(counts[: t + 1]) == moore_bound(d, t, bidirectional=bidirectional)


def test_graphs_that_meet_the_distribution():
    assert distance_distribution(ring(9), sources=[0]).tolist() == [
        list(ideal_distribution(9, 2, bidirectional=True))
    ]
    assert mean_distance(hamming(2, 3)) == least_mean_distance(9, 4)
    assert all_to_all_bound(hamming(2, 3)) == all_to_all_limit(9, 4) == Fraction(1, 3)
    assert mean_distance(kautz(3, 1)) == least_mean_distance(12, 3)
