"""Scattered messages gathered in scratch and sent as one (MSCCL XML, which addresses buffers by place)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from treadle.formats.msccl.block_assignment import Limits, Pieces
from treadle.program.program import OperationKind


@dataclass(frozen=True)
class _Group:
    """Messages that follow each other on a stream: the pieces that send them and those that receive them."""

    sends: tuple[int, ...]
    receives: tuple[int, ...]


def consolidate_messages(pieces: Pieces, limits: Limits) -> Pieces:
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
    groups = list(_groups(pieces, limits))
    if not groups:
        return pieces
    role: dict[int, tuple[_Group, int]] = {}
    for group in groups:
        for side in (group.sends, group.receives):
            role.update({piece: (group, place) for place, piece in enumerate(side)})
    return _Rewriter(pieces, role).rewritten()


def _groups(pieces: Pieces, limits: Limits) -> Iterator[_Group]:
    """Runs of at least two messages that can be one."""
    needed = [len(pieces.operation)] * len(pieces.operation)
    """The first piece that waits for each."""
    for piece, waits in enumerate(pieces.waits):
        for wait in waits:
            needed[wait] = min(needed[wait], piece)
    steps = pieces.program.step
    for sends, receives in pieces.streams().values():
        run: list[tuple[int, int]] = []
        for send, receive in zip(sends, receives, strict=True):
            fits = (
                bool(run)
                and pieces.kind(receive) is OperationKind.RECEIVE
                and pieces.kind(run[0][1]) is OperationKind.RECEIVE
                and steps[pieces.operation[send]] == steps[pieces.operation[run[0][0]]]
                and sum(pieces.count[one] for one, _ in run) + pieces.count[send] <= limits.chunks
                and all(needed[one] > receive for _, one in run)
            )
            if not fits:
                yield from _as_group(run)
                run = []
            run.append((send, receive))
        yield from _as_group(run)


def _as_group(run: list[tuple[int, int]]) -> Iterator[_Group]:
    if len(run) > 1:
        yield _Group(tuple(send for send, _ in run), tuple(receive for _, receive in run))


class _Rewriter:
    """Pieces written anew, with the groups' messages instead of their parts."""

    def __init__(self, pieces: Pieces, role: dict[int, tuple[_Group, int]]) -> None:
        self._old, self._role = pieces, role
        self._new = Pieces(pieces.program, stage_chunks=[0] * pieces.program.n_ranks)
        self._number: dict[int, int] = {}
        """Of each old piece the new one at whose end its effect, or its reading, is over."""

    def rewritten(self) -> Pieces:
        new = self._new
        for rank, span in enumerate(self._old.rank_pieces):
            begin = len(new.operation)
            base: dict[_Group, int] = {}
            """Where the message of each group begins in this rank's stage."""
            for piece in span:
                self._write(rank, piece, base)
            new.rank_pieces.append(range(begin, len(new.operation)))
        return new

    def _write(self, rank: int, piece: int, base: dict[_Group, int]) -> None:
        old, new = self._old, self._new
        if piece not in self._role:
            self._number[piece] = self._append(piece, old.kinds[piece], self._waits(piece))
            return
        group, place = self._role[piece]
        side = group.sends if old.kinds[piece] is OperationKind.SEND else group.receives
        if group not in base:
            base[group] = new.stage_chunks[rank]
            new.stage_chunks[rank] += sum(old.count[one] for one in side)
        starts = [base[group] + sum(old.count[one] for one in side[:i]) for i in range(len(side))]
        whole, is_last = sum(old.count[one] for one in side), place == len(side) - 1
        if side is group.sends:
            self._number[piece] = self._append(
                piece, OperationKind.COPY, self._waits(piece), (-1, starts[place])
            )
            if is_last:
                copies = [self._number[one] for one in side]
                self._append(piece, OperationKind.SEND, copies, (base[group], -1), whole)
        elif is_last:
            came = self._append(piece, OperationKind.RECEIVE, [], (-1, base[group]), whole)
            for one, start in zip(side, starts, strict=True):
                self._number[one] = self._append(
                    one, OperationKind.COPY, [*self._waits(one), came], (start, -1)
                )

    def _append(
        self,
        piece: int,
        kind: OperationKind,
        waits: list[int],
        staged: tuple[int, int] = (-1, -1),
        count: int = 0,
    ) -> int:
        old = self._old
        return self._new.append(
            old.operation[piece], kind, old.first[piece], count or old.count[piece], waits, staged
        )

    def _waits(self, piece: int) -> list[int]:
        return sorted({self._number[wait] for wait in self._old.waits[piece]})
