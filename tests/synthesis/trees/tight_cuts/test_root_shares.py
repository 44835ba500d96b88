"""Shards of an allreduce that suit a fabric whose boxes are not alike."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog

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

INSIDE = {1: "abcde", 2: "fg", 3: "ab", 4: "cd"}


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


def widths_of(problem: Instance, inside: str) -> tuple[int, int]:
    """Bandwidth into and out of some nodes."""
    into = out = 0
    for tail, head, bandwidth in zip(problem.tails, problem.heads, problem.bandwidths, strict=True):
        ends = NAMES[tail] in inside, NAMES[head] in inside
        into += int(bandwidth) if ends == (False, True) else 0
        out += int(bandwidth) if ends == (True, False) else 0
    return into, out


def test_ranks_and_sets_that_are_alike() -> None:
    """By their sets a to d are of a class, and f and g; by their links all but a and c, b and d differ."""
    problem = odd_fabric()
    coarse, fine = module._classes(problem, FAMILY)
    groups = [
        {
            frozenset(NAMES[v] for v in problem.terminals[row == number].tolist())
            for number in np.unique(row).tolist()
        }
        for row in (coarse, fine)
    ]
    assert groups[0] == {frozenset("abcd"), frozenset("e"), frozenset("fg")}
    assert groups[1] == {*map(frozenset, ("ac", "bd", "e", "f", "g"))}
    assert sorted(np.unique(coarse).tolist()) == [0, 1, 2]
    cuts = module._cuts(problem, FAMILY, fine)
    found = {}
    for cut in cuts:
        for place in cut.places.tolist():
            inside = NAMES[place] if cut.depth < 0 else INSIDE[place]
            ranks = Counter(int(fine[problem.terminals.tolist().index(NAMES.index(v))]) for v in inside)
            assert (cut.ranks, cut.entering, cut.leaving) == (ranks, *widths_of(problem, inside))
            found[inside] = cut.depth
    assert found == {"abcde": 1, "fg": 1, "ab": 2, "cd": 2} | dict.fromkeys("abcdefg", -1)
    # sets 3 and 4 count once, and so do a and c, b and d
    assert len(cuts) == 3 + 5


def test_prices_become_lengths_of_the_links_they_are_for() -> None:
    """A price is shared by sets that are alike, and added up over the sets that a link enters or leaves."""
    problem = odd_fabric()
    _, fine = module._classes(problem, FAMILY)
    cuts = module._cuts(problem, FAMILY, fine)
    prices = [
        (cut, is_in, Fraction(place + 1, 7 + is_in) if place % 3 else Fraction(0))
        for place, cut in enumerate(cuts)
        for is_in in (True, False)
    ]
    wanted = []
    for tail, head in zip(problem.tails.tolist(), problem.heads.tolist(), strict=True):
        length = Fraction(0)
        for cut, is_in, price in prices:
            for place in cut.places.tolist():
                inside = NAMES[place] if cut.depth < 0 else INSIDE[place]
                ends = NAMES[tail] in inside, NAMES[head] in inside
                length += price / len(cut.places) if ends == (not is_in, is_in) else 0
        wanted.append(length)
    assert module._lengths(problem, FAMILY, prices) == tuple(wanted)


def test_prices_of_both_ways() -> None:
    """As the rows have them; the mean of both where every cut is as wide in as out."""
    problem = odd_fabric()
    cuts = module._cuts(problem, FAMILY, module._classes(problem, FAMILY)[1])[:2]
    even = [replace(cut, leaving=cut.entering) for cut in cuts]
    dual = [Fraction(-value, 5) for value in (1, 2, 4, 8, 16)]
    for one, other in (cuts, even):
        rows = [(0, one, True), (1, one, False), (2, other, False), (3, one, True), (4, other, True)]
        found = {(id(cut), is_in): price for cut, is_in, price in module._prices(rows, dual)}
        pair = (Fraction(9, 5), Fraction(2, 5)), (Fraction(16, 5), Fraction(4, 5))
        if one is even[0]:
            pair = ((Fraction(11, 10),) * 2, (Fraction(2),) * 2)
        assert [found[id(cut), is_in] for cut in (one, other) for is_in in (True, False)] == [
            *pair[0],
            *pair[1],
        ]


def test_the_least_share_is_as_large_as_times_allow() -> None:
    """The linear program again, in floats, over every rank by itself; in slack times all shares are equal."""
    problem = odd_fabric()
    _, fine = module._classes(problem, FAMILY)
    cuts = module._cuts(problem, FAMILY, fine)
    sizes = Counter(fine.tolist())
    for gather, scatter in ((Fraction(2, 5), Fraction(1, 2)), (Fraction(1, 3), Fraction(3, 7)), (1, 1)):
        times = Fraction(gather), Fraction(scatter)
        found = module._even_shares(cuts, sizes, times)
        rows, bounds = [], []
        for cut in cuts:
            row = [float(cut.ranks.get(number, 0)) for number in sorted(sizes)]
            least = 1 - min(cut.entering * times[0], cut.leaving * times[1])
            most = min(cut.leaving * times[0], cut.entering * times[1])
            rows += [[*(-value for value in row), 0.0], [*row, 0.0]]
            bounds += [-float(least), float(most)]
        for place in range(len(sizes)):
            rows.append([-float(place == j) for j in range(len(sizes))] + [1.0])
            bounds.append(0.0)
        total = [[float(sizes[number]) for number in sorted(sizes)] + [0.0]]
        best = linprog([0.0] * len(sizes) + [-1.0], rows, bounds, total, [1.0])
        assert found is not None
        assert sum(found[number] * count for number, count in sizes.items()) == 1
        assert float(min(found.values())) == pytest.approx(-best.fun)
        inside = np.array([float(found[number]) for number in sorted(sizes)] + [0.0])
        assert np.all(np.array(rows[: 2 * len(cuts)]) @ inside <= np.array(bounds[: 2 * len(cuts)]) + 1e-9)
    assert found is not None
    assert set(found.values()) == {Fraction(1, 7)}


def test_sets_that_differ_too_much_have_no_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight cuts, whether ranks are told by their links or by their sets and links."""
    problem = odd_fabric()
    monkeypatch.setattr(module, "_MOST_CUTS", 8)
    assert root_weights(problem, FAMILY)
    monkeypatch.setattr(module, "_MOST_CUTS", 7)
    assert root_weights(problem, FAMILY) == ()
