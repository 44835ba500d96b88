"""Shards of an allreduce that suit a fabric whose boxes are not alike."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from treadle.schedules.collective import Collective, CollectiveKind
from treadle.synthesis import trees as forestcoll
from treadle.synthesis.trees.allreduce import allreduce_bound
from treadle.synthesis.trees.instance import Instance, instance_of
from treadle.synthesis.trees.tight_cuts import root_weights as module
from treadle.synthesis.trees.tight_cuts.family import Family
from treadle.synthesis.trees.tight_cuts.root_weights import RootWeights, root_weights
from treadle.synthesis.trees.tight_cuts.sets.detection import detect
from treadle.topologies import parse, without_failures
from treadle.topologies.topology import Topology, TopologyBuilder

PHASES = (CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER)
DAMAGED = (
    ("dgx_h100:4", "box0.gpu0--ib0"),
    ("dgx_h100:4", "box0.gpu[0-3]--ib0,box2.gpu1--ib0"),
    ("mi300x:3", "box1.gpu2--ib0"),
    ("mi250:2", "box0.gpu0--ib0"),
    ("dgx_a100:3", "box0.nic0"),
    ("rail_optimized:4", "box3.gpu1--rail1"),
    ("pods:2,2,oversubscription=2", "box0.gpu0--leaf0"),
)


def posed(expression: str, failed: str | None) -> tuple[Topology, Collective]:
    fabric = parse(expression)
    fabric = fabric if failed is None else without_failures(fabric, failed.split(","))
    return fabric, Collective(CollectiveKind.ALLREDUCE, tuple(fabric.compute_nodes.tolist()))


def choices(fabric: Topology, collective: Collective) -> tuple[RootWeights, ...]:
    problem = instance_of(fabric, replace(collective, kind=CollectiveKind.ALLGATHER))
    return root_weights(problem, detect(problem))


def in_turn(fabric: Topology, collective: Collective, weights: tuple[int, ...]) -> Fraction:
    """What reduce-scatter and then allgather of these shards can reach, by exact maximum flows."""
    found = [
        forestcoll.optimum(fabric, replace(collective, kind=kind, weights=weights)).algbw for kind in PHASES
    ]
    return 1 / sum((1 / rate for rate in found), Fraction(0))


@pytest.mark.parametrize(("expression", "failed"), DAMAGED)
def test_no_shards_are_faster_and_lengths_bound_every_allreduce(expression: str, failed: str) -> None:
    fabric, collective = posed(expression, failed)
    found = choices(fabric, collective)
    best = found[0]
    optimum = allreduce_bound(fabric, collective).algbw
    assert best.certificate.bound(fabric, collective) >= optimum
    reached = in_turn(fabric, collective, best.weights)
    assert reached <= min(best.rate, optimum)
    rng = np.random.default_rng(7)
    for _ in range(3):
        other = tuple((np.array(best.weights) * 8 + rng.integers(0, 9, len(best.weights))).tolist())
        assert in_turn(fabric, collective, other) <= best.rate
    assert in_turn(fabric, collective, (1,) * len(best.weights)) <= best.rate


@pytest.mark.parametrize(
    ("expression", "failed", "shards"),
    [
        ("dgx_h100:4", "box0.gpu0--ib0", {9, 40}),
        ("mi300x:8", "box1.gpu2--ib0", {1, 2}),
        ("rail_optimized:16", "box3.gpu1--rail1", {7, 22}),
        ("mi250:2", None, {1}),
    ],
)
def test_the_best_shards_reach_the_optimum_in_turn(
    expression: str, failed: str | None, shards: set[int]
) -> None:
    """128 ranks and fewer: by cuts, as the allreduce bound of another module has it."""
    fabric, collective = posed(expression, failed)
    best = choices(fabric, collective)[0]
    assert (
        best.rate == best.certificate.bound(fabric, collective) == allreduce_bound(fabric, collective).algbw
    )
    assert in_turn(fabric, collective, best.weights) == best.rate
    assert set(best.weights) == shards


def test_a_star_of_ranks_needs_both_phases_at_once() -> None:
    """Every leaf wants half of the data: in turn 3/4 of a link, together all of it; the bound tells so."""
    fabric, collective = posed("star:4", None)
    best = choices(fabric, collective)[0]
    assert best.rate == Fraction(3, 4)
    assert in_turn(fabric, collective, best.weights) == Fraction(3, 4)
    assert allreduce_bound(fabric, collective).algbw == 1 == best.certificate.bound(fabric, collective)


NAMES = "abcdefgs"
FAMILY = Family(
    np.array([-1, 0, 0, 1, 1], dtype=np.int32), np.array([3, 3, 4, 4, 1, 2, 2, 0], dtype=np.int32)
)
"""Set 1 holds set 3 (a, b), set 4 (c, d) and e; set 2 is f and g; switch s lies in none."""


def odd_fabric() -> Instance:
    """Sets 3 and 4 are alike; what enters and leaves differs, and f is joined better than g."""
    builder = TopologyBuilder("odd")
    for name in NAMES:
        builder.switch(name) if name == "s" else builder.compute(name)
    links = [("ab", 9), ("ba", 9), ("cd", 9), ("dc", 9), ("ae", 4), ("eb", 3), ("ce", 4), ("ed", 3)]
    links += [("ef", 2), ("fg", 9), ("gf", 8), ("gs", 5), ("fs", 1), ("se", 6), ("ss", 7), ("bs", 1)]
    links += [("ds", 1), ("sg", 2)]
    for pair, bandwidth in links:
        builder.link(pair[0], pair[1], bandwidth)
    fabric = builder.build()
    ranks = tuple(NAMES.index(v) for v in "gbacfde")
    return instance_of(fabric, Collective(CollectiveKind.ALLGATHER, ranks))


def test_sets_that_differ_too_much_have_no_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight cuts, whether ranks are told by their links or by their sets and links."""
    problem = odd_fabric()
    monkeypatch.setattr(module, "_MOST_CUTS", 8)
    assert root_weights(problem, FAMILY)
    monkeypatch.setattr(module, "_MOST_CUTS", 7)
    assert root_weights(problem, FAMILY) == ()
