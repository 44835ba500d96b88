"""The part of one box for those of all: trees that a rotation of the boxes takes to one another.

Where the trees of each box's roots are those of the first box's, turned, everything that happens follows from
the trees of one box. Trees that are written out are compared one by one, factored ones by subproblems. Each
transfer of one box's trees stands for as many as there are boxes; one of these leaves the first box, and one
arrives there. Their operations are made as for all ranks (`forest_program`), those of the first box only, so
what a program of all ranks costs is divided by the number of boxes.

The whole of which this is the part has the same messages as the program of all ranks, but for two things that
turns do not respect: chunks are joined into one message only if their roots are in one box, and of messages
that are alike by all that turns preserve each box sends them in the order of the first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from treadle.arrays import Int32Array, Int64Array, offsets_of
from treadle.program.hazards import Row
from treadle.program.in_network import in_network_sends
from treadle.program.program import OperationKind, Program
from treadle.program.trees.forest_program import (
    LoweringFrame,
    message_parts,
    message_table,
    own_copies,
    program_of,
)
from treadle.program.trees.send_order import turns_of
from treadle.program.trees.transfers import (
    CHANNEL,
    PATH,
    PHASE,
    RECEIVER,
    SENDER,
    Transfers,
    all_transfers,
)
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.factored import CirculantTrees, FactoredSchedule, Layer
from treadle.schedules.trees.forest import Forest, ForestSchedule
from treadle.topologies.rotation import Rotation, box_rotation
from treadle.topologies.topology import Topology

_MAX_EDGES = 2**21
"""Trees of the first box's roots: a kilobyte and some twenty microseconds each."""

Paths = Int32Array | Int64Array
"""Numbers of paths."""


@dataclass(frozen=True, eq=False)
class BoxProgram:
    """What the first box does where all boxes do the same.

    Parameters
    ----------
    program : Program
        Operations of the first box's ranks; all other lists are empty.
    partner : array of int64, shape (n,)
        Operation that stands for the other end of each message; -1 for copies.
    link_of : array of int64, shape (links,)
        The link that stands for each: the lowest that turns take it to.
    """

    program: Program
    partner: Int64Array
    link_of: Int64Array


def box_rotation_of(
    topology: Topology, collective: Collective, schedule: ForestSchedule | FactoredSchedule
) -> Rotation | None:
    """Return the rotation of boxes that leaves fabric and trees as they are, if there is one.

    The trees of the first ``n_ranks / boxes`` roots then stand for all; None if they are too many. Factored
    trees may be found different that are equal once they are written out, never the reverse.
    """
    units = schedule.root_multiplicity
    if topology.injection_bytes_per_s.any():
        return None
    for size in _box_sizes(topology, collective, schedule):
        if size * len(units) > _MAX_EDGES or not np.array_equal(units, np.roll(units, size)):
            continue
        rotation = box_rotation(topology, np.array(collective.ranks, dtype=np.int64), size)
        if rotation is None:
            continue
        if isinstance(schedule, FactoredSchedule):
            layers = [layer for forest in schedule.forests for layer in forest.layers]
            is_turned = all(_is_turned_layer(layer, rotation.links[1], size) for layer in layers)
        else:
            is_turned = all(_is_turned(forest, rotation, size) for forest in schedule.forests)
        if is_turned:
            return rotation
    return None


def lower_box(
    topology: Topology, collective: Collective, schedule: ForestSchedule | FactoredSchedule
) -> BoxProgram | None:
    """The first box's part of a program, if that says all.

    Parameters
    ----------
    topology : Topology
    collective : Collective
    schedule : ForestSchedule or FactoredSchedule
        Verified.

    Returns
    -------
    BoxProgram or None
        None unless boxes of equal size follow one another in rank order, a rotation of them leaves fabric and
        trees as they are and moves every link that is used, and no switch copies or adds up.

    Notes
    -----
    Boxes are those of `send_order.turns_of`. O(trees N) time to compare trees, the rest by the box.
    """
    rotation = box_rotation_of(topology, collective, schedule)
    if rotation is None:
        return None
    size = collective.n_ranks // rotation.boxes
    transfers = all_transfers(topology, schedule, 1, roots=size)
    if not rotation.moves[transfers.path_links].all():
        return None
    found = _part(topology, collective, transfers, rotation, size)
    return None if in_network_sends(topology, found.program).size else found


def _box_sizes(
    topology: Topology, collective: Collective, schedule: ForestSchedule | FactoredSchedule
) -> list[int]:
    """Ranks of each box where several of one size follow one another; with factored trees outer sets too."""
    if (
        collective.kind is CollectiveKind.ALLTOALL
        or collective.kind.is_rooted
        or collective.groups is not None
    ):
        return []
    box, n = turns_of(topology, collective).box, collective.n_ranks
    size = int(np.count_nonzero(box == 0))
    is_even = n % size == 0 and np.array_equal(box, np.arange(n) // size)
    sizes = [size] if is_even and size < n else []
    if isinstance(schedule, FactoredSchedule):
        outer = {len(layer.pieces[layer.kind[0]].native) for one in schedule.forests for layer in one.layers}
        sizes += [n // count for count in sorted(outer, reverse=True) if 1 < count < n and not n % count]
    return list(dict.fromkeys(sizes))


def _is_turned_layer(layer: Layer, turn: Int64Array, size: int) -> bool:
    """Whether a layer is itself again if each rank becomes the one `size` on and each link its `turn`.

    A subproblem may only take the place of one of its kind, child for child and link for link, since units
    are counted in their order. The outermost one stays, and its trees must be the same for all children.
    """
    n_ranks = int(layer.children.max()) + 1
    around = np.repeat(np.arange(layer.n_subproblems), np.diff(layer.child_offset))
    place = np.empty(
        n_ranks + layer.n_subproblems, dtype=np.int64
    )  # of each rank, then of each piece backwards
    place[layer.children] = np.arange(len(layer.children))
    image = np.zeros(layer.n_subproblems, dtype=np.int64)
    for piece in range(layer.n_subproblems - 1, -1, -1):  # the pieces inside have greater numbers
        span = slice(layer.child_offset[piece], layer.child_offset[piece + 1])
        children = layer.children[span].astype(np.int64)
        inner = children < 0
        children[inner] = ~image[~children[inner]]
        children[~inner] = (children[~inner] + size) % n_ranks
        moved = place[children]
        links = turn[layer.links[layer.link_offset[piece] : layer.link_offset[piece + 1]]]
        if piece == 0:
            return bool(np.all(around[moved] == 0)) and _is_turned_piece(layer, moved, links)
        other = image[piece] = int(around[moved[0]])
        own = layer.links[layer.link_offset[other] : layer.link_offset[other + 1]]
        if (
            layer.kind[other] != layer.kind[piece]
            or not np.array_equal(moved, layer.child_offset[other] + np.arange(len(moved)))
            or not np.array_equal(links, own)
        ):
            return False
    return False


def _is_turned_piece(layer: Layer, moved: Int64Array, links: Int64Array) -> bool:
    """Whether the outermost subproblem is itself again if its children and links become these.

    A rotation leaves circulant trees as they are if columns of children that it takes to one another hold the
    same units on links that it takes to one another.
    """
    piece, own = layer.pieces[layer.kind[0]], layer.links[: layer.link_offset[1]]
    trees, n = piece.trees, len(moved)
    local = np.minimum(np.searchsorted(own, links), len(own) - 1)
    if (
        not isinstance(trees, CirculantTrees)
        or not np.array_equal(moved, (np.arange(n) + moved[0]) % n)
        or not np.array_equal(own[local], links)
        or not np.array_equal(piece.native[moved], piece.native)
    ):
        return False
    return all(
        np.array_equal(getattr(trees, f"{side}_links")[moved], local[getattr(trees, f"{side}_links")])
        and all(
            np.array_equal(getattr(trees, key)[moved], getattr(trees, key))
            for key in (f"{side}_first", f"{side}_offset")
        )
        for side in ("out", "in")
    )


def _is_turned(forest: Forest, rotation: Rotation, size: int) -> bool:
    """Whether the trees of each box's roots are those of the first box's, turned."""
    n = forest.n_ranks
    first = [list(forest.trees(root)) for root in range(size)]
    paths = _PathTurns(forest, rotation)
    for box in range(1, rotation.boxes):
        shift = box * size
        moved = (np.arange(-1, n) + shift) % n
        moved[0] = -1
        for place, trees in enumerate(first):
            others = list(forest.trees(shift + place))
            if len(others) != len(trees):
                return False
            for one, other in zip(trees, others, strict=True):
                counts = np.diff(one.entry_offset)
                cut = int(one.entry_offset[n - shift])
                if (
                    one.multiplicity != other.multiplicity
                    or not np.array_equal(moved[np.roll(one.parent, shift) + 1], other.parent)
                    or not np.array_equal(np.roll(counts, shift), np.diff(other.entry_offset))
                    or not np.array_equal(np.roll(one.entry_units, -cut), other.entry_units)
                    or not paths.are(np.roll(one.entry_path, -cut), box, other.entry_path)
                ):
                    return False
    return True


class _PathTurns:
    """Paths of a forest, told from one another by their links."""

    def __init__(self, forest: Forest, rotation: Rotation) -> None:
        self._used = np.unique(forest.edge_paths()[1]).astype(np.int64)
        offset, links = forest.paths(self._used)
        lengths = np.diff(offset)
        none = rotation.links.shape[1]
        padded = np.full((len(lengths), int(lengths.max(initial=0))), none, dtype=np.int64)
        padded[np.arange(padded.shape[1]) < lengths[:, None]] = links
        turned = np.append(rotation.links[1], none)[padded]
        both = np.concatenate([padded, turned])
        code = np.zeros(len(both), dtype=np.int64)
        for column in both.T:
            code = np.unique(code * (none + 1) + column, return_inverse=True)[1].reshape(-1)
        self._code, image = code[: len(padded)], code[len(padded) :]
        self._next = np.full(int(code.max(initial=0)) + 1, -1, dtype=np.int64)
        self._next[self._code] = image
        self._turns = 0
        self._now = np.arange(len(self._next))

    def are(self, paths: Paths, turns: int, others: Paths) -> bool:
        """Whether so many turns take each path to that of the others; turns never fall from call to call."""
        while self._turns < turns:
            self._now = np.append(self._next, -1)[self._now]
            self._turns += 1
        one, other = (self._code[np.searchsorted(self._used, numbers)] for numbers in (paths, others))
        return bool(np.array_equal(self._now[one], other))


def _part(
    topology: Topology, collective: Collective, transfers: Transfers, rotation: Rotation, size: int
) -> BoxProgram:
    """The first box's operations, from the transfers of the first box's trees."""
    frame = LoweringFrame(collective, transfers.base, False, None)
    table = message_table(topology, frame, transfers)
    n, boxes = collective.n_ranks, rotation.boxes
    per_box = int(transfers.base[-1]) // boxes
    paths = _TurnedPaths(transfers, rotation)
    lists: list[list[Row]] = [own_copies(frame, rank) if rank < size else [] for rank in range(n)]
    met: list[tuple[int, int, int, int]] = []
    columns = table[[PHASE, SENDER, RECEIVER, CHANNEL, PATH]].T.tolist()
    for (phase, sender, receiver, channel, path), (step, parts) in zip(
        columns, message_parts(frame, table, lists), strict=True
    ):
        # from the first box of the trees' roots to where the sender, or the receiver, is in the first box
        at_sender, at_receiver = -(sender // size) % boxes, -(receiver // size) % boxes
        way = paths.number(path, at_sender)
        peers = (receiver + at_sender * size) % n, (sender + at_receiver * size) % n
        out, into = lists[sender % size], lists[receiver % size]
        kind = OperationKind.RECEIVE_REDUCE if frame.reduces and phase == 0 else OperationKind.RECEIVE
        for first, last, read, sum_from, target in parts:
            count = last - first
            met.append((sender % size, len(out), receiver % size, len(into) + (out is into)))
            begin = first + at_sender * per_box
            out.append((OperationKind.SEND, begin, count, peers[0], read, read, channel, step, way))
            begin = first + at_receiver * per_box
            into.append((kind, begin, count, peers[1], sum_from, target, channel, step, -1))
    program = program_of(frame, lists, paths.of(transfers))
    partner = np.full(program.n_operations, -1, dtype=np.int64)
    ranks = np.array(met, dtype=np.int64).reshape(-1, 4)
    sends = program.operation_offset[ranks[:, 0]] + ranks[:, 1]
    receives = program.operation_offset[ranks[:, 2]] + ranks[:, 3]
    partner[sends], partner[receives] = receives, sends
    return BoxProgram(program, partner, rotation.first)


class _TurnedPaths:
    """Paths of transfers after turns, equal ones once, each numbered when it is first asked for."""

    def __init__(self, transfers: Transfers, rotation: Rotation) -> None:
        self._offset, self._links = transfers.path_offset.tolist(), transfers.path_links
        self._rotation = rotation
        self._known: dict[tuple[int, int], int] = {}
        self._numbers: dict[bytes, int] = {}
        self._found: list[Int64Array] = []

    def number(self, path: int, turns: int) -> int:
        """Number of a path after so many turns."""
        if (path, turns) not in self._known:
            links = self._rotation.links[turns, self._links[self._offset[path] : self._offset[path + 1]]]
            self._known[path, turns] = self._numbers.setdefault(links.tobytes(), len(self._found))
            if len(self._numbers) > len(self._found):
                self._found.append(links)
        return self._known[path, turns]

    def of(self, transfers: Transfers) -> Transfers:
        """The transfers with these paths in place of theirs."""
        links = np.concatenate([np.zeros(0, dtype=np.int64), *self._found]).astype(np.int32)
        return replace(transfers, path_offset=offsets_of([*map(len, self._found)]), path_links=links)
