"""The cheapest trees within a height by branch and bound, and what no trees within it exceed."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from treadle.schedules.collective import Collective, CollectiveKind
from treadle.synthesis.trees.few import height_bound
from treadle.synthesis.trees.few.bounded_height_lp import bounded_height_trees
from treadle.synthesis.trees.few.height_bound import bounded, least_tree
from treadle.synthesis.trees.instance import Instance, instance_of
from treadle.topologies.topology import TopologyBuilder

FAR = np.inf


def test_no_tree_is_that_low() -> None:
    line = np.array([[FAR, 3, FAR], [FAR, FAR, 5], [FAR, FAR, FAR]])
    assert least_tree(line, 0, 1)[1] is None
    least, parent = least_tree(line, 0, 2)
    assert least == 8
    assert parent is not None
    assert parent.tolist() == [-1, 0, 1]


def one_way_ring(*, weights: tuple[int, ...]) -> Instance:
    """0 -> 1 -> 2 -> 0 of 6, 10 and 15 bytes/s."""
    builder = TopologyBuilder("ring")
    for name in "abc":
        builder.compute(name)
    for pair, bandwidth in (("ab", 6), ("bc", 10), ("ca", 15)):
        builder.link(pair[0], pair[1], bandwidth)
    collective = Collective(CollectiveKind.ALLGATHER, (0, 1, 2), weights=weights)
    return instance_of(builder.build(), collective)


@pytest.mark.parametrize("weights", [(1, 1, 1), (3, 1, 0), (1, 5, 2), (0, 1, 0)])
def test_a_ring_has_one_tree_of_each_root(weights: tuple[int, ...]) -> None:
    """The bound is what the links of the ring hold: each is crossed by all data but the next rank's."""
    rate = min(
        Fraction(bandwidth, sum(weights) - weights[head])
        for bandwidth, head in ((6, 1), (10, 2), (15, 0))
        if sum(weights) > weights[head]
    )
    found = bounded_height_trees(one_way_ring(weights=weights), 2, rounds=5)
    assert len(found.trees) == sum(weight > 0 for weight in weights)
    assert found.shares.tolist() == pytest.approx([weight for weight in weights if weight])
    assert 15 / found.time == pytest.approx(float(rate))
    best = bounded(found, rounds=4)
    assert best is not None
    # prices are whole millionths
    assert rate <= best.rate <= rate * (1 + Fraction(1, 10**5))
    assert 15 / best.found.time == pytest.approx(float(rate))
    assert best.found.program is found.program


def test_bounds_are_for_few_ranks_and_low_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three ranks and height 2 are 18 places."""
    found = bounded_height_trees(one_way_ring(weights=(1, 1, 1)), 2, rounds=1)
    monkeypatch.setattr(height_bound, "MOST_PLACES", 17)
    assert bounded(found) is None
    monkeypatch.setattr(height_bound, "MOST_PLACES", 18)
    assert bounded(found, rounds=1) is not None
