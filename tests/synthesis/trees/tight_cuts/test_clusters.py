"""Clusters in fabrics of equal links: found where planted, not elsewhere; optima like the pipeline's."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from samples.clustered_fabrics import clustered
from samples.nested_fabrics import all_cuts_rate
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.synthesis.trees.fixed_trees import floor_capacities
from treadle.synthesis.trees.instance import Instance, instance_of
from treadle.synthesis.trees.optimality import optimum
from treadle.synthesis.trees.packers.packers import Packer
from treadle.synthesis.trees.packers.vertex_matching import height_bound
from treadle.synthesis.trees.pipeline import synthesise
from treadle.synthesis.trees.tight_cuts.balancing import balance_capacities
from treadle.synthesis.trees.tight_cuts.decompose import FactoredSynthesis, decompose
from treadle.synthesis.trees.tight_cuts.sets.dendrogram import Dendrogram, single_linkage
from treadle.synthesis.trees.tight_cuts.sets.detection import detect
from treadle.synthesis.trees.tight_cuts.sets.diffusion import clusters
from treadle.synthesis.trees.tight_cuts.sets.quotient import Quotient
from treadle.synthesis.trees.tree_budget import TreeBudget
from treadle.topologies import Topology, TopologyBuilder, parse
from treadle.unsupported import Unsupported
from treadle.verification.schedules import verify


def gathered(topology: Topology) -> Collective:
    return on_all_ranks(topology, CollectiveKind.ALLGATHER)


def posed(topology: Topology) -> Instance:
    return instance_of(topology, gathered(topology))


def circulants(sizes: list[int], joins: list[tuple[int, int, int]]) -> Topology:
    """Circulants of steps 1 and 5, joined by so many links; nodes of a cluster have numbers in a row."""
    builder = TopologyBuilder("circulants")
    names = [[builder.compute(f"c{i}n{j}") for j in range(size)] for i, size in enumerate(sizes)]
    for row in names:
        pairs = {tuple(sorted((j, (j + step) % len(row)))) for j in range(len(row)) for step in (1, 5)}
        for one, other in sorted(pairs):
            builder.duplex(row[one], row[other], 10**9)
    used = [0] * len(sizes)
    for i, j, count in joins:
        for _ in range(count):
            ends = []
            for k in (i, j):
                ends.append(names[k][7 * used[k] % sizes[k]])
                used[k] += 1
            builder.duplex(*ends, 10**9)
    return builder.build()


def ring(count: int, links: int) -> list[tuple[int, int, int]]:
    return [(i, (i + 1) % count, links) for i in range(count)]


def blocks(sizes: list[int]) -> set[frozenset[int]]:
    ends = np.cumsum([0, *sizes]).tolist()
    return {frozenset(range(low, high)) for low, high in pairwise(ends)}


def found_sets(topology: Topology) -> set[frozenset[int]]:
    family = detect(posed(topology))
    return {frozenset(family.members(number).tolist()) for number in range(1, family.n_sets)}


def test_the_strongest_links_are_looked_at_first() -> None:
    """Links of nineteen bandwidths, more than are tried: the fastest make boxes of three, slow ones pairs."""
    builder = TopologyBuilder("pairs of boxes")
    boxes = [[builder.compute(f"box{i}.{j}") for j in range(3)] for i in range(4)]
    for one, two, three in boxes:
        for pair in ((one, two), (two, three), (three, one)):
            builder.duplex(*pair, 1000)
    for width in range(4, 21):
        builder.duplex(boxes[0][0], boxes[1][0], width)
        builder.duplex(boxes[2][0], boxes[3][0], width)
    for number in range(100):  # the slowest together carry more than those of a pair: boxes need theirs most
        builder.duplex(boxes[number % 2][number % 3], boxes[2 + number // 2 % 2][number // 3 % 3], 3)
    assert blocks([3] * 4) <= found_sets(builder.build())


SIXTEEN = [16] * 6
UNEQUAL = [12, 31, 16, 24, 40, 18]
PLANTED = {
    "ring": (SIXTEEN, ring(6, 2)),
    "unequal": (UNEQUAL, ring(6, 2)),
    "dumbbell": ([64, 64], [(0, 1, 4)]),
    "grid": ([16] * 9, [(3 * i + j, 3 * i + (j + 1) % 3, 1) for i in range(3) for j in range(3)]
             + [(3 * i + j, 3 * ((i + 1) % 3) + j, 1) for i in range(3) for j in range(3)]),
    "tree": (SIXTEEN, [(0, 1, 1), (0, 2, 1), (1, 3, 1), (1, 4, 1), (2, 5, 1)]),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_planted_clusters_are_found(name: str) -> None:
    sizes, joins = PLANTED[name]
    assert found_sets(circulants(sizes, joins)) == blocks(sizes)


def test_clusters_of_clusters_are_found() -> None:
    sizes = [16] * 12
    inner = [(4 * s + i, 4 * s + (i + 1) % 4, 2) for s in range(3) for i in range(4)]
    found = found_sets(circulants(sizes, [*inner, (0, 5, 1), (6, 9, 1), (10, 3, 1)]))
    assert found == blocks(sizes) | blocks([64] * 3)


def test_dense_blocks_are_found_whatever_their_order() -> None:
    """Blocks whose borders bind, not single ranks; the numbers of their nodes are mixed."""
    builder = TopologyBuilder("mixed")
    names = [builder.compute(f"n{i}") for i in range(40)]
    for i in range(40):
        for j in range(i % 5, i, 5):
            builder.duplex(names[i], names[j], 7)
    for i in range(5):
        builder.duplex(names[i], names[(i + 1) % 5 + 10], 7)
    assert found_sets(builder.build()) == {frozenset(range(i, 40, 5)) for i in range(5)}


def test_borders_as_wide_as_fabrics_may_be() -> None:
    """Half of 200 ranks is entered by 10,000 links of 2**46 bytes/s: all together are near 2**62."""
    builder = TopologyBuilder("wide")
    names = [builder.compute(f"n{i}") for i in range(200)]
    for i in range(200):
        for j in range(i):
            builder.duplex(names[i], names[j], 2**46)
    assert not found_sets(builder.build())


@pytest.mark.parametrize(
    "fabric",
    [
        *(
            "torus(8,8)",
            "torus(32,32)",
            "torus(2,64)",
            "torus(128)",
            "mesh(16,16)",
            "hypercube(8)",
            "complete(24)",
        ),
        *(
            "jellyfish(256,4)",
            "jellyfish(64,3)",
            "dragonfly(4,2)",
            "dragonfly(8,1)",
            "kautz(3,3)",
            "slimfly(5)",
        ),
    ],
)
def test_nothing_is_found_where_there_are_no_clusters(fabric: str) -> None:
    topology = parse(fabric)
    assert detect(posed(topology)).n_sets == 1


def test_fabrics_around_one_switch_are_left_alone() -> None:
    builder = TopologyBuilder("hub")
    hub = builder.switch("hub")
    names = [builder.compute(f"n{i}") for i in range(16)]
    for i, name in enumerate(names):
        builder.duplex(name, hub, 1 + i % 2)
    assert clusters(Quotient.of(posed(builder.build()))) is None


def test_switches_between_ranks_belong_to_their_clusters() -> None:
    """Every rank pair of a cluster is joined by a switch of its own, as fast as all other links."""
    builder = TopologyBuilder("relayed")
    names = [[builder.compute(f"c{i}n{j}") for j in range(6)] for i in range(4)]
    for i, row in enumerate(names):
        for j in range(6):
            for k in range(j):
                middle = builder.switch(f"c{i}s{j}.{k}")
                builder.duplex(row[j], middle, 5)
                builder.duplex(middle, row[k], 5)
    for i in range(4):
        builder.duplex(names[i][0], names[(i + 1) % 4][3], 5)
    topology = builder.build()
    assert {len(found) for found in found_sets(topology)} == {6 + 15}
    found = decompose(topology, gathered(topology))
    assert isinstance(found, FactoredSynthesis)
    assert found.algbw == optimum(topology, gathered(topology)).algbw


def joined(links: list[tuple[int, int, int]], n_nodes: int) -> Dendrogram | None:
    one, other, apart = (np.array(column) for column in zip(*links, strict=True))
    return single_linkage(n_nodes, one, other, apart.astype(np.float64))


def test_dendrogram_joins_the_nearest_first() -> None:
    links = [(0, 1, 4), (1, 2, 1), (2, 3, 3), (3, 0, 9), (3, 4, 2)]
    tree = joined(links, 5)
    assert tree is not None
    sets = [set(tree.members(number).tolist()) for number in range(5, 9)]
    assert sets == [{1, 2}, {3, 4}, {1, 2, 3, 4}, {0, 1, 2, 3, 4}]
    assert tree.sums(np.arange(5), np.array([10, 20, 40, 80])).tolist()[5:] == [13, 27, 80, 160]
    one, other = np.triu_indices(5, 1)
    least = [
        min(i for i, members in enumerate(sets) if {a, b} <= members) for a, b in zip(one, other, strict=True)
    ]
    assert tree.joined_at(one, other).tolist() == least


def test_dendrogram_of_what_is_not_connected_is_none() -> None:
    assert joined([(0, 1, 1), (2, 3, 1)], 4) is None


def checked(
    topology: Topology, budget: TreeBudget, *, thorough: bool = True
) -> FactoredSynthesis | Unsupported:
    """What decomposition returns, its optimum by flows of the whole; `thorough`: both forms verified."""
    collective = gathered(topology)
    found = decompose(topology, collective, budget=budget)
    if isinstance(found, Unsupported):
        return found
    best = optimum(topology, collective)
    assert found.algbw <= best.algbw <= found.optimum.algbw
    if budget.exact:
        assert found.algbw == best.algbw == found.optimum.algbw
    for schedule in (found.schedule, found.schedule.explicit()) if thorough else ():
        report = verify(
            topology, collective, schedule, claimed_algbw=found.algbw, certificate=found.optimum.certificate
        )
        assert report.is_ok, report.violations[:3]
    return found


def test_optima_of_random_clustered_fabrics_are_the_pipelines() -> None:
    made = 0
    for seed in range(20):
        topology, _ = clustered(seed)
        try:
            found = checked(topology, TreeBudget(exact=True), thorough=seed % 5 == 0)
            made += not isinstance(found, Unsupported)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error
    assert made >= 18


def test_optima_of_tiny_clustered_fabrics_are_those_of_all_cuts() -> None:
    tried = 0
    for seed in range(300):
        topology, _ = clustered(seed)
        if topology.n_nodes > 10:
            continue
        found = checked(topology, TreeBudget(exact=True), thorough=False)
        if not isinstance(found, Unsupported):
            tried += 1
            assert found.optimum.rate == Fraction(*all_cuts_rate(topology, gathered(topology))), seed
    assert tried >= 5


@pytest.mark.parametrize("trees", [1, 3])
def test_fixed_trees_of_clustered_fabrics_are_no_worse_than_growth(trees: int) -> None:
    for seed in range(200, 206):
        topology, _ = clustered(seed)
        budget = TreeBudget(trees=trees)
        found = checked(topology, budget)
        if not isinstance(found, Unsupported):
            grown = synthesise(topology, gathered(topology), budget=budget, packer=Packer.GROWTH)
            assert found.algbw >= grown.algbw, seed


@pytest.mark.parametrize("name", PLANTED)
def test_forests_of_planted_clusters_are_optimal_and_low(name: str) -> None:
    topology = circulants(*PLANTED[name])
    problem = posed(topology)
    found = decompose(topology, gathered(topology))
    assert isinstance(found, FactoredSynthesis)
    report = verify(
        topology,
        gathered(topology),
        found.schedule,
        claimed_optimal_algbw=found.optimum.algbw,
        certificate=found.optimum.certificate,
    )
    assert report.is_ok
    assert report.is_optimal
    lowest = height_bound(problem.n_nodes, problem.tails, problem.heads, problem.terminals, problem.terminals)
    assert report.height_max is not None
    assert report.height_max <= 2 * lowest


def entering(problem: Instance, capacities: np.ndarray, nodes: list[int]) -> int:
    inside = np.zeros(problem.n_nodes, dtype=bool)
    inside[nodes] = True
    return int(capacities[inside[problem.heads] & ~inside[problem.tails]].sum())


@pytest.mark.parametrize("seed", range(15))
def test_trimming_leaves_ranks_sets_and_guarded_cuts_what_they_need(seed: int) -> None:
    topology, planted = clustered(seed)
    problem = posed(topology)
    family = detect(problem)
    rate = optimum(topology, gathered(topology)).rate
    capacities = floor_capacities(problem.bandwidths, 60 / rate)
    ones = np.full(len(problem.terminals), 60)
    guarded = sorted({*planted[0], *planted[1]})
    trimmed = balance_capacities(problem, family, capacities, ones, [guarded])
    assert np.all(trimmed.capacities <= capacities)
    total = 60 * problem.n_nodes
    for number in np.flatnonzero(~trimmed.failed[1:]) + 1:
        members = family.members(int(number)).tolist()
        others = sorted(set(range(problem.n_nodes)) - set(members))
        assert entering(problem, trimmed.capacities, members) == total - 60 * len(members)
        assert entering(problem, trimmed.capacities, others) >= 60 * len(members)
    for node in range(problem.n_nodes):
        assert entering(problem, trimmed.capacities, [node]) >= total - 60
    assert entering(problem, trimmed.capacities, guarded) >= total - 60 * len(guarded)


def test_a_path_of_unequal_clusters_needs_its_prefixes_guarded() -> None:
    """In proportion, the middle would be entered less from one side than the clusters there send."""
    sizes = [12, 30, 14, 25, 12]
    topology = circulants(sizes, [(i, i + 1, 2) for i in range(4)])
    found = checked(topology, TreeBudget())
    assert isinstance(found, FactoredSynthesis)
    assert len(found.parts[0].forest.layers[0].kind) == 6
