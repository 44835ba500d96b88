"""Reduce-scatters and allgathers whose pieces leave the box first."""

from __future__ import annotations

import pytest

from treadle.errors import ScheduleError
from treadle.planning import solve_sizes
from treadle.schedules.collective import CollectiveKind, on_all_ranks
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


def test_many_boxes_are_refused() -> None:
    topology = parse("dgx_a100(5, 2)")
    with pytest.raises(ScheduleError, match="gather-pieces: expected at most 4 boxes, found 5"):
        gather_chunks(topology, on_all_ranks(topology, CollectiveKind.ALLGATHER))
    with pytest.raises(ScheduleError, match="at most 4 boxes, found 5"):
        scatter_chunks(topology, on_all_ranks(topology, CollectiveKind.REDUCE_SCATTER))
