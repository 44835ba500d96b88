"""Outermost pieces with several planes and room to spare, whose children are of few classes."""

from __future__ import annotations

import random

import numpy as np
import pytest

from reference.formula_checks import check_lookups, one_piece, planes_star
from treadle.arrays import Int64Array
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.schedules.factored import PlaneTrees
from treadle.synthesis.trees import optimum
from treadle.synthesis.trees.instance import instance_of
from treadle.synthesis.trees.tight_cuts.closed_forms.boundary_runs import Outermost
from treadle.synthesis.trees.tight_cuts.closed_forms.child_classes import class_trees
from treadle.synthesis.trees.tight_cuts.closed_forms.class_allocation import (
    class_allocation,
)
from treadle.synthesis.trees.tight_cuts.decompose import FactoredSynthesis, decompose
from treadle.synthesis.trees.tight_cuts.family import Family
from treadle.synthesis.trees.tight_cuts.subproblems import cut
from treadle.topologies.catalogue.clusters import rail_optimized
from treadle.topologies.catalogue.platforms import add_box, dgx_a100, dgx_a100_flat
from treadle.topologies.topology import Topology, TopologyBuilder
from treadle.topologies.transforms.changes import with_failed_links
from treadle.unsupported import Unsupported
from treadle.verification.schedules import verify


def star(
    units: list[int], out: list[list[int]], into: list[list[int]], block: int = 1, most: int = 99
) -> tuple[Topology, Collective, PlaneTrees | Unsupported]:
    """Ranks around planes that may carry so much, cut down to what their classes send each other."""
    weights = np.array(units, dtype=np.int64) * block
    shares = class_allocation(weights, np.array(out) * block, np.array(into) * block, block, most)
    if isinstance(shares, Unsupported):
        return planes_star(np.array(out), np.array(into)), on_all(weights), shares
    sums = [used[shares.class_of] for used in shares.sums()]
    topology = planes_star(*sums)
    problem = instance_of(topology, on_all(weights))
    family = Family(np.array([-1], dtype=np.int32), np.zeros(problem.n_nodes, dtype=np.int32))
    cutting = cut(problem, family, problem.bandwidths, weights)
    return topology, on_all(weights), class_trees(Outermost.of(cutting, {}, block), shares)


def on_all(weights: Int64Array) -> Collective:
    return Collective(CollectiveKind.ALLGATHER, tuple(range(len(weights))), weights=tuple(weights.tolist()))


STARS = {
    "equal": ([2, 2, 2, 2], [[9, 9]] * 4, [[9, 9]] * 4),
    "lone": ([3, 3, 3, 1, 1, 2], [*[[40, 40]] * 3, [40, 0], [0, 40], [40, 40]],
             [*[[40, 40]] * 3, [13, 0], [0, 13], [40, 40]]),
    "one way": ([1, 1, 1, 2], [[9, 0], [9, 9], [9, 9], [9, 9]], [[9, 9], [9, 0], [9, 9], [9, 9]]),
    "no tree": ([2, 2, 0, 0, 2], [[9, 9]] * 5, [[9, 9]] * 5),
}  # fmt: skip


@pytest.mark.parametrize(("name", "block"), [*((name, 1) for name in STARS), ("lone", 3), ("no tree", 3)])
def test_classes_on_a_star_span_and_use_every_unit_once(name: str, block: int) -> None:
    topology, collective, trees = star(*STARS[name], block=block)
    assert isinstance(trees, PlaneTrees)
    assert trees.depth == (2 if name == "lone" else 1)
    schedule = one_piece(topology, trees)
    for form in (schedule, schedule.explicit()):
        report = verify(topology, collective, form)
        assert not report.violations
        assert report.height_max == trees.depth
        assert report.algbw == sum(collective.weights or ())
    check_lookups(trees, topology.n_links)


def test_random_classes() -> None:
    rng = random.Random(5)
    relayed = 0
    for _ in range(25):
        planes, classes = rng.randint(1, 4), rng.randint(1, 4)
        units = [rng.randint(0, 4) for _ in range(classes)]
        units[0] += not any(units)
        masks = [[rng.random() < 0.4 for _ in range(planes)] for _ in range(classes)]
        masks[0] = [True] * planes
        of = list(range(classes)) * 2 + [rng.randrange(classes) for _ in range(rng.randint(0, 3))]
        rng.shuffle(of)
        room = [[400 * on for on in masks[one]] for one in of]
        topology, collective, trees = star([units[one] for one in of], room, room, rng.choice([1, 2]))
        if isinstance(trees, Unsupported):
            assert not all(any(mask) for mask in masks)
            continue
        relayed += trees.depth == 2
        assert not verify(topology, collective, one_piece(topology, trees)).violations
        check_lookups(trees, topology.n_links)
    assert relayed > 1


def test_planes_that_cannot_carry_it_are_refused() -> None:
    units, out, into = [2] * 4, [[3, 3]] * 4, [[3, 3]] * 4
    assert isinstance(star(units, out, into)[2], PlaneTrees)
    assert "cannot carry" in str(star(units, [[3, 2]] * 4, into)[2])
    assert "no child meets" in str(star([1, 1, 1, 1], [[9, 0], [0, 9]] * 2, [[9, 0], [0, 9]] * 2)[2])
    assert "of 4 classes" in str(star([1, 2, 3, 4], [[99, 99]] * 4, [[99, 99]] * 4, most=3)[2])


def lost(topology: Topology, count: int, seed: int, kind: str) -> Topology:
    """Without some links that have this in their names."""
    names = topology.node_names
    links = sorted(
        {tuple(sorted((names[a], names[b]))) for a, b in zip(topology.tails, topology.heads, strict=True)}
    )
    chosen = ["--".join(pair) for pair in links if any(kind in name for name in pair)]
    return with_failed_links(topology, *random.Random(seed).sample(chosen, count))


def check_both_forms(
    topology: Topology, collective: Collective, found: FactoredSynthesis, height: int
) -> None:
    """Optimal, and that low at most, both in factored form and written out."""
    best = optimum(topology, collective).algbw
    for form in (found.schedule, found.schedule.explicit()):
        report = verify(topology, collective, form, claimed_algbw=best)
        assert not report.violations
        assert report.height_max is not None
        assert report.height_max <= height


@pytest.mark.parametrize(
    ("fabric", "count", "links", "kind"),
    [
        (rail_optimized(16, 4), 2, "nvswitch", CollectiveKind.ALLGATHER),
        (rail_optimized(16, 4), 4, "", CollectiveKind.REDUCE_SCATTER),
        (rail_optimized(16, 4, spines=2, oversubscription=2), 3, "nvswitch", CollectiveKind.ALLGATHER),
        (dgx_a100(14), 2, "nvswitch", CollectiveKind.REDUCE_SCATTER),
        (dgx_a100(14), 4, "", CollectiveKind.ALLGATHER),
        (dgx_a100_flat(14), 2, "nvswitch", CollectiveKind.ALLGATHER),
    ],
)
def test_lost_links_of_boxes(fabric: Topology, count: int, links: str, kind: CollectiveKind) -> None:
    closed = 0
    for seed in range(2):
        topology = lost(fabric, count, seed, links)
        collective = on_all_ranks(topology, kind)
        found = decompose(topology, collective)
        assert not isinstance(found, Unsupported)
        check_both_forms(topology, collective, found, 4)
        closed += "by class trees" in found.summary or fabric.name.startswith("dgx_a100_flat")
    assert closed


@pytest.mark.parametrize(("sizes", "planes"), [([8, 4, 8, 4, 4], 2), ([3, 6, 6, 3, 6], 3)])
def test_boxes_of_two_sizes(sizes: list[int], planes: int) -> None:
    builder = TopologyBuilder("mixed boxes")
    tops = [builder.switch(f"ib{i}") for i in range(planes)]
    for i, size in enumerate(sizes):
        for j, name in enumerate(add_box(builder, f"box{i}", size, 300)):
            builder.duplex(name, tops[j % planes], 25)
    topology = builder.build()
    collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)
    found = decompose(topology, collective)
    assert not isinstance(found, Unsupported)
    assert "by class trees" in found.summary
    report = verify(topology, collective, found.schedule, claimed_algbw=optimum(topology, collective).algbw)
    assert not report.violations
    assert report.height_max is not None
    assert report.height_max <= 3
