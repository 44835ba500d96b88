"""Direct construction of an outermost subproblem with several planes of about equal proportions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from treadle.arrays import Int64Array, sums_of
from treadle.context import context
from treadle.schedules.factored import RelayPlanes, RelayTrees
from treadle.synthesis.runs import sums_before
from treadle.synthesis.trees.tight_cuts.closed_forms.boundary_runs import Outermost
from treadle.synthesis.trees.tight_cuts.closed_forms.one_relay import trees_on_one_relay
from treadle.synthesis.trees.tight_cuts.closed_forms.unit_assignment import UnitPool
from treadle.synthesis.trees.tight_cuts.closed_forms.unit_order import MOST_PLACES, Side
from treadle.unsupported import Unsupported


def relay_planes(outer: Outermost) -> RelayPlanes | Unsupported:
    """Return the trees of the outermost subproblem, each on one plane, or why there are none.

    C units of a plane enter n children in all: C / (n - 1) trees are on it, and what does not enter a child
    are its own ones. Source: docs/proofs/decomposition.md, theorems 8 and 13.
    """
    local, n, (out, into) = outer.local, outer.local.n_children, outer.sums
    total = int(local.native.sum())
    trees = into.sum(axis=0) // (n - 1) - into
    if (
        np.any(into.sum(axis=0) % (n - 1))
        or np.any(into.sum(axis=1) != total - local.native)
        or np.any(trees < 0)
        or np.any(out < trees)
    ):
        return Unsupported("its planes do not give all children the same proportions")
    if total > MOST_PLACES:
        return Unsupported(f"{total} trees are too many to list the plane of each")
    block = int(np.gcd.reduce(trees, axis=None, initial=outer.block))
    on_plane, groups = _placed(outer, trees)
    parts = []
    for number, plane in enumerate(outer.planes.tolist()):
        context().report("planes", number, len(outer.planes))
        leaving, entering = (Side.of(runs, n, runs.plane == plane) for runs in (outer.out, outer.into))
        part = replace(local, native=trees[:, number])
        found = trees_on_one_relay(part, block, leaving, entering, [g // block for g in groups[number]])
        if isinstance(found, Unsupported):
            return found
        parts.append(found)
    owner = np.repeat(np.arange(n), local.native)
    place = np.empty(len(owner), dtype=np.int64)
    place[np.lexsort((on_plane, owner))] = sums_before(owner, np.ones_like(owner))
    return _joined(parts, place)


def _placed(outer: Outermost, trees: Int64Array) -> tuple[Int64Array, list[list[Int64Array]]]:
    """Return the plane of each unit tree, that of its rank if possible; trees of ranks by plane and child."""
    out, planes, groups = outer.out, outer.planes, outer.groups(1)
    n, width = len(groups), max(len(group) for group in groups)
    cells = out.owner * width + out.supplier, np.searchsorted(planes, out.plane)
    sent = sums_of((n * width, len(planes)), cells, out.units)
    owner = np.repeat(np.arange(n), [int(group.sum()) for group in groups])
    rank = np.concatenate([np.repeat(np.arange(len(group)), group) for group in groups])
    cells = np.repeat(np.arange(n), len(planes)), np.tile(np.arange(len(planes)), n)
    units = UnitPool.of(*cells, trees.ravel())
    plane = units.kind[units.assign(owner, np.argmax(sent, axis=1)[owner * width + rank])]
    counts = sums_of((len(planes), n, width), (plane, owner, rank), 1)
    return plane, [[row[: len(group)] for row, group in zip(table, groups, strict=True)] for table in counts]


def _joined(parts: list[RelayTrees], place: Int64Array) -> RelayPlanes:
    """Join the trees of the same children on each plane."""
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
