"""States of tensors: what may be sharded how, and how much of it is where."""

from __future__ import annotations

import pytest

from treadle.errors import ScheduleError
from treadle.parallelism.state.sharding import Sharding


@pytest.mark.parametrize("dims", [((("dp",), ("dp",)), ()), (((), ("dp",)), ("dp",)), ((("dp", "dp"),), ())])
def test_an_axis_does_one_thing(dims: tuple[tuple[tuple[str, ...], ...], tuple[str, ...]]) -> None:
    with pytest.raises(ScheduleError, match="axis 'dp' appears twice"):
        Sharding(dims[0], frozenset(dims[1]))
