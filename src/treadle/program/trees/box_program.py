"""The part of one box for those of all: trees that a rotation of the boxes takes to one another.

Where the trees of each box's roots are those of the first box's, turned, everything that happens follows from
the trees of one box. Each of their transfers stands for as many as there are boxes; one of these leaves the
first box, and one arrives there. Their operations are made as for all ranks (`forest_program`), those of the
first box only, so what a program of all ranks costs is divided by the number of boxes.

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
from treadle.schedules.trees.forest import Forest, ForestSchedule
from treadle.topologies.rotation import Rotation, box_rotation
from treadle.topologies.topology import Topology

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


def lower_box(topology: Topology, collective: Collective, schedule: ForestSchedule) -> BoxProgram | None:
    """The first box's part of a program, if that says all.

    Parameters
    ----------
    topology : Topology
    collective : Collective
    schedule : ForestSchedule
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
    size = _box_size(topology, collective)
    units = schedule.root_multiplicity
    if (
        size is None
        or not np.array_equal(units, np.roll(units, size))
        or topology.injection_bytes_per_s.any()
    ):
        return None
    rotation = box_rotation(topology, np.array(collective.ranks, dtype=np.int64), size)
    if rotation is None or not all(_is_turned(forest, rotation, size) for forest in schedule.forests):
        return None
    transfers = all_transfers(topology, schedule, 1, roots=size)
    if not rotation.moves[transfers.path_links].all():
        return None
    found = _part(topology, collective, transfers, rotation, size)
    return None if in_network_sends(topology, found.program).size else found


def _box_size(topology: Topology, collective: Collective) -> int | None:
    """Ranks of each box, where several boxes of one size follow one another."""
    if (
        collective.kind is CollectiveKind.ALLTOALL
        or collective.kind.is_rooted
        or collective.groups is not None
    ):
        return None
    box = turns_of(topology, collective).box
    size = int(np.count_nonzero(box == 0))
    is_even = len(box) % size == 0 and np.array_equal(box, np.arange(len(box)) // size)
    return size if is_even and size < len(box) else None


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
