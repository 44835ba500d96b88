"""What searches are made of, by hand: quantities, sums of maxima, columns, prices, counts, splits."""

from __future__ import annotations

import numpy as np

from treadle.parallelism.search.branching import NAMED_EFFORT, Incumbent, SearchEffort
from treadle.parallelism.search.mixed_layers import MixedLayers


def test_efforts_and_gaps() -> None:
    effort = SearchEffort()
    assert (effort.gap, effort.enough, effort.n_parts) == (0.01, -np.inf, 10_000)
    assert (effort.first_passes, effort.other_passes) == (60, 12)
    assert SearchEffort(n_parts=1, first_passes=6) == NAMED_EFFORT
    assert Incumbent((0,), 8.0, 6.0, 1, 1).gap == 0.25
    assert Incumbent((0,), 8.0, 9.0, 1, 1).gap == 0
    assert Incumbent((0,), 0.0, 0.0, 1, 1).gap == 0
    assert Incumbent(None, np.inf, 6.0, 1, 1).gap == np.inf
    assert MixedLayers((), (), 8.0, 0.0, 6.0).gap == 0.25
    assert MixedLayers((), (), 8.0, 0.0, 9.0).gap == 0
    assert MixedLayers((), (), 0.0, 0.0, 0.0).gap == 0
