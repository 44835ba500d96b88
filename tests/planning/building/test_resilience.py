"""Optima after random failures, against bounds of the same fabrics and against what one cable gives back."""

from __future__ import annotations

from fractions import Fraction

import networkx
import numpy as np
import pytest

import treadle
from treadle.errors import FormatError, TopologyError, TreadleError
from treadle.finder.building.resilience import resilience
from treadle.math.symmetry import join_orbits
from treadle.planning import parse_amounts
from treadle.topologies import parse


def test_each_draw_is_a_fabric_whose_bound_is_the_figure() -> None:
    found = resilience("torus:4,4", cables="2,10%", nodes=[1], samples=4, seed=3)
    assert [(level.cables, level.nodes) for level in found.levels[::2]] == [(2, 0), (3, 0), (0, 1)]
    for level in found.levels:
        assert len(level.shares) == len(set(level.fabrics)) == 4
        whole = treadle.bound("torus:4,4", level.collective)
        assert level.worst == min(level.shares) <= level.mean < 1
        for share, name in zip(level.shares, level.fabrics, strict=True):
            left = treadle.bound(name, level.collective)
            factor = {"alltoall": 1, "allreduce": 2}[level.collective]
            busbw = [
                one.algbw * factor * Fraction(one.collective.n_ranks - 1, one.collective.n_ranks)
                for one in (whole, left)
            ]
            assert share == float(busbw[1] / busbw[0])


def test_cables_that_hurt_are_those_whose_mending_helps() -> None:
    """Against a graph of networkx from which the others are taken."""
    level = resilience("torus:3,3", cables=[3], samples=3, collectives=["alltoall"]).levels[0]
    whole = parse("torus:3,3")
    graph = networkx.Graph(
        (whole.node_names[a], whole.node_names[b]) for a, b in zip(whole.tails, whole.heads, strict=True)
    )
    left = parse(level.worst_fabric)
    for a, b in zip(left.tails, left.heads, strict=True):
        if graph.has_edge(left.node_names[a], left.node_names[b]):
            graph.remove_edge(left.node_names[a], left.node_names[b])
    failed = {frozenset(edge) for edge in graph.edges}
    assert {frozenset(harm.cable.split("--")) for harm in level.harms} == failed
    assert len(failed) == 3
    gains = [harm.regained for harm in level.harms]
    assert gains == sorted(gains, reverse=True)
    assert gains[0] > 0
    best = level.harms[0].cable
    mended = treadle.bound(
        treadle.parse(f"with_failed_links(torus(3, 3), {_others(failed, best)})"), "alltoall"
    )
    before = float(treadle.bound("torus:3,3", "alltoall").algbw)
    assert level.worst + gains[0] == pytest.approx(float(mended.algbw) / before, rel=1e-12)


def _others(failed: set[frozenset[str]], besides: str) -> str:
    names = sorted("--".join(sorted(edge)) for edge in failed if edge != frozenset(besides.split("--")))
    return ", ".join(f'"{name}"' for name in names)


def test_switched_fabrics_lose_cables_too() -> None:
    found = resilience("leaf_spine(2, 2, gpus_per_leaf=4)", cables=[1], samples=2, collectives=["alltoall"])
    assert 0 < found.levels[0].worst < 1


@pytest.mark.parametrize("text", ["", "x", "1.5", "-1", "5%%", "1e3", "%", "1,,2"])
def test_amounts_that_are_none(text: str) -> None:
    with pytest.raises(FormatError, match="--cables: found"):
        parse_amounts(text, "--cables")


def test_failures_beyond_what_there_is() -> None:
    with pytest.raises(TopologyError, match="9 nodes of 9 are to fail"):
        resilience("torus:3,3", cables=(), nodes=[9])
    with pytest.raises(TreadleError, match=r"no cable of path.3. can fail without parting the ranks"):
        resilience("path:3", cables=[1])
    with pytest.raises(FormatError, match="samples"):
        resilience("torus:3,3", samples=0)


def test_orbits_of_two_permutations_are_joined_from_any_member() -> None:
    """Union by networkx; once a class met a cycle in another member than the first, and was not joined."""
    random = np.random.default_rng(0)
    for _ in range(200):
        n = int(random.integers(2, 12))
        graph = networkx.empty_graph(n)
        label = np.arange(n)
        for _ in range(3):
            swap = np.arange(n)
            some = random.permutation(n)[: int(random.integers(2, n + 1))]
            swap[some] = np.roll(some, 1)
            label = join_orbits(label, swap)
            graph.add_edges_from(enumerate(swap.tolist()))
            wanted = {frozenset(part) for part in networkx.connected_components(graph)}
            assert {frozenset(np.flatnonzero(label == one).tolist()) for one in label} == wanted
