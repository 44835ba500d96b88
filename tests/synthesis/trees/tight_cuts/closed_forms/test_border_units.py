"""Units of capacity by hand: recipes, pools, tables of given sums, stars, spare relays."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from treadle.arrays import Int64Array
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.synthesis.trees.instance import Instance, instance_of
from treadle.synthesis.trees.tight_cuts.closed_forms import plane_tables as module
from treadle.synthesis.trees.tight_cuts.closed_forms.boundary_runs import BoundaryRuns
from treadle.synthesis.trees.tight_cuts.closed_forms.plane_relays import Deliveries, Meetings, deliveries
from treadle.synthesis.trees.tight_cuts.closed_forms.plane_tables import mend, plane_tables
from treadle.synthesis.trees.tight_cuts.closed_forms.relayed_stars import fitted_table
from treadle.synthesis.trees.tight_cuts.closed_forms.star import star_packing
from treadle.synthesis.trees.tight_cuts.closed_forms.unit_assignment import UnitPool
from treadle.synthesis.trees.tight_cuts.closed_forms.unit_order import Side, own_first
from treadle.synthesis.trees.tight_cuts.family import Family
from treadle.synthesis.trees.tight_cuts.tight_cuts import without_partial_relays
from treadle.topologies.topology import TopologyBuilder
from treadle.unsupported import Unsupported


@pytest.mark.parametrize(
    ("own", "supplier", "units", "recipe"),
    [
        ([3, 4], [0, 1], [3, 4], [(0, 0, 3), (1, 0, 4)]),
        # 1 lacks two units, which 0 has to spare
        ([2, 5], [0, 1], [4, 3], [(0, 0, 2), (1, 0, 3), (0, 2, 2)]),
        # 0 lacks three: 1 spares one, 2 two; what they have left serves themselves
        ([5, 2, 1], [0, 1, 2], [2, 3, 3], [(0, 0, 2), (1, 0, 1), (2, 0, 2), (1, 1, 2), (2, 2, 1)]),
        # runs of a supplier one after the other; parts of a run that follow each other are one
        ([3, 1], [0, 0, 1], [2, 2, 1], [(0, 0, 2), (1, 0, 1), (2, 0, 1), (1, 1, 1)]),
        ([1, 0], [0, 0], [2, 3], [(0, 0, 2), (1, 0, 3)]),
        ([0, 2], [0, 1], [3, 1], [(1, 0, 1), (0, 0, 3)]),
    ],
)
def test_each_suppliers_own_units_first(
    own: list[int], supplier: list[int], units: list[int], recipe: list[tuple[int, int, int]]
) -> None:
    before = list(units)
    assert own_first(own, supplier, units) == recipe
    assert units == before


def runs_of(*rows: tuple[int, int, int, int, int, int, int]) -> BoundaryRuns:
    """Of owner, supplier, inner link, link, offset, units and plane."""
    columns = np.array(rows, dtype=np.int64).T
    return BoundaryRuns(*columns)


def test_columns_of_owners() -> None:
    """Runs are sorted by owner, supplier, inner link, link and offset; columns end at what is used."""
    rows = [
        (1, 0, 0, 7, 0, 4, 9),
        (0, 1, 3, 5, 2, 6, 9),
        (0, 1, 2, 6, 0, 1, 9),
        (0, 0, 8, 4, 3, 2, 9),
        (0, 0, 8, 4, 0, 3, 9),
        (2, 0, 0, 1, 0, 5, 9),
    ]
    side = Side.of(runs_of(*rows), 3)
    assert side.runs.link.tolist() == [4, 4, 6, 5, 7, 1]
    assert side.runs.units.tolist() == [3, 2, 1, 6, 4, 5]
    assert (side.start.tolist(), side.units.tolist()) == ([0, 4, 5, 6], [12, 4, 5])
    groups = [np.zeros(2, dtype=np.int64), np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)]
    assert [one.tolist() for one in side.by_supplier(groups, 2)] == [[2, 3], [2], [2]]
    short = [(0, 1, 3)]
    links, first, offsets = side.columns(
        [[(0, 0, 2), (3, 1, 5), (1, 0, 2), (2, 0, 1)], short, short], np.array([8, 3, 2])
    )
    assert links.tolist() == [[4, 5, 4, 6], [7, 0, 0, 0], [1, 0, 0, 0]]
    assert offsets.tolist() == [[0, 3, 3, 0], [1, 0, 0, 0], [1, 0, 0, 0]]
    assert first.tolist() == [[0, 2, 7, 8, 8], [0, 3, 3, 3, 3], [0, 2, 2, 2, 2]]


def test_units_of_pools() -> None:
    """Runs of 3, 1 and 2 units of groups 1, 0, 1: by group in order, or in turn."""
    group, kind, sizes = np.array([1, 0, 1]), np.array([5, 6, 7]), np.array([3, 1, 2])
    plain = UnitPool.of(group, kind, sizes)
    assert plain.group.tolist() == [0, 1, 1, 1, 1, 1]
    assert plain.kind.tolist() == [6, 5, 5, 5, 7, 7]
    assert (plain.run.tolist(), plain.place.tolist()) == ([1, 0, 0, 0, 2, 2], [0, 0, 1, 2, 0, 1])
    assert not plain.taken.any()
    mixed = UnitPool.of(group, kind, sizes, mixed=True)
    # at 1/6, 3/6, 5/6 and at 1/4, 3/4
    assert (mixed.run.tolist(), mixed.place.tolist()) == ([1, 0, 2, 0, 2, 0], [0, 0, 0, 1, 1, 2])


def test_units_are_assigned_by_kind_as_far_as_they_go() -> None:
    pool = UnitPool.of(np.array([1, 0, 1]), np.array([5, 6, 7]), np.array([3, 1, 2]))
    # of group 1 two want kind 7, one 9, which there is none of; of group 0 one wants kind 5
    found = pool.assign(np.array([1, 1, 0, 1]), np.array([7, 9, 5, 7]))
    assert found.tolist() == [4, 1, 0, 5]
    assert pool.taken.tolist() == [True, True, False, False, True, True]
    assert pool.assign(np.array([1, 1]), np.array([7, 5])).tolist() == [3, 2]
    with pytest.raises(AssertionError, match="a group has fewer units than items"):
        pool.assign(np.array([1]), np.array([5]))


def random_sums(seed: int, n: int) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Sums of a table without diagonal, and the table."""
    chance = np.random.default_rng(seed)
    table = chance.integers(0, 9, (n, n))
    np.fill_diagonal(table, 0)
    return table.sum(axis=1), table.sum(axis=0), table


@pytest.mark.parametrize("n", [2, 3, 5, 8])
def test_tables_of_given_sums(n: int) -> None:
    for seed in range(12):
        out, into, _ = random_sums(seed, n)
        found = fitted_table(out, into)
        assert found is not None
        assert found.min() >= 0
        assert not np.diagonal(found).any()
        assert found.sum(axis=1).tolist() == out.tolist()
        assert found.sum(axis=0).tolist() == into.tolist()
        u, v = out.astype(float), into.astype(float)
        for _ in range(400):
            u = out / np.maximum(v.sum() - v, 1e-300)
            v = into / np.maximum(u.sum() - u, 1e-300)
        near = np.outer(u, v)
        np.fill_diagonal(near, 0)
        assert np.abs(found - near).max() < 2.5


def test_sums_of_no_table() -> None:
    """What one child sends must not have to come back to it."""
    assert fitted_table(np.array([5, 1]), np.array([5, 1])) is None
    assert fitted_table(np.array([6, 1, 1]), np.array([4, 2, 2])) is None
    found = fitted_table(np.array([4, 2, 2]), np.array([4, 2, 2]))
    assert found is not None
    assert found.tolist() == [[0, 2, 2], [2, 0, 0], [2, 0, 0]]
    exact = fitted_table(np.array([4, 4, 4]), np.array([4, 4, 4]))
    assert exact is not None
    assert exact.tolist() == [[0, 2, 2], [2, 0, 2], [2, 2, 0]]
    alone = fitted_table(np.array([0]), np.array([0]))
    assert alone is not None
    assert alone.tolist() == [[0]]


def exists(rows: list[int], columns: list[int], room: Int64Array) -> bool:
    """By all tables within the room, row by row."""
    if not rows:
        return not any(columns)
    choices = product(*(range(min(int(cell), left) + 1) for cell, left in zip(room[0], columns, strict=True)))
    return any(
        exists(rows[1:], [left - one for left, one in zip(columns, row, strict=True)], room[1:])
        for row in choices
        if sum(row) == rows[0]
    )


def test_mended_tables_keep_to_their_room() -> None:
    """A table of these sums is found just where there is one."""
    seen = set()
    for seed in range(40):
        chance = np.random.default_rng(seed)
        room = chance.integers(0, 4, (3, 3))
        np.fill_diagonal(room, 0)
        table = np.minimum(chance.integers(0, 3, (3, 3)), room)
        want = np.minimum(chance.integers(0, 4, (3, 3)), room + (seed % 2))
        np.fill_diagonal(want, 0)
        rows, columns = want.sum(axis=1), want.sum(axis=0)
        found = mend(table, rows - table.sum(axis=1), columns - table.sum(axis=0), room)
        # rows and columns with too much are due to give; those that need are filled
        if found:
            assert ((table >= 0) & (table <= room)).all()
            assert (table.sum(axis=1) >= rows).all() or (table.sum(axis=1) == rows).all()
        if exists(rows.tolist(), columns.tolist(), room):
            seen.add(found)
    assert True in seen


@pytest.mark.parametrize("seed", range(20))
def test_pairs_on_their_last_plane_take_all_their_room(seed: int) -> None:
    """Of tables with the sums of one, the others' cells are found around what two cells are to hold."""
    chance = np.random.default_rng(seed)
    room = chance.integers(1, 5, (4, 4))
    np.fill_diagonal(room, 0)
    last = np.array([0, 2]), np.array([1, 3])
    want, table = (np.minimum(chance.integers(0, 5, (4, 4)), room) for _ in range(2))
    want[last] = room[last]
    out, into = want.sum(axis=1), want.sum(axis=0)
    before = out.copy(), into.copy(), room.copy()
    assert module._fill(table, out, into, room, last)
    assert [part.tolist() for part in (out, into, room)] == [part.tolist() for part in before]
    assert (table.sum(axis=1).tolist(), table.sum(axis=0).tolist()) == (out.tolist(), into.tolist())
    assert table[last].tolist() == room[last].tolist()
    assert ((table >= 0) & (table <= room)).all()
    # one unit less leaves a child than that plane has to take
    out[0] = room[0, 1] - 1
    assert module._fill(table, out, into, room, last) is False


def test_searches_that_take_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    room = np.array([[0, 2, 1], [1, 0, 2], [2, 1, 0]])
    needs = np.array([2, 1, 1]), np.array([1, 1, 2])
    assert mend(np.zeros((3, 3), dtype=np.int64), *needs, room) is True
    monkeypatch.setattr(module, "MOST_VISITS", 1)
    assert mend(np.zeros((3, 3), dtype=np.int64), *needs, room) is None


def test_children_that_share_planes() -> None:
    """Two planes, by which each child sends and takes in so much: the tables add up to what is sent."""
    for seed in range(15):
        tables = np.stack([random_sums(2 * seed + plane, 4)[2] for plane in range(2)])
        sent = tables.sum(axis=0)
        out, into = tables.sum(axis=2).T, tables.sum(axis=1).T
        near = np.stack([sent // 2, sent - sent // 2])
        found = plane_tables(out, into, sent, near)
        assert not isinstance(found, Unsupported)
        assert found.min() >= 0
        assert found.sum(axis=0).tolist() == sent.tolist()
        assert found.sum(axis=2).T.tolist() == out.tolist()
        assert found.sum(axis=1).T.tolist() == into.tolist()


def test_children_that_cannot_share_planes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Child 0 sends to 1 alone, but by plane 0, where 1 takes nothing in."""
    sent = np.array([[0, 2, 0], [0, 0, 2], [2, 0, 0]])
    out, into = np.array([[2, 0], [0, 2], [2, 0]]), np.array([[2, 0], [0, 2], [2, 0]])
    near = np.stack([sent // 2, sent // 2])
    found = plane_tables(out, into, sent, near)
    assert isinstance(found, Unsupported)
    assert str(found) == "its planes serve the children unequally, and there is no direct forest"
    three = plane_tables(
        np.pad(out, ((0, 0), (0, 1))), np.pad(into, ((0, 0), (0, 1))), sent, np.stack([*near, sent * 0])
    )
    assert isinstance(three, Unsupported)
    assert str(three) == "its planes serve the children unequally, and peeling them one by one fails"
    monkeypatch.setattr(module, "MOST_VISITS", 0)
    half = np.array([[1, 1], [1, 1], [1, 1]])
    slow = plane_tables(half, half, sent, np.zeros((2, 3, 3), dtype=np.int64))
    assert isinstance(slow, Unsupported)
    assert str(slow) == "its planes serve the children unequally, and searches of paths take too long"


def test_stars_of_children_with_trees() -> None:
    found = star_packing(np.array([3, 0, 2]), np.zeros((4, 0), dtype=np.int64))
    assert (found.root.tolist(), found.multiplicity.tolist()) == ([0, 2], [3, 2])
    assert found.parent.tolist() == [[-1, 0, 0], [2, 2, -1]]
    helped = star_packing(np.array([3, 0, 2]), np.array([[2, 0], [0, 1], [1, 2], [2, 1]]))
    assert (helped.root.tolist(), helped.multiplicity.tolist()) == ([0, 0, 2], [2, 1, 2])
    assert helped.parent.tolist() == [[-1, 0, 0], [-1, 0, 1], [2, 0, -1]]
    assert (found.speculative, found.exact) == (0, 0)


def check_deliveries(blocks: Int64Array, exits: Int64Array, meets: Meetings, found: Deliveries) -> None:
    """Everyone makes as many deliveries as it has exits; none is made twice, to the root or by the child."""
    n = len(blocks)
    made = blocks * (n - 1)
    np.subtract.at(made, found.root, 1)
    np.add.at(made, found.by, 1)
    assert made.tolist() == exits.tolist()
    rows = list(
        zip(*(side.tolist() for side in (found.root, found.block, found.child, found.by)), strict=True)
    )
    assert rows == sorted(rows, key=lambda row: (row[0], row[2], row[1]))
    for root, block, child, by in rows:
        assert root != child != by != root
        assert 0 <= block < blocks[root]
    assert len({row[:3] for row in rows}) == len(rows)
    # who delivers has the block from its root
    assert not {row[:3] for row in rows} & {(root, block, by) for root, block, _, by in rows}


@pytest.mark.parametrize(("lack", "spare"), [([2, 2], [4]), ([3, 1], [2, 2]), ([2, 3, 2], [5, 2])])
def test_deliveries_by_others(lack: list[int], spare: list[int]) -> None:
    n = 12
    blocks = np.arange(n) % 3 + 2
    exits = blocks * (n - 1)
    exits[: len(lack)] -= lack
    exits[n - len(spare) :] += spare
    meets = Meetings(np.ones((n, 2), dtype=bool), np.ones((n, 2), dtype=bool))
    found = deliveries(blocks, exits, meets)
    assert isinstance(found, Deliveries)
    assert len(found.root) == sum(lack)
    check_deliveries(blocks, exits, meets, found)


def test_deliveries_where_planes_are_missing() -> None:
    """Child 1 sends by plane 0 alone, child 4 takes in by plane 1 alone: others deliver three blocks."""
    n = 12
    blocks = np.full(n, 3)
    out, into = np.ones((n, 2), dtype=bool), np.ones((n, 2), dtype=bool)
    out[1, 1] = into[4, 0] = False
    meets = Meetings(out, into)
    apart = meets.apart(blocks)
    assert not isinstance(apart, Unsupported)
    assert apart.tolist() == [[1, 1, 1], [0, 1, 2], [4, 4, 4], [0, 2, 3]]
    exits = blocks * (n - 1)
    exits[1] -= 3
    exits[[0, 2, 3]] += 1
    found = deliveries(blocks, exits, meets)
    assert isinstance(found, Deliveries)
    check_deliveries(blocks, exits, meets, found)
    assert found.by.tolist() == [0, 2, 3]
    none = Meetings(np.eye(2, dtype=bool), np.eye(2, dtype=bool))
    refused = none.apart(np.array([1, 1]))
    assert isinstance(refused, Unsupported)
    assert str(refused) == "no child is on all planes"


@pytest.mark.parametrize(
    ("n", "lack", "refused"),
    [
        (8, [5, 5], False),
        (8, [6, 4], True),  # of seven that may take, two are to be left
        (5, [2, 2, 2], False),
        (5, [2, 2, 2, 1], True),  # seven of 25
    ],
)
def test_too_many_deliveries_by_others(n: int, lack: list[int], refused: bool) -> None:
    """A quarter of all at most, and no more of a root than others take; the last child helps."""
    blocks = np.full(n, 2 if n == 8 else 1)
    exits = blocks * (n - 1)
    exits[: len(lack)] -= lack
    exits[-1] += sum(lack)
    meets = Meetings(np.ones((n, 1), dtype=bool), np.ones((n, 1), dtype=bool))
    found = deliveries(blocks, exits, meets)
    words = "too many deliveries would be made by others"
    assert (isinstance(found, Unsupported) and str(found) == words) is refused


def spare(capacities: dict[str, int], *, relays: str = "pqrs") -> tuple[Instance, Family, Int64Array]:
    """Boxes ab and cd, each with a link inside; rank e alone; relays p to s as named: 'ap' is a -> p."""
    builder = TopologyBuilder("spare")
    for name in "abcde":
        builder.compute(name)
    for name in relays:
        builder.switch(name)
    for pair in ("ab", "cd"):
        builder.duplex(pair[0], pair[1], 50)
    units = [50] * 4
    for pair, held in capacities.items():
        builder.link(pair[0], pair[1], max(held, 1))
        units.append(held)
    topology = builder.build()
    problem = instance_of(topology, on_all_ranks(topology, CollectiveKind.ALLGATHER))
    family = Family(
        np.array([-1, 0, 0], dtype=np.int32), np.array([1, 1, 2, 2, 0, *[0] * len(relays)], dtype=np.int32)
    )
    return problem, family, np.array(units)


WHOLE = {f"{end}{relay}": 9 for end in "ace" for relay in "pqrs"} | {
    f"{r}{end}": 9 for end in "ace" for r in "pqrs"
}


def test_relays_that_some_children_lack_are_left_out() -> None:
    """r has lost its way to box cd, both ways; p, q and s hold 27 of each child, both ways."""
    lost = {pair: (0 if set(pair) == {"c", "r"} else held) for pair, held in WHOLE.items()}
    problem, family, units = spare(lost)
    found = without_partial_relays(problem, family, units, np.ones(5, dtype=np.int64))
    assert found is not None
    wanted = [50] * 4 + [0 if "r" in pair else held for pair, held in lost.items()]
    assert found.tolist() == wanted
    # a child sends its own trees and takes in all others'
    for trees, fine in (
        ((1, 1, 1, 1, 25), True),
        ((1, 1, 1, 1, 26), False),
        ((13, 14, 0, 0, 0), True),
        ((13, 15, 0, 0, 0), False),
        ((0, 0, 0, 0, 27), True),
        ((0, 0, 0, 0, 28), False),
        ((13, 13, 0, 0, 1), True),
        ((14, 13, 0, 0, 1), False),
    ):
        assert (without_partial_relays(problem, family, units, np.array(trees)) is not None) is fine


def test_relays_that_all_children_have_are_kept() -> None:
    problem, family, units = spare(WHOLE)
    ones = np.ones(5, dtype=np.int64)
    assert without_partial_relays(problem, family, units, ones) is None
    whole = Family(np.array([-1], dtype=np.int32), np.zeros(8, dtype=np.int32))
    assert without_partial_relays(problem, whole, units, ones) is None
    # as many relays as children
    few = {pair: held for pair, held in WHOLE.items() if "s" not in pair and pair not in ("cr", "rc")}
    problem, family, units = spare(few, relays="pqr")
    assert without_partial_relays(problem, family, units, ones) is None
    # relays that are joined to each other
    one_way = {pair: held for pair, held in WHOLE.items() if pair not in ("cr", "rc")} | {"pq": 1}
    problem, family, units = spare(one_way)
    assert without_partial_relays(problem, family, units, ones) is None
    units[-1] = 0
    assert without_partial_relays(problem, family, units, ones) is not None
