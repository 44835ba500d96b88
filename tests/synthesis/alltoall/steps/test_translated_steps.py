"""Schedules of one source of each orbit, translated: correct, near the optimum, and only where symmetric."""

from __future__ import annotations

import numpy as np
import pytest

from treadle.inputs.problem import make_problem
from treadle.schedulers import alltoall_candidates
from treadle.schedulers.alltoall import alltoall_rate
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.alltoall.exchange_cost import exchange_algbw
from treadle.synthesis.alltoall.steps.translated_steps import few_translated, translated_exchange
from treadle.topologies.topology import TopologyBuilder
from treadle.verification.schedules import verify


@pytest.mark.parametrize(
    ("fabric", "mesh", "elements", "least"),
    [
        ("torus:4,6", None, 24, 0.97),
        ("torus:4,4,4", "4,16", 64, 0.95),
        ("hypercube(5)", None, 32, 0.95),
        ("circulant(30, 1, 7)", None, 30, 0.95),
        ("torus(3, 3)", "3,3", 9, 0.85),
    ],
)
def test_translates_make_a_schedule(fabric: str, mesh: str | None, elements: int, least: float) -> None:
    problem = make_problem(fabric, "alltoall", mesh=mesh, axes=None if mesh is None else "1")
    topology, collective = problem.topology, problem.collective
    group = few_translated(topology, collective)
    assert group is not None
    assert len(group.nodes) == elements
    demands = collective.pair_demands.between
    for nodes, links in zip(group.nodes, group.links, strict=True):
        assert np.array_equal(topology.tails[links], nodes[topology.tails])
        assert np.array_equal(topology.heads[links], nodes[topology.heads])
        assert np.array_equal(demands[nodes[:, None], nodes], demands)
    assert not np.any(group.nodes[1:] == group.nodes[0]), "an element fixes a node"
    schedule = translated_exchange(topology, collective, group, max_chunks=16)
    assert verify(topology, collective, schedule).is_ok
    assert float(exchange_algbw(topology, collective, schedule)) >= least * alltoall_rate(problem).algbw


def test_many_pairs_are_translated(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = make_problem("torus(9, 9)", "alltoall")
    monkeypatch.setattr(alltoall_candidates, "_TRANSLATED_PAIRS", 5000)
    found = alltoall_candidates.pipelined_flow(problem.topology, problem.collective, max_steps=20)
    assert isinstance(found.schedule, ExchangeSchedule)
    sends = found.schedule.sends
    assert verify(problem.topology, problem.collective, found.schedule).is_ok
    assert sends.n_steps <= 20
    loads = [np.bincount(sends.link[sends.span(step)], minlength=4 * 81) for step in range(sends.n_steps)]
    assert all(np.unique(load).size <= 4 for load in loads), "links of an orbit carry the same"


def test_links_that_vanish_next_to_others_close_no_cycle() -> None:
    builder = TopologyBuilder("wide and narrow")
    nodes = [builder.compute(name) for name in "abcd"]
    for place, bandwidth in enumerate((10**9, 1, 10**9, 1)):
        builder.duplex(nodes[place], nodes[(place + 1) % 4], bandwidth)
    problem = make_problem(builder.build(), "alltoall")
    topology, collective = problem.topology, problem.collective
    group = few_translated(topology, collective)
    schedule = translated_exchange(topology, collective, group, max_chunks=8)
    assert verify(topology, collective, schedule).is_ok
