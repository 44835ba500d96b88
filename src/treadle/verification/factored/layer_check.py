"""Check of one layer of a factored forest: every subproblem at its position in the fabric, and the gluing.

A slot is a (subproblem, link) pair, an entry of ``Layer.links``. Units that cross into subproblems are
compared with their ingress rows slot by slot; units that leave are followed from the outside in, as the
egress rows of a subproblem may be supplied by a subproblem inside it.

Shares no code with the generators or the expansion. `treadle.verification.schedules.verify` is the entry
point.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import BoolArray, Int64Array, distinct, offsets_of, ranges_of, sums_of
from treadle.schedules.collective import Collective
from treadle.schedules.factored import CirculantTrees, Layer
from treadle.topologies.topology import Topology
from treadle.verification.factored.formulas import transit_faults
from treadle.verification.factored.kinds import Kind, study
from treadle.verification.factored.runs import NO_RUNS, Runs, joined
from treadle.verification.violations import Findings, ViolationKind


@dataclass(frozen=True)
class LayerFabric:
    """The fabric of a layer, transposed for in-trees."""

    topology: Topology
    tails: Int64Array
    heads: Int64Array
    passable: BoolArray
    ranks: Int64Array  # node of each rank


def fabric_of(topology: Topology, collective: Collective, *, turned: bool) -> LayerFabric:
    """Return the links, the nodes that paths may pass (switches and forwarders), and the nodes of ranks."""
    tails, heads = topology.tails.astype(np.int64), topology.heads.astype(np.int64)
    passable = ~topology.is_compute
    passable[list(collective.forwarders)] = True
    ranks = np.array(collective.ranks, dtype=np.int64)
    return LayerFabric(topology, *((heads, tails) if turned else (tails, heads)), passable, ranks)


def _slot_runs(slot: Int64Array, first: Int64Array, units: Int64Array) -> Runs:
    """Return runs of capacity units of slots."""
    return Runs(np.zeros(len(slot), dtype=np.int64), slot, first, units)


class LayerCheck:
    """One pass over a layer."""

    def __init__(self, fabric: LayerFabric, layer: Layer, place: str, found: Findings) -> None:
        self._fabric = fabric
        self._layer = layer
        self._place = place
        self._found = found
        self._members = [np.flatnonzero(layer.kind == kind) for kind in range(len(layer.pieces))]
        self._slot_piece = np.repeat(np.arange(layer.n_subproblems), np.diff(layer.link_offset))
        self._radix = int(layer.links.max(initial=0)) + 1
        self._slot_keys = self._slot_piece * self._radix + layer.links
        self._capacity = np.concatenate([layer.pieces[kind].capacity for kind in layer.kind.tolist()])

    def _add_all(
        self, kind: ViolationKind, wrong: Sequence[Any] | NDArray[Any], describe: Callable[[Any], str] = str
    ) -> None:
        self._found.add_all(kind, wrong, lambda item: f"{self._place}, {describe(item)}")

    def run(self) -> Int64Array | None:
        """Check everything; return the units that cross each link, or None if something is wrong."""
        before = self._found.total
        pieces = self._layer.pieces
        kinds = [study(piece, f"{self._place}, kind {i}", self._found) for i, piece in enumerate(pieces)]
        all_links, m = self._layer.links, self._fabric.topology.n_links
        self._add_all(
            ViolationKind.PATH,
            np.flatnonzero((all_links < 0) | (all_links >= m)),
            lambda i: f"subproblem {self._slot_piece[i]} has link {all_links[i]}; the fabric has {m}",
        )
        self._check_natives()
        if self._found.total > before:
            return None
        known = [kind for kind in kinds if kind is not None]
        for kind, members in zip(known, self._members, strict=True):
            self._check_walks(kind, members)
        self._check_entrances(known)
        loads = self._follow_exits(known)
        if self._found.total > before:
            return None
        for kind, members in zip(known, self._members, strict=True):
            links = self._links_of(members, np.arange(len(kind.trees_load)))
            per_link = np.broadcast_to(kind.trees_load + kind.entrance_load, links.shape)
            np.add.at(loads, links.ravel(), per_link.ravel())
        return loads

    def _links_of(self, members: Int64Array, local: Int64Array) -> Int64Array:
        """Return the links of the fabric for local ones, shape (subproblems, local links)."""
        links = self._layer.links[self._layer.link_offset[members][:, None] + local]
        return np.asarray(links, dtype=np.int64)

    def _children_of(self, members: Int64Array, child: Int64Array) -> Int64Array:
        """Return children: ranks, or ~j for subproblem j, shape (subproblems, children)."""
        codes = self._layer.children[self._layer.child_offset[members][:, None] + child]
        return np.asarray(codes, dtype=np.int64)

    def _slots_of(self, pieces: Int64Array, links: Int64Array) -> Int64Array:
        """Return the slot of each (subproblem, link), -1 if the subproblem has no such link."""
        if not len(self._slot_keys):
            return np.full(len(links), -1, dtype=np.int64)
        keys = pieces * self._radix + links
        slots = np.minimum(np.searchsorted(self._slot_keys, keys), len(self._slot_keys) - 1)
        return np.where(self._slot_keys[slots] == keys, slots, -1)

    def _slot_name(self, slot: int) -> str:
        link = int(self._layer.links[slot])
        return f"subproblem {self._slot_piece[slot]}, link {self._fabric.topology.link_name(link)}"

    def _check_natives(self) -> None:
        """Check that numbers of native trees agree, and that subproblem 0 has no boundary."""
        layer = self._layer
        natives = [piece.native for piece in layer.pieces]
        total = np.array([native.sum() for native in natives])[layer.kind]
        outside = np.concatenate([natives[kind] for kind in layer.kind.tolist()])
        inner = np.flatnonzero(layer.children < 0)
        number, outside = ~layer.children[inner], outside[inner]
        self._add_all(
            ViolationKind.SHARES,
            np.flatnonzero(outside != total[number]),
            lambda i: (
                f"subproblem {number[i]} has {total[number[i]]} native unit trees, {outside[i]} in the "
                "subproblem around it"
            ),
        )
        self._check_capacities()
        outermost = layer.pieces[layer.kind[0]]
        if len(outermost.entrances.link) or len(outermost.exits.link):
            self._add_all(ViolationKind.GLUE, ["subproblem 0 has a boundary; it is the outermost"])

    def _check_capacities(self) -> None:
        """Check that a link across a boundary has equal capacity in the subproblems on both sides."""
        layer, capacity = self._layer, self._capacity
        outer = layer.outer[self._slot_piece].astype(np.int64)
        inner = np.flatnonzero(outer >= 0)
        around = self._slots_of(outer[inner], layer.links[inner].astype(np.int64))
        inner, around = inner[around >= 0], around[around >= 0]
        self._add_all(
            ViolationKind.CAPACITY,
            np.flatnonzero(capacity[inner] != capacity[around]),
            lambda i: (
                f"{self._slot_name(int(inner[i]))}: {capacity[inner[i]]} units inside, "
                f"{capacity[around[i]]} outside"
            ),
        )

    def _check_walks(self, kind: Kind, members: Int64Array) -> None:
        """Check that paths are walks through switches and forwarders that join the ranks of their edge."""
        fabric = self._fabric
        links = self._links_of(members, np.arange(len(kind.trees_load)))
        tails, heads = fabric.tails[links], fabric.heads[links]
        at_children = (kind.entering, kind.leaving, kind.entrances.inside, kind.exits.inside)
        crossing = (kind.entrances.outside, kind.exits.outside)
        is_used = np.zeros(links.shape[1], dtype=bool)
        is_used[kind.joints] = True
        for runs in (*at_children, *crossing):
            is_used[runs.link] = True
        self._add_walks("is a self-loop", members, links, np.argwhere((tails == heads) & is_used))
        broken = self._broken_joints(kind.joints, tails, heads)
        self._add_walks("does not lead to the next link", members, links[:, kind.joints[:, 0]], broken)
        for runs, ends in zip(at_children, (heads, tails, heads, tails), strict=True):
            self._check_ends(members, runs, ends)
        if kind.formula is None:
            return
        for piece, out, into in zip(members, heads, tails, strict=True):
            if isinstance(kind.formula, CirculantTrees):
                faults = self._circulant_faults(kind.formula, out, into)
            else:
                faults = transit_faults(kind.formula, out, into, fabric.passable)
            self._add_all(ViolationKind.PATH, [f"subproblem {piece}: {fault}" for fault in faults])

    def _broken_joints(self, joints: Int64Array, tails: Int64Array, heads: Int64Array) -> Int64Array:
        """Return the pairs (subproblem, joint) of a link that does not end where the next one begins.

        The joints are checked in the first subproblem. If link ends that are one node there are one node in
        another subproblem as well, its joints are also correct.
        """
        if not len(joints) or not len(tails):
            return np.zeros((0, 2), dtype=np.int64)
        passable = self._fabric.passable
        first, second = joints.T
        ends = np.unique(np.concatenate([first, second + tails.shape[1]]))
        nodes = np.concatenate([heads, tails], axis=1)[:, ends]
        _, model, group = np.unique(nodes[0], return_index=True, return_inverse=True)
        is_odd = (nodes != nodes[:, model[group]]).any(axis=1) | ~passable[nodes].all(axis=1)
        is_odd[0] = True
        odd = np.flatnonzero(is_odd)
        node = heads[odd][:, first]
        wrong = np.argwhere((node != tails[odd][:, second]) | ~passable[node])
        wrong[:, 0] = odd[wrong[:, 0]]
        return wrong

    def _add_walks(self, what: str, members: Int64Array, links: Int64Array, wrong: Int64Array) -> None:
        """Add violations at (subproblem, column) pairs of a table of links."""
        name = self._fabric.topology.link_name
        self._add_all(
            ViolationKind.PATH,
            wrong,
            lambda cell: f"subproblem {members[cell[0]]}: link {name(int(links[tuple(cell)]))} {what}",
        )

    def _check_ends(self, members: Int64Array, runs: Runs, ends: Int64Array) -> None:
        """Check that links that enter or leave a child that is a rank end at its node."""
        codes = distinct(runs.child * self._radix + runs.link)
        child, link = np.divmod(codes, self._radix)
        ranks = self._children_of(members, child)
        is_wrong = (ranks >= 0) & (ends[:, link] != self._fabric.ranks[np.maximum(ranks, 0)])
        self._add_all(
            ViolationKind.ENDS,
            np.argwhere(is_wrong),
            lambda cell: (
                f"subproblem {members[cell[0]]}: local link {link[cell[1]]} does not end at rank "
                f"{ranks[tuple(cell)]}"
            ),
        )

    def _circulant_faults(self, trees: CirculantTrees, heads: Int64Array, tails: Int64Array) -> list[str]:
        """Check that unit i leaves every child to, and enters every child from, one and the same relay."""
        out = _unit_nodes(trees.out_first, heads[trees.out_links])
        into = _unit_nodes(trees.in_first, tails[trees.in_links])
        row = np.concatenate([out[0], into[0] + trees.n_children])
        begin, node = np.concatenate([out[1], into[1]]), np.concatenate([out[2], into[2]])
        count = np.bincount(row, minlength=2 * trees.n_children)
        position = np.arange(len(row)) - offsets_of(count)[row]
        model = np.minimum(position, count[0] - 1)
        is_wrong = (count[row] != count[0]) | (begin != begin[model]) | (node != node[model])
        return [
            f"unit {begin[i]} of trees by formula does not pass one relay for all"
            for i in np.flatnonzero(is_wrong | ~self._fabric.passable[node])[:1]
        ]

    def _outward(self, runs: Runs, members: Int64Array) -> Runs:
        """Return units at children that are subproblems as units of their own slots."""
        codes = self._children_of(members, runs.child)
        piece, row = np.nonzero(codes < 0)
        link = self._links_of(members, runs.link)[piece, row]
        slot = self._found_slots(~codes[piece, row], link)
        row, slot = row[slot >= 0], slot[slot >= 0]
        return _slot_runs(slot, runs.first[row], runs.units[row])

    def _found_slots(self, pieces: Int64Array, links: Int64Array) -> Int64Array:
        """Return the slots as `_slots_of`; add a violation if a subproblem lacks the link."""
        slot = self._slots_of(pieces, links)
        name = self._fabric.topology.link_name
        self._add_all(
            ViolationKind.GLUE,
            np.flatnonzero(slot < 0),
            lambda i: f"subproblem {pieces[i]}: data cross by {name(int(links[i]))}, which it does not have",
        )
        return slot

    def _check_entrances(self, kinds: list[Kind]) -> None:
        """Check that the units that enter subproblems are those of their ingress rows, one by one."""
        parts, own = [NO_RUNS], [NO_RUNS]
        for kind, members in zip(kinds, self._members, strict=True):
            parts.append(self._outward(kind.entering, members))
            runs = kind.entrances.outside
            slot = self._layer.link_offset[members][:, None] + runs.link
            repeated = (np.broadcast_to(column, slot.shape).ravel() for column in (runs.first, runs.units))
            own.append(_slot_runs(slot.ravel(), *repeated))
        used, bound = joined(*parts).merged(), joined(*own).merged()
        if all(map(np.array_equal, used, bound)):
            return
        entering, awaited = (
            set(zip(*(column.tolist() for column in runs[1:]), strict=True)) for runs in (used, bound)
        )
        self._add_all(
            ViolationKind.GLUE,
            sorted(entering ^ awaited),
            lambda run: (
                f"{self._slot_name(run[0])}: units {run[1]} to {run[1] + run[2] - 1} "
                + ("enter, but no ingress row continues them" if run in entering else "do not enter")
            ),
        )

    def _follow_exits(self, kinds: list[Kind]) -> Int64Array:
        """Check, from the outside in, that egress rows supply the units that leave; return their loads."""
        loads = np.zeros(self._fabric.topology.n_links, dtype=np.int64)
        layer = self._layer
        base = offsets_of(self._capacity)
        level = np.zeros(1, dtype=np.int64)
        used = NO_RUNS
        while len(level):
            inner = [NO_RUNS]
            for number in np.unique(layer.kind[level]).tolist():
                kind, members = kinds[number], level[layer.kind[level] == number]
                inner.append(self._outward(kind.leaving, members))
                inner.append(self._supply(kind, members, used, base, loads))
            used = joined(*inner).merged()
            level = np.flatnonzero(np.isin(layer.outer, level))
        return loads

    def _supply(
        self, kind: Kind, members: Int64Array, used: Runs, base: Int64Array, loads: Int64Array
    ) -> Runs:
        """Check the units used at the boundaries of equivalent subproblems of one level.

        Add the loads of the paths from the children that supply them, and return the units at the boundaries
        of children that are subproblems. `base` is the number of capacity units of all slots before each, so
        that (slot, unit) is one number.
        """
        runs, count = kind.exits.outside, len(kind.exits.outside.link)
        mine = np.flatnonzero(np.isin(self._slot_piece[used.link], members))
        slot, first, units = used.link[mine], used.first[mine], used.units[mine]
        slots = (self._layer.link_offset[members][:, None] + runs.link).ravel()
        begins = base[slots] + np.tile(runs.first, len(members))
        ends = begins + np.tile(runs.units, len(members))
        begin = base[slot] + first
        low = np.maximum(np.searchsorted(begins, begin, side="right") - 1, 0)
        high = np.searchsorted(begins, begin + units)
        use, row = ranges_of(low, np.maximum(high - low, 0))
        start = np.maximum(begin[use], begins[row])
        length = np.maximum(np.minimum(begin[use] + units[use], ends[row]) - start, 0)
        covered = sums_of(len(mine), use, length)
        self._add_all(
            ViolationKind.GLUE,
            np.flatnonzero(covered != units),
            lambda i: (
                f"{self._slot_name(int(slot[i]))}: of the leaving units {first[i]} to "
                f"{first[i] + units[i] - 1}, egress rows supply {covered[i]}"
            ),
        )
        some = np.flatnonzero(length)
        row, start, length = row[some], start[some], length[some]
        place, crossing = np.divmod(row, max(count, 1))
        piece = members[place]
        hop, position = ranges_of(kind.exits.start[crossing], kind.exits.length[crossing])
        path = self._layer.links[self._layer.link_offset[piece[hop]] + kind.exits.links[position]]
        np.add.at(loads, path, length[hop])
        source = kind.exits.inside
        codes = self._layer.children[self._layer.child_offset[piece] + source.child[crossing]].astype(
            np.int64
        )
        deep = np.flatnonzero(codes < 0)
        link = self._layer.links[self._layer.link_offset[piece[deep]] + source.link[crossing[deep]]]
        found = self._found_slots(~codes[deep], link.astype(np.int64))
        skip = start[deep] - begins[row[deep]]
        known = np.flatnonzero(found >= 0)
        return _slot_runs(found[known], (source.first[crossing[deep]] + skip)[known], length[deep][known])


def _unit_nodes(first: Int64Array, node: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Return the node of each unit as a step function for each row: row, first unit and node of the steps."""
    row, column = np.nonzero(np.diff(first, axis=1))
    begin, held = first[row, column], node[row, column]
    is_step = np.ones(len(row), dtype=bool)
    is_step[1:] = (row[1:] != row[:-1]) | (held[1:] != held[:-1])
    return row[is_step], begin[is_step], held[is_step]
