"""Families of sets, quotients, hosts and detection on small odd fabrics."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest

from shortcuts.switched_ranks import in_boxes
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.synthesis.trees.instance import Instance, instance_of
from treadle.synthesis.trees.tight_cuts.family import Family
from treadle.synthesis.trees.tight_cuts.sets import detection as module
from treadle.synthesis.trees.tight_cuts.sets.dendrogram import Dendrogram, single_linkage
from treadle.synthesis.trees.tight_cuts.sets.detection import detect
from treadle.synthesis.trees.tight_cuts.sets.quotient import Quotient
from treadle.synthesis.trees.tight_cuts.tight_cuts import with_hosts
from treadle.topologies.topology import Topology, TopologyBuilder


def int32(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.array(values, dtype=np.int32)


def gather(topology: Topology) -> Instance:
    return instance_of(topology, on_all_ranks(topology, CollectiveKind.ALLGATHER))


NESTED = Family(int32(-1, 0, 0, 1, 1, 3), int32(5, 5, 3, 4, 1, 2, 2, 0))
"""Nodes 0 to 3 and 4 in set 1, of these 0 to 2 in set 3 and 0, 1 in set 5; 3 in set 4; 5, 6 in set 2."""


def test_nested_sets() -> None:
    assert NESTED.n_sets == 6
    assert NESTED.depth.tolist() == [0, 1, 1, 2, 2, 3]
    assert NESTED.ancestors.tolist() == [
        [0] * 8,
        [1, 1, 1, 1, 1, 2, 2, -1],
        [3, 3, 3, 4, -1, -1, -1, -1],
        [5, 5, -1, -1, -1, -1, -1, -1],
    ]
    members = [[0, 1, 2, 3, 4, 5, 6, 7], [0, 1, 2, 3, 4], [5, 6], [0, 1, 2], [3], [0, 1]]
    assert [NESTED.members(number).tolist() for number in range(6)] == members
    values = np.array([1, 2, 4, 8, 16, 32, 64, 128])
    assert NESTED.sums(values).tolist() == [int(values[nodes].sum()) for nodes in members]


def test_sets_that_are_left_out() -> None:
    """Their nodes and the sets within them belong to the sets around; numbers close up."""
    found = NESTED.without(np.array([False, True, False, True, False, False]))
    assert found.outer.tolist() == [-1, 0, 0, 0]
    assert found.innermost.tolist() == [3, 3, 0, 2, 0, 1, 1, 0]
    found = NESTED.without(np.array([False, False, True, False, False, True]))
    assert found.outer.tolist() == [-1, 0, 1, 1]
    assert found.innermost.tolist() == [2, 2, 2, 3, 1, 0, 0, 0]


def test_families_from_levels() -> None:
    """From the inside out; a set that holds no more than the one within it goes, but for the whole."""
    inner, outer = int32(0, 0, 1, 1, -1, 2, 2, -1), int32(0, 0, 0, 0, 0, 1, 1, -1)
    found = Family.from_levels(8, [inner, outer])
    assert [found.members(number).tolist() for number in range(found.n_sets)] == [
        [0, 1, 2, 3, 4, 5, 6, 7],
        [0, 1, 2, 3, 4],
        [0, 1],
        [2, 3],
        [5, 6],
    ]
    assert found.outer.tolist() == [-1, 0, 1, 1, 0]
    assert found.innermost.tolist() == [2, 2, 3, 3, 1, 4, 4, 0]
    alone = Family.from_levels(3, [int32(0, 0, 0)])
    assert (alone.outer.tolist(), alone.innermost.tolist()) == ([-1, 0], [1, 1, 1])
    assert Family.from_levels(2, []).innermost.tolist() == [0, 0]


def switched() -> Topology:
    """Ranks a, b at s, c and d by a link, e alone; p joins all, of a by two links; a loop at b."""
    builder = TopologyBuilder("odd")
    for name in "abcde":
        builder.compute(name)
    builder.switch("s")
    builder.switch("p")
    for one, other, bandwidth in (
        ("a", "s", 40),
        ("b", "s", 30),
        ("c", "d", 20),
        ("a", "p", 1),
        ("a", "p", 2),
    ):
        builder.duplex(one, other, bandwidth)
    for name, bandwidth in (("b", 3), ("c", 4), ("d", 5), ("e", 6)):
        builder.link(name, "p", bandwidth)
        builder.link("p", name, bandwidth + 1)
    builder.link("b", "b", 9)
    return builder.build()


def test_a_fabric_with_nothing_contracted() -> None:
    problem = gather(switched())
    whole = Quotient.of(problem)
    assert whole.point.tolist() == list(range(7))
    assert whole.is_point.tolist() == [True] * 5 + [False] * 2
    assert whole.weight.tolist() == [1] * 5 + [0] * 2
    assert len(whole.tails) == 18  # without the loop
    one, other = whole.neighbours
    pairs = list(zip(one.tolist(), other.tolist(), whole.widths.tolist(), strict=True))
    # both directions together, and parallel links
    widths = {(0, 5): 80, (0, 6): 6, (1, 5): 60, (1, 6): 7, (2, 3): 40, (2, 6): 9, (3, 6): 11, (4, 6): 13}
    both = {(v, u): width for (u, v), width in widths.items()} | widths
    assert sorted(pairs) == sorted((*pair, width) for pair, width in both.items())
    assert one.tolist() == sorted(one.tolist())
    served = list(zip(*(side.tolist() for side in whole.joined_pairs), strict=True))
    assert sorted(served) == [(5, 0), (5, 1), (6, 0), (6, 1), (6, 2), (6, 3), (6, 4)]
    assert whole.entering.tolist() == [43, 34, 25, 26, 7, 70, 21]


def test_sets_as_points() -> None:
    """Sets 0 = c, d and 1 = a, b, s: what enters is 5 + 6 and 3 + 4 of weights 3 outside."""
    whole = Quotient.of(gather(switched()))
    labels = int32(1, 1, 0, 0, -1, 1, -1)
    assert whole.need(labels) == (3 / 11 + 3 / 7) / 2
    assert whole.need(int32(*[-1] * 7)) is None
    assert whole.need(int32(*[0] * 7)) is None  # nothing enters
    small = whole.contracted(labels)
    assert small.point.tolist() == [1, 1, 0, 0, 2, 1, 3]
    assert small.is_point.tolist() == [True, True, True, False]
    assert small.weight.tolist() == [2, 2, 1, 0]
    rows = sorted(zip(small.tails.tolist(), small.heads.tolist(), small.bandwidths.tolist(), strict=True))
    assert rows == [
        (0, 3, 4),
        (0, 3, 5),
        (1, 3, 1),
        (1, 3, 2),
        (1, 3, 3),
        (2, 3, 6),
        (3, 0, 5),
        (3, 0, 6),
        (3, 1, 1),
        (3, 1, 2),
        (3, 1, 4),
        (3, 2, 7),
    ]
    again = small.contracted(int32(0, 0, -1, -1))
    assert again.point.tolist() == [0, 0, 0, 0, 1, 0, 2]
    assert again.weight.tolist() == [4, 1, 0]


def sets_of(family: Family) -> list[list[int]]:
    return sorted(family.members(number).tolist() for number in range(1, family.n_sets))


def test_boxes_are_detected() -> None:
    """Nodes 0 network, 1 to 3 the first box, 4 to 7 the second, 8 to 12 the third."""
    assert sets_of(detect(gather(in_boxes(2, 3, 4)))) == [[1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11, 12]]
    assert sets_of(detect(gather(in_boxes(3)))) == []
    found = detect(gather(switched()))
    assert [0, 1, 5] in sets_of(found)
    assert [2, 3] in sets_of(found)


def test_leaves_and_pods_are_detected() -> None:
    """Two ranks a leaf, two leaves a pod; by neighbours, since wider links are farther outside."""
    builder = TopologyBuilder("pods")
    builder.switch("core")
    wanted, node = [], 1
    for pod in range(3):
        builder.switch(f"pod{pod}")
        first = node
        node += 1
        for leaf in range(2):
            builder.switch(f"leaf{pod}.{leaf}")
            members = [node]
            node += 1
            for rank in range(2):
                name = builder.compute(f"r{pod}.{leaf}.{rank}")
                builder.duplex(name, f"leaf{pod}.{leaf}", 10)
                members.append(node)
                node += 1
            wanted.append(members)
            builder.duplex(f"leaf{pod}.{leaf}", f"pod{pod}", 20)
        wanted.append(list(range(first, node)))
        builder.duplex(f"pod{pod}", "core", 40)
    assert sets_of(detect(gather(builder.build()))) == sorted(wanted)


def test_sixteen_bandwidths_are_tried() -> None:
    """Pairs of ranks, each joined a little less well than the one before, on a slow ring of all."""
    builder = TopologyBuilder("pairs")
    names = [builder.compute(f"r{rank}") for rank in range(40)]
    for pair in range(20):
        builder.duplex(names[2 * pair], names[2 * pair + 1], 100 - pair)
        builder.duplex(names[2 * pair + 1], names[(2 * pair + 2) % 40], 1)
    found = list(module._candidates(Quotient.of(gather(builder.build()))))
    assert [int(labels.max()) + 1 for labels in found] == list(range(1, 17))
    for number, labels in enumerate(found, 1):
        pairs = [pair if pair < number else -1 for pair in range(20)]
        assert labels.tolist() == [pair for pair in pairs for _ in range(2)]


def test_points_with_equal_neighbours() -> None:
    """a and b at s and e, c and d at t; c lost its link to e: it goes with d. Nobody's own is the core u."""
    builder = TopologyBuilder("leaves")
    for name in "abcdf":
        builder.compute(name)
    for name in "steu":
        builder.switch(name)
    for pair in ("as", "bs", "ct", "dt", "ft", "ae", "be", "de", "fe", "su", "tu", "eu"):
        builder.duplex(pair[0], pair[1], 3)
    quotient = Quotient.of(gather(builder.build()))
    # of three points at t two have the same neighbours, and at e there are four
    assert module._equal_neighbours(quotient).tolist() == [0, 0, 3, 3, 3, 0, 3, 7, 8]


def test_direct_links_and_cards_are_detected() -> None:
    """Without switches all nodes are in sets; a card between a rank and the network belongs to its box."""
    builder = TopologyBuilder("direct")
    for name in "abcdef":
        builder.compute(name)
    for pair, bandwidth in (
        ("ab", 9),
        ("bc", 9),
        ("ca", 9),
        ("de", 8),
        ("ef", 8),
        ("fd", 8),
        ("ad", 1),
        ("be", 2),
    ):
        builder.duplex(pair[0], pair[1], bandwidth)
    assert sets_of(detect(gather(builder.build()))) == [[0, 1, 2], [3, 4, 5]]
    builder = TopologyBuilder("cards")
    wanted, node = [], 0
    for box, size in enumerate((2, 3)):
        builder.switch(f"s{box}")
        first, node = node, node + 1
        for place in range(size):
            builder.duplex(builder.compute(f"g{box}.{place}"), f"s{box}", 90)
            builder.switch(f"card{box}.{place}")
            builder.duplex(f"g{box}.{place}", f"card{box}.{place}", 20)
            node += 2
        wanted.append(list(range(first, node)))
    builder.switch("network")
    for box, size in enumerate((2, 3)):
        for place in range(size):
            builder.duplex(f"card{box}.{place}", "network", 20)
    assert sets_of(detect(gather(builder.build()))) == wanted


def hosted(extra: Sequence[tuple[str, str]] = ()) -> tuple[Instance, Family]:
    """A box of two on s; beside it rank c with cards x and y, d with z; p joins b and cards, q d alone."""
    builder = TopologyBuilder("hosted")
    for name in "abcd":
        builder.compute(name)
    for name in "sxyzpq":
        builder.switch(name)
    pairs = [("a", "s"), ("b", "s"), ("b", "p"), ("c", "x"), ("c", "y"), ("d", "z")]
    pairs += [("x", "p"), ("y", "p"), ("z", "p"), ("d", "q")]
    for one, other in (*pairs, *extra):
        builder.duplex(one, other, 5)
    problem = gather(builder.build())
    return problem, Family(int32(-1, 0), int32(1, 1, 0, 0, 1, *[0] * 5))


@pytest.mark.parametrize(
    ("extra", "innermost"),
    [
        ((), [1, 1, 2, 3, 1, 2, 2, 3, 0, 0]),
        ((("d", "y"),), [1, 1, 2, 3, 1, 2, 0, 3, 0, 0]),  # y serves two ranks
        ((("a", "x"),), [1, 1, 2, 3, 1, 0, 2, 3, 0, 0]),  # x is joined to the box
        ((("d", "p"),), [1, 1, 2, 3, 1, 2, 2, 3, 0, 0]),
        ((("x", "x"),), [1, 1, 2, 3, 1, 2, 2, 3, 0, 0]),
        ((("c", "z"), ("s", "y"), ("d", "x")), [1, 1, 0, 0, 1, 0, 0, 0, 0, 0]),
    ],
)
def test_lone_ranks_with_their_cards(extra: Sequence[tuple[str, str]], innermost: list[int]) -> None:
    """The plane is nobody's own: it meets the box, or serves two."""
    problem, family = hosted(extra)
    found = with_hosts(problem, family)
    assert found.innermost.tolist() == innermost
    assert found.outer.tolist() == [-1, *[0] * max(innermost)]


def test_without_sets_there_are_no_hosts() -> None:
    problem, _ = hosted()
    none = Family(int32(-1), int32(*[0] * 10))
    assert with_hosts(problem, none) is none


def test_sums_over_a_dendrogram() -> None:
    """Merges: 5 = 3, 1; 6 = 0, 5; 7 = 2, 4; 8 = 6, 7."""
    tree = Dendrogram(np.array([3, 0, 2, 6]), np.array([1, 5, 4, 7]))
    assert tree.n_nodes == 5
    assert tree.size.tolist() == [1] * 5 + [2, 3, 2, 5]
    values, merges = np.array([1, 2, 4, 8, 16]), np.array([100, 200, 400, 800])
    assert tree.sums(values, merges).tolist() == [1, 2, 4, 8, 16, 110, 311, 420, 1531]
    assert tree.order.tolist() == [0, 3, 1, 2, 4]
    assert tree.start.tolist() == [0, 2, 3, 1, 4, 1, 0, 3, 0]
    assert [tree.members(number).tolist() for number in (4, 5, 6, 7)] == [[4], [3, 1], [0, 3, 1], [2, 4]]


@pytest.mark.parametrize("n", [2, 3, 7, 8, 9])
def test_the_nearest_are_joined_first(n: int) -> None:
    """Two nodes are joined at the least threshold that connects them; of equal distances the first."""
    chance = np.random.default_rng(n)
    pairs = np.array(list(combinations(range(n), 2)))
    for _ in range(5):
        kept = pairs[chance.random(len(pairs)) < 0.8]
        distance = chance.permutation(len(kept)).astype(float)
        found = single_linkage(n, kept[:, 0], kept[:, 1], distance)
        label = list(range(n))
        for merge, place in enumerate(place for place in np.argsort(distance) if joins(label, kept[place])):
            one, other = kept[place].tolist()
            inside = [node for node in range(n) if label[node] in (label[one], label[other])]
            for node in inside:
                label[node] = -1 - merge
            if found is not None:
                assert sorted(found.members(n + merge).tolist()) == inside
        if len(set(label)) > 1:
            assert found is None
            continue
        assert found is not None
        every = np.array(list(combinations(range(n), 2)))
        joined = found.joined_at(every[:, 1], every[:, 0])
        sets = [set(found.members(n + number).tolist()) for number in range(n - 1)]
        for pair, merge in zip(every.tolist(), joined.tolist(), strict=True):
            assert merge == next(number for number in range(n - 1) if set(pair) <= sets[number])


def joins(label: list[int], pair: Sequence[int]) -> bool:
    return label[pair[0]] != label[pair[1]]


def test_forwarders_are_no_points() -> None:
    """Node 0 is the network, 1 and 5 the boxes' switches; of ranks 2, 3, 4 and 6, 7 the third forwards."""
    collective = Collective(CollectiveKind.ALLGATHER, (7, 2, 3, 6), forwarders=(4,))
    problem = instance_of(in_boxes(3, 2), collective)
    assert np.flatnonzero(Quotient.of(problem).is_point).tolist() == [2, 3, 6, 7]
    assert sets_of(detect(problem)) == [[1, 2, 3, 4], [5, 6, 7]]
