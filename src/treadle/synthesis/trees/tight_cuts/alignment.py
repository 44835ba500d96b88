"""Paths of trees between two sets: leaving by the rank where the data came in, if possible.

Gluing subproblems (Theorem 4 of docs/proofs/decomposition.md) lets any unit of a crossing link carry on
any tree. Which one decides heights: a tree that leaves a set by another rank than it came in takes hops
within the set in between.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from treadle.arrays import Int32Array, Int64Array, offsets_of
from treadle.engine import core
from treadle.schedules.factored import Crossings, Subproblem
from treadle.schedules.trees.forest import Forest
from treadle.synthesis.core_values.tree_values import BoundaryMembers, EdgePaths, TreeRows

NOBODY = -1
"""Label of a rank, and of links that several members of a set share."""


@dataclass(frozen=True)
class EgressPorts:
    """Member of each child set to which a local link or a native unit tree belongs.

    Parameters
    ----------
    leaves, enters : array of int32, shape (l,)
        Child of the child that supplies (takes in) what the link carries; `NOBODY` if none alone.
    natives : tuple of array of int64
        Of each child: native unit trees of its children in turn; empty for a rank.
    """

    leaves: Int32Array
    enters: Int32Array
    natives: tuple[Int64Array, ...]


def egress_ports(n_links: int, children: list[tuple[Subproblem, Int64Array] | None]) -> EgressPorts:
    """Return the egress ports of a subproblem.

    Parameters
    ----------
    n_links : int
    children : list of (Subproblem, array of int64) or None
        For each child set: its class, and this subproblem's local link for each local link of it (-1 where
        it has none).
    """
    leaves, enters = np.full((2, n_links), NOBODY, dtype=np.int32)
    for piece, place in filter(None, children):
        for side, rows in ((leaves, piece.exits), (enters, piece.entrances)):
            members: dict[int, set[int]] = defaultdict(set)
            for link, child in zip(place[rows.link].tolist(), rows.child.tolist(), strict=True):
                members[link].add(child)
            for link, found in members.items():
                # units of a link that several members share may lead to any of them: then none is known
                if len(found) == 1:
                    side[link] = found.pop()
    none = np.zeros(0, dtype=np.int64)
    return EgressPorts(
        leaves, enters, tuple(none if child is None else child[0].native for child in children)
    )


def aligned_rows(
    forest: Forest, ports: EgressPorts, entrances: Crossings
) -> tuple[Int32Array, Int64Array, Int32Array, Int32Array]:
    """Reassign each pair's paths to its trees: rows of root, units, parent, path; shapes (s,), (s, n).

    The forest is of the subproblem, in its numbering, as BROADCAST. Every pair of children keeps the paths
    that it has, and how many unit trees take each, so no link's load changes. Trees are walked from their
    roots; of the pair's paths that are left one is taken that starts at the member of the set by which the
    tree came in, else at the member with most paths left.
    """
    first, last = forest.path_ends()
    root, multiplicity, parent = forest.tree_table()
    labels = [_root_labels(ports, entrances, child) for child in range(forest.n_ranks)]
    status, found, paths = core.assign_border_paths(
        forest.n_ranks,
        TreeRows(root, multiplicity, parent.ravel()),
        EdgePaths(*forest.edge_paths()),
        BoundaryMembers(
            start=ports.leaves[first],
            end=ports.enters[last],
            label_offset=offsets_of([*map(len, labels)]),
            label_units=np.array([count for of_child in labels for count, _ in of_child], dtype=np.int64),
            label_member=np.array([member for of_child in labels for _, member in of_child], dtype=np.int32),
        ),
    )
    assert status == 0, "every edge has as many units of paths as its tree"
    rows = TreeRows(*found)
    shape = len(rows.root), forest.n_ranks
    return rows.root, rows.multiplicity, rows.parent.reshape(shape), paths.reshape(shape)


def _root_labels(ports: EgressPorts, entrances: Crossings, child: int) -> list[tuple[int, int]]:
    """Return (units, member) of a child's unit trees in order: native ones by member, then those that
    enter."""
    natives = ports.natives[child].tolist()
    found = [(units, member) for member, units in enumerate(natives) if units]
    rows = np.flatnonzero(entrances.child == child)
    rows = rows[np.argsort(entrances.root_unit[rows])]
    # a rank has no members, so its native units, those below the first that enters, have no label
    if not found and len(rows):
        found = [(int(entrances.root_unit[rows[0]]), NOBODY)] if entrances.root_unit[rows[0]] else []
    for row in rows.tolist():
        link = entrances.path_links[entrances.path_offset[entrances.path[row] + 1] - 1]
        found.append((int(entrances.units[row]), int(ports.enters[link])))
    return found
