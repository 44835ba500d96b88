"""The parts of the allreduce synthesis: exact solving, separation, pruning of terminals, shortest trees."""

from __future__ import annotations

from fractions import Fraction

import pytest

from samples.allreduce_fabrics import allreduce, undirected, without_capabilities
from treadle.synthesis.trees import pack_forest
from treadle.synthesis.trees.allreduce import (
    Construction,
    UnitLimits,
    allreduce_bound,
    solve_allreduce,
)
from treadle.synthesis.trees.allreduce import undirected_packing as packing_module
from treadle.synthesis.trees.allreduce.pair_network import network_of
from treadle.synthesis.trees.allreduce.tree_schedule import MAX_UNITS, trees_to_schedule
from treadle.synthesis.trees.allreduce.undirected_packing import pack_fabric_trees
from treadle.topologies import Topology, TopologyBuilder
from treadle.topologies.catalogue.platforms import dgx_h100, mi250
from treadle.verification.schedules import verify


@pytest.mark.parametrize(
    "topology",
    [dgx_h100(1, nvls=True), dgx_h100(2, 6, nvls=True), dgx_h100(2, 6, nvls=True, sharp=True)],
    ids=["one box", "NVLS", "both"],
)
def test_undirected_trees_branch_at_capable_switches(topology: Topology) -> None:
    """Without a packer, so that terminals cannot be used."""
    collective = allreduce(topology)
    solution = solve_allreduce(topology, collective)
    assert solution.construction is Construction.TREES
    assert solution.algbw == solution.bound.algbw
    assert solution.algbw > allreduce_bound(without_capabilities(topology), collective).algbw
    assert not verify(topology, collective, solution.schedule, claimed_algbw=solution.algbw).violations


def test_rates_with_huge_denominators_are_rounded_down() -> None:
    topology = undirected(3, [(0, 1, 1), (1, 2, 1), (0, 2, 1)])
    network = network_of(topology, allreduce(topology))
    packing = pack_fabric_trees(network)
    assert packing.rate == Fraction(3, 2)
    shrunk = [
        (tree, rate * Fraction(10**12 - 11 * i, 10**12)) for i, (tree, rate) in enumerate(packing.trees)
    ]
    schedule = trees_to_schedule(topology, network, shrunk)
    assert schedule.total_units <= MAX_UNITS
    report = verify(topology, allreduce(topology), schedule)
    assert not report.violations
    assert report.algbw is not None
    assert report.algbw > Fraction(3, 2) * 10**9 * Fraction(999, 1000)


@pytest.mark.parametrize("max_units", [1, 5, 20])
def test_limited_units_lose_as_little_as_they_must(max_units: int) -> None:
    topology = mi250(2, 8)
    solution = solve_allreduce(topology, allreduce(topology), pack=pack_forest, limits=UnitLimits(max_units))
    assert solution.schedule.total_units <= max_units
    assert not verify(
        topology, allreduce(topology), solution.schedule, claimed_algbw=solution.algbw
    ).violations
    assert solution.algbw >= {1: 16, 5: 80, 20: 128}[max_units] * 10**9


@pytest.mark.parametrize("most", [1, 2])
def test_trees_visit_the_switches_that_make_them_shorter(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By t from a to b it is farther than straight, 6 to 5; by u to b, c and d it is nearer, 6 to 10."""
    builder = TopologyBuilder("switches")
    for name in "abcd":
        builder.compute(name)
    for name in "tu":
        builder.switch(name, multicast=True, aggregation=True, turns_round=True)
    lengths = []
    for pair, length in (
        ("at", 3),
        ("bt", 3),
        ("ab", 5),
        ("bu", 2),
        ("cu", 2),
        ("du", 2),
        ("bc", 5),
        ("cd", 5),
    ):
        builder.duplex(pair[0], pair[1], 1)
        lengths += [length, length]
    topology = builder.build()
    monkeypatch.setattr(packing_module, "MAX_ENUMERATED_SWITCHES", most)
    search = packing_module._TreeMaster(network_of(topology, allreduce(topology)))
    assert search.is_exhaustive is (most == 2)
    (tree,) = search.candidates(lengths, 0)
    assert tree.length(search.network, lengths) == 11
    assert {node for edge in tree.edges for node in edge[:2]} == {0, 1, 2, 3, 5}
    # tried from the last choice on, where other lengths make t worth while
    lengths[4] = lengths[5] = 7
    (tree,) = search.candidates(lengths, 0)
    assert tree.length(search.network, lengths) == 12
