"""Scattered messages gathered in scratch and sent as one (MSCCL XML, which addresses buffers by place)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from treadle.formats.msccl.block_assignment import Limits, Subchunks
from treadle.program.program import OperationKind

_Side = tuple[int, ...]
"""Pieces that follow each other on a stream: those that send messages, or those that receive them."""


def consolidate_messages(pieces: Subchunks, limits: Limits) -> Subchunks:
    """Make one message of several scattered ones between two ranks.

    A message costs a latency, and a step of the thread blocks at both ends. Messages of one stream and one
    step of the program are copied side by side into scratch as soon as each is there, sent together, and
    copied to where they belong; copies are on thread blocks of their own.

    Parameters
    ----------
    pieces : Pieces
        Without channels yet; not changed.
    limits : Limits
        A message has at most `limits.chunks` chunks.

    Returns
    -------
    Pieces
        The same if nothing can be gathered. Receives that reduce are left alone: their sums lie where the
        rank's own terms do.

    Notes
    -----
    Each message has room of its own in the stage, so nothing waits for room. A group's message takes the
    place of its last part in both ranks' lists, so the lists stay a common order. What waited for a part's
    send waits for its copy into the stage, what waited for its receive for the copy out of it; a group ends
    before the first operation of the receiver that waits for one of its parts.
    """
    sides = {piece: side for group in _groups(pieces, limits) for side in group for piece in side}
    if not sides:
        return pieces
    new = Subchunks(pieces.program, stage_chunks=[0] * pieces.program.n_ranks)
    number: dict[int, int] = {}
    """Of each old piece the new one at whose end its effect, or its reading, is over."""
    base: dict[_Side, int] = {}
    """Where the message of each group begins in its rank's stage."""

    def add(
        piece: int, kind: OperationKind, waits: list[int], staged: tuple[int, int] = (-1, -1), count: int = 0
    ) -> int:
        size = count or pieces.count[piece]
        return new.append(pieces.operation[piece], kind, pieces.first[piece], size, waits, staged)

    def waits_of(piece: int) -> list[int]:
        return sorted({number[wait] for wait in pieces.waits[piece]})

    for rank, span in enumerate(pieces.rank_pieces):
        begin = len(new.operation)
        for piece in span:
            kind, side = pieces.kinds[piece], sides.get(piece)
            if side is None:
                number[piece] = add(piece, kind, waits_of(piece))
                continue
            *starts, whole = accumulate((pieces.count[one] for one in side), initial=0)
            start = base.setdefault(side, new.stage_chunks[rank])
            if piece == side[0]:
                new.stage_chunks[rank] += whole
            if kind is OperationKind.SEND:
                target = start + starts[side.index(piece)]
                number[piece] = add(piece, OperationKind.COPY, waits_of(piece), (-1, target))
                if piece == side[-1]:
                    copies = [number[one] for one in side]
                    add(piece, OperationKind.SEND, copies, (start, -1), whole)
            elif piece == side[-1]:
                came = add(piece, OperationKind.RECEIVE, [], (-1, start), whole)
                for one, offset in zip(side, starts, strict=True):
                    waits = [*waits_of(one), came]
                    number[one] = add(one, OperationKind.COPY, waits, (start + offset, -1))
        new.rank_pieces.append(range(begin, len(new.operation)))
    return new


def _groups(pieces: Subchunks, limits: Limits) -> Iterator[tuple[_Side, _Side]]:
    """Yield the sends and the receives of at least two messages that can be one."""
    needed = [len(pieces.operation)] * len(pieces.operation)
    """The first piece that waits for each."""
    for piece, waits in enumerate(pieces.waits):
        for wait in waits:
            needed[wait] = min(needed[wait], piece)
    steps, kinds = pieces.program.step, pieces.kinds
    for sends, receives in pieces.streams().values():
        runs: list[list[tuple[int, int]]] = [[]]
        for send, receive in zip(sends, receives, strict=True):
            run = runs[-1]
            fits = (
                bool(run)
                and kinds[receive] is kinds[run[0][1]] is OperationKind.RECEIVE
                and steps[pieces.operation[send]] == steps[pieces.operation[run[0][0]]]
                and sum(pieces.count[one] for one, _ in run) + pieces.count[send] <= limits.chunks
                and all(needed[one] > receive for _, one in run)
            )
            if not fits:
                runs.append([])
            runs[-1].append((send, receive))
        for run in runs:
            if len(run) > 1:
                yield tuple(send for send, _ in run), tuple(receive for _, receive in run)
