"""All-to-alls with zeros in their demands: experts nobody asks for, ranks that send nothing, one pair."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from samples.table import GENERAL_ROUTES, GENERAL_STEPS
from treadle.errors import InfeasibleError
from treadle.planning import solve
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.topologies import Topology, TopologyBuilder, parse

ROUND_OFF = ((0, 0, 1, 0), (0, 0, 0, 0), (0, 0, 0, 0), (5, 0, 6, 0))
"""On complete(4) the exact flow, in floats, leaves -4e-16 at a rank that is to get nothing."""


def collective_of(topology: Topology, matrix: Any) -> Collective:
    ranks = tuple(topology.compute_nodes.tolist())
    return Collective(CollectiveKind.ALLTOALL, ranks, demands=Demands(np.array(matrix, dtype=np.int64)))


def test_round_off_at_a_rank_that_gets_nothing_is_no_error() -> None:
    fabric = parse("complete:4")
    for algorithm in (None, *GENERAL_STEPS, *GENERAL_ROUTES):
        result = solve(fabric, collective_of(fabric, ROUND_OFF), algorithm=algorithm)
        assert result.report.is_ok


def test_ranks_need_not_reach_those_that_they_have_nothing_for() -> None:
    builder = TopologyBuilder("one way")
    for name in "abcd":
        builder.compute(name)
    for tail, head in ("ab", "bd", "ac", "cd"):
        builder.link(tail, head, 5)
    fabric = builder.build()
    matrix = [[0, 0, 0, 3], [0, 0, 0, 2], [0, 0, 0, 1], [0, 0, 0, 0]]
    for algorithm in (None, *GENERAL_STEPS, *GENERAL_ROUTES):
        assert solve(fabric, collective_of(fabric, matrix), algorithm=algorithm).report.is_ok
    matrix[3][0] = 1
    for algorithm in (None, *GENERAL_STEPS, *GENERAL_ROUTES):
        with pytest.raises(InfeasibleError, match="d"):
            solve(fabric, collective_of(fabric, matrix), algorithm=algorithm)
