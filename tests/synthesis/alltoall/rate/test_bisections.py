"""The search for cuts, part by part, against plain sums over lopsided matrices."""

from __future__ import annotations

import re
from fractions import Fraction

import numpy as np
import pytest

from treadle.errors import ScheduleError
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.synthesis.alltoall.rate import bisection
from treadle.synthesis.alltoall.rate.bisection import _CutSearch, best_cut, cut_rate
from treadle.topologies import parse
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
@pytest.mark.parametrize("seed", range(4))
def test_a_sweep_takes_the_best_prefix(seed: int, is_balanced: bool) -> None:
    fabric, collective = lopsided(seed)
    search = _CutSearch(fabric, collective, is_balanced)
    order = np.random.default_rng(seed).permutation(fabric.n_nodes)
    is_rank = np.isin(np.arange(fabric.n_nodes), collective.ranks)
    best: tuple[float, int] = (np.inf, 0)
    for length in range(1, fabric.n_nodes):
        inside = np.isin(np.arange(fabric.n_nodes), order[:length])
        if not is_balanced or is_rank[inside].sum() == 3:
            best = min(best, (ratio(fabric, collective, inside), length))
    assert sorted(np.flatnonzero(search._best_prefix(order)).tolist()) == sorted(order[: best[1]].tolist())


@pytest.mark.parametrize("seed", range(3))
def test_a_pass_ends_at_the_best_set_on_its_way(seed: int) -> None:
    """Every node moves once, the best one each time, worse or not; the least ratio seen counts."""
    fabric, collective = lopsided(seed)
    search = _CutSearch(fabric, collective, False)
    for start in range(fabric.n_nodes):
        inside = np.arange(fabric.n_nodes) == start
        best, kept, moved = ratio(fabric, collective, inside), None, set[int]()
        at = inside.copy()
        for _ in range(fabric.n_nodes):
            found = {}
            for node in set(range(fabric.n_nodes)) - moved:
                other = at.copy()
                other[node] = not other[node]
                found[node] = ratio(fabric, collective, other)
            node = min(found, key=lambda one: (found[one], one))
            if not np.isfinite(found[node]):
                break
            at[node] = not at[node]
            moved.add(node)
            if found[node] < best * (1 - 1e-12):
                best, kept = found[node], at.copy()
        given = search._pass(inside)
        assert (given is None) == (kept is None)
        if kept is not None:
            assert given is not None
            assert given.tolist() == kept.tolist()
    # and passes go on until none helps
    last = search.improve(np.arange(fabric.n_nodes) == 0)
    assert search._pass(last) is None


@pytest.mark.parametrize("seed", range(3))
def test_bisections_stay_within_a_rank_of_halves(seed: int) -> None:
    """Of six ranks three are inside at the end; who may move: of the larger side, or none of the ranks."""
    fabric, collective = lopsided(seed)
    search = _CutSearch(fabric, collective, True)
    nodes, ranks = np.arange(fabric.n_nodes), collective.ranks
    three, four, two = (np.isin(nodes, ranks[:count]) for count in (3, 4, 2))
    others = ~np.isin(nodes, ranks)
    assert search._movable(three).all()
    assert search._movable(four).tolist() == (others | four).tolist()
    assert search._movable(two).tolist() == (others | ~two).tolist()
    assert _CutSearch(fabric, collective, False)._movable(two).all()
    assert [search._fits(one[list(ranks)].sum()) for one in (two, three, four)] == [False, True, False]
    found = search.improve(three)
    assert search._fits(found[list(ranks)].sum())
    assert ratio(fabric, collective, found) <= ratio(fabric, collective, three)
    # of five ranks two or three make a half
    five = Collective(CollectiveKind.ALLTOALL, ranks[:5], forwarders=(ranks[5], *collective.forwarders))
    odd = _CutSearch(fabric, five, True)
    assert [odd._fits(count) for count in (1, 2, 3, 4)] == [
        False,
        True,
        True,
        False,
    ]


def test_starts_are_sweeps_of_vectors_both_ways() -> None:
    """Eight nodes: six eigenvectors after the constant one, and the mixtures asked for; two orders each."""
    fabric, collective = lopsided(2, compute=8, switches=0)
    search = _CutSearch(fabric, collective, False)
    assert len(list(search.starts(0, np.random.default_rng(0)))) == 12
    found = list(search.starts(3, np.random.default_rng(0)))
    assert len(found) == 18
    both = matrices(fabric, collective)[0]
    both = both + both.T
    _, vectors = np.linalg.eigh(np.diag(both.sum(axis=0)) - both)
    order = np.argsort(np.round(vectors[:, 1], 9), kind="stable")
    assert {tuple(one.tolist()) for one in found[:2]} <= {
        tuple(search._best_prefix(one).tolist()) for one in (order, order[::-1])
    }


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


def test_cuts_that_nothing_crosses() -> None:
    """Nodes 2 and 3 of a ring send nothing to 0 and 1; the other way links of 2 + 2 carry 5."""
    ring = parse('ring(4, bandwidth="2B/s")')
    matrix = np.zeros((4, 4), dtype=np.int64)
    matrix[0, 2], matrix[1, 3] = 2, 3
    collective = Collective(CollectiveKind.ALLTOALL, (0, 1, 2, 3), demands=Demands(matrix))
    assert cut_rate(ring, collective, (0, 1)) == Fraction(4, 5)
    message = "cut: no rank inside has anything for one outside, so nothing is proved"
    with pytest.raises(ScheduleError, match=f"^{re.escape(message)}$"):
        cut_rate(ring, collective, (2, 3))
    search = _CutSearch(ring, collective, True)
    for nodes, allowed in (
        ((0, 1), True),
        ((2, 3), False),
        ((0,), False),
        ((0, 2), False),
        ((0, 3), True),
        ((0, 1, 2), False),
    ):
        assert search.is_allowed(np.isin(np.arange(4), nodes)) == allowed


def test_no_cut_of_the_kind_has_demand_across() -> None:
    """Three switches apart of two ranks: halves are one rank each, but only 0 has anything for 1."""
    pair = parse("complete(2)")
    everyone = on_all_ranks(pair, CollectiveKind.ALLTOALL)
    assert best_cut(pair, everyone, is_balanced=True).pair_rate == 1
    matrix = np.zeros((3, 3), dtype=np.int64)
    matrix[0, 1] = 1
    three = parse("complete(3)")
    sparse = Collective(CollectiveKind.ALLTOALL, (0, 1, 2), demands=Demands(matrix))
    assert best_cut(three, sparse, is_balanced=True) == best_cut(three, sparse)
    assert best_cut(three, sparse).nodes in ((0,), (0, 2))
    assert best_cut(three, sparse).pair_rate == 2
