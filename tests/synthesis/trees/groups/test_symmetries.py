"""Symmetries of groups: against all permutations of small fabrics, and what the optimum makes of them."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations
from random import Random

import numpy as np
import pytest

from samples.groups.group_samples import grouped
from samples.groups.regular_fabrics import grouped_fabric
from treadle.errors import InfeasibleError
from treadle.schedules.collective import SPANNING_KINDS, Collective, CollectiveKind
from treadle.synthesis.trees.groups import group_optimum as module
from treadle.synthesis.trees.groups import known_trees
from treadle.synthesis.trees.groups import symmetries as module_of_symmetries
from treadle.synthesis.trees.groups.group_colours import refined
from treadle.synthesis.trees.groups.group_optimum import group_optimum
from treadle.synthesis.trees.groups.known_trees import forests_of_trees
from treadle.synthesis.trees.groups.symmetries import Symmetry, orbit_colours, symmetries
from treadle.synthesis.trees.groups.union import GroupUnion, union_of
from treadle.topologies.topology import Topology, TopologyBuilder
from treadle.topologies.transforms.failures import without_failures
from treadle.verification.schedules import verify


def known(union: GroupUnion) -> list[Symmetry]:
    return symmetries(union, refined(union))


def all_symmetries(topology: Topology, collective: Collective) -> set[tuple[int, ...]]:
    """By trying: maps of nodes that keep links with their bandwidths, kinds of nodes, groups and roots."""

    def links(order: tuple[int, ...]) -> list[tuple[int, int, int]]:
        ends = zip(
            topology.tails.tolist(), topology.heads.tolist(), topology.bandwidths.tolist(), strict=True
        )
        return sorted((order[tail], order[head], bandwidth) for tail, head, bandwidth in ends)

    def groups(order: tuple[int, ...]) -> set[tuple[frozenset[int], int]]:
        members = [[collective.ranks[rank] for rank in group] for group in collective.groups or ()]
        root = collective.root
        return {
            (frozenset(order[node] for node in group), -1 if root is None else order[group[root]])
            for group in members
        }

    same = tuple(range(topology.n_nodes))
    return {
        order
        for order in permutations(same)
        if all(topology.is_compute[node] == topology.is_compute[order[node]] for node in same)
        and groups(order) == groups(same)
        and links(order) == links(same)
    }


@pytest.mark.parametrize("kind", [CollectiveKind.ALLGATHER, CollectiveKind.BROADCAST])
@pytest.mark.parametrize(
    ("fabric", "shape", "is_few"),
    [("ring(6)", (3, 2), False), ("mesh(2,3)", (2, 3), True), ("torus(2,3)", (2, 3), False)],
)
def test_all_symmetries_are_found_or_none(
    fabric: str, shape: tuple[int, int], is_few: bool, kind: CollectiveKind
) -> None:
    topology, collective = grouped(kind, fabric, shape, 0, True)
    found = known(union_of(topology, collective))
    every = all_symmetries(topology, collective)
    assert {tuple(one.nodes.tolist()) for one in found} in (every, {tuple(range(topology.n_nodes))})
    if is_few:
        assert len(found) == len(every)
    if is_few and kind is CollectiveKind.ALLGATHER:
        assert len(found) == 4


def test_a_torus_with_a_dead_link_keeps_its_mirror_images() -> None:
    topology, collective = grouped(CollectiveKind.ALLGATHER, "torus(6,6)", (6, 6), 0, True)
    topology = without_failures(topology, "n0_0--n0_1")
    union = union_of(topology, collective)
    colours, found = refined(union), known(union)
    assert len(found) == 4
    for one in found:
        assert sorted(one.nodes.tolist()) == list(range(36))
        assert np.array_equal(one.nodes[topology.tails], topology.tails[one.links])
        assert np.array_equal(one.nodes[topology.heads], topology.heads[one.links])
    orbits = orbit_colours(union, found)
    for part in ("places", "pairs", "links"):
        assert len(np.unique(getattr(orbits, part))) >= len(np.unique(getattr(colours, part)))
    assert len(np.unique(orbits.pairs)) == len(np.unique(colours.pairs))


def by_symmetries(monkeypatch: pytest.MonkeyPatch) -> None:
    """No classes but those of known symmetries from here on."""
    monkeypatch.setattr(module, "_MIN_LINKS_PER_CLASS", 10**9)


@pytest.mark.parametrize("kind", SPANNING_KINDS)
@pytest.mark.parametrize(
    ("fabric", "shape", "forward", "dead"),
    [
        ("torus(4,4)", (4, 4), True, "n0_0--n0_1"),
        ("generalized_kautz(3,12)", (4, 3), True, ""),
        ("leaf_spine(2,2,gpus_per_leaf=4,oversubscription=2)", (2, 4), False, ""),
        ("dgx_h100(2)", (2, 8), True, "box0.gpu0--ib0"),
    ],
)
def test_trees_of_a_vertex_are_the_schedule(
    fabric: str,
    shape: tuple[int, int],
    forward: bool,
    dead: str,
    kind: CollectiveKind,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topology, collective = grouped(kind, fabric, shape, 0, forward)
    topology = without_failures(topology, dead) if dead else topology
    expected = group_optimum(topology, collective)
    by_symmetries(monkeypatch)
    found = group_optimum(topology, collective)
    assert found.has_trees
    assert found.lower == found.upper == expected.lower == expected.upper
    for group in range(collective.n_groups or 0):
        for reducing in found.families:
            assert sum(tree.bandwidth for tree in found.trees(group, reducing=reducing)) == found.lower
    report = verify(topology, collective, forests_of_trees(found))
    assert not report.violations
    assert report.algbw == found.lower


def test_random_fabrics_agree_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    random, cases = Random(11), []
    while len(cases) < 25:
        topology, collective = grouped_fabric(random)
        try:
            cases.append(group_optimum(topology, collective))
        except InfeasibleError:
            continue
    by_symmetries(monkeypatch)
    for case in cases:
        found = group_optimum(case.topology, case.collective)
        assert found.lower == found.upper == case.lower == case.upper
        schedule = forests_of_trees(found)
        report = verify(case.topology, case.collective, schedule)
        assert not report.violations
        assert report.algbw == found.lower


@pytest.mark.parametrize("kind", SPANNING_KINDS)
def test_trees_of_too_many_units_are_rounded(kind: CollectiveKind, monkeypatch: pytest.MonkeyPatch) -> None:
    topology, collective = grouped(kind, "random_regular_digraph(12,3)", (3, 4), 0, True)
    by_symmetries(monkeypatch)
    found = group_optimum(topology, collective)
    monkeypatch.setattr(known_trees, "UNIT_LIMIT", 1)
    monkeypatch.setattr(known_trees, "_GRID", 1000)
    report = verify(topology, collective, forests_of_trees(found))
    assert not report.violations
    assert report.algbw is not None
    assert found.lower * Fraction(99, 100) < report.algbw <= found.lower


def crossed(root: int | None) -> tuple[Topology, Collective]:
    """Ranks a, b, c and d in pairs; switch s joins a and d, t joins b and c; one-way links and two in one."""
    builder = TopologyBuilder("crossed")
    for name in "abcd":
        builder.compute(name)
    for name in "st":
        builder.switch(name)
    for tail, head in ("ab", "ba", "cd", "dc"):
        builder.link(tail, head, 5)
    for name, switch in ("as", "ds", "bt", "ct"):
        builder.duplex(name, switch, 3)
    for tail, head in ("ac", "ac", "db", "bd", "ca"):
        builder.link(tail, head, 2)
    builder.link("d", "b", 2)
    kind = CollectiveKind.ALLGATHER if root is None else CollectiveKind.BROADCAST
    return builder.build(), Collective(
        kind, (0, 1, 2, 3), root=root, groups=((0, 1), (3, 2)), ranks_forward=True
    )


@pytest.mark.parametrize("root", [None, 0, 1])
def test_every_map_of_nodes_is_told(root: int | None) -> None:
    """A symmetry keeps links and bandwidths, ranks, groups and roots; it carries each link to its image."""
    topology, collective = crossed(root)
    union, every = union_of(topology, collective), all_symmetries(topology, collective)
    assert len(every) > 1
    for order in permutations(range(topology.n_nodes)):
        found = module_of_symmetries._checked(union, np.array(order))
        assert (found is not None) == (order in every), order
        if found is None:
            continue
        assert found.nodes.tolist() == list(order)
        assert sorted(found.links.tolist()) == list(range(topology.n_links))
        for ends in (topology.tails, topology.heads):
            assert found.nodes[ends].tolist() == ends[found.links].tolist()
        assert topology.bandwidths.tolist() == topology.bandwidths[found.links].tolist()
        pairs = ((0, 1), (2, 3))
        wanted = [
            next(at for at, pair in enumerate(pairs) if {order[v] for v in nodes} == set(pair))
            for nodes in pairs
        ]
        assert found.kinds.tolist() == wanted
