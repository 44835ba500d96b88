"""What classes of children send each other by planes, on small odd pieces."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from treadle.arrays import Int64Array
from treadle.synthesis.trees.tight_cuts.closed_forms.class_allocation import (
    ClassAllocation,
    _hub,
    class_allocation,
)
from treadle.unsupported import Unsupported


def shares(
    units: Sequence[int],
    out: Sequence[Sequence[int]],
    into: Sequence[Sequence[int]],
    *,
    block: int = 1,
    most: int = 9,
) -> ClassAllocation | Unsupported:
    return class_allocation(np.array(units), np.array(out), np.array(into), block, most)


def by_children(found: ClassAllocation) -> Int64Array:
    """What each child sends to each other by each used plane, shape (n, n, planes)."""
    n = len(found.class_of)
    table = found.shares[found.class_of[:, None], found.class_of].copy()
    table[np.arange(n), np.arange(n)] = 0
    return table


def check(found: ClassAllocation, units: Sequence[int], out: Int64Array, into: Int64Array) -> None:
    """Every child sends its units to each other, or has them delivered; planes carry what they may."""
    table = by_children(found)
    leaves, enters = table.sum(axis=1), table.sum(axis=0)
    assert (leaves <= out[:, found.planes]).all()
    assert (enters <= into[:, found.planes]).all()
    exits, entries = found.sums()
    assert exits[found.class_of].tolist() == leaves.tolist()
    assert entries[found.class_of].tolist() == enters.tolist()
    assert (found.shares % found.block == 0).all()
    assert [int(found.class_units[number]) for number in found.class_of] == list(units)
    via = found.via[found.class_of[:, None], found.class_of]
    for one in range(len(units)):
        for other in range(len(units)):
            if one != other and via[one, other] < 0 and (via < 0).all():
                assert table[one, other].sum() == units[one]


def test_children_that_all_meet() -> None:
    """Two alike, one with twice the trees, one that sends by a single plane."""
    units = [2, 2, 4, 2]
    out = np.array([[6, 6], [6, 6], [12, 12], [0, 6]])
    into = np.array([[9, 9], [9, 9], [9, 9], [9, 9]])
    found = shares(units, out.tolist(), into.tolist())
    assert isinstance(found, ClassAllocation)
    assert found.class_of.tolist() == [0, 0, 1, 2]
    assert found.class_units.tolist() == [2, 4, 2]
    assert found.planes.tolist() == [0, 1]
    assert (found.via < 0).all()
    check(found, units, out, into)
    assert by_children(found)[3, :3].tolist() == [[0, 2]] * 3
    groups = found.group_units()
    others = np.array([[1, 2, 2], [2, 0, 1], [2, 1, 0]])
    assert groups.sum(axis=2).tolist() == (others * np.array([[2], [4], [2]])).tolist()
    assert [side.tolist() for side in found.relayed()] == [[], []]


def test_even_planes_share_evenly() -> None:
    """Four children alike on two planes, one twice as wide: 64 units each go 43 : 21 in parts of two."""
    units = [64] * 4
    out = np.tile(np.array([[140, 70]]), (4, 1))
    found = shares(units, out.tolist(), out.tolist())
    assert isinstance(found, ClassAllocation)
    check(found, units, out, out)
    assert found.shares.shape == (1, 1, 2)
    assert found.shares[0, 0].tolist() in ([42, 22], [44, 20])


def test_planes_that_nobody_uses_are_left_out() -> None:
    out = np.array([[0, 5, 4], [0, 5, 4], [9, 5, 4]])
    into = np.array([[0, 4, 5], [0, 4, 5], [9, 4, 5]])
    found = shares([1, 1, 1], out.tolist(), into.tolist())
    assert isinstance(found, ClassAllocation)
    assert 0 not in found.planes
    check(found, [1, 1, 1], out, into)


def test_a_hub_delivers_where_no_plane_leads() -> None:
    """Child 1 sends by plane 0 alone, child 2 takes in by plane 1 alone; one of the others, 0, delivers."""
    units = [2, 2, 2, 2, 2]
    out = np.array([[30, 30], [20, 0], [10, 10], [30, 30], [30, 30]])
    into = np.array([[30, 30], [30, 30], [0, 30], [30, 30], [30, 30]])
    found = shares(units, out.tolist(), into.tolist())
    assert isinstance(found, ClassAllocation)
    hub = int(found.class_of[0])
    assert (found.class_of == hub).sum() == 1
    assert found.class_of[3] == found.class_of[4] != hub
    via = found.via[found.class_of[:, None], found.class_of]
    assert via[1, 2] == hub
    assert (np.delete(via.ravel(), 1 * 5 + 2) < 0).all()
    assert [side.tolist() for side in found.relayed()] == [[1], [2]]
    table = by_children(found)
    assert table[1, 2].sum() == 0
    assert table[0, 2].sum() == 4  # its own two, and child 1's
    check(found, units, out, into)
    assert table[0].sum() == 2 * 4 + 2


@pytest.mark.parametrize(
    ("units", "out", "into", "most", "words"),
    [
        ([1, 2, 3], [[9]] * 3, [[9]] * 3, 2, "3 children on 1 planes are of 3 classes"),
        ([1, 1], [[9, 0], [0, 9]], [[0, 9], [0, 9]], 9, "no child meets all others"),
        ([1, 1, 1], [[1]] * 3, [[9]] * 3, 9, "planes cannot carry what classes of children send each other"),
        ([1, 1, 1], [[9]] * 3, [[1]] * 3, 9, "planes cannot carry what classes of children send each other"),
    ],
)
def test_children_without_shares(
    units: list[int], out: list[list[int]], into: list[list[int]], most: int, words: str
) -> None:
    found = shares(units, out, into, most=most)
    assert isinstance(found, Unsupported)
    assert str(found) == words


def test_children_of_a_class_that_do_not_meet() -> None:
    """Two alike send by plane 0 and take in by plane 1; a third meets both."""
    found = shares([1, 1, 1], [[9, 0], [9, 0], [9, 9]], [[0, 9], [0, 9], [9, 9]])
    assert isinstance(found, Unsupported)
    assert str(found) == "children of a class do not meet each other"


def test_as_many_classes_as_are_allowed() -> None:
    assert isinstance(shares([1, 2, 3], [[20]] * 3, [[20]] * 3, most=3), ClassAllocation)
    exact = shares([1, 2, 3], [[2], [4], [6]], [[5], [4], [3]])
    assert isinstance(exact, ClassAllocation)  # all of what leaves and enters is used
    assert isinstance(shares([1, 2, 3], [[2], [4], [5]], [[5], [4], [3]]), Unsupported)
    assert isinstance(shares([1, 2, 3], [[2], [4], [6]], [[5], [3], [3]]), Unsupported)
    blocks = shares([4, 4], [[2, 2], [2, 2]], [[2, 2], [2, 2]], block=2)
    assert isinstance(blocks, ClassAllocation)
    assert blocks.shares[0, 0].tolist() == [2, 2]


def test_who_can_send_most_beside_its_own_delivers() -> None:
    """Of five children the last two do not meet; the first can spare 20 less 15 units, the next 18 less 5."""
    units, counts = np.array([3, 1, 1, 1]), np.array([1, 2, 1, 1])
    out = np.array([[10, 10], [9, 9], [5, 0], [0, 5]])
    into = np.array([[9, 9], [9, 9], [9, 0], [0, 9]])
    assert _hub(units, counts, out, into) == 1
    assert _hub(np.array([3, 4, 1, 1]), counts, out, into) == 0
    assert _hub(units[2:], counts[2:], out[2:], into[2:]) is None
