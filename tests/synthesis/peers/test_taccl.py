"""TACCL's programs: verified schedules, the best loads, the order on links, and messages that pay."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from treadle import planning
from treadle.errors import ScheduleError
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.alltoall.exchange_cost import exchange_loads
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.steps.step_cost import step_loads
from treadle.schedules.steps.steps import StepSchedule
from treadle.synthesis.peers import taccl as module
from treadle.synthesis.peers.taccl import taccl_exchange, taccl_gather
from treadle.topologies import TopologyBuilder, parse
from treadle.topologies.topology import Topology
from treadle.verification.schedules import verify


def circle(n: int, switch: bool = False) -> Topology:
    """One way round, and a switch beside it."""
    builder = TopologyBuilder("circle")
    for number in range(n):
        builder.compute(str(number))
    for number in range(n):
        builder.link(str(number), str((number + 1) % n), 10)
    if switch:
        builder.switch("s")
        for number in range(n):
            builder.duplex(str(number), "s", 1)
    return builder.build()


@pytest.mark.parametrize(
    ("fabric", "chunks", "load"),
    [
        ("complete(4)", 1, 1),
        ("ring(4)", 1, 2),
        ("ring(4)", 2, 3),
        ("hypercube(3)", 1, 3),
        ("torus(3, 3)", 1, 2),
        ("mesh(3, 3)", 1, 4),
    ],
)
def test_routes_load_links_as_little_as_any(fabric: str, chunks: int, load: int) -> None:
    """A node gets all chunks but its own over its links: ceil((N - 1) C / degree) over one of them."""
    topology = parse(fabric)
    collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)
    found = taccl_gather(topology, collective, chunks=chunks, size_bytes=2**30, alpha_s=0.0)
    assert found.gap <= module.GAP
    assert isinstance(found.schedule, StepSchedule)
    assert found.schedule.broadcast is not None
    assert verify(topology, collective, found.schedule).is_ok
    loads = np.sum([*step_loads(topology, found.schedule.broadcast)], axis=0)
    assert loads.max() == load


def test_what_has_the_longest_way_goes_first() -> None:
    topology = circle(4)
    collective = on_all_ranks(topology, CollectiveKind.ALLTOALL)
    found = taccl_exchange(topology, collective, chunks=1, size_bytes=400, alpha_s=0.0)
    assert isinstance(found.schedule, ExchangeSchedule)
    sends = found.schedule.sends
    first = sends.shard[sends.span(0)]
    distance = (found.schedule.targets[first] - found.schedule.sources[first]) % 4
    assert distance.tolist() == [3, 3, 3, 3]
    assert sum(load.max() for load in exchange_loads(topology, collective, found.schedule)) == 6


def test_chunks_are_joined_where_starts_cost_more_than_waiting() -> None:
    """Three chunks from each of two ranks: one message, or one after another."""
    topology = parse("complete(2)")
    collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)
    for alpha_s, steps in ((10.0, 1), (0.0, 3)):
        found = taccl_gather(topology, collective, chunks=3, size_bytes=6, alpha_s=alpha_s)
        assert found.schedule.n_steps == steps
        assert verify(topology, collective, found.schedule).is_ok


def test_slow_switches_are_left_aside_where_links_do() -> None:
    topology = circle(4, switch=True)
    collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)
    found = taccl_gather(topology, collective, chunks=1, size_bytes=4000, alpha_s=0.0)
    report = verify(topology, collective, found.schedule)
    assert report.is_ok
    assert report.algbw is not None
    # three shards in a row over a link of 10, or two and one over the switch of 1: the first is as quick
    assert report.algbw == Fraction(40, 3)


def test_programs_that_are_too_large_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CHOICES", 10)
    with pytest.raises(ScheduleError, match=r"torus\(3, 3\) has 24 whole-numbered variables, at most 10"):
        planning.solve("torus:3,3", "allgather", algorithm="taccl")
