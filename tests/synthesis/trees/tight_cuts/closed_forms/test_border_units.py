"""Units of capacity by hand: recipes, pools, tables of given sums, stars, spare relays."""

from __future__ import annotations

import numpy as np
import pytest

from treadle.arrays import Int64Array
from treadle.synthesis.trees.tight_cuts.closed_forms import plane_tables as module
from treadle.synthesis.trees.tight_cuts.closed_forms.plane_relays import Meetings, deliveries
from treadle.synthesis.trees.tight_cuts.closed_forms.plane_tables import plane_tables
from treadle.unsupported import Unsupported


def random_sums(seed: int, n: int) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Sums of a table without diagonal, and the table."""
    chance = np.random.default_rng(seed)
    table = chance.integers(0, 9, (n, n))
    np.fill_diagonal(table, 0)
    return table.sum(axis=1), table.sum(axis=0), table


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
    assert str(found) == "its planes carry unequal bandwidth to the children, and there is no direct forest"
    three = plane_tables(
        np.pad(out, ((0, 0), (0, 1))), np.pad(into, ((0, 0), (0, 1))), sent, np.stack([*near, sent * 0])
    )
    assert isinstance(three, Unsupported)
    assert (
        str(three) == "its planes carry unequal bandwidth to the children, and peeling them one by one fails"
    )
    monkeypatch.setattr(module, "MOST_VISITS", 0)
    half = np.array([[1, 1], [1, 1], [1, 1]])
    slow = plane_tables(half, half, sent, np.zeros((2, 3, 3), dtype=np.int64))
    assert isinstance(slow, Unsupported)
    assert (
        str(slow) == "its planes carry unequal bandwidth to the children, and searches of paths take too long"
    )


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
