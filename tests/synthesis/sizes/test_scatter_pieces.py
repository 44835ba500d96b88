"""Reduce-scatters whose pieces leave the box first."""

from __future__ import annotations

import numpy as np
import pytest

from treadle.errors import ScheduleError
from treadle.planning import simulate, solve, solve_sizes
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.synthesis.sizes.scatter_pieces import scatter_pieces
from treadle.topologies import parse


def test_it_is_as_fast_as_the_allgather() -> None:
    fabric = "dgx_h100(2)"
    ours, gather = (
        solve_sizes(fabric, collective, "64M", algorithms=[name], cost_model="reference").rows[0].seconds
        for collective, name in (("reduce-scatter", "scatter-pieces"), ("allgather", "forestcoll"))
    )
    turned = solve_sizes(fabric, "reduce-scatter", "64M", algorithms=["forestcoll"], cost_model="reference")
    assert ours < turned.rows[0].seconds
    assert ours < gather * 1.02


@pytest.mark.parametrize("pieces", [1, 3])
def test_what_stays_in_the_box_comes_last(pieces: int) -> None:
    topology = parse("dgx_a100(3, 2)")
    steps = scatter_pieces(
        topology, on_all_ranks(topology, CollectiveKind.REDUCE_SCATTER), chunks=pieces
    ).reduce
    assert steps is not None
    assert steps.n_steps == 2 * pieces + 1
    last = steps.send_steps() == 2 * pieces
    assert np.array_equal(np.unique((steps.high - steps.low)[~last]), [1])
    whole = last & (steps.high - steps.low == pieces)
    assert np.count_nonzero(whole) >= 6, "each rank's sum for the other of its box"
    plan = solve("dgx_a100(3, 2)", "reduce-scatter", algorithm="scatter-pieces", chunks=pieces).plan
    assert simulate(plan, "1M").rows[0].time > 0


def test_many_boxes_are_refused() -> None:
    topology = parse("dgx_a100(5, 2)")
    with pytest.raises(ScheduleError, match="at most 4 boxes, found 5"):
        scatter_pieces(topology, on_all_ranks(topology, CollectiveKind.REDUCE_SCATTER))
