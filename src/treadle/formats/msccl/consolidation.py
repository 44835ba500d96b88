"""Gathers scattered messages in scratch and sends them as one, in MSCCL XML, where buffers have offsets."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from treadle.formats.msccl.block_assignment import Limits, OperationPart, Subchunks
from treadle.program.program import OperationKind

_Side = tuple[int, ...]
"""Consecutive parts of a stream: those that send messages, or those that receive them."""


def consolidate_messages(pieces: Subchunks, limits: Limits) -> Subchunks:
    """Merge several scattered messages between two ranks into one.

    A message costs a latency, and a step of the thread blocks at both ends. The messages of one stream and
    one step of the program are copied next to each other into scratch as soon as each is there, sent
    together, and copied to their targets; copies are on separate thread blocks. `pieces` has no channels yet
    and is not changed; it is returned if nothing can be merged. Receives that reduce are not merged, because
    their sums are stored where the rank's own terms are.

    Each merged message has its own place in the stage, so nothing waits for a free one. It has
    the position of its last part in both ranks' lists, so the lists stay a common order. Operations that
    waited for a part's send wait for its copy into the stage, those that waited for its receive wait for the
    copy out of it. A group ends before the first operation of the receiver that waits for one of its parts.
    """
    sides = {piece: side for group in _groups(pieces, limits) for side in group for piece in side}
    if not sides:
        return pieces
    old, new = pieces.rows, Subchunks(pieces.program, [0] * pieces.program.n_ranks)
    number: dict[int, int] = {}
    """New part at whose end the old part's effect, or its reading, is complete."""
    base: dict[_Side, int] = {}
    """Position of each merged message in its rank's stage."""

    def add(
        piece: int, kind: OperationKind, waits: list[int], staged: tuple[int, int] = (-1, -1), count: int = 0
    ) -> int:
        row = old[piece]
        new.rows.append(OperationPart(row.operation, kind, row.first, count or row.count, waits, *staged))
        return len(new.rows) - 1

    def waits_of(piece: int) -> list[int]:
        return sorted({number[wait] for wait in old[piece].waits})

    for rank, span in enumerate(pieces.rank_pieces):
        begin = len(new.rows)
        for piece in span:
            kind, side = old[piece].kind, sides.get(piece)
            if side is None:
                number[piece] = add(piece, kind, waits_of(piece))
                continue
            *starts, whole = accumulate((old[one].count for one in side), initial=0)
            start = base.setdefault(side, new.stage_chunks[rank])
            # The first part reserves the stage for the entire message.
            if piece == side[0]:
                new.stage_chunks[rank] += whole
            if kind is OperationKind.SEND:
                target = start + starts[side.index(piece)]
                number[piece] = add(piece, OperationKind.COPY, waits_of(piece), (-1, target))
                if piece == side[-1]:
                    add(piece, kind, [number[one] for one in side], (start, -1), whole)
            elif piece == side[-1]:
                came = add(piece, kind, [], (-1, start), whole)
                for one, offset in zip(side, starts, strict=True):
                    waits = [*waits_of(one), came]
                    number[one] = add(one, OperationKind.COPY, waits, (start + offset, -1))
        new.rank_pieces.append(range(begin, len(new.rows)))
    return new


def _groups(pieces: Subchunks, limits: Limits) -> Iterator[tuple[_Side, _Side]]:
    """Yield the sends and the receives of two or more messages that can be merged."""
    rows, steps = pieces.rows, pieces.program.step
    needed = [len(rows)] * len(rows)
    """The first part that waits for each part."""
    for number, piece in enumerate(rows):
        for wait in piece.waits:
            needed[wait] = min(needed[wait], number)
    for sends, receives in pieces.streams().values():
        runs: list[list[tuple[int, int]]] = [[]]
        for send, receive in zip(sends, receives, strict=True):
            run = runs[-1]
            fits = (
                bool(run)
                and rows[receive].kind is rows[run[0][1]].kind is OperationKind.RECEIVE
                and steps[rows[send].operation] == steps[rows[run[0][0]].operation]
                and sum(rows[one].count for one, _ in (*run, (send, receive))) <= limits.chunks
                and all(needed[one] > receive for _, one in run)
            )
            if not fits:
                runs.append([])
            runs[-1].append((send, receive))
        for run in runs:
            if len(run) > 1:
                yield tuple(send for send, _ in run), tuple(receive for _, receive in run)
