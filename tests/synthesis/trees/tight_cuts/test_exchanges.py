"""Closed forms of the outermost piece: judged as explicit trees, and in their own form."""

from __future__ import annotations

import io
import itertools
import random
import zipfile
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from reference.exchange_checks import check_lookups, one_piece, planes_star
from treadle.arrays import Int64Array
from treadle.errors import FormatError, ScheduleError
from treadle.refusal import Refusal
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.schedules.factored import (
    CirculantExchange,
    EvenShares,
    PlaneExchange,
    RelayExchange,
)
from treadle.schedules.plan import Plan, PlanEntry
from treadle.schedules.plan_files.archive import load_plan, save_plan
from treadle.synthesis.trees import optimum
from treadle.synthesis.trees.budget import TreeBudget
from treadle.synthesis.trees.instance import instance_of
from treadle.synthesis.trees.tight_cuts.closed_forms.plane_exchange import plane_exchange
from treadle.synthesis.trees.tight_cuts.closed_forms.plane_shares import Shares, plane_shares
from treadle.synthesis.trees.tight_cuts.closed_forms.plane_tables import plane_tables
from treadle.synthesis.trees.tight_cuts.closed_forms.relay_exchange import relay_exchange
from treadle.synthesis.trees.tight_cuts.decompose import decompose
from treadle.synthesis.trees.tight_cuts.family import Family
from treadle.synthesis.trees.tight_cuts.pieces import cut
from treadle.topologies.catalogue.clusters import rail_optimized
from treadle.topologies.catalogue.platforms import add_box, dgx_a100
from treadle.topologies.topology import Topology, TopologyBuilder
from treadle.topologies.transforms.changes import with_failed_links
from treadle.verification.schedules import verify


def star(exits: list[int], entries: list[int]) -> Topology:
    """Ranks around one switch; bandwidths out and in."""
    builder = TopologyBuilder("star")
    names = [builder.compute(f"r{i}") for i in range(len(exits))]
    switch = builder.switch("sw")
    for name, out, into in zip(names, exits, entries, strict=True):
        if out:
            builder.link(name, switch, bandwidth=out)
        if into:
            builder.link(switch, name, bandwidth=into)
    return builder.build()


def boxes_on_one_switch(sizes: list[int], nics: list[int]) -> Topology:
    """Boxes of these numbers of GPUs, each GPU with a NIC of its box's bandwidth to one switch."""
    builder = TopologyBuilder("mixed boxes")
    boxes = [
        add_box(builder, f"box{i}", size, 300) if size > 1 else [builder.compute(f"gpu{i}")]
        for i, size in enumerate(sizes)
    ]
    switch = builder.switch("ib")
    for names, nic in zip(boxes, nics, strict=True):
        for name in names:
            builder.duplex(name, switch, nic)
    return builder.build()


def relayed_star(
    weights: list[int], exits: list[int], block: int = 1
) -> tuple[Topology, Collective, RelayExchange | Refusal]:
    """A star whose links have just the capacity units given; a rank is the root of `weights` unit trees."""
    total = sum(weights)
    topology = star(exits, [total - weight for weight in weights])
    ranks = tuple(range(len(weights)))
    collective = Collective(CollectiveKind.ALLGATHER, ranks, weights=tuple(weights))
    problem = instance_of(topology, collective)
    family = Family(np.array([-1], dtype=np.int32), np.zeros(problem.n_nodes, dtype=np.int32))
    cutting = cut(problem, family, problem.bandwidths, np.array(weights))
    return topology, collective, relay_exchange(cutting.kinds[0], cutting, {}, block)


STARS = [
    ([1, 1], [1, 1]),
    ([3, 1, 2], [4, 3, 5]),
    ([1, 1, 0, 0, 0], [1, 1, 2, 2, 2]),  # relays feed relays: docs, after theorem 13
    ([4, 1, 1, 1, 1], [4, 7, 7, 7, 7]),
    ([5, 4, 0, 0, 0, 0, 0], [9, 9, 9, 9, 9, 9, 0]),
    ([2, 2, 2, 2], [6, 6, 6, 6]),
    ([6, 2, 2, 4], [8, 12, 12, 10]),
]


@pytest.mark.parametrize(("weights", "exits"), STARS)
@pytest.mark.parametrize("block", [1, 2])
def test_relays_on_a_star_span_and_use_every_unit_once(
    weights: list[int], exits: list[int], block: int
) -> None:
    weights, exits = [block * w for w in weights], [block * e for e in exits]
    topology, collective, trees = relayed_star(weights, exits, block)
    assert isinstance(trees, RelayExchange)
    schedule = one_piece(topology, trees)
    for form in (schedule, schedule.explicit()):
        report = verify(topology, collective, form)
        assert not report.violations
        assert report.algbw is not None
        assert report.algbw >= sum(weights)
    check_lookups(trees, topology.n_links)


def test_relays_on_random_stars() -> None:
    rng = random.Random(13)
    built = 0
    for _ in range(60):
        n = rng.randint(2, 7)
        weights = [rng.choice([0, 0, 1, 1, 2, 5]) for _ in range(n)]
        total = sum(weights)
        exits = [total - w for w in weights]
        for _ in range(rng.randint(0, 8)):  # theorem 13 asks for the sum and e >= r alone
            one, other = rng.sample(range(n), 2)
            if exits[one] > weights[one]:
                exits[one] -= 1
                exits[other] += 1
        if not total or max(weights) * 2 > total:
            continue
        topology, collective, trees = relayed_star(weights, exits)
        assert isinstance(trees, RelayExchange)
        report = verify(topology, collective, one_piece(topology, trees).explicit())
        assert not report.violations
        assert report.algbw is not None
        assert report.algbw >= total
        check_lookups(trees, topology.n_links)
        built += 1
    assert built > 20


def test_height_two_where_every_helper_is_a_root() -> None:
    # theorem 13: height 2 if every child with e > r (B - 1) is the root of a tree
    topology, collective, trees = relayed_star([4, 1, 1, 1, 1], [4, 7, 7, 7, 7])
    assert isinstance(trees, RelayExchange)
    assert verify(topology, collective, one_piece(topology, trees).explicit()).height_max == 2


def test_relays_refuse_too_few_exits() -> None:
    assert "cannot be left" in str(relayed_star([3, 1, 1], [2, 4, 4])[2])


MIXED = [
    ([4, 8, 4, 8], [50, 25, 50, 25]),
    ([3, 4, 6, 1, 3], [100, 100, 25, 100, 50]),
    ([2, 2, 1, 1, 8, 6, 8], [50, 100, 100, 50, 100, 25, 25]),
    ([6, 3, 2, 6], [50, 50, 25, 100]),
]


@pytest.mark.parametrize(("sizes", "nics"), MIXED)
@pytest.mark.parametrize("kind", [CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER])
def test_unequal_boxes_on_one_switch(sizes: list[int], nics: list[int], kind: CollectiveKind) -> None:
    topology = boxes_on_one_switch(sizes, nics)
    collective = on_all_ranks(topology, kind)
    found = decompose(topology, collective)
    assert not isinstance(found, Refusal)
    assert "by relay exchange" in found.summary
    best = optimum(topology, collective).algbw
    for form in (found.schedule, found.schedule.explicit()):
        report = verify(topology, collective, form, claimed_algbw=best)
        assert not report.violations


def test_trees_leave_by_their_own_rank() -> None:
    # boxes of 4 with twice the NICs: each box of 8 gives away equally much of all its ranks
    topology = boxes_on_one_switch([4, 8, 4, 8, 4, 8], [50, 25, 50, 25, 50, 25])
    collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)
    found = decompose(topology, collective, budget=TreeBudget(trees=1))
    assert not isinstance(found, Refusal)
    forest = found.schedule.explicit().forests[0]
    box = np.repeat(np.arange(6), [4, 8, 4, 8, 4, 8])
    for root in range(forest.n_ranks):
        for tree in forest.trees(root):
            parent = tree.parent
            crosses = (parent >= 0) & (box[parent] != box)
            assert set(parent[crosses & (box[parent] == box[root])]) == {root}


def relay_sample() -> tuple[Topology, Collective, RelayExchange]:
    """Child 1 makes a delivery for child 0."""
    topology, collective, trees = relayed_star([3, 1, 2], [5, 3, 4])
    assert isinstance(trees, RelayExchange)
    assert trees.relay_root.tolist() == [0]
    return topology, collective, trees


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"block": 2}, "make no exchange"),
        ({"relay_block": [3]}, "no block of that number"),
        ({"relay_child": [0]}, "not its root"),
        ({"relay_count": [0]}, "found 0"),
        ({"relay_count": [2]}, "more than n - 2"),
        ({"native_units": [3, 1, 1]}, "its trees take"),
        ({"relay_root": [], "relay_block": [], "relay_child": [], "relay_count": []}, "its trees take"),
        ({"out_links": [[0]]}, "out_links has shape"),
        ({"in_offset": [[0], [-1], [0]]}, "found -1"),
    ],
)
def test_relay_exchanges_that_make_no_sense_are_refused(changes: dict[str, object], message: str) -> None:
    _, _, trees = relay_sample()
    columns = {
        key: value if isinstance(value, int) else np.array(value, dtype=getattr(trees, key).dtype)
        for key, value in changes.items()
    }
    with pytest.raises(ScheduleError, match=message):
        replace(trees, **columns)


def test_the_verifier_sees_units_taken_twice_and_links_of_others() -> None:
    topology, collective, trees = relay_sample()
    beyond = np.array(trees.out_offset)
    beyond[0, 0] += 1
    report = verify(topology, collective, one_piece(topology, replace(trees, out_offset=beyond)))
    assert any("is taken; it has" in str(one) for one in report.violations)
    topology, collective, equal = relayed_star([2, 2, 2, 2], [6, 6, 6, 6])
    assert isinstance(equal, RelayExchange)
    swapped = np.array(equal.in_links)[[1, 0, 2, 3]]
    report = verify(topology, collective, one_piece(topology, replace(equal, in_links=swapped)))
    assert any("does not end at rank" in str(one) for one in report.violations)


def shared_star(
    out: Int64Array, into: Int64Array, trees: int, block: int = 1
) -> tuple[Topology, Collective, PlaneExchange | Refusal]:
    """An exchange on such a star, whose links have just the capacity units given."""
    topology = planes_star(out, into)
    collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)
    problem = instance_of(topology, collective)
    family = Family(np.array([-1], dtype=np.int32), np.zeros(problem.n_nodes, dtype=np.int32))
    cutting = cut(problem, family, problem.bandwidths, np.full(len(out), trees))
    return topology, collective, plane_exchange(cutting.kinds[0], cutting, {}, block)


def dealt_at_random(rng: random.Random, n: int, planes: int, trees: int) -> Int64Array:
    """Units that each child sends to each other by each plane, with planes that some children hardly use."""
    odds = [[rng.choice([1, 1, 1, 4]) for _ in range(planes)] for _ in range(n)]
    table = np.zeros((planes, n, n), dtype=np.int64)
    for x, y in itertools.permutations(range(n), 2):
        weights = [a * b for a, b in zip(odds[x], odds[y], strict=True)]
        for plane in rng.choices(range(planes), weights, k=trees):
            table[plane, x, y] += 1
    return table


def has_direct_forest(out: Int64Array, into: Int64Array, trees: int) -> bool:
    """Proposition 14 (b): a flow of all units of plane 0, at most `trees` from a child to another."""
    n = len(out)
    graph = nx.DiGraph()
    for x in range(n):
        graph.add_edge("s", ("out", x), capacity=int(out[x, 0]))
        graph.add_edge(("in", x), "t", capacity=int(into[x, 0]))
    graph.add_edges_from(
        (("out", x), ("in", y), {"capacity": trees}) for x, y in itertools.permutations(range(n), 2)
    )
    return bool(nx.maximum_flow_value(graph, "s", "t") == out[:, 0].sum())


def check_shares(shares: Shares, out: Int64Array, into: Int64Array, sent: Int64Array) -> None:
    """The table has the sums asked for; `sent` is what children send each other in all."""
    every = np.arange(len(out))
    table = EvenShares(shares.group, shares.group_units).shares(every[:, None], every)
    table[:, shares.pair_root, shares.pair_child] = shares.pair_units.T
    assert table.min() >= 0
    np.testing.assert_array_equal(table.sum(axis=0), sent)
    np.testing.assert_array_equal(table.sum(axis=2).T, out)
    np.testing.assert_array_equal(table.sum(axis=1).T, into)


def equally(n: int, trees: int) -> Int64Array:
    """What children with so many trees send each other."""
    return trees * (1 - np.eye(n, dtype=np.int64))


def test_two_planes_are_shared_just_when_a_flow_says_so() -> None:
    rng = random.Random(14)
    answers = []
    for _ in range(150):
        n, trees = rng.randint(2, 6), rng.randint(1, 3)
        total = trees * (n - 1)
        one = [rng.randint(0, total) for _ in range(n)]
        other = rng.sample(one, n)
        out, into = (np.array([[a, total - a] for a in side]) for side in (one, other))
        found = plane_shares(out, into, np.full(n, trees))
        answers.append(has_direct_forest(out, into, trees))
        assert isinstance(found, Shares) == answers[-1], (one, other, trees)
        if isinstance(found, Shares):
            check_shares(found, out, into, equally(n, trees))
        else:
            assert "no direct forest" in found.reason
    assert 20 < sum(answers) < 130


@pytest.mark.parametrize("planes", [2, 3, 4])
def test_planes_dealt_at_random_are_shared(planes: int) -> None:
    rng = random.Random(planes)
    built = 0
    for _ in range(25):
        n, trees = rng.randint(3, 9), rng.choice([1, 2, 5, 12])
        table = dealt_at_random(rng, n, planes, trees)
        out, into = table.sum(axis=2).T, table.sum(axis=1).T
        found = plane_shares(out, into, np.full(n, trees))
        if planes == 2:
            assert isinstance(found, Shares)
        if isinstance(found, Shares):
            check_shares(found, out, into, equally(n, trees))
            built += 1
    assert built > 15


@pytest.mark.parametrize("planes", [1, 2, 3])
def test_planes_on_a_star_span_and_use_every_unit_once(planes: int) -> None:
    rng = random.Random(planes)
    for n, trees, block in [(2, 2, 1), (3, 1, 1), (4, 6, 2), (5, 4, 4), (7, 3, 1)]:
        table = dealt_at_random(rng, n, planes, trees)
        out, into = table.sum(axis=2).T, table.sum(axis=1).T
        used = out.any(axis=0) | into.any(axis=0)
        out, into = out[:, used], into[:, used]
        topology, collective, exchange = shared_star(out, into, trees, block)
        if planes == 3 and isinstance(exchange, Refusal):
            continue
        assert isinstance(exchange, PlaneExchange)
        schedule = one_piece(topology, exchange)
        for form in (schedule, schedule.explicit()):
            report = verify(topology, collective, form)
            assert not report.violations
            assert report.algbw is not None
            assert report.algbw >= n * trees
        check_lookups(exchange, topology.n_links)


def test_condition_c_does_not_suffice_for_planes() -> None:
    # docs/algorithms/decomposition.md, proposition 14 (d)
    sums = np.array([[3, 0], [3, 0], [1, 2], [1, 2]])
    assert "no direct forest" in str(plane_shares(sums, sums, np.ones(4, dtype=np.int64)))


def test_searches_for_paths_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    one = [6, 2, 3, 5, 4]
    sums = np.array([[a, 8 - a] for a in one])
    near = np.zeros((2, 5, 5), dtype=np.int64)
    tables = plane_tables(sums, sums, equally(5, 2), near)
    assert not isinstance(tables, Refusal)
    np.testing.assert_array_equal(tables.sum(axis=2).T, sums)
    np.testing.assert_array_equal(tables.sum(axis=1).T, sums)
    monkeypatch.setattr("treadle.synthesis.trees.tight_cuts.closed_forms.plane_tables.MOST_VISITS", 0)
    assert "too long" in str(plane_tables(sums, sums, equally(5, 2), near))


def failed_nics(boxes: int, *nics: tuple[int, int]) -> Topology:
    """DGX A100 boxes some of whose NICs have lost their rail."""
    return with_failed_links(dgx_a100(boxes), *(f"box{box}.nic{i}--ib{i % 2}" for box, i in nics))


@pytest.mark.parametrize("kind", [CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER])
@pytest.mark.parametrize(("boxes", "nics"), [(4, [(1, 3)]), (6, [(0, 0), (4, 7)]), (5, [(2, 1), (2, 3)])])
def test_boxes_with_failed_links_on_two_rails(
    boxes: int, nics: list[tuple[int, int]], kind: CollectiveKind
) -> None:
    topology = failed_nics(boxes, *nics)
    collective = on_all_ranks(topology, kind)
    found = decompose(topology, collective)
    assert not isinstance(found, Refusal)
    assert "by plane exchange" in found.summary
    best = optimum(topology, collective).algbw
    for form in (found.schedule, found.schedule.explicit()):
        report = verify(topology, collective, form, claimed_algbw=best)
        assert not report.violations


def test_many_rails_of_which_boxes_lack_different_ones() -> None:
    lost = [(1, 2), (9, 7), (20, 6), (33, 0), (50, 5), (51, 7)]
    topology = with_failed_links(rail_optimized(64), *(f"box{box}.gpu{i}--rail{i}" for box, i in lost))
    collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)
    found = decompose(topology, collective)
    assert not isinstance(found, Refusal)
    assert "by plane exchange" in found.summary
    report = verify(topology, collective, found.schedule, claimed_algbw=found.optimum.algbw)
    assert not report.violations


def test_pairs_take_all_that_is_left_on_their_last_plane() -> None:
    # children 0 and 1 lack plane 2 and plane 1: what they send each other is on plane 0
    n, trees = 8, 6
    table = np.zeros((3, n, n), dtype=np.int64)
    for x, y in itertools.permutations(range(n), 2):
        here = [plane for plane in range(3) if not {(0, 2), (1, 1)} & {(x, plane), (y, plane)}]
        for unit in range(trees):
            table[here[(x + y + unit) % len(here)], x, y] += 1
    out, into = table.sum(axis=2).T, table.sum(axis=1).T
    found = plane_shares(out, into, np.full(n, trees))
    assert isinstance(found, Shares)
    check_shares(found, out, into, equally(n, trees))


def plane_sample() -> tuple[Topology, Collective, PlaneExchange]:
    """Four ranks with two trees each, in three groups; six pairs are given."""
    sums = np.array([[4, 2], [3, 3], [3, 3], [2, 4]])
    topology, collective, trees = shared_star(sums, sums, 2)
    assert isinstance(trees, PlaneExchange)
    assert len(trees.pair_root) > 1
    return topology, collective, trees


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"block": 3}, "make no exchange"),
        ({"place": [0, 0]}, "place must hold"),
        ({"group_units": [[[5, 2]]], "group": [0, 0, 0, 0]}, "must sum to the trees"),
        ({"group_units": [[[7, -1]]], "group": [0, 0, 0, 0]}, "found -1"),
        ({"group": [3, 1, 1, 0]}, "found 3"),
        ({"group": [0, 1, 0]}, "group has"),
        ({"group": [0, 1, 1, 0]}, "groups that all have children"),
        ({"group_units": np.zeros((3, 2, 2))}, "two axes of groups"),
        ({"native_units": [2, 2, 4, 2]}, "different numbers of unit trees"),
        ({"pair_root": [], "pair_child": [], "pair_units": np.zeros((0, 3))}, "3 columns, group_units 2"),
        ({"pair_root": []}, "pair_child has"),
        ({"out_offset": [[0]]}, "out_offset has shape"),
    ],
)
def test_plane_exchanges_that_make_no_sense_are_refused(changes: dict[str, object], message: str) -> None:
    _, _, trees = plane_sample()
    columns = {
        key: value if isinstance(value, int) else np.array(value, dtype=getattr(trees, key).dtype)
        for key, value in changes.items()
    }
    with pytest.raises(ScheduleError, match=message):
        replace(trees, **columns)


def test_pairs_rise_and_divide_all_trees() -> None:
    _, _, trees = plane_sample()
    for key, value, message in (
        ("pair_root", trees.pair_root[::-1], "must rise|children send"),
        ("pair_child", trees.pair_root, "different children"),
        ("pair_units", trees.pair_units + 1, "found 3|must sum"),
    ):
        with pytest.raises(ScheduleError, match=message):
            replace(trees, **{key: value})


def test_the_verifier_sees_units_on_another_plane() -> None:
    topology, collective, trees = plane_sample()
    assert not verify(topology, collective, one_piece(topology, trees)).violations
    moved = np.array(trees.pair_units)
    moved[0] = moved[0][::-1]
    report = verify(topology, collective, one_piece(topology, replace(trees, pair_units=moved)))
    assert any("pass one switch" in str(one) for one in report.violations)


SAMPLES: dict[str, Callable[[], tuple[Topology, Collective, RelayExchange | PlaneExchange]]] = {
    "relay": relay_sample,
    "plane": plane_sample,
}


@pytest.mark.parametrize("name", SAMPLES)
def test_plan_files_round_trip(name: str, tmp_path: Path) -> None:
    topology, collective, trees = SAMPLES[name]()
    schedule = one_piece(topology, trees)
    algbw = verify(topology, collective, schedule).algbw
    assert algbw is not None
    plan = Plan(topology, collective, (PlanEntry(0, None, schedule),), "by hand", algbw)
    save_plan(tmp_path / "a", plan)
    loaded = load_plan(tmp_path / "a")
    assert loaded == plan
    save_plan(tmp_path / "b", loaded)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize(
    ("name", "member", "values", "said"),
    [
        ("relay", "relay.count", [2], "1 values, expected 2"),
        ("relay", "relay.child", [7], "found 7"),
        ("relay", "exchange.block", [0], "make no exchange"),
        ("relay", "exchange.in_width", [2**40], "out of range"),
        ("relay", "relay.native_units", [3, 1], "2 values, expected 3"),
        ("plane", "plane.planes", [3], "values, expected 27"),
        ("plane", "plane.places", [1], "2 values, expected 1"),
        ("plane", "plane.place", [1, 1], "place must hold"),
        ("plane", "plane.pair_count", [1], "values, expected 1"),
        ("plane", "exchange.out_width", [-1], "out of range"),
    ],
)
def test_malformed_members_are_refused(
    name: str, member: str, values: list[int], said: str, tmp_path: Path
) -> None:
    topology, collective, trees = SAMPLES[name]()
    plan = Plan(
        topology, collective, (PlanEntry(0, None, one_piece(topology, trees)),), "by hand", Fraction(1)
    )
    save_plan(tmp_path / "plan", plan)
    with zipfile.ZipFile(tmp_path / "plan") as archive:
        content = {one: archive.read(one) for one in archive.namelist()}
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.array(values), version=(1, 0))
    assert f"factored/0/0/{member}.npy" in content
    content[f"factored/0/0/{member}.npy"] = buffer.getvalue()
    with zipfile.ZipFile(tmp_path / "plan", "w") as archive:
        for one, data in content.items():
            archive.writestr(one, data)
    with pytest.raises(FormatError, match=said):
        load_plan(tmp_path / "plan")


def test_circulant_exchanges_with_more_columns_in_than_out_round_trip(tmp_path: Path) -> None:
    topology, collective, equal = relayed_star([2, 2, 2, 2], [6, 6, 6, 6])
    assert isinstance(equal, RelayExchange)
    none = np.zeros((4, 1), dtype=np.int64)
    trees = CirculantExchange(
        n_children=4,
        native_units=2,
        block=1,
        out_links=equal.out_links,
        in_links=np.concatenate([equal.in_links, none], axis=1),
        out_first=equal.out_first,
        in_first=np.concatenate([equal.in_first, none + 6], axis=1),
        out_offset=equal.out_offset,
        in_offset=np.concatenate([equal.in_offset, none], axis=1),
    )
    schedule = one_piece(topology, trees)
    assert not verify(topology, collective, schedule).violations
    plan = Plan(topology, collective, (PlanEntry(0, None, schedule),), "by hand", Fraction(8))
    save_plan(tmp_path / "plan", plan)
    assert load_plan(tmp_path / "plan") == plan


@pytest.mark.parametrize("failures", [(), ("box1.gpu2--rail2",)])
def test_spines_between_the_planes_are_left_alone(failures: tuple[str, ...]) -> None:
    topology = with_failed_links(rail_optimized(6, spines=2, oversubscription=2), *failures)
    collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)
    found = decompose(topology, collective)
    assert not isinstance(found, Refusal)
    assert "exchange" in found.summary.split(":")[1].split(",")[0]
    report = verify(topology, collective, found.schedule.explicit(), claimed_algbw=found.algbw)
    assert not report.violations
    assert found.algbw == optimum(topology, collective).algbw


def relayed_planes(
    rng: random.Random, n: int, planes: int, block: int
) -> tuple[Topology, Collective, PlaneExchange]:
    """Ranks with different numbers of trees, some deliveries by others, dealt to planes at random."""
    blocks = [rng.choice([0, 1, 1, 2, 3]) for _ in range(n)]
    blocks[rng.randrange(n)] = usual = 2
    rows: list[tuple[int, int, int, int]] = []
    for root, count in enumerate(blocks):
        for number in range(count):
            others = [child for child in range(n) if child != root]
            near = rng.sample(others, rng.randint(1, n - 1))
            rows += [(root, child, number, rng.choice(near)) for child in others if child not in near]
    rows.sort()
    sent = np.array([[0 if x == y else blocks[x] * block for y in range(n)] for x in range(n)])
    for root, child, _, by in rows:
        sent[root, child] -= block
        sent[by, child] += block
    table = np.zeros((planes, n, n), dtype=np.int64)
    for x, y in itertools.permutations(range(n), 2):
        for plane in rng.choices(range(planes), k=int(sent[x, y])):
            table[plane, x, y] += 1
    # groups of children with equally many trees, and shares of planes by chance
    keys = [(count, rng.random() < 0.5) for count in blocks]
    group = np.array([sorted(set(keys)).index(key) for key in keys], dtype=np.int32)
    sizes = np.bincount(group)
    group_units = np.zeros((len(sizes), len(sizes), planes), dtype=np.int64)
    for a, b in itertools.product(range(len(sizes)), repeat=2):
        others = max(sizes[a], sizes[b]) - (a == b)
        for plane in rng.choices(range(planes), k=int(others) * sorted(set(keys))[a][0] * block):
            group_units[a, b, plane] += 1
    even = EvenShares(group, group_units).shares(np.arange(n)[:, None], np.arange(n))
    pairs = list(itertools.permutations(range(n), 2))
    changed = {(root, child) for root, child, _, _ in rows} | {(by, child) for _, child, _, by in rows}
    kept = [(x, y) for x, y in pairs if (x, y) in changed or rng.random() < 0.3]
    left = np.ones((n, n), dtype=bool)
    left[tuple(np.array(kept, dtype=np.int64).reshape(-1, 2).T)] = False
    table = np.where(left, even, table)
    out, into = table.sum(axis=2).T, table.sum(axis=1).T
    topology = planes_star(np.maximum(out, 1), np.maximum(into, 1))
    first = [
        np.concatenate([np.zeros((n, 1), dtype=np.int64), np.cumsum(one, axis=1)], axis=1)
        for one in (out, into)
    ]
    number = {
        (int(tail), int(head)): at
        for at, (tail, head) in enumerate(zip(topology.tails, topology.heads, strict=True))
    }
    switches = [n + plane for plane in range(planes)]
    place = np.array(rng.sample(range(usual * block), usual * block))
    root, child, in_block, by = np.array(rows, dtype=np.int64).reshape(-1, 4).T
    trees = PlaneExchange(
        out_links=np.array([[number[x, s] for s in switches] for x in range(n)], dtype=np.int32),
        in_links=np.array([[number[s, x] for s in switches] for x in range(n)], dtype=np.int32),
        out_first=first[0],
        in_first=first[1],
        out_offset=np.zeros((n, planes), dtype=np.int64),
        in_offset=np.zeros((n, planes), dtype=np.int64),
        native_units=np.array(blocks) * block,
        block=block,
        place=place,
        group=group,
        group_units=group_units,
        pair_root=np.array([x for x, _ in kept], dtype=np.int32),
        pair_child=np.array([y for _, y in kept], dtype=np.int32),
        pair_units=np.array([table[:, x, y] for x, y in kept], dtype=np.int64).reshape(-1, planes),
        relay_root=root.astype(np.int32),
        relay_block=in_block,
        relay_child=child.astype(np.int32),
        relay_by=by.astype(np.int32),
    )
    weights = tuple((np.array(blocks) * block).tolist())
    return topology, Collective(CollectiveKind.ALLGATHER, tuple(range(n)), weights=weights), trees


def test_planes_with_relays_and_unequal_children() -> None:
    rng = random.Random(15)
    relayed = 0
    for _ in range(40):
        topology, collective, trees = relayed_planes(
            rng, rng.randint(2, 6), rng.randint(1, 3), rng.choice([1, 2, 3])
        )
        schedule = one_piece(topology, trees)
        for form in (schedule, schedule.explicit()):
            report = verify(topology, collective, form)
            assert not report.violations
            assert report.height_max == trees.depth
        check_lookups(trees, topology.n_links)
        relayed += trees.depth == 2
    assert relayed > 20


def test_pairs_that_relays_change_are_given_with_what_they_send() -> None:
    rng = random.Random(16)
    seen = 0
    for _ in range(20):
        _, _, trees = relayed_planes(rng, 5, 2, 2)
        for sender in (trees.relay_root, trees.relay_by):
            for end, child in zip(sender.tolist(), trees.relay_child.tolist(), strict=True):
                here = (trees.pair_root == end) & (trees.pair_child == child)
                units = trees.pair_units + np.outer(here, [1, 0])
                with pytest.raises(ScheduleError, match="must sum to what"):
                    replace(trees, pair_units=units)
                pairs = {key: getattr(trees, key)[~here] for key in ("pair_root", "pair_child", "pair_units")}
                with pytest.raises(ScheduleError, match="of relays must be"):
                    replace(trees, **pairs)
                seen += 1
    assert seen > 20


def test_more_blocks_than_fit_memory_have_a_bound() -> None:
    """A small file may name 2**38 blocks of one unit tree."""
    n, units = 3, 2**36
    sums = np.full((n, 1), (n - 1) * units)
    topology = planes_star(sums, sums)
    out, into = (
        np.array([np.flatnonzero(ends == node) for node in topology.compute_nodes])
        for ends in (topology.tails, topology.heads)
    )
    zero, none = np.zeros((n, 1), dtype=np.int64), np.zeros(0, dtype=np.int64)
    first = np.concatenate([zero, sums], axis=1)
    trees = RelayExchange(out, into, first, first, zero, zero, np.full(n, units), 1, none, none, none, none)
    report = verify(topology, on_all_ranks(topology, CollectiveKind.ALLGATHER), one_piece(topology, trees))
    assert report.is_ok
    assert report.height_max == 1
