"""Unions of odd groups, their classes and symmetries, shares that fit, and trees in whole units."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from treadle.errors import InfeasibleError
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.trees.forest import Forest
from treadle.synthesis.trees.groups import union as module
from treadle.synthesis.trees.groups.capacity import capacity_rows
from treadle.synthesis.trees.groups.every_group import every_group
from treadle.synthesis.trees.groups.group_colours import classes, member_weights, refined
from treadle.synthesis.trees.groups.group_optimum import GroupAllocation, GroupTree
from treadle.synthesis.trees.groups.known_trees import forests_of_trees
from treadle.synthesis.trees.groups.rational_allocation import RationalAllocation, fits, over_one_denominator
from treadle.synthesis.trees.groups.representative import representatives
from treadle.synthesis.trees.groups.symmetries import orbit_colours, symmetries
from treadle.synthesis.trees.groups.union import GroupUnion, union_of
from treadle.synthesis.trees.groups.unit_problems import count_units, unit_allocation
from treadle.synthesis.trees.instance import UNIT_LIMIT
from treadle.synthesis.trees.tree_parts import single_path_trees
from treadle.topologies.topology import Topology, TopologyBuilder

K = CollectiveKind


def boxes(*, extra: Sequence[tuple[str, str, int]] = ()) -> Topology:
    """Boxes of two ranks on a switch each (9, 9 and 7 bytes/s), all on a network; a spare switch besides."""
    builder = TopologyBuilder("boxes")
    builder.switch("network")
    builder.switch("spare")
    builder.duplex("network", "spare", 3)
    for box, width in enumerate((9, 9, 7)):
        builder.switch(f"s{box}")
        for place in range(2):
            builder.compute(f"g{box}.{place}")
            builder.duplex(f"g{box}.{place}", f"s{box}", width)
            builder.duplex(f"g{box}.{place}", "network", 2)
    for tail, head, bandwidth in extra:
        builder.link(tail, head, bandwidth)
    return builder.build()


def in_boxes(
    kind: CollectiveKind = K.ALLGATHER, *, root: int | None = None, forward: bool = False
) -> Collective:
    """Groups of a box each; nodes are 3, 4 (switch 2), 6, 7 (5) and 9, 10 (8)."""
    return Collective(
        kind, (3, 4, 6, 7, 9, 10), root=root, groups=((0, 1), (3, 2), (4, 5)), ranks_forward=forward
    )


def pairs_of(union: GroupUnion, kind: int) -> list[tuple[int, int, int]]:
    """Fabric nodes at the ends of a type's pairs, and their links."""
    here = slice(int(union.offsets[kind]), int(union.offsets[kind + 1]))
    ends = (union.node[side[here]].tolist() for side in (union.tails, union.heads))
    return sorted(zip(*ends, union.links[here].tolist(), strict=True))


def names_of(topology: Topology, union: GroupUnion, kind: int) -> set[str]:
    names = topology.node_names
    return {f"{names[tail]}>{names[head]}" for tail, head, _ in pairs_of(union, kind)}


def test_groups_that_are_copies_share_a_type() -> None:
    """The first two boxes are alike, though the ranks of one are told backwards; the third is narrower."""
    fabric = boxes()
    union = union_of(fabric, in_boxes())
    assert union.nodes.tolist() == [[3, 4], [7, 6], [9, 10]]
    assert (union.type_of.tolist(), union.first.tolist(), union.copies.tolist()) == (
        [0, 0, 1],
        [0, 2],
        [2, 1],
    )
    wanted = {f"g{b}.{p}>{x}" for b in (0,) for p in (0, 1) for x in ("s0", "network")}
    wanted |= {f"{x}>g0.{p}" for p in (0, 1) for x in ("s0", "network")}
    assert names_of(fabric, union, 0) == wanted  # the spare switch leads back only
    assert names_of(fabric, union, 1) == {name.replace("0.", "2.").replace("s0", "s2") for name in wanted}
    assert union.is_own.all()
    assert [union.node[row].tolist() for row in union.members] == [[3, 4], [9, 10]]
    assert np.flatnonzero(union.is_member).tolist() == sorted(union.members.ravel().tolist())
    # a copy's links in the order of its type's pairs: ends correspond
    first, copy = union.links_of(0), union.links_of(1)
    place = {3: 7, 4: 6, 2: 5, 0: 0}
    assert [place[node] for node in fabric.tails[first].tolist()] == fabric.tails[copy].tolist()
    assert [place[node] for node in fabric.heads[first].tolist()] == fabric.heads[copy].tolist()
    assert union.links_of(2).tolist() == union.links[union.offsets[1] :].tolist()


def test_ranks_that_forward_for_other_groups() -> None:
    """Every group may use all links between all nodes but the dead end; none is a copy of another."""
    fabric = boxes()
    union = union_of(fabric, in_boxes(forward=True))
    assert (union.n_types, union.copies.tolist(), union.n_local) == (3, [1, 1, 1], fabric.n_nodes)
    assert not union.is_own.any()
    assert np.diff(union.offsets).tolist() == [24, 24, 24]
    assert [union.node[row].tolist() for row in union.members] == [[3, 4], [7, 6], [9, 10]]


def test_directions_of_rooted_collectives() -> None:
    """A broadcast needs ways from the root only: g0.1 has none back."""
    builder = TopologyBuilder("one way")
    builder.switch("s")
    for name in ("a", "b", "c"):
        builder.compute(name)
    for tail, head in (("a", "s"), ("s", "b"), ("b", "c"), ("s", "c"), ("c", "s")):
        builder.link(tail, head, 5)
    fabric = builder.build()
    ranks = (1, 2, 3)
    union = union_of(fabric, Collective(K.BROADCAST, ranks, root=0))
    assert names_of(fabric, union, 0) == {"a>s", "s>b", "b>c", "s>c", "c>s"}
    back = union_of(fabric.transpose(), Collective(K.REDUCE, ranks, root=0))
    assert names_of(fabric.transpose(), back, 0) == {"s>a", "b>s", "c>b", "c>s", "s>c"}
    for kind, root, words in (
        (K.BROADCAST, 1, "one way: its ranks: 'b' cannot reach 'a'; connect them or drop a rank"),
        (K.REDUCE, 0, "one way: its ranks: 'a' cannot be reached from 'b'; connect them or drop a rank"),
        (
            K.ALLGATHER,
            None,
            "one way: its ranks: 'a' cannot be reached from 'b'; connect them or drop a rank",
        ),
    ):
        with pytest.raises(InfeasibleError) as refused:
            union_of(fabric, Collective(kind, ranks, root=root))
        assert str(refused.value) == words


@pytest.mark.parametrize(
    ("forward", "words"),
    [
        (
            False,
            "split: group 1 (e, f, g, ...): 'e' cannot reach 'f' without ranks of other groups; "
            "connect them or let ranks forward",
        ),
        (True, "split: group 1 (e, f, g, ...): 'e' cannot reach 'f'; connect them"),
    ],
)
def test_groups_that_are_cut_off(forward: bool, words: str) -> None:
    builder = TopologyBuilder("split")
    for name in "abcdefgh":
        builder.compute(name)
    for one, other in ("ab", "bc", "cd", "fg", "gh"):
        builder.duplex(one, other, 1)
    with pytest.raises(InfeasibleError) as refused:
        union_of(
            builder.build(),
            Collective(
                K.ALLGATHER, tuple(range(8)), groups=((0, 1, 2, 3), (4, 5, 6, 7)), ranks_forward=forward
            ),
        )
    assert str(refused.value) == words


def test_capped_nodes_have_no_union() -> None:
    builder = TopologyBuilder("capped")
    builder.compute("a", injection_bytes_per_s=3)
    builder.compute("b")
    builder.duplex("a", "b", 1)
    with pytest.raises(InfeasibleError) as refused:
        union_of(builder.build(), Collective(K.ALLGATHER, (0, 1)))
    assert str(refused.value) == (
        "compute node 'a' has an injection cap, which tree schedules do not model; "
        "put a switch with links of that bandwidth between the node and its links"
    )


def test_unions_that_are_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three groups whose ranks forward on 26 links each; the dead end of two is cut off later."""
    fabric = boxes()
    monkeypatch.setattr(module, "_MOST_PAIRS", 78)
    assert union_of(fabric, in_boxes(forward=True)).n_types == 3
    monkeypatch.setattr(module, "_MOST_PAIRS", 77)
    with pytest.raises(InfeasibleError) as refused:
        union_of(fabric, in_boxes(forward=True))
    assert str(refused.value) == (
        "boxes: 3 groups that differ on 26 links that all may use: more than 77 pairs; "
        "solve fewer groups or a smaller fabric"
    )


def test_a_member_without_a_shard_is_no_forwarder() -> None:
    """On a switch ranks b and c take in, d passes on: b and c are alike, a, d and the switch are not."""
    builder = TopologyBuilder("star")
    for name in "abcd":
        builder.compute(name)
    builder.switch("s")
    for name in "abcd":
        builder.duplex(name, "s", 4)
        builder.duplex(name, "s", 4)
    builder.duplex("b", "d", 1)
    builder.duplex("c", "d", 1)
    builder.duplex("d", "a", 1)
    builder.duplex("b", "a", 1)
    builder.duplex("c", "a", 1)
    builder.duplex("b", "c", 1)
    union = union_of(builder.build(), Collective(K.ALLGATHER, (0, 1, 2), weights=(1, 0, 0), forwarders=(3,)))
    colours = refined(union)
    places = dict(zip(union.node.tolist(), colours.places.tolist(), strict=True))
    assert places[1] == places[2]
    assert len({places[node] for node in (0, 1, 3, 4)}) == 4


def test_weights_of_members() -> None:
    assert member_weights(Collective(K.ALLGATHER, (0, 1, 2), weights=(2, 4, 6))) == (1, 2, 3)
    assert member_weights(Collective(K.BROADCAST, (0, 1, 2), root=1)) == (0, 1, 0)
    assert member_weights(in_boxes()) == (1, 1)
    number, first = classes(np.array([9, 4, 9, 7, 4], dtype=np.uint64))
    assert (number.tolist(), first.tolist()) == ([0, 1, 0, 2, 1], [0, 1, 3])


def test_classes_of_copies() -> None:
    """Of a box all pairs up to its switch are alike, those down, those to the network and from it."""
    fabric = boxes()
    union = union_of(fabric, in_boxes())
    colours = refined(union)
    assert colours.kinds.tolist() == [0, 1]
    first, second = representatives(union, colours)
    assert ((first.kind, first.times), (second.kind, second.times)) == ((0, 2), (1, 1))
    for one, switch in ((first, "s0"), (second, "s2")):
        assert one.weights == (1, 1)
        assert one.n_classes == 4
        assert one.class_sizes().tolist() == [2, 2, 2, 2]
        by_class: dict[int, set[tuple[bool, str]]] = {}
        for link, number in zip(one.links.tolist(), one.pair_class.tolist(), strict=True):
            ends = fabric.node_names[fabric.tails[link]], fabric.node_names[fabric.heads[link]]
            up = ends[0].startswith("g")
            by_class.setdefault(number, set()).add((up, ends[up]))
        kinds = [(up, name) for up in (True, False) for name in (switch, "network")]
        assert sorted(by_class.values(), key=sorted) == sorted(({kind} for kind in kinds), key=sorted)
        relays = [int(union.node[one.kind * union.n_local + place]) for place in one.relay_classes()]
        assert sorted(fabric.node_names[node] for node in relays) == ["network", switch]
        assert one.place_class[one.members[0]] == one.place_class[one.members[1]]
    rows = capacity_rows(union, colours, [first, second])
    # each class of links has one row; pairs of the copies' own links are there once a link
    assert sorted(zip(rows.bandwidths.tolist(), rows.sizes.tolist(), strict=True)) == sorted(
        [(9, 4), (9, 4), (2, 4), (2, 4), (7, 2), (7, 2), (2, 2), (2, 2)]
    )
    assert rows.counts.tolist() == [1] * 8
    values = [Fraction(number + 1, 7) for number in range(8)]
    spread = rows.spread(values)
    assert [spread[link] for link in rows.links.tolist()] == values
    assert [spread[link] for link in range(2)] == [0, 0]  # of the spare switch
    assert sorted(spread) == sorted(
        [Fraction(0)] * 2 + [v for v, n in zip(values, rows.sizes, strict=True) for _ in range(n)]
    )
    every = every_group(union, colours, [first, second])
    assert [every.colour_of(kind) for kind in range(2)] == [0, 1]
    assert every.in_order_of(0, [5, 6]) == [5, 6]
    assert list(every.others()) == []
    assert np.bincount(every.number).tolist() == [2] * 8


def shared_fabric(*bandwidths: int) -> Topology:
    """a -> s -> b and back; a and b are ranks."""
    builder = TopologyBuilder("shared")
    builder.compute("a")
    builder.switch("s")
    builder.compute("b")
    ends = (("a", "s"), ("s", "b"), ("b", "s"), ("s", "a"))
    for (tail, head), bandwidth in zip(ends, bandwidths, strict=True):
        builder.link(tail, head, bandwidth)
    return builder.build()


@pytest.mark.parametrize(
    ("held", "roots", "fine"),
    [
        ([10, 10, 12, 12], [1, 1], True),
        ([9, 9, 0, 0], [0, 0], True),
        ([11, 11, 12, 12], [1, 1], False),  # beyond 5 bytes/s
        ([10, 9, 12, 12], [1, 1], False),  # the switch lets out less than it takes in
        ([10, 10, 13, 13], [1, 1], False),
        ([-1, -1, 12, 12], [1, 1], False),
        ([10, 10, 12, 12], [1, -1], False),
    ],
)
@pytest.mark.parametrize("digits", [1, 2**29, 2**30, 2**95])
def test_shares_that_fit(held: list[int], roots: list[int], fine: bool, digits: int) -> None:
    """In halves, and in as many times finer parts: 5 bytes/s on one way, 6 on the other; exactly."""
    union = union_of(shared_fabric(5, 5, 6, 6), Collective(K.ALLGATHER, (0, 2)))
    order = [int(np.flatnonzero(union.links == link)[0]) for link in range(4)]
    number = np.empty(4, dtype=np.int64)
    number[order] = np.arange(4)
    found = RationalAllocation(
        Fraction(1), 2 * digits, ((tuple(v * digits for v in held),),), (tuple(roots),)
    )
    assert fits(union, number, found) is fine
    if fine:
        more = (held[0] * digits + 1, held[1] * digits + 1, *(v * digits for v in held[2:]))
        finer = RationalAllocation(Fraction(1), 2 * digits, ((more,),), (tuple(roots),))
        assert fits(union, number, finer) is (held[0] < 10)


def test_families_share_what_links_hold() -> None:
    """Two families of 3 and 2 of 5 bytes/s fit together, 3 and 3 do not."""
    union = union_of(shared_fabric(5, 5, 5, 5), Collective(K.ALLREDUCE, (0, 2)))
    number = np.zeros(4, dtype=np.int64)
    for second, fine in ((2, True), (3, False)):
        found = RationalAllocation(Fraction(1), 1, (((3,),), ((second,),)), ((1, 1),))
        assert fits(union, number, found) is fine


def test_fractions_over_one_denominator() -> None:
    shares = [
        [[Fraction(1, 2), Fraction(3)], [Fraction(2, 3)]],
        [[Fraction(0), Fraction(1, 4)], [Fraction(5, 6)]],
    ]
    found = over_one_denominator(Fraction(7, 9), shares, [[Fraction(1, 8)], [Fraction(2)]])
    assert (found.rate, found.denominator) == (Fraction(7, 9), 24)
    assert found.shares == (((12, 72), (16,)), ((0, 6), (20,)))
    assert found.roots == ((3,), (48,))


def tree(
    root: int, bandwidth: Fraction, parent: Sequence[int], paths: dict[int, tuple[int, ...]]
) -> GroupTree:
    made: Any = GroupTree(root=root, bandwidth=bandwidth, parent=tuple(parent), paths=paths)
    assert isinstance(made, GroupTree)
    return made


def known(kind: CollectiveKind, trees: dict[bool, list[GroupTree]]) -> Any:
    """What is read of an optimum of one group of three."""
    collective = SimpleNamespace(kind=kind, n_groups=1, group_size=3)
    return SimpleNamespace(
        collective=collective, families=tuple(trees), trees=lambda group, *, reducing: iter(trees[reducing])
    )


def test_known_trees_in_the_largest_unit() -> None:
    """1/2, 1/3 and 2/3 are 3, 2 and 4 sixths; 3/2, 1, 2 are the same numbers."""
    for times in (1, 3):
        trees = [
            tree(0, Fraction(times, 2), (-1, 0, 1), {1: (4,), 2: (5, 6)}),
            tree(2, Fraction(times, 3), (2, 0, -1), {0: (7,), 1: (4,)}),
            tree(2, Fraction(2 * times, 3), (1, 2, -1), {0: (1,), 1: (8,)}),
        ]
        (found,) = forests_of_trees(known(K.ALLGATHER, {False: trees})).groups
        assert found.reduce is None
        assert isinstance(found.broadcast, Forest)
        specs = [(one.root, one.multiplicity, list(one.parent)) for one in single_path_trees(found.broadcast)]
        assert specs == [(0, 3, [-1, 0, 1]), (2, 2, [2, 0, -1]), (2, 4, [1, 2, -1])]
        paths = [one.paths for one in single_path_trees(found.broadcast)]
        assert paths[0] == {1: [((4,), 3)], 2: [((5, 6), 3)]}


def test_trees_of_too_many_units_are_rounded() -> None:
    """2**24 for each root, by largest remainders; a root has as many in both directions."""
    many = 2**61 - 1
    out = [
        tree(0, Fraction(1, 3) + Fraction(1, many), (-1, 0, 0), {1: (1,), 2: (2,)}),
        tree(0, Fraction(2, 3) - Fraction(1, many), (-1, 0, 1), {1: (1,), 2: (3,)}),
        tree(1, Fraction(1, 2), (1, -1, 1), {0: (4,), 2: (3,)}),
    ]
    into = [
        tree(0, Fraction(1), (-1, 0, 0), {1: (5,), 2: (6,)}),
        tree(1, Fraction(1, 2), (1, -1, 1), {0: (7,), 2: (8,)}),
    ]
    (found,) = forests_of_trees(known(K.ALLREDUCE, {False: out, True: into})).groups
    assert isinstance(found.broadcast, Forest)
    assert isinstance(found.reduce, Forest)
    total = 2 * 2**24
    first = round(total * 2 / 3)
    assert found.broadcast.root_multiplicity.tolist() == [first, total - first, 0]
    assert found.reduce.root_multiplicity.tolist() == [first, total - first, 0]
    units = found.broadcast.tree_multiplicity.tolist()
    assert units == [round(first / 3), first - round(first / 3), total - first]


def shares_of(roots: Sequence[int], bandwidths: Sequence[int]) -> GroupAllocation:
    return GroupAllocation(np.arange(len(bandwidths)), np.array(bandwidths, dtype=object), tuple(roots), 7)


def test_units_of_shares() -> None:
    assert count_units([shares_of([6, 9], [12, 15])]) == 5
    assert count_units([shares_of([6, 9], [12, 15]), shares_of([6, 9], [4, 3])]) == 15
    most = 2**50
    few = shares_of([1], [most] * (UNIT_LIMIT // most - 1) + [most - 2])
    assert unit_allocation("g", [few]).roots.tolist() == [1]
    for beyond in (
        shares_of([1], [most] * (UNIT_LIMIT // most - 1) + [most - 1]),
        shares_of([2, 1], [*few.bandwidths.tolist(), 1]),
        shares_of([1], [most + 1]),
    ):
        with pytest.raises(InfeasibleError) as refused:
            unit_allocation("g", [few, beyond] if beyond.roots == (1,) else [beyond])
        trees = sum(beyond.roots)
        assert str(refused.value) == (
            f"g: its exact optimum takes {trees} unit trees, too many to count; round the bandwidths of the "
            f"fabric, say to whole GB/s"
        )


def ring_of(*widths: int) -> Topology:
    builder = TopologyBuilder("ring")
    n = len(widths)
    for rank in range(n):
        builder.compute(f"r{rank}")
    for rank, width in enumerate(widths):
        builder.duplex(f"r{rank}", f"r{(rank + 1) % n}", width)
    return builder.build()


@pytest.mark.parametrize(
    ("widths", "weights", "maps"),
    [
        ((1, 2, 1, 2), None, [[0, 1, 2, 3], [1, 0, 3, 2], [2, 3, 0, 1], [3, 2, 1, 0]]),
        ((1, 2, 3, 2), None, [[0, 1, 2, 3], [1, 0, 3, 2]]),
        ((1, 2, 3, 4), None, [[0, 1, 2, 3]]),
        ((1, 2, 1, 2), (1, 1, 3, 3), [[0, 1, 2, 3], [1, 0, 3, 2]]),
    ],
)
def test_symmetries_of_rings(
    widths: tuple[int, ...], weights: tuple[int, ...] | None, maps: list[list[int]]
) -> None:
    """Widths turned by half, mirrored, or neither; equal shards go to each other only."""
    fabric = ring_of(*widths)
    union = union_of(fabric, Collective(K.ALLGATHER, (0, 1, 2, 3), weights=weights))
    found = symmetries(union, refined(union))
    assert found[0].nodes.tolist() == [0, 1, 2, 3]
    assert sorted(one.nodes.tolist() for one in found) == maps
    for one in found:
        assert one.nodes[fabric.tails].tolist() == fabric.tails[one.links].tolist()
        assert one.nodes[fabric.heads].tolist() == fabric.heads[one.links].tolist()
        assert fabric.bandwidths.tolist() == fabric.bandwidths[one.links].tolist()
        assert one.kinds.tolist() == [0]
    orbits = orbit_colours(union, found)
    least = [min(int(one.links[link]) for one in found) for link in range(fabric.n_links)]
    assert orbits.links.tolist() == least
    assert [orbits.pairs[pair] for pair in range(len(union.links))] == [
        least[e] for e in union.links.tolist()
    ]
    nodes = [min(int(one.nodes[v]) for one in found) for v in union.node.tolist()]
    assert orbits.places.tolist() == nodes
    assert orbits.kinds.tolist() == [0]
