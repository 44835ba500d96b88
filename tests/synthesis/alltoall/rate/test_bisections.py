"""The search for cuts, part by part, against plain sums over lopsided matrices."""

from __future__ import annotations

import re

import numpy as np
import pytest

from treadle.errors import ScheduleError
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.synthesis.alltoall.rate import bisection
from treadle.synthesis.alltoall.rate.bisection import best_cut
from treadle.topologies.topology import Topology, TopologyBuilder


def lopsided(seed: int, *, compute: int = 7, switches: int = 2) -> tuple[Topology, Collective]:
    """Ranks in another order than nodes, one node that only forwards, uneven links and demands."""
    rng = np.random.default_rng([seed, 8])
    builder = TopologyBuilder("lopsided")
    names = [builder.compute(f"c{number}") for number in range(compute)]
    names += [builder.switch(f"s{number}") for number in range(switches)]
    for one, other in zip(names, [*names[1:], names[0]], strict=True):
        builder.link(one, other, int(rng.integers(1, 9)))
    for _ in range(3 * len(names)):
        one, other = rng.choice(names, 2, replace=False)
        builder.link(str(one), str(other), int(rng.integers(1, 9)))
    ranks = tuple(rng.permutation(compute)[1:].tolist())
    (spare,) = set(range(compute)) - set(ranks)
    matrix = rng.integers(0, 4, (compute - 1, compute - 1))
    matrix[0, 1] += 1
    return builder.build(), Collective(
        CollectiveKind.ALLTOALL, ranks, forwarders=(spare,), demands=Demands(matrix)
    )


def matrices(fabric: Topology, collective: Collective) -> tuple[np.ndarray, np.ndarray]:
    """Capacity and demand between nodes."""
    capacity, demand = np.zeros((2, fabric.n_nodes, fabric.n_nodes))
    for tail, head, width in zip(fabric.tails, fabric.heads, fabric.bandwidths, strict=True):
        capacity[tail, head] += width
    for source, row in enumerate(collective.pair_demands.between):
        for target, amount in enumerate(row):
            demand[collective.ranks[source], collective.ranks[target]] = amount
    return capacity, demand


def ratio(fabric: Topology, collective: Collective, inside: np.ndarray) -> float:
    capacity, demand = (matrix[inside][:, ~inside].sum() for matrix in matrices(fabric, collective))
    return float(capacity / demand) if demand else np.inf


@pytest.mark.parametrize("is_balanced", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_all_cuts_are_tried_up_to_so_many_nodes(
    seed: int, is_balanced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    fabric, collective = lopsided(seed)
    is_rank = np.isin(np.arange(fabric.n_nodes), collective.ranks)
    rates = []
    for number in range(1, 2**fabric.n_nodes - 1):
        inside = np.array([number >> node & 1 for node in range(fabric.n_nodes)], dtype=bool)
        if not is_balanced or is_rank[inside].sum() == 3:
            rates.append(ratio(fabric, collective, inside))
    monkeypatch.setattr(bisection, "MAX_ENUMERATED", fabric.n_nodes)
    found = best_cut(fabric, collective, is_balanced=is_balanced)
    assert found.is_exact
    assert float(found.pair_rate) == pytest.approx(min(rates))
    inside = np.isin(np.arange(fabric.n_nodes), found.nodes)
    assert float(found.pair_rate) == pytest.approx(ratio(fabric, collective, inside))
    assert found.nodes == tuple(sorted(found.nodes))
    lengths = found.certificate(fabric).lengths.tolist()
    assert lengths == [
        int(inside[tail] and not inside[head]) for tail, head in zip(fabric.tails, fabric.heads, strict=True)
    ]
    monkeypatch.setattr(bisection, "MAX_ENUMERATED", fabric.n_nodes - 1)
    searched = best_cut(fabric, collective, is_balanced=is_balanced)
    assert not searched.is_exact
    assert searched.pair_rate == found.pair_rate
    monkeypatch.setattr(bisection, "MAX_NODES", fabric.n_nodes)
    assert best_cut(fabric, collective, is_balanced=is_balanced) == searched
    monkeypatch.setattr(bisection, "MAX_NODES", fabric.n_nodes - 1)
    message = f"cuts: lopsided has {fabric.n_nodes} nodes, at most {fabric.n_nodes - 1} can be searched"
    with pytest.raises(ScheduleError, match=f"^{re.escape(message)}$"):
        best_cut(fabric, collective)
