"""Closed form of an outermost piece with several planes that serve all children in about the same shares."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from treadle.arrays import Int64Array, sums_of
from treadle.context import context
from treadle.schedules.factored import RelayPlanes, RelayTrees, Subproblem
from treadle.synthesis.runs import sums_before
from treadle.synthesis.trees.tight_cuts.closed_forms.boundary_runs import BoundaryRuns, boundary_runs
from treadle.synthesis.trees.tight_cuts.closed_forms.one_relay import trees_on_one_relay
from treadle.synthesis.trees.tight_cuts.closed_forms.unit_assignment import UnitPool
from treadle.synthesis.trees.tight_cuts.closed_forms.unit_order import MOST_PLACES, Side, tree_groups
from treadle.synthesis.trees.tight_cuts.subproblems import Cutting, LocalSubproblem
from treadle.unsupported import Unsupported


def relay_planes(
    piece: LocalSubproblem, cutting: Cutting, solved: dict[int, Subproblem], block: int
) -> RelayPlanes | Unsupported:
    """The trees of the outermost piece, each on one plane, or why not.

    Parameters
    ----------
    piece, cutting, solved, block, watch
        As of `treadle.synthesis.trees.tight_cuts.closed_forms.equal_children.circulant_trees`.

    Notes
    -----
    Source: docs/algorithms/decomposition.md, theorems 8 and 13. C units of a plane enter n children in all:
    C / (n - 1) trees are on it, and what does not enter a child are its own ones.
    """
    n = piece.n_children
    if piece.has_outside or n < 2:
        return Unsupported("it is not the outermost piece")
    if np.any((piece.tails < n) & (piece.heads < n)):
        return Unsupported("some links join two children")
    runs = [boundary_runs(piece, cutting, solved, leaving=leaving) for leaving in (True, False)]
    planes = np.unique(np.concatenate([side.plane for side in runs]))
    out, into = (
        sums_of((n, len(planes)), (side.owner, np.searchsorted(planes, side.plane)), side.units)
        for side in runs
    )
    trees = into.sum(axis=0) // (n - 1) - into
    if (
        np.any(into.sum(axis=0) % (n - 1))
        or np.any(into.sum(axis=1) != piece.native.sum() - piece.native)
        or np.any(trees < 0)
        or np.any(out < trees)
    ):
        return Unsupported("its planes do not serve all children in the same shares")
    if int(piece.native.sum()) > MOST_PLACES:
        return Unsupported(f"{int(piece.native.sum())} trees are too many to list the plane of each")
    block = int(np.gcd.reduce(np.concatenate([[block], trees.ravel()])))
    on_plane, groups = _placed(tree_groups(cutting, solved, piece.native, 1), runs[0], trees, planes)
    parts = []
    for number, plane in enumerate(planes.tolist()):
        context().report("planes", number, len(planes))
        leaving, entering = (Side.of(side, n, side.plane == plane) for side in runs)
        part = replace(piece, native=trees[:, number])
        found = trees_on_one_relay(part, block, leaving, entering, [g // block for g in groups[number]])
        if isinstance(found, Unsupported):
            return found
        parts.append(found)
    owner = np.repeat(np.arange(n), piece.native)
    place = np.empty(len(owner), dtype=np.int64)
    place[np.lexsort((on_plane, owner))] = sums_before(owner, np.ones_like(owner))
    return _joined(parts, place)


def _placed(
    groups: list[Int64Array], out: BoundaryRuns, trees: Int64Array, planes: Int64Array
) -> tuple[Int64Array, list[list[Int64Array]]]:
    """The plane of each unit tree, its own rank's where it can be; trees of each rank by plane and child."""
    n, width = len(groups), max(len(group) for group in groups)
    places = out.owner * width + out.supplier, np.searchsorted(planes, out.plane)
    sent = sums_of((n * width, len(planes)), places, out.units)
    owner = np.repeat(np.arange(n), [int(group.sum()) for group in groups])
    rank = np.concatenate([np.repeat(np.arange(len(group)), group) for group in groups])
    cells = np.repeat(np.arange(n), len(planes)), np.tile(np.arange(len(planes)), n)
    units = UnitPool.of(*cells, trees.ravel())
    plane = units.kind[units.assign(owner, np.argmax(sent, axis=1)[owner * width + rank])]
    counts = sums_of((len(planes), n, width), (plane, owner, rank), 1)
    return plane, [[row[: len(group)] for row, group in zip(table, groups, strict=True)] for table in counts]


def _joined(parts: list[RelayTrees], place: Int64Array) -> RelayPlanes:
    """Exchanges of the same children, one for each plane."""
    tables: dict[str, Any] = {}
    for side in ("out_first", "in_first"):
        columns = [np.zeros((len(parts[0].native_units), 1), dtype=np.int64)]
        for part in parts:
            columns.append(getattr(part, side)[:, 1:] + columns[-1][:, -1:])
        tables[side] = np.concatenate(columns, axis=1)
    for key in ("out_links", "in_links", "out_offset", "in_offset"):
        tables[key] = np.concatenate([getattr(part, key) for part in parts], axis=1)
    for key in ("relay_root", "relay_block", "relay_child", "relay_count"):
        tables[key] = np.concatenate([getattr(part, key) for part in parts])
    return RelayPlanes(
        **tables,
        plane_units=np.stack([part.native_units for part in parts]),
        block=parts[0].block,
        place=place,
        relay_plane=np.repeat(
            np.arange(len(parts), dtype=np.int32), [len(part.relay_root) for part in parts]
        ),
    )
