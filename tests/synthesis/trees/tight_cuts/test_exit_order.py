"""Exits of a piece in the order in which its trees use them, and members that links belong to, by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from treadle.schedules.factored import TableTrees
from treadle.synthesis.trees.tight_cuts import near_egress as module
from treadle.synthesis.trees.tight_cuts.alignment import NOBODY, egress_ports
from treadle.synthesis.trees.tight_cuts.near_egress import near_egress


def piece_of(
    parents: list[list[int]], units: list[int], native: list[int], exits: list[tuple[int, int, int, int]]
) -> Any:
    """Trees root by root, and exits of (link, offset, units, child), each a path of its link alone."""
    parent = np.array(parents, dtype=np.int32)
    table = np.where(parent < 0, -1, 0)
    trees = TableTrees(
        root=np.array([row.index(-1) for row in parents], dtype=np.int32),
        units=np.array(units),
        parent=parent,
        path=table.astype(np.int32),
        first=table.astype(np.int64),
        last=table.astype(np.int64),
        path_offset=np.array([0, 1]),
        path_table=np.array([0], dtype=np.int32),
    )
    link, offset, held, child = np.array(exits).T
    rows = SimpleNamespace(
        link=link,
        offset=offset,
        units=held,
        child=child,
        path=np.arange(len(exits)),
        path_offset=np.arange(len(exits) + 1),
        path_links=link,
    )
    return SimpleNamespace(trees=trees, native=np.array(native), exits=rows, n_children=len(native))


PARENTS = [[-1, 2, 0], [2, -1, 1], [2, 2, -1]]
"""0 -> 2 -> 1, 1 -> 2 -> 0, and 2 to both."""

EXITS = [(5, 0, 2, 2), (5, 2, 4, 2), (6, 0, 2, 0), (7, 0, 4, 1)]
"""Children 0, 1, 2 supply 2, 4 and 6 units."""


def test_the_latest_exit_is_as_early_as_can_be() -> None:
    """Child 0 needs six units and has two; the other four are a hop away, at child 2, not two, at child 1."""
    found = near_egress(piece_of(PARENTS, [4, 2, 1], [3, 2, 1], EXITS), 2)
    assert found is not None
    parts, grain = found
    # rows, units that are skipped and that are used: of child 0's trees, then of 1's and 2's
    assert parts.tolist() == [[2, 0, 2], [0, 0, 2], [1, 0, 2], [3, 0, 4], [1, 2, 2]]
    assert grain == 1
    twice = near_egress(piece_of(PARENTS, [8, 4, 2], [6, 4, 2], EXITS), 1)
    assert twice is not None
    assert (twice[0].tolist(), twice[1]) == (parts.tolist(), 2)


def test_exits_in_the_order_of_suppliers() -> None:
    """Every child supplies just what its own trees take; or the order of suppliers is as good."""
    even = [(5, 0, 2, 2), (6, 0, 6, 0), (7, 0, 4, 1)]
    assert near_egress(piece_of(PARENTS, [3, 2, 1], [3, 2, 1], even), 2) is None
    chain = [[-1, 0, 1], [1, -1, 1], [1, 2, -1]]
    assert near_egress(piece_of(chain, [4, 2, 1], [3, 2, 1], EXITS), 2) is None


def test_many_children_use_exits_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    piece = piece_of(PARENTS, [4, 2, 1], [3, 2, 1], EXITS)
    monkeypatch.setattr(module, "_MOST_CHILDREN", 3)
    assert near_egress(piece, 2) is not None
    monkeypatch.setattr(module, "_MOST_CHILDREN", 2)
    assert near_egress(piece, 2) is None


def test_members_that_links_belong_to() -> None:
    """Of a link that one member has it is that one; of one that several share, or none has, nobody."""

    def crossings(*rows: tuple[int, int]) -> Any:
        link, child = np.array(rows).T
        return SimpleNamespace(link=link, child=child)

    one: Any = SimpleNamespace(
        native=np.array([4, 0, 1]),
        exits=crossings((0, 2), (1, 1), (1, 1), (2, 0), (2, 1)),
        entrances=crossings((3, 0), (0, 1)),
    )
    other: Any = SimpleNamespace(native=np.array([2]), exits=crossings((0, 0)), entrances=crossings((1, 0)))
    found = egress_ports(7, [(one, np.array([5, 1, 0, 2])), None, (other, np.array([4, 6]))])
    assert found.leaves.tolist() == [NOBODY, 1, NOBODY, NOBODY, 0, 2, NOBODY]
    assert found.enters.tolist() == [NOBODY, NOBODY, 0, NOBODY, NOBODY, 1, 0]
    assert [part.tolist() for part in found.natives] == [[4, 0, 1], [], [2]]
