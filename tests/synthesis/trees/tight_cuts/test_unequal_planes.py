"""Outermost pieces whose planes serve children unequally: judged as explicit trees, and in their own form."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest

from reference.formula_checks import check_lookups, one_piece, planes_star
from samples.factored.formula_stars import (
    plane_sample,
    shared_star,
    spread_at_random,
)
from treadle.arrays import Int64Array
from treadle.errors import ScheduleError
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.schedules.factored import (
    EvenAllocation,
    PlaneTrees,
)
from treadle.synthesis.trees import optimum
from treadle.synthesis.trees.tight_cuts.closed_forms.plane_allocation import PlaneAllocation, plane_allocation
from treadle.synthesis.trees.tight_cuts.closed_forms.plane_tables import plane_tables
from treadle.synthesis.trees.tight_cuts.decompose import decompose
from treadle.topologies.catalogue.clusters import rail_optimized
from treadle.topologies.catalogue.platforms import dgx_a100
from treadle.topologies.topology import Topology
from treadle.topologies.transforms.changes import with_failed_links
from treadle.unsupported import Unsupported
from treadle.verification.schedules import verify


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


def check_shares(shares: PlaneAllocation, out: Int64Array, into: Int64Array, sent: Int64Array) -> None:
    """The table has the sums asked for; `sent` is what children send each other in all."""
    every = np.arange(len(out))
    table = EvenAllocation(shares.group, shares.group_units).allocation(every[:, None], every)
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
    for _ in range(50):
        n, trees = rng.randint(2, 6), rng.randint(1, 3)
        total = trees * (n - 1)
        one = [rng.randint(0, total) for _ in range(n)]
        other = rng.sample(one, n)
        out, into = (np.array([[a, total - a] for a in side]) for side in (one, other))
        found = plane_allocation(out, into, np.full(n, trees))
        answers.append(has_direct_forest(out, into, trees))
        assert isinstance(found, PlaneAllocation) == answers[-1], (one, other, trees)
        if isinstance(found, PlaneAllocation):
            check_shares(found, out, into, equally(n, trees))
        else:
            assert "no direct forest" in found.reason
    assert 7 < sum(answers) < 43


@pytest.mark.parametrize("planes", [2, 3, 4])
def test_planes_spread_at_random_are_shared(planes: int) -> None:
    rng = random.Random(planes)
    built = 0
    for _ in range(10):
        n, trees = rng.randint(3, 9), rng.choice([1, 2, 5, 12])
        table = spread_at_random(rng, n, planes, trees)
        out, into = table.sum(axis=2).T, table.sum(axis=1).T
        found = plane_allocation(out, into, np.full(n, trees))
        if planes == 2:
            assert isinstance(found, PlaneAllocation)
        if isinstance(found, PlaneAllocation):
            check_shares(found, out, into, equally(n, trees))
            built += 1
    assert built > 6


@pytest.mark.parametrize("planes", [1, 2, 3])
def test_planes_on_a_star_span_and_use_every_unit_once(planes: int) -> None:
    rng = random.Random(planes)
    for n, trees, block in [(2, 2, 1), (3, 1, 1), (4, 6, 2), (5, 4, 4), (7, 3, 1)]:
        table = spread_at_random(rng, n, planes, trees)
        out, into = table.sum(axis=2).T, table.sum(axis=1).T
        used = out.any(axis=0) | into.any(axis=0)
        out, into = out[:, used], into[:, used]
        topology, collective, found = shared_star(out, into, trees, block)
        if planes == 3 and isinstance(found, Unsupported):
            continue
        assert isinstance(found, PlaneTrees)
        schedule = one_piece(topology, found)
        for form in (schedule, schedule.explicit()):
            report = verify(topology, collective, form)
            assert not report.violations
            assert report.algbw is not None
            assert report.algbw >= n * trees
        check_lookups(found, topology.n_links)


def test_condition_c_does_not_suffice_for_planes() -> None:
    # docs/proofs/root-pieces.md, proposition 14 (d)
    sums = np.array([[3, 0], [3, 0], [1, 2], [1, 2]])
    assert "no direct forest" in str(plane_allocation(sums, sums, np.ones(4, dtype=np.int64)))


def test_searches_for_paths_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    one = [6, 2, 3, 5, 4]
    sums = np.array([[a, 8 - a] for a in one])
    near = np.zeros((2, 5, 5), dtype=np.int64)
    tables = plane_tables(sums, sums, equally(5, 2), near)
    assert not isinstance(tables, Unsupported)
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
    assert not isinstance(found, Unsupported)
    assert "by plane trees" in found.summary
    best = optimum(topology, collective).algbw
    for form in (found.schedule, found.schedule.explicit()):
        report = verify(topology, collective, form, claimed_algbw=best)
        assert not report.violations


def test_many_rails_of_which_boxes_lack_different_ones() -> None:
    lost = [(1, 2), (9, 7), (20, 6), (33, 0), (50, 5), (51, 7)]
    topology = with_failed_links(rail_optimized(64), *(f"box{box}.gpu{i}--rail{i}" for box, i in lost))
    collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)
    found = decompose(topology, collective)
    assert not isinstance(found, Unsupported)
    assert "by plane trees" in found.summary
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
    found = plane_allocation(out, into, np.full(n, trees))
    assert isinstance(found, PlaneAllocation)
    check_shares(found, out, into, equally(n, trees))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"block": 3}, "make no such trees"),
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
def test_plane_trees_that_make_no_sense_are_refused(changes: dict[str, object], message: str) -> None:
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


@pytest.mark.parametrize("failures", [(), ("box1.gpu2--rail2",)])
def test_spines_between_the_planes_are_left_alone(failures: tuple[str, ...]) -> None:
    topology = with_failed_links(rail_optimized(6, spines=2, oversubscription=2), *failures)
    collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)
    found = decompose(topology, collective)
    assert not isinstance(found, Unsupported)
    assert "trees" in found.summary.split(":")[1].split(",")[0]
    report = verify(topology, collective, found.schedule.explicit(), claimed_algbw=found.algbw)
    assert not report.violations
    assert found.algbw == optimum(topology, collective).algbw


def relayed_planes(
    rng: random.Random, n: int, planes: int, block: int
) -> tuple[Topology, Collective, PlaneTrees]:
    """Ranks with different numbers of trees, some deliveries by others, on planes at random."""
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
    even = EvenAllocation(group, group_units).allocation(np.arange(n)[:, None], np.arange(n))
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
    trees = PlaneTrees(
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
    for _ in range(15):
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
    assert relayed > 7


def test_pairs_that_relays_change_are_given_with_what_they_send() -> None:
    rng = random.Random(16)
    seen = 0
    for _ in range(7):
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
    assert seen > 7
