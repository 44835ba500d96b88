"""The verifier on trees that use operations of switches, held against a slow checker."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np

from samples import forest_samples as samples
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.trees.forest import (
    Direction,
    ForestSchedule,
    TreeSpec,
    forest_from_trees,
)
from treadle.schedules.trees.forest_cost import algbw
from treadle.schedules.trees.forest_transforms import reverse
from treadle.topologies.topology import Topology, TopologyBuilder
from treadle.verification.schedules import Report, ViolationKind, verify


def kinds(report: Report) -> set[ViolationKind]:
    return {violation.kind for violation in report.violations}


def test_pruned_path_needs_a_capable_switch() -> None:
    topology, collective, schedule = samples.pruned_broadcast()
    plain = replace(topology, multicast=np.zeros(6, dtype=bool), turns_round=np.zeros(6, dtype=bool))
    assert kinds(verify(plain, collective, schedule)) == {ViolationKind.ENDS}


def _on_multicast_star(paths: dict[int, list[tuple[tuple[int, ...], int]]], parent: list[int]) -> Report:
    topology = samples.star(4, capable=True)
    forest = forest_from_trees(Direction.BROADCAST, 4, [TreeSpec(0, 2, parent, paths)])
    collective = on_all_ranks(topology, CollectiveKind.BROADCAST, root=0)
    return verify(topology, collective, ForestSchedule(CollectiveKind.BROADCAST, broadcast=forest))


def test_pruned_units_are_aligned() -> None:
    # unit 0 reaches the switch by the edge to rank 1, unit 1 by the edge to rank 2
    split = {1: [((0, 5), 1), ((5,), 1)], 2: [((6,), 1), ((0, 6), 1)], 3: [((7,), 2)]}
    assert _on_multicast_star(split, [-1, 0, 0, 0]).is_ok
    # now both have unit 0, and nobody brings unit 1
    both = {1: [((0, 5), 1), ((5,), 1)], 2: [((0, 6), 1), ((6,), 1)], 3: [((7,), 2)]}
    report = _on_multicast_star(both, [-1, 0, 0, 0])
    assert kinds(report) == {ViolationKind.SUPPLY}
    assert report.n_violations == 3


def test_pruned_paths_in_a_circle_are_rejected() -> None:
    # rank 1 feeds the switch, but gets its own data from the switch
    circle = {1: [((5,), 2)], 2: [((1, 6), 2)], 3: [((7,), 2)]}
    assert kinds(_on_multicast_star(circle, [-1, 0, 1, 0])) == {ViolationKind.SUPPLY}
    # rank 3's path leaves from the root after all, so everything is fed
    assert _on_multicast_star({**circle, 3: [((0, 7), 2)]}, [-1, 0, 1, 0]).is_ok


def _random_pruned(seed: int, *, asked: bool = False) -> samples.Sample:
    """A random tree on two joined multicasting switches; each path begins at a switch or at its parent.

    If `asked`, one switch or both work for ranks that ask, and some links are double.
    """
    rng = np.random.default_rng(seed)
    builder = TopologyBuilder("random")
    n = 5
    for i in range(n):
        builder.compute(f"g{i}")
    for name in ("v", "w"):
        builder.switch(name, multicast=True, turns_round=not asked or (name == "v" and seed % 2 == 0))
        for i in range(n):
            for _ in range(1 + int(asked and rng.random() < 0.3)):
                builder.duplex(f"g{i}", name, 7)
    builder.duplex("v", "w", 7)
    topology = builder.build()
    units = int(rng.integers(1, 4))
    parent = [-1, *(int(rng.integers(0, min(i, 2 if asked else i))) for i in range(1, n))]
    walks = [("v",), ("w",), ("v", "w"), ("w", "v")][: 2 if asked else 4]
    paths: dict[int, list[tuple[tuple[int, ...], int]]] = {}
    for i in range(1, n):
        cuts = sorted({0, units, int(rng.integers(0, units + 1))})
        paths[i] = []
        for low, high in itertools.pairwise(cuts):
            stops = (*walks[rng.integers(len(walks))], f"g{i}")
            if rng.random() < 0.55:
                stops = (f"g{parent[i]}", *stops)
            links = samples.walk(topology, *stops)
            if asked:
                links = tuple(int(rng.choice(_alike(topology, link))) for link in links)
            paths[i].append((links, high - low))
    forest = forest_from_trees(Direction.BROADCAST, n, [TreeSpec(0, units, parent, paths)])
    collective = on_all_ranks(topology, CollectiveKind.BROADCAST, root=0)
    return topology, collective, ForestSchedule(CollectiveKind.BROADCAST, broadcast=forest)


def _alike(topology: Topology, link: int) -> list[int]:
    """The links parallel to a link, itself included."""
    ends = topology.tails[link], topology.heads[link]
    return np.flatnonzero((topology.tails == ends[0]) & (topology.heads == ends[1])).tolist()


def _turned(sample: samples.Sample) -> samples.Sample:
    """The reduction that is a broadcast's mirror image."""
    topology, _, schedule = sample
    assert schedule.broadcast is not None
    back = topology.transpose()
    collective = on_all_ranks(back, CollectiveKind.REDUCE, root=0)
    return back, collective, ForestSchedule(CollectiveKind.REDUCE, reduce=reverse(schedule.broadcast))


def test_random_operations_against_the_slow_checker() -> None:
    """Copies at switches that work for ranks that ask: verdicts, and loads in costs and verifier."""
    verdicts, dearer = [], 0
    for seed in range(140):
        for sample in (_random_pruned(seed, asked=True), _turned(_random_pruned(seed, asked=True))):
            verdicts.append(samples.is_correct(*sample))
            report = verify(*sample)
            assert report.is_ok == verdicts[-1], seed
            assert kinds(report) <= {ViolationKind.SUPPLY}
            if report.is_ok:
                topology, _, schedule = sample
                assert report.algbw == samples.slow_algbw(topology, schedule) == algbw(topology, schedule)
                able = topology.multicast | topology.aggregation
                dearer += algbw(replace(topology, turns_round=able), schedule) > report.algbw
    assert 35 < sum(verdicts) < 245
    assert dearer > 7


def test_a_copy_is_of_an_operation_of_its_parent() -> None:
    topology = samples.star(4, asked=True)
    collective = on_all_ranks(topology, CollectiveKind.BROADCAST, root=0)

    def report(paths: dict[int, tuple[int, ...]], parent: list[int]) -> Report:
        specs = [TreeSpec(0, 1, parent, {v: [(links, 1)] for v, links in paths.items()})]
        forest = forest_from_trees(Direction.BROADCAST, 4, specs)
        return verify(topology, collective, ForestSchedule(CollectiveKind.BROADCAST, broadcast=forest))

    # all links down are full: that of the asker, too
    good = report({1: (0, 5), 2: (6,), 3: (7,)}, [-1, 0, 0, 0])
    assert good.algbw == 12
    # the data do pass through the switch, but rank 1 asks for nothing
    bad = report({1: (0, 5), 2: (0, 6), 3: (7,)}, [-1, 0, 0, 1])
    assert kinds(bad) == {ViolationKind.SUPPLY}
    assert "leaves w" not in bad.violations[0].message
    assert "reaches w by another edge of its parent; the switch is GPU-initiated" in (
        bad.violations[0].message
    )


def test_an_asker_is_of_the_group_itself() -> None:
    """A rank without a link back cannot ask, and one without a link up is not served."""
    for missing, fine in ((("w", "g0"), False), (("g3", "w"), False), (None, True)):
        builder = TopologyBuilder("one way")
        for i in range(4):
            builder.compute(f"g{i}")
        builder.switch("w", multicast=True)
        for i in range(4):
            for tail, head in ((f"g{i}", "w"), ("w", f"g{i}")):
                if (tail, head) != missing:
                    builder.link(tail, head, 5)
        builder.link("g0", "g3", 5)
        topology = builder.build()
        paths = {1: [(samples.walk(topology, "g0", "w", "g1"), 1)]}
        paths |= {v: [(samples.walk(topology, "w", f"g{v}"), 1)] for v in (2, 3)}
        forest = forest_from_trees(Direction.BROADCAST, 4, [TreeSpec(0, 1, [-1, 0, 0, 0], paths)])
        collective = on_all_ranks(topology, CollectiveKind.BROADCAST, root=0)
        schedule = ForestSchedule(CollectiveKind.BROADCAST, broadcast=forest)
        report = verify(topology, collective, schedule)
        assert report.is_ok == samples.is_correct(topology, collective, schedule) == fine
        assert kinds(report) <= {ViolationKind.SUPPLY}


def test_random_pruned_trees_against_the_slow_checker() -> None:
    verdicts = []
    for seed in range(120):
        sample = _random_pruned(seed)
        verdicts.append(samples.is_correct(*sample))
        report = verify(*sample)
        assert report.is_ok == verdicts[-1], seed
        assert kinds(report) <= {ViolationKind.SUPPLY}
    assert 12 < sum(verdicts) < 108


def test_root_carries_nothing() -> None:
    paths = {v: [((0, 4 + v), 2)] for v in (1, 2, 3)}
    assert _on_multicast_star(paths, [-1, 0, 0, 0]).is_ok
    assert kinds(_on_multicast_star({**paths, 0: [((4,), 2)]}, [-1, 0, 0, 0])) == {ViolationKind.UNITS}
