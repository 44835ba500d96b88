"""All-to-alls by default on small fabrics: pipelined routes and time-stepped flows, the better of the two."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from treadle.context import TimeLimitError
from treadle.errors import InfeasibleError
from treadle.planning import lower, solve
from treadle.schedulers import alltoall_candidates
from treadle.schedules.alltoall.demands import Demands
from treadle.topologies.topology import Topology, TopologyBuilder

GB = 10**9


def unequal_fabric(seed: int) -> Topology:
    """Up to 12 compute nodes on a ring or in a tree, and more links; bandwidths differ up to 25-fold."""
    random = Random(seed)
    builder = TopologyBuilder(f"unequal {seed}")
    names = [builder.compute(f"n{i}") for i in range(random.randint(4, 12))]
    is_ring = seed % 2 == 1
    add = builder.link if is_ring else builder.duplex

    def bandwidth() -> int:
        return random.choice((1, 2, 3, 5, 7, 25)) * GB if seed % 4 < 2 else random.randint(GB, 25 * GB)

    for place, name in enumerate(names):
        if is_ring or not place:
            add(name, names[(place + 1) % len(names)], bandwidth())
        else:
            add(name, random.choice(names[:place]), bandwidth())
    for _ in range(random.randint(1, 2 * len(names))):
        add(*random.sample(names, 2), bandwidth())
    return builder.build()


@pytest.mark.parametrize("seed", [2, 17, 46, 62])
def test_unequal_links_cost_little(seed: int) -> None:
    """Routes alone lose 1 to 6% here. Run by hand with seeds 0 to 99: 0.2% at most, 9 CPU s in all."""
    fabric = unequal_fabric(seed)
    found = solve(fabric, "alltoall")
    routes = solve(fabric, "alltoall", algorithm="pipelined")
    assert found.report.is_ok
    assert found.bound is not None
    assert routes.algbw < 0.995 * found.bound.algbw
    assert found.algbw > 0.997 * found.bound.algbw
    assert lower(found).text
    assert (found.plan.algorithm, found.is_late) == ("tsmcf", False)
    assert found.report.n_steps is not None
    assert found.notes[-1].startswith("pipelined: ")
    assert found.notes[-1].endswith(f" in {found.report.n_steps} steps")
    for n_steps in range(1, found.report.n_steps):
        try:
            fewer = solve(fabric, "alltoall", algorithm="tsmcf", steps=n_steps, chunks=4096)
        except InfeasibleError:
            continue
        assert fewer.algbw < found.algbw


def test_routes_stay_where_they_are_best() -> None:
    """One pair on a ring: the path of one hop waits in few steps for that of four."""
    amounts = np.zeros((5, 5), dtype=np.int64)
    amounts[0, 1] = 1
    found = solve("ring:5", "alltoall", demands=Demands(amounts))
    assert found.plan.algorithm == "pipelined"
    assert found.notes[-1].startswith("pipelined: ")
    assert "; tsmcf: " in found.notes[-1]


@pytest.mark.parametrize("words", [{}, {"rounds": [16]}, {"algorithm": "pipelined"}])
def test_time_stepped_flows_only_where_they_can_be_better(
    words: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not where routes are optimal in the fewest steps, nor with options that flows do not take."""
    monkeypatch.setattr(alltoall_candidates, "time_stepped_flow", None)
    fabric = unequal_fabric(2) if words else "torus:3,3"
    assert solve(fabric, "alltoall", **words).plan.algorithm == "pipelined"


def test_routes_are_there_when_time_runs_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(*given: object, **named: object) -> None:
        raise TimeLimitError("flow")

    monkeypatch.setattr(alltoall_candidates, "time_stepped_flow", late)
    found = solve(unequal_fabric(2), "alltoall")
    assert (found.plan.algorithm, found.is_late) == ("pipelined", True)


def test_chunks_that_are_asked_for() -> None:
    found = solve(unequal_fabric(2), "alltoall", chunks=50)
    assert found.plan.entries[0].schedule.n_chunks <= 50  # type: ignore[union-attr]
    assert "tsmcf: " in found.notes[-1]
