"""Reduce-scatters and allgathers whose pieces leave the box first."""

from __future__ import annotations

import numpy as np
import pytest

from treadle.errors import ScheduleError
from treadle.planning import simulate, solve, solve_sizes
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.steps.step_transforms import reverse
from treadle.synthesis.sizes.scatter_chunks import gather_chunks, scatter_chunks
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
    steps = scatter_chunks(
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


@pytest.mark.parametrize("fabric", ["dgx_a100(3, 2)", "mi250(2)"])
def test_the_allgather_is_the_same_turned_round_and_takes_as_long(fabric: str) -> None:
    topology = parse(fabric)
    gather = gather_chunks(topology, on_all_ranks(topology, CollectiveKind.ALLGATHER), chunks=2).broadcast
    assert gather is not None
    scatter = scatter_chunks(
        topology.transpose(), on_all_ranks(topology, CollectiveKind.REDUCE_SCATTER), chunks=2
    ).reduce
    assert reverse(gather) == scatter
    there, back = (
        solve_sizes(fabric, collective, "16K", algorithms=[name], cost_model="reference").rows[0].seconds
        for collective, name in (("allgather", "gather-pieces"), ("reduce-scatter", "scatter-pieces"))
    )
    assert there == pytest.approx(back, rel=0.02)


def test_it_is_what_two_boxes_of_sparse_links_want_at_small_sizes() -> None:
    (row,) = solve_sizes(
        "mi250(2)",
        "allgather",
        "16K",
        algorithms=["gather-pieces", "forestcoll", "box-bfb"],
        cost_model="reference",
    ).rows
    assert row.title.startswith("gather-pieces")
    assert row.seconds < 7e-6
    assert row.bound is not None
    assert row.seconds < 1.25 * row.bound.time


def test_many_boxes_are_refused() -> None:
    topology = parse("dgx_a100(5, 2)")
    with pytest.raises(ScheduleError, match="gather-pieces: expected at most 4 boxes, found 5"):
        gather_chunks(topology, on_all_ranks(topology, CollectiveKind.ALLGATHER))
    with pytest.raises(ScheduleError, match="at most 4 boxes, found 5"):
        scatter_chunks(topology, on_all_ranks(topology, CollectiveKind.REDUCE_SCATTER))
