"""What is told of candidates, rates and limits: sentences in full, and rows of tables number by number."""

from __future__ import annotations

import numpy as np
import pytest

from treadle.errors import InfeasibleError
from treadle.planning import make_problem
from treadle.schedulers.exact_synthesis import exact
from treadle.schedulers.expectations import reducing_counterpart
from treadle.schedules.collective import CollectiveKind
from treadle.topologies import Topology, TopologyBuilder


def test_exact_synthesis_without_a_schedule() -> None:
    problem = make_problem("ring:4", "allgather")
    with pytest.raises(InfeasibleError) as caught:
        exact(problem.topology, problem.collective, steps=1)
    assert str(caught.value) == (
        "exact: no schedule of ring(4) has 1 steps or fewer (the least possible is 2) and up to 2 chunks; "
        "allow more"
    )


def star(width: int, *, ranks: str = "abcd") -> Topology:
    """Three or four nodes at a switch, the last one at another too."""
    builder = TopologyBuilder("star")
    switch, other = builder.switch("s"), builder.switch("t")
    for place, name in enumerate(ranks):
        node = builder.compute(name)
        builder.duplex(node, switch, (width if place else 2 * width) * 10**9)
        if place > 1:
            builder.duplex(node, other, 500 * 10**9)
    return builder.build()


def test_switches_that_may_be_of_those_that_sum() -> None:
    """Those that join all ranks by links faster than 300 GB/s, where nothing else is said."""
    assert reducing_counterpart(make_problem(star(300), "allreduce")) is None
    twin = reducing_counterpart(make_problem(star(301), "allreduce"))
    assert twin is not None
    able = [twin.topology.node_names[node] for node in np.flatnonzero(twin.topology.multicast)]
    assert able == ["s"]
    assert (twin.topology.multicast == twin.topology.aggregation).all()
    assert reducing_counterpart(twin) is None, "it is said"
    assert reducing_counterpart(make_problem(star(301), "allgather")) is None
    assert reducing_counterpart(make_problem(star(301), "allreduce", ranks="0-2", forward=True)) is None
    assert reducing_counterpart(make_problem(star(301), "allreduce", mesh="2,2", axes="1")) is None
    assert twin.collective.kind is CollectiveKind.ALLREDUCE
