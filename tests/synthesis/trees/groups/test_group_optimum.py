"""The optimum of groups at once: values by hand, against the whole program, and what its shares are."""

from __future__ import annotations

import time
from dataclasses import replace
from fractions import Fraction
from random import Random

import numpy as np
import pytest

from reference.groups.group_lp import group_lp
from samples.groups.regular_fabrics import grouped_fabric
from treadle.api.bound import bound
from treadle.context import Context, TimeLimitError, under
from treadle.errors import InfeasibleError
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.schedules.mesh import Mesh
from treadle.synthesis.trees.groups.group_optimum import GroupOptimum, group_optimum
from treadle.synthesis.trees.groups.tree_program import TreeProgram
from treadle.synthesis.trees.groups.union import union_of
from treadle.synthesis.trees.optimality import optimum
from treadle.topologies import parse
from treadle.topologies.topology import Topology, TopologyBuilder
from treadle.topologies.transforms.changes import with_failed_links

GB = 10**9
KINDS = CollectiveKind
LEAVES = "leaf_spine(4,2,gpus_per_leaf=8,oversubscription=4)"
ASYMMETRIC = "leaf_spine(32,8,gpus_per_leaf=32,oversubscription=4)"
DEAD = ("leaf3--spine2", "leaf3--spine5", "leaf9--spine0")


def posed(
    fabric: str,
    shape: tuple[int, ...],
    axes: str,
    *,
    kind: CollectiveKind = KINDS.ALLGATHER,
    forward: bool = False,
    without: tuple[str, ...] = (),
) -> tuple[Topology, Collective]:
    topology = with_failed_links(parse(fabric), *without) if without else parse(fabric)
    return topology, Collective(
        kind,
        tuple(topology.compute_nodes.tolist()),
        groups=Mesh(shape, tuple("abc"[: len(shape)])).groups(tuple(axes)),
        ranks_forward=forward,
    )


def check_shares(optimum: GroupOptimum) -> None:
    """All that shares promise, from the links of the fabric alone; sinks by cuts of unit weights."""
    topology, collective = optimum.topology, optimum.collective
    load = [Fraction(0)] * topology.n_links
    for group in range(collective.n_groups or 1):
        nodes = collective.member(group).ranks
        absent = set() if collective.ranks_forward else set(collective.ranks) - set(nodes)
        for turned in optimum.families:
            shares = optimum.allocation(group, reducing=turned)
            assert len(set(shares.links.tolist())) == len(shares.links)
            excess = [0] * topology.n_nodes
            for link, bandwidth in zip(shares.links.tolist(), shares.bandwidths, strict=True):
                ends = int(topology.tails[link]), int(topology.heads[link])
                assert bandwidth > 0
                assert not absent & set(ends)
                load[link] += Fraction(int(bandwidth), shares.denominator)
                excess[ends[0]] -= bandwidth
                excess[ends[1]] += bandwidth
            assert not any(excess[node] for node in range(topology.n_nodes) if node not in nodes)
            fed = Fraction(sum(shares.roots), shares.denominator)
            assert fed == optimum.lower
    assert all(part <= b for part, b in zip(load, topology.bandwidths.tolist(), strict=True))


@pytest.mark.parametrize(
    ("fabric", "shape", "axes", "value"),
    [
        (LEAVES, (4, 8), "a", Fraction(50, 3) * GB),
        (LEAVES, (2, 4, 4), "a", 25 * GB),
        (LEAVES, (2, 4, 4), "b", 50 * GB),
        (LEAVES, (2, 4, 4), "c", Fraction(200, 3) * GB),
        ("dgx_h100(16)", (16, 8), "a", Fraction(160, 3) * GB),
        ("dgx_h100(16)", (16, 8), "b", Fraction(4000, 7) * GB),
        ("dgx_h100(16)", (16, 8), "ab", Fraction(1280, 3) * GB),
        ("mi300x(4)", (8, 4), "b", Fraction(968, 3) * GB),
        (ASYMMETRIC, (32, 32), "a", Fraction(400, 31) * GB),
    ],
)
def test_values_by_hand(fabric: str, shape: tuple[int, ...], axes: str, value: Fraction) -> None:
    found = group_optimum(*posed(fabric, shape, axes))
    assert (found.lower, found.upper) == (value, value)
    assert found.certificate.bound(found.topology, found.collective) == value
    check_shares(found)


@pytest.mark.parametrize(
    ("fabric", "shape", "axes", "kind", "value"),
    [
        ("mi300x(4)", (8, 4), "b", KINDS.ALLGATHER, Fraction(1480, 3) * GB),
        ("torus(8,8)", (4, 16), "a", KINDS.ALLGATHER, Fraction(4, 3)),
        ("torus(8,8)", (8, 8), "a", KINDS.ALLGATHER, Fraction(16, 7)),
        ("generalized_kautz(4,64)", (8, 8), "a", KINDS.ALLGATHER, Fraction(32, 21)),
        ("generalized_kautz(4,32)", (8, 4), "a", KINDS.REDUCE_SCATTER, None),
        ("torus(16,16)", (8, 32), "a", KINDS.ALLGATHER, None),
        ("mi250(2)", (4, 8), "b", KINDS.ALLREDUCE, 188 * GB),
        ("mesh(3,4)", (3, 4), "a", KINDS.ALLREDUCE, Fraction(1)),
    ],
)
def test_values_with_forwarding(
    fabric: str, shape: tuple[int, ...], axes: str, kind: CollectiveKind, value: Fraction | None
) -> None:
    found = group_optimum(*posed(fabric, shape, axes, kind=kind, forward=True))
    assert found.is_exact
    assert value is None or found.lower == value
    check_shares(found)


def test_a_dead_network_card_makes_allreduce_better_than_its_halves() -> None:
    fabric = {"forward": True, "without": ("box0.gpu0--ib0",)}
    whole, gather, scatter = (
        group_optimum(*posed("dgx_h100(4)", (4, 8), "a", kind=kind, **fabric))  # type: ignore[arg-type]
        for kind in (KINDS.ALLREDUCE, KINDS.ALLGATHER, KINDS.REDUCE_SCATTER)
    )
    assert whole.is_exact
    assert whole.lower == Fraction(775, 24) * GB
    assert 1 / (1 / gather.lower + 1 / scatter.lower) == Fraction(175, 6) * GB
    check_shares(whole)


def test_dead_links_between_leaves_and_spines() -> None:
    found = group_optimum(*posed(ASYMMETRIC, (32, 32), "a", without=DEAD))
    assert (found.lower, found.is_exact) == (Fraction(300, 31) * GB, True)
    check_shares(found)


def test_a_group_that_a_dead_card_cuts_off_is_named() -> None:
    dead = ("box5.gpu1--rail1",)
    with pytest.raises(InfeasibleError, match=r"group 1 \(box0.gpu1, .*'box5.gpu1'.*let ranks forward"):
        group_optimum(*posed("rail_optimized(16)", (16, 8), "a", without=dead))
    found = group_optimum(*posed("rail_optimized(16)", (16, 8), "a", without=dead, forward=True))
    assert found.is_exact
    assert found.n_representatives == 2


def test_broadcast_needs_ways_from_the_root_only() -> None:
    builder = TopologyBuilder("one way")
    for name in "abcd":
        builder.compute(name)
    for tail, head in ("ab", "cd"):
        builder.link(tail, head, 3)
    topology, groups = builder.build(), ((0, 1), (2, 3))
    down = Collective(KINDS.BROADCAST, (0, 1, 2, 3), root=0, groups=groups)
    up = Collective(KINDS.REDUCE, (0, 1, 2, 3), root=1, groups=groups)
    assert [group_optimum(topology, one).lower for one in (down, up)] == [3, 3]
    with pytest.raises(InfeasibleError, match="group 0"):
        group_optimum(topology, Collective(KINDS.BROADCAST, (0, 1, 2, 3), root=1, groups=groups))


@pytest.mark.parametrize("seed", range(60))
def test_the_whole_program_agrees(seed: int) -> None:
    topology, collective = grouped_fabric(Random(seed))
    expected = group_lp(topology, collective)[0]
    try:
        found = group_optimum(topology, collective)
    except InfeasibleError:
        assert expected == pytest.approx(0, abs=1e-9)
        return
    assert found.is_exact
    assert float(found.lower) == pytest.approx(expected, rel=1e-6)
    check_shares(found)


@pytest.mark.parametrize("kind", [KINDS.ALLGATHER, KINDS.REDUCE_SCATTER, KINDS.BROADCAST])
def test_one_group_is_the_optimum_of_a_whole_fabric(kind: CollectiveKind) -> None:
    for fabric in ("dgx_a100(4)", "generalized_kautz(3,20)", "torus(3,4)"):
        topology = parse(fabric)
        collective = on_all_ranks(topology, kind, root=2 if kind.is_rooted else None)
        found = group_optimum(topology, collective)
        assert found.lower == found.upper == optimum(topology, collective).algbw


def test_groups_with_switches_of_their_own() -> None:
    """Two groups of three, one with two switches of its own and one with one, and a switch for all."""
    builder = TopologyBuilder("own switches")
    for i in range(6):
        builder.compute(f"gpu{i}")
    for name, members, bandwidth in (
        ("a", (0, 1, 2), 3),
        ("b", (0, 1), 5),
        ("c", (3, 4, 5), 4),
        ("all", range(6), 2),
    ):
        builder.switch(name)
        for i in members:
            builder.duplex(f"gpu{i}", name, bandwidth)
    topology = builder.build()
    collective = Collective(KINDS.ALLGATHER, tuple(range(6)), groups=((0, 1, 2), (3, 4, 5)))
    found = group_optimum(topology, collective)
    assert found.is_exact
    assert float(found.lower) == pytest.approx(group_lp(topology, collective)[0], rel=1e-6)
    check_shares(found)


@pytest.mark.parametrize(("axes", "value"), [("a", Fraction(512, 511) * 50), ("b", Fraction(4000, 7))])
def test_boxes_of_thousands_are_copies_of_one(axes: str, value: Fraction) -> None:
    """A box has its switch for itself; across boxes it is a dead end of one rank's."""
    topology, collective = posed("dgx_h100:512", (512, 8), axes)
    found = group_optimum(topology, collective)
    assert found.lower == found.upper == value * GB
    assert (found.n_representatives, found.n_classes) == (1, 4 if axes == "b" else 2)
    last = found.allocation((collective.n_groups or 0) - 1)
    ends = {
        topology.node_names[v] for link in last.links for v in (topology.tails[link], topology.heads[link])
    }
    in_box = [name for name in ends if "." in name]
    assert all(name.startswith("box511.") if axes == "b" else ".gpu7" in name for name in in_box)
    union = union_of(topology, collective)
    assert union.n_types == 1
    assert len(union.tails) == (32 if axes == "b" else 1024)


def ring_and_triangles() -> tuple[Topology, Collective]:
    """Two groups of six at a slow switch each: one a ring, the other two triangles; locally all alike."""
    builder = TopologyBuilder("ring and triangles")
    for i in range(12):
        builder.compute(f"gpu{i}")
    for half, first in enumerate((0, 6)):
        builder.switch(f"switch{half}")
        for i in range(6):
            after = (i + 1) % 6 if half == 0 else (i + 1) % 3 + i // 3 * 3
            builder.duplex(f"gpu{first + i}", f"gpu{first + after}", 10)
            builder.duplex(f"gpu{first + i}", f"switch{half}", 1)
    groups = (tuple(range(6)), tuple(range(6, 12)))
    return builder.build(), Collective(KINDS.ALLGATHER, tuple(range(12)), groups=groups)


def test_groups_that_only_look_alike_are_told_apart() -> None:
    topology, collective = ring_and_triangles()
    found = group_optimum(topology, collective)
    assert found.is_exact
    assert found.lower == 6  # three shards have to leave a triangle, whose links to the switch hold 3
    assert float(found.lower) == pytest.approx(group_lp(topology, collective)[0])
    check_shares(found)


@pytest.mark.parametrize(
    ("kind", "rounds"),
    [(KINDS.ALLGATHER, 0), (KINDS.ALLGATHER, 4), (KINDS.ALLREDUCE, 1), (KINDS.BROADCAST, 1)],
)
def test_a_deadline_leaves_a_bracket(
    kind: CollectiveKind, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After so many rounds time is up: some trees are known, and lengths that prove what they can."""
    topology, collective = posed("torus(5,5)", (5, 5), "a", forward=True, without=("n0_0--n1_0",))
    collective = replace(collective, kind=kind, root=3 if kind.is_rooted else None)
    exact = group_optimum(topology, collective)
    grow, done = TreeProgram.add_columns, []

    def late(program: TreeProgram, duals: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> int:
        if len(done) == rounds:
            raise TimeLimitError("trees of groups")
        done.append(1)
        return grow(program, duals)

    monkeypatch.setattr(TreeProgram, "add_columns", late)
    with under(Context(deadline=time.monotonic() + 600)):
        found = group_optimum(topology, collective)
    assert exact.lower / 100 < found.lower < exact.lower == exact.upper < found.upper < 100 * exact.upper
    assert found.certificate.bound(topology, collective) == found.upper
    assert not found.has_trees
    check_shares(found)


def test_representatives_stand_for_groups_of_equal_shares() -> None:
    found = group_optimum(*posed(LEAVES, (4, 8), "a"))
    assert {found.representative(group) for group in range(8)} == {0}
    bandwidths = {tuple(sorted(found.allocation(group).bandwidths.tolist())) for group in range(8)}
    assert len(bandwidths) == 1
    own = [set(found.allocation(group).links.tolist()) for group in range(8)]
    assert all(own[0] != other for other in own[1:])
    assert np.all(found.allocation(0).bandwidths > 0)


def test_the_public_bound_is_that_of_all_groups_at_once() -> None:
    found = bound(LEAVES, "allgather", mesh="4,8", axes="0")
    assert (found.algbw, found.bound.is_tight) == (Fraction(50, 3) * GB, True)
