"""Cheapest trees of a group from the core: as long as arborescences by contraction in Python, and trees."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from samples.groups.regular_fabrics import grouped_fabric
from treadle.errors import InfeasibleError
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.synthesis.jobs.arborescence import least_arborescence
from treadle.synthesis.trees.groups.cheapest_trees import PricedTree, TreePricing
from treadle.synthesis.trees.groups.group_colours import refined
from treadle.synthesis.trees.groups.representative import Representative, representatives
from treadle.synthesis.trees.groups.union import union_of
from treadle.topologies import parse
from treadle.topologies.topology import Topology

Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


def groups_of(topology: Topology, collective: Collective) -> list[Representative]:
    union = union_of(topology, collective)
    return representatives(union, refined(union))


def distances(group: Representative, lengths: Floats, *, turned: bool) -> Floats:
    """Between members by paths that pass no other member (Floyd and Warshall)."""
    tails, heads = (group.heads, group.tails) if turned else (group.tails, group.heads)
    found = np.full((group.n_places, group.n_places), np.inf)
    np.minimum.at(found, (tails, heads), lengths)
    for via in sorted(set(range(group.n_places)) - set(group.members.tolist())):
        found = np.minimum(found, found[:, [via]] + found[[via], :])
    return found[np.ix_(group.members, group.members)]


def check_tree(group: Representative, tree: PricedTree, *, turned: bool) -> None:
    """Every member but the root has a path from another; following parents leads to the root."""
    tails, heads = (group.heads, group.tails) if turned else (group.tails, group.heads)
    members = group.members[tree.members]
    passed = set(group.members.tolist())
    for place, above in enumerate(tree.parent.tolist()):
        path = tree.pairs[int(tree.starts[place]) : int(tree.starts[place + 1])]
        if above < 0:
            assert not len(path)
            assert tree.members[place] == tree.root
            continue
        ends = [int(members[above]), *heads[path].tolist()]
        assert ends[:-1] == tails[path].tolist()
        assert ends[-1] == members[place]
        assert not passed & set(ends[1:-1])
        seen = {place}
        while tree.parent[place] >= 0:
            place = int(tree.parent[place])
            assert place not in seen
            seen.add(place)


@pytest.mark.parametrize("seed", range(40))
def test_trees_are_trees_and_as_short_as_can_be(seed: int) -> None:
    random = Random(seed)
    topology, collective = grouped_fabric(random)
    try:
        groups = groups_of(topology, collective)
    except InfeasibleError:
        return
    for group in groups:
        n = len(group.members)
        lengths = np.array([random.choice([0, 0, 1, 2, 3, 7]) for _ in group.links], dtype=float)
        is_centre = collective.root is not None
        roots = np.array([collective.root if is_centre else root for root in range(1 if is_centre else n)])
        for turned in {collective.kind.reduces, not collective.kind.broadcasts}:
            pricer = TreePricing(group, turned=turned, roots=roots, is_centre=is_centre, joins_twins=False)
            cost = distances(group, lengths, turned=turned)
            trees = list(pricer.cheapest(lengths))
            assert [tree.root for tree in trees] == roots.tolist()
            for tree in trees:
                check_tree(group, tree, turned=turned)
                parent = least_arborescence(cost, tree.root)
                least = sum(cost[above, rank] for rank, above in enumerate(parent) if above >= 0)
                # a step of lengths counts as a trifle where links are free
                assert tree.length == pytest.approx(least, abs=1e-6)
                assert tree.length == lengths[tree.pairs].sum()


@pytest.mark.parametrize(
    ("fabric", "forward"),
    [("leaf_spine(3,2,gpus_per_leaf=4)", False), ("dgx_a100(2)", False), ("mi300x(2)", True)],
)
def test_twins_are_leaves_where_that_is_nearest(fabric: str, forward: bool) -> None:
    topology = parse(fabric)
    nodes = tuple(topology.compute_nodes.tolist())
    half = len(nodes) // 2
    groups = (tuple(range(half)), tuple(range(half, 2 * half))) if forward else None
    collective = Collective(CollectiveKind.ALLGATHER, nodes, groups=groups, ranks_forward=forward)
    n_joined = 0
    for group in groups_of(topology, collective):
        random = Random(5)
        of_class = np.array([random.choice([0, 1, 2, 5]) for _ in range(group.n_classes)], dtype=float)
        lengths = of_class[group.pair_class]
        roots = np.arange(0, len(group.members), 3)
        for turned in (False, True):
            apart, joined = (
                list(
                    TreePricing(
                        group, turned=turned, roots=roots, is_centre=False, joins_twins=joins
                    ).cheapest(lengths)
                )
                for joins in (False, True)
            )
            for one, other in zip(apart, joined, strict=True):
                assert one.length == other.length == lengths[other.pairs] @ other.times
                n_joined += len(other.members) < len(one.members)
    assert n_joined or not fabric.startswith("leaf_spine")


def test_members_that_are_cut_off_are_told() -> None:
    topology = parse("ring(6)")
    collective = Collective(CollectiveKind.ALLGATHER, tuple(range(6)))
    (group,) = groups_of(topology, collective)
    pricer = TreePricing(group, turned=False, roots=np.array([0]), is_centre=False, joins_twins=False)
    assert next(pricer.cheapest(np.ones(len(group.links)))).length == 5
    kept = np.flatnonzero((group.heads != 3) & (group.tails != 3))
    lame = Representative(
        **{
            **vars(group),
            **{
                name: getattr(group, name)[kept]
                for name in ("tails", "heads", "links", "pair_class", "pair_colour")
            },
        }
    )
    pricer = TreePricing(lame, turned=False, roots=np.array([0]), is_centre=False, joins_twins=False)
    with pytest.raises(InfeasibleError, match="cannot be reached"):
        next(pricer.cheapest(np.ones(len(kept))))
