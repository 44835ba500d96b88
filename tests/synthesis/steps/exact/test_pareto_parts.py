"""Candidates of a front in their order, and when a point is proved."""

from __future__ import annotations

import pytest

from treadle.errors import ScheduleError
from treadle.schedules.collective import CollectiveKind
from treadle.synthesis.steps.exact.pareto import (
    pareto_front,
)
from treadle.topologies.catalogue.direct import from_arcs


@pytest.mark.parametrize("values", [(0, 1, None), (1, 0, None), (1, 1, -1)])
def test_limits_out_of_range(values: tuple[int, int, int | None]) -> None:
    graph = from_arcs("graph", [0, 1], [1, 0], n=2)
    steps, chunks, extra = values
    message = "^pareto front: needs at least 1 step, 1 chunk and 0 extra rounds$"
    with pytest.raises(ScheduleError, match=message):
        pareto_front(
            graph, CollectiveKind.ALLGATHER, max_steps=steps, max_chunks=chunks, max_extra_rounds=extra
        )
    with pytest.raises(ScheduleError, match=r"^pareto front: take those of reduce-scatter and allgather"):
        pareto_front(graph, CollectiveKind.ALLREDUCE, max_steps=1, max_chunks=1)
