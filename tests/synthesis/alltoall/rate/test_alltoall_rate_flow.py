"""The check of concurrent flows rejects what does not deliver."""

from __future__ import annotations

import numpy as np
import pytest

from treadle.errors import ScheduleError
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.synthesis.alltoall import ConcurrentFlow, check_flow, optimal_rate
from treadle.topologies import parse
from treadle.topologies.topology import Topology, TopologyBuilder


@pytest.fixture
def case() -> tuple[Topology, Collective, np.ndarray]:
    topology = parse("generalized_kautz(2,5)")
    collective = on_all_ranks(topology, CollectiveKind.ALLTOALL)
    return topology, collective, np.array(optimal_rate(topology, collective).flow.by_source)


def test_the_optimum_passes(case: tuple[Topology, Collective, np.ndarray]) -> None:
    topology, collective, flow = case
    rate = check_flow(topology, collective, ConcurrentFlow(flow))
    assert rate == pytest.approx(float(optimal_rate(topology, collective).upper))
    assert ConcurrentFlow(flow).rate(topology) == pytest.approx(rate)


def test_every_link_counts(case: tuple[Topology, Collective, np.ndarray]) -> None:
    """Less of any positive amount lacks at the link's head; more comes from nowhere at its tail."""
    topology, collective, flow = case
    for rank, link in np.argwhere(flow > 0).tolist():
        less = flow.copy()
        less[rank, link] *= 0.999
        with pytest.raises(ScheduleError, match=f"flow of rank {rank}: leaves"):
            check_flow(topology, collective, ConcurrentFlow(less))


def test_a_loop_of_data_that_nobody_sent(case: tuple[Topology, Collective, np.ndarray]) -> None:
    """Circulation is legal and loads links: the rate falls."""
    topology, collective, flow = case
    rate = check_flow(topology, collective, ConcurrentFlow(flow))
    more = flow.copy()
    more[0, topology.tails != topology.heads] += 1.0  # in-degree is out-degree but at self-loops
    carries = topology.tails != topology.heads
    balance = np.bincount(topology.heads[carries], minlength=5) - np.bincount(
        topology.tails[carries], minlength=5
    )
    if (balance[1:] >= 0).all():
        assert check_flow(topology, collective, ConcurrentFlow(more)) < rate


def test_a_link_that_carries_nothing_of_it(case: tuple[Topology, Collective, np.ndarray]) -> None:
    topology, collective, flow = case
    loops = np.flatnonzero(topology.tails == topology.heads)
    assert len(loops)
    flow[0, loops[0]] = 1
    with pytest.raises(ScheduleError, match="self-loop"):
        check_flow(topology, collective, ConcurrentFlow(flow))


@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf])
def test_impossible_amounts(case: tuple[Topology, Collective, np.ndarray], value: float) -> None:
    flow = case[2]
    flow[1, 1] = value
    with pytest.raises(ScheduleError, match="finite numbers of at least 0"):
        ConcurrentFlow(flow)


def test_wrong_shapes(case: tuple[Topology, Collective, np.ndarray]) -> None:
    topology, collective, flow = case
    with pytest.raises(ScheduleError, match="expected shape"):
        check_flow(topology, collective, ConcurrentFlow(flow[:, 1:].copy()))
    with pytest.raises(ScheduleError, match="matrix"):
        ConcurrentFlow(flow[0])
    with pytest.raises(ScheduleError, match="float64"):
        ConcurrentFlow(flow.astype(np.float32))


def test_nodes_without_a_way_in_or_out_keep_nothing(case: tuple[Topology, Collective, np.ndarray]) -> None:
    """A switch that only sends, and one that only receives, beside five ranks: their links carry nothing."""
    topology, _, flow = case
    builder = TopologyBuilder("with ends")
    for name in topology.node_names:
        builder.compute(name)
    for name in ("source", "sink"):
        builder.switch(name)
    ends = zip(topology.tails.tolist(), topology.heads.tolist(), topology.bandwidths.tolist(), strict=True)
    for tail, head, bandwidth in ends:
        builder.link(topology.node_names[tail], topology.node_names[head], bandwidth)
    builder.link("source", topology.node_names[0], 1)
    builder.link(topology.node_names[1], "sink", 1)
    more = builder.build()
    wider = np.concatenate([flow, np.zeros((5, 2))], axis=1)
    rate = check_flow(more, on_all_ranks(more, CollectiveKind.ALLTOALL), ConcurrentFlow(wider))
    assert rate == check_flow(topology, case[1], ConcurrentFlow(flow))
