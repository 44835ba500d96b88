"""Tables of seconds hold what routes take."""

from __future__ import annotations

import numpy as np

from parallelism.state.shards_on_ranks import all_shardings
from treadle.parallelism.problem.prices import move_arrays
from treadle.parallelism.state.sharding import Sharding


def test_moves_are_laid_out_for_every_sharding() -> None:
    sizes = {"a": 2, "b": 3, "c": 5}
    arrays = move_arrays(tuple(sizes.items()), 2)
    assert {place for place in arrays.places if isinstance(place, Sharding)} == set(
        all_shardings((30, 30), sizes)
    )
    assert (np.diff(arrays.heads) >= 0).all()
