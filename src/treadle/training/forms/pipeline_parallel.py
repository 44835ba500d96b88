"""Pipelines: layers cut into stages, and in which order a stage takes the micro-batches (1F1B, interleaved).

Narayanan et al. 2021 (Efficient Large-Scale Language Model Training, section 2.2). Stage s of p holds v
pieces of the model: s, p + s, 2p + s and so on. After a few forward passes each stage does one forward and
one backward pass in turn. With stages of equal length and free sends the pipeline stands still for (p - 1) /
(v m) of the time that m micro-batches take on a stage.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from treadle.errors import ScheduleError
from treadle.training.costs import Seconds


@dataclass(frozen=True)
class Visit:
    """A pass of a micro-batch through a piece of the model on its stage.

    Parameters
    ----------
    is_forward : bool
    micro_batch : int
    chunk : int
        Piece of the model, in order of the forward pass: on stage chunk mod p.
    """

    is_forward: bool
    micro_batch: int
    chunk: int


def stage_order(stage: int, stages: int, micro_batches: int, interleave: int = 1) -> list[Visit]:
    """What a stage does, in order.

    With one stage each micro-batch goes forward and backward before the next (gradient accumulation).

    Raises
    ------
    ScheduleError
        If the model is interleaved and the micro-batches are no multiple of the stages.
    """
    if interleave > 1 and (stages == 1 or micro_batches % stages):
        raise ScheduleError(
            f"interleave {interleave}: expected micro-batches in multiples of pp, above 1; found "
            f"{micro_batches} with pp={stages}"
        )
    total = micro_batches * interleave
    ahead = stages - 1 - stage if interleave == 1 else 2 * (stages - 1 - stage) + (interleave - 1) * stages
    ahead = min(ahead, total)
    forward = [_visit(True, k, stage, stages, interleave) for k in range(total)]
    backward = [_visit(False, k, stage, stages, interleave) for k in range(total)]
    order = forward[:ahead]
    for k in range(total - ahead):
        order += [forward[ahead + k], backward[k]]
    return order + backward[total - ahead :]


def _visit(is_forward: bool, k: int, stage: int, stages: int, interleave: int) -> Visit:
    """The k-th forward (or backward) pass: groups of `stages` micro-batches, piece after piece."""
    group, place = divmod(k, stages * interleave)
    piece, within = divmod(place, stages)
    piece = piece if is_forward else interleave - 1 - piece
    return Visit(is_forward, group * stages + within, piece * stages + stage)


def cut_layers(seconds: Sequence[Seconds], pieces: int) -> list[range]:
    """Consecutive layers of each piece, so that the longest takes as little time as possible.

    Parameters
    ----------
    seconds : sequence of numbers
        Of each layer.
    pieces : int

    Raises
    ------
    ScheduleError
        If there are more pieces than layers.

    Notes
    -----
    The longest piece is a sum of consecutive layers: a binary search over these, O(n^2 log n).

    Examples
    --------
    >>> cut_layers([1, 1, 4, 1, 1], 3)
    [range(0, 2), range(2, 3), range(3, 5)]
    """
    n = len(seconds)
    if pieces > n:
        raise ScheduleError(
            f"pipeline of {pieces} pieces (pp x interleave): the model has {n} layers; use fewer pieces"
        )
    before = [0, *accumulate(seconds)]
    sums = sorted({before[end] - before[start] for end in range(1, n + 1) for start in range(end)})
    bound = sums[bisect_left(sums, True, key=lambda most: _count(before, most) <= pieces)]
    ends: list[int] = []
    for end in range(1, n + 1):
        start = ends[-1] if ends else 0
        # A piece ends where it would get too long, or where each layer left must be a piece.
        if end == n or before[end + 1] - before[start] > bound or n - end < pieces - len(ends):
            ends.append(end)
    return [range(start, end) for start, end in zip([0, *ends], ends, strict=False)]


def _count(before: Sequence[Seconds], most: Seconds) -> int:
    """Pieces of at most so many seconds, as few as possible; more than there are layers, if one is longer."""
    count, start = 1, 0
    for end in range(1, len(before)):
        if before[end] - before[end - 1] > most:
            return len(before)
        if before[end] - before[start] > most:
            count, start = count + 1, end - 1
    return count
