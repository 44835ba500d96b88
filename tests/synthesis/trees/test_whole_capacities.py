"""Whole and balanced capacities on small fabrics: against all of them, and trimmed bandwidths by hand."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from treadle.errors import InfeasibleError
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.synthesis.trees import integral_capacities as module
from treadle.synthesis.trees.instance import Instance, find_violated_cut, instance_of
from treadle.synthesis.trees.integral_capacities import best_balancing, capacities_within
from treadle.synthesis.trees.switch_removal import unbalanced_relay
from treadle.topologies.topology import Topology, TopologyBuilder

K = CollectiveKind


def fabric_of(links: Sequence[tuple[str, str, int]], switches: str = "st") -> Topology:
    builder = TopologyBuilder("odd")
    for name in sorted({name for one, other, _ in links for name in (one, other)}):
        if name in switches:
            builder.switch(name)
        else:
            builder.compute(name)
    for link in links:
        builder.link(*link)
    return builder.build()


def problem_of(links: Sequence[tuple[str, str, int]], weights: tuple[int, ...]) -> Instance:
    topology = fabric_of(links)
    ranks = tuple(topology.compute_nodes.tolist())
    return instance_of(topology, Collective(K.ALLGATHER, ranks, weights=weights))


LINKS = [
    ("a", "s", 9),
    ("b", "s", 9),
    ("s", "a", 9),
    ("s", "b", 9),
    ("s", "c", 9),
    ("c", "a", 9),
    ("b", "c", 9),
]


@pytest.mark.parametrize("weights", [(1, 1, 1), (1, 0, 2)])
def test_capacities_within_limits(weights: tuple[int, ...]) -> None:
    """Just where there are some; of those that hold the trees one with the largest total."""
    problem, seen = problem_of(LINKS, weights), set()
    for seed in range(7):
        limits = np.random.default_rng(seed).integers(1, 4, 7)
        for trees in (1, 2):
            found = capacities_within(problem, limits, trees)
            sums = [
                sum(units)
                for units in product(*(range(most + 1) for most in limits.tolist()))
                if units[0] + units[1] == units[2] + units[3] + units[4]
                and find_violated_cut(problem, np.array(units), multiplicity=trees) is None
            ]
            seen.add(found is not None)
            assert (found is not None) is bool(sums)
            if found is not None:
                assert found.sum() == max(sums)
                assert (found <= limits).all()
                assert unbalanced_relay(problem, found) is None
                assert find_violated_cut(problem, found, multiplicity=trees) is None
    assert seen == {True, False}


def test_programs_that_are_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """By links, and by what they hold."""
    problem = problem_of(LINKS, (1, 1, 1))
    limits = np.full(7, 4)
    for most, fine in ((7, True), (6, False)):
        monkeypatch.setattr(module, "MOST_LINKS", most)
        assert (capacities_within(problem, limits, 1) is not None) is fine
    monkeypatch.setattr(module, "MOST_LINKS", 7)
    limits[0] = 2**31 - 1
    assert capacities_within(problem, limits, 1) is not None
    limits[0] = 2**31
    assert capacities_within(problem, limits, 1) is None


@pytest.mark.parametrize(
    ("into", "out", "direct", "bandwidths", "share"),
    [
        # a -> s -> b: the narrower one counts
        (5, 4, 3, [4, 4, 3], Fraction(1)),
        (4, 5, 3, [4, 4, 3], Fraction(1)),
        (4, 4, 3, [4, 4, 3], Fraction(1)),
    ],
)
def test_bandwidths_that_a_switch_passes_on(
    into: int, out: int, direct: int, bandwidths: list[int], share: Fraction
) -> None:
    topology = fabric_of([("a", "s", into), ("s", "b", out), ("a", "b", direct), ("b", "a", 50)])
    collective = Collective(K.ALLGATHER, tuple(topology.compute_nodes.tolist()), weights=(1, 0))
    found = best_balancing(topology, collective)
    assert found.bandwidths.tolist() == [*bandwidths, 50]
    assert (found.scale, found.share) == (1, share)


def test_what_is_cut_away_costs_least() -> None:
    """Two take in by s: 3 + 3 of 4; a -> c and b -> d are let through anyhow, shared as the rate wants it."""
    links = [("a", "s", 4), ("s", "b", 3), ("s", "c", 3), ("b", "c", 9), ("c", "b", 9), ("b", "a", 9)]
    topology = fabric_of(links)
    collective = Collective(K.ALLGATHER, tuple(topology.compute_nodes.tolist()), weights=(1, 0, 0))
    found = best_balancing(topology, collective)
    # b and c take from each other: what leaves s counts once
    assert found.share == 1
    kept = found.bandwidths
    assert kept[0] == 4 * found.scale
    assert kept[1] + kept[2] == kept[0]
    assert (kept <= topology.bandwidths * found.scale).all()


def test_the_lesser_of_both_directions() -> None:
    """What a link that only one direction needs is trimmed to is told by the worse one of an allreduce."""
    links = [("a", "s", 6), ("s", "a", 6), ("b", "s", 6), ("s", "b", 6), ("c", "s", 6), ("s", "c", 5)]
    topology = fabric_of(links)
    ranks = tuple(topology.compute_nodes.tolist())
    shares = {
        kind: best_balancing(topology, Collective(kind, ranks)).share for kind in (K.ALLGATHER, K.ALLREDUCE)
    }
    both = best_balancing(topology, Collective(K.ALLREDUCE, ranks))
    assert shares[K.ALLGATHER] == 1  # 5 into c bind; one of six is taken off somewhere else
    assert 0 < both.share <= 1
    total = both.bandwidths.sum()
    assert both.bandwidths[[0, 2, 4]].sum() == both.bandwidths[[1, 3, 5]].sum() == total / 2


def test_no_way_out_of_large_fabrics(monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest total keeps s -> b, which two ways lead to, and cuts c off."""
    links = [("a", "s", 1), ("s", "t", 1), ("t", "b", 1), ("s", "c", 1), ("b", "a", 5), ("c", "a", 5)]
    topology = fabric_of(links)
    ranks = tuple(topology.compute_nodes.tolist())
    collective = Collective(K.ALLGATHER, ranks, weights=(1, 0, 0))
    found = best_balancing(topology, collective)
    assert found.share == Fraction(1, 2)
    assert (found.bandwidths * 2 == np.array([2, 1, 1, 1, 10, 10]) * found.scale).all()
    monkeypatch.setattr(module, "MOST_LINKS", 5)
    with pytest.raises(InfeasibleError) as refused:
        best_balancing(topology, collective)
    assert str(refused.value) == (
        "odd: taking the least bandwidth away to balance switches and forwarders cuts ranks off, "
        "and of 6 links (at most 5) no better way is looked for"
    )
