"""Check of one layer of a factored forest: every piece in its place in the fabric, and the gluing of pieces.

Shares no code with the generators or the expansion; `treadle.verification.schedules` is the way in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import BoolArray, Int64Array, distinct
from treadle.schedules.collective import Collective
from treadle.schedules.factored import CirculantTrees, Layer
from treadle.topologies.topology import Topology
from treadle.verification.factored.formulas import transit_faults
from treadle.verification.factored.kinds import Kind, Runs, joined_runs, study
from treadle.verification.violations import Findings, ViolationKind


@dataclass(frozen=True)
class LayerFabric:
    """The fabric as a layer sees it: turned round for in-trees."""

    topology: Topology
    tails: Int64Array
    heads: Int64Array
    passable: BoolArray
    ranks: Int64Array  # node of each rank


def fabric_of(topology: Topology, collective: Collective, *, turned: bool) -> LayerFabric:
    """What paths may use: links that join different nodes, switches and forwarders in between."""
    tails, heads = topology.tails.astype(np.int64), topology.heads.astype(np.int64)
    passable = ~topology.is_compute
    passable[list(collective.forwarders)] = True
    ranks = np.array(collective.ranks, dtype=np.int64)
    return LayerFabric(topology, *((heads, tails) if turned else (tails, heads)), passable, ranks)


def _slots(slot: Int64Array, first: Int64Array, units: Int64Array) -> Runs:
    """Runs of capacity units of slots; a slot is a (piece, link) pair, an entry of ``Layer.links``."""
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
        self.depths: list[int] = []

    def _add_all(
        self, kind: ViolationKind, wrong: Sequence[Any] | NDArray[Any], describe: Callable[[Any], str] = str
    ) -> None:
        self._found.add_all(kind, wrong, lambda item: f"{self._place}, {describe(item)}")

    def run(self) -> Int64Array | None:
        """Check everything; units that cross each link of the fabric, or None if something is wrong."""
        before = self._found.total
        pieces = self._layer.pieces
        kinds = [study(piece, f"{self._place}, kind {i}", self._found) for i, piece in enumerate(pieces)]
        all_links, m = self._layer.links, self._fabric.topology.n_links
        self._add_all(
            ViolationKind.PATH,
            np.flatnonzero((all_links < 0) | (all_links >= m)),
            lambda i: f"piece {self._slot_piece[i]} has link {all_links[i]}; the fabric has {m}",
        )
        self._check_natives()
        if self._found.total > before:
            return None
        known = [kind for kind in kinds if kind is not None]
        self.depths = [kind.depth for kind in known]
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
        """Links of the fabric that local ones are, shape (pieces, local links)."""
        links = self._layer.links[self._layer.link_offset[members][:, None] + local]
        return np.asarray(links, dtype=np.int64)

    def _children_of(self, members: Int64Array, child: Int64Array) -> Int64Array:
        """Children of pieces: ranks, or ~j for piece j, shape (pieces, children)."""
        codes = self._layer.children[self._layer.child_offset[members][:, None] + child]
        return np.asarray(codes, dtype=np.int64)

    def _slots_of(self, pieces: Int64Array, links: Int64Array) -> Int64Array:
        """Slot of each (piece, link), -1 where the piece has no such link."""
        if not len(self._slot_keys):
            return np.full(len(links), -1, dtype=np.int64)
        keys = pieces * self._radix + links
        at = np.minimum(np.searchsorted(self._slot_keys, keys), len(self._slot_keys) - 1)
        return np.where(self._slot_keys[at] == keys, at, -1)

    def _slot_name(self, slot: int) -> str:
        link = int(self._layer.links[slot])
        return f"piece {self._slot_piece[slot]}, link {self._fabric.topology.link_name(link)}"

    def _check_natives(self) -> None:
        """Every rank once; a piece's native trees are those of its children; piece 0 has no border."""
        layer = self._layer
        natives = [piece.native for piece in layer.pieces]
        if not np.array_equal(
            np.sort(layer.children[layer.children >= 0]), np.arange(len(self._fabric.ranks))
        ):
            self._add_all(ViolationKind.SHAPE, ["its ranks are not those of the collective, once each"])
        total = np.array([native.sum() for native in natives])[layer.kind]
        planted = np.concatenate([natives[kind] for kind in layer.kind.tolist()])
        at = np.flatnonzero(layer.children < 0)
        inner = ~layer.children[at]
        self._add_all(
            ViolationKind.SHARES,
            np.flatnonzero(planted[at] != total[inner]),
            lambda i: (
                f"piece {inner[i]} has {total[inner[i]]} native unit trees, "
                f"{planted[at[i]]} in the piece around it"
            ),
        )
        self._check_capacities()
        outermost = layer.pieces[layer.kind[0]]
        if len(outermost.entrances.link) or len(outermost.exits.link):
            self._add_all(ViolationKind.GLUE, ["piece 0 has a border; it is the outermost"])

    def _check_capacities(self) -> None:
        """A link that crosses a border has equal capacity in the pieces on both sides."""
        layer = self._layer
        outer = layer.outer[self._slot_piece].astype(np.int64)
        capacity = np.concatenate([layer.pieces[kind].capacity for kind in layer.kind.tolist()])
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
        """Paths are walks through switches and forwarders, and join the ranks that they say."""
        fabric = self._fabric
        links = self._links_of(members, np.arange(len(kind.trees_load)))
        tails, heads = fabric.tails[links], fabric.heads[links]
        used = np.concatenate(
            [kind.joints.ravel(), *(r.link for r in self._runs_of(kind)), kind.entrances.outside.link]
        )
        is_used = np.zeros(links.shape[1], dtype=bool)
        is_used[used] = True
        is_used[kind.exits.outside.link] = True
        loops = np.argwhere((tails == heads) & is_used)
        self._add_walks("is a self-loop", members, links, loops)
        broken = self._broken_joints(kind.joints, tails, heads)
        self._add_walks("goes on as no walk", members, links[:, kind.joints[:, 0]], broken)
        for runs, ends in zip(self._runs_of(kind), (heads, tails, heads, tails), strict=True):
            self._check_ends(members, runs, ends)
        if kind.formula is None:
            return
        for piece, out, into in zip(members, heads, tails, strict=True):
            if isinstance(kind.formula, CirculantTrees):
                self._check_planes(int(piece), kind.formula, out, into)
            else:
                for fault in transit_faults(kind.formula, out, into, fabric.passable):
                    self._found.add(ViolationKind.PATH, f"{self._place}, piece {piece}: {fault}")

    def _broken_joints(self, joints: Int64Array, tails: Int64Array, heads: Int64Array) -> Int64Array:
        """Pairs (piece, joint) where a link does not end at the relay at which the next one begins.

        The joints are looked at in the first piece. Where link ends that are one node there are one node in
        another piece as well, its joints hold too.
        """
        if not len(joints) or not len(tails):
            return np.zeros((0, 2), dtype=np.int64)
        passable = self._fabric.passable
        first, second = joints.T
        at = np.unique(np.concatenate([first, second + tails.shape[1]]))
        nodes = np.concatenate([heads, tails], axis=1)[:, at]
        _, model, group = np.unique(nodes[0], return_index=True, return_inverse=True)
        is_odd = (nodes != nodes[:, model[group]]).any(axis=1) | ~passable[nodes].all(axis=1)
        is_odd[0] = True
        odd = np.flatnonzero(is_odd)
        node = heads[odd][:, first]
        wrong = np.argwhere((node != tails[odd][:, second]) | ~passable[node])
        wrong[:, 0] = odd[wrong[:, 0]]
        return wrong

    def _add_walks(self, what: str, members: Int64Array, links: Int64Array, wrong: Int64Array) -> None:
        """Violations at (piece, column) pairs of a table of links."""
        name = self._fabric.topology.link_name
        self._add_all(
            ViolationKind.PATH,
            wrong,
            lambda i: f"piece {members[i[0]]}: link {name(int(links[i[0], i[1]]))} {what}",
        )

    @staticmethod
    def _runs_of(kind: Kind) -> tuple[Runs, Runs, Runs, Runs]:
        return kind.entering, kind.leaving, kind.entrances.inside, kind.exits.inside

    def _check_ends(self, members: Int64Array, runs: Runs, ends: Int64Array) -> None:
        """Where a child is a rank, links that enter or leave it are the rank's own."""
        codes = distinct(runs.child * self._radix + runs.link)
        child, link = np.divmod(codes, self._radix)
        ranks = self._children_of(members, child)
        is_wrong = (ranks >= 0) & (ends[:, link] != self._fabric.ranks[np.maximum(ranks, 0)])
        self._add_all(
            ViolationKind.ENDS,
            np.argwhere(is_wrong),
            lambda i: (
                f"piece {members[i[0]]}: local link {link[i[1]]} does not end at rank {ranks[i[0], i[1]]}"
            ),
        )

    def _check_planes(self, piece: int, trees: CirculantTrees, heads: Int64Array, tails: Int64Array) -> None:
        """Unit i leaves every child to the relay from which it enters every child, the same for all."""
        out = _steps(trees.out_first, heads[trees.out_links])
        into = _steps(trees.in_first, tails[trees.in_links])
        row = np.concatenate([out[0], into[0] + trees.n_children])
        begin, node = np.concatenate([out[1], into[1]]), np.concatenate([out[2], into[2]])
        count = np.bincount(row, minlength=2 * trees.n_children)
        place = np.arange(len(row)) - (np.cumsum(count) - count)[row]
        model = np.minimum(place, count[0] - 1)
        is_wrong = (count[row] != count[0]) | (begin != begin[model]) | (node != node[model])
        wrong = np.flatnonzero(is_wrong | ~self._fabric.passable[node])
        if len(wrong):
            unit = int(begin[wrong[0]])
            message = f"piece {piece}: unit {unit} of trees by formula does not pass one relay for all"
            self._found.add(ViolationKind.PATH, f"{self._place}, {message}")

    def _outward(self, runs: Runs, members: Int64Array) -> Runs:
        """Units of a piece's children that are pieces, as units of those pieces' own slots."""
        codes = self._children_of(members, runs.child)
        piece, row = np.nonzero(codes < 0)
        link = self._links_of(members, runs.link)[piece, row]
        inner = ~codes[piece, row]
        slot = self._found_slots(inner, link)
        row, slot = row[slot >= 0], slot[slot >= 0]
        return _slots(slot, runs.first[row], runs.units[row])

    def _found_slots(self, pieces: Int64Array, links: Int64Array) -> Int64Array:
        """As `_slots_of`; data that leads to a link which a piece does not have is a violation."""
        slot = self._slots_of(pieces, links)
        wrong = np.flatnonzero(slot < 0)
        name = self._fabric.topology.link_name
        self._add_all(
            ViolationKind.GLUE,
            wrong,
            lambda i: f"piece {pieces[i]}: data crosses by {name(int(links[i]))}, no link of it",
        )
        return slot

    def _check_entrances(self, kinds: list[Kind]) -> None:
        """The units by which pieces are entered from outside are those of their entrances, one by one."""
        parts, own = [], []
        for kind, members in zip(kinds, self._members, strict=True):
            parts.append(self._outward(kind.entering, members))
            runs = kind.entrances.outside
            slot = self._layer.link_offset[members][:, None] + runs.link
            repeated = (np.broadcast_to(column, slot.shape).ravel() for column in (runs.first, runs.units))
            own.append(_slots(slot.ravel(), *repeated))
        used, bound = joined_runs(parts).merged(), joined_runs(own).merged()
        if all(np.array_equal(getattr(used, key), getattr(bound, key)) for key in ("link", "first", "units")):
            return
        rows = [
            set(zip(runs.link.tolist(), runs.first.tolist(), runs.units.tolist(), strict=True))
            for runs in (used, bound)
        ]
        wrong = sorted(rows[0] ^ rows[1])
        self._add_all(
            ViolationKind.GLUE,
            wrong,
            lambda i: (
                f"{self._slot_name(i[0])}: units {i[1]} to {i[1] + i[2] - 1} "
                + ("enter, but go on nowhere" if i in rows[0] else "are awaited, but do not enter")
            ),
        )

    def _follow_exits(self, kinds: list[Kind]) -> Int64Array:
        """From the outside in: what leaves a piece is supplied by its exits. Loads of the exits' paths."""
        loads = np.zeros(self._fabric.topology.n_links, dtype=np.int64)
        layer = self._layer
        capacity = [piece.capacity for piece in layer.pieces]
        sizes = np.concatenate([capacity[kind] for kind in layer.kind.tolist()])
        base = np.cumsum(sizes) - sizes
        level = np.zeros(1, dtype=np.int64)
        used = joined_runs([])
        while len(level):
            inner = []
            for number in np.unique(layer.kind[level]).tolist():
                kind, members = kinds[number], level[layer.kind[level] == number]
                inner.append(self._outward(kind.leaving, members))
                inner.append(self._supply(kind, members, used, base, loads))
            used = joined_runs(inner).merged()
            level = np.flatnonzero(np.isin(layer.outer, level))
        return loads

    def _supply(
        self, kind: Kind, members: Int64Array, used: Runs, base: Int64Array, loads: Int64Array
    ) -> Runs:
        """Units used at the borders of pieces of one kind and level: adds the loads of the paths from the
        children that supply them, and returns the units at the borders of those that are pieces.

        `base` are the capacity units of all slots before each, so that (slot, unit) is one number.
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
        use, row = _pairs(low, np.maximum(high - low, 0))
        start = np.maximum(begin[use], begins[row])
        length = np.maximum(np.minimum(begin[use] + units[use], ends[row]) - start, 0)
        covered = np.zeros(len(mine), dtype=np.int64)
        np.add.at(covered, use, length)
        self._add_all(
            ViolationKind.GLUE,
            np.flatnonzero(covered != units),
            lambda i: (
                f"{self._slot_name(int(slot[i]))}: of units {first[i]} to "
                f"{first[i] + units[i] - 1}, which leave, exits supply {covered[i]}"
            ),
        )
        some = np.flatnonzero(length)
        row, start, length = row[some], start[some], length[some]
        place, crossing = np.divmod(row, max(count, 1))
        hop, at = _pairs(kind.exits.start[crossing], kind.exits.length[crossing])
        path = self._layer.links[self._layer.link_offset[members[place[hop]]] + kind.exits.links[at]]
        np.add.at(loads, path, length[hop])
        source = kind.exits.inside
        piece = members[place]
        inner = self._layer.children[self._layer.child_offset[piece] + source.child[crossing]].astype(
            np.int64
        )
        deep = np.flatnonzero(inner < 0)
        link = self._layer.links[self._layer.link_offset[piece[deep]] + source.link[crossing[deep]]]
        found = self._found_slots(~inner[deep], link.astype(np.int64))
        skip = start[deep] - begins[row[deep]]
        known = np.flatnonzero(found >= 0)
        return _slots(found[known], (source.first[crossing[deep]] + skip)[known], length[deep][known])


def _pairs(starts: Int64Array, counts: Int64Array) -> tuple[Int64Array, Int64Array]:
    """For starts (5, 9) and counts (2, 1): owners (0, 0, 1) and values (5, 6, 9)."""
    owners = np.repeat(np.arange(len(counts)), counts)
    values = np.arange(len(owners)) - (np.cumsum(counts) - counts)[owners] + starts[owners]
    return owners, values


def _steps(first: Int64Array, node: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array]:
    """The node that holds each unit, as a step function for each row: row, unit and node of the steps."""
    row, column = np.nonzero(np.diff(first, axis=1))
    begin, held = first[row, column], node[row, column]
    is_step = np.ones(len(row), dtype=bool)
    is_step[1:] = (row[1:] != row[:-1]) | (held[1:] != held[:-1])
    return row[is_step], begin[is_step], held[is_step]
