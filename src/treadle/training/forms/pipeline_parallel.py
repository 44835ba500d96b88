"""Pipelines: layers cut into stages, and the order of a stage's passes (1F1B, interleaved).

Narayanan et al. 2021 (Efficient Large-Scale Language Model Training, section 2.2). Stage s of p holds v
virtual stages: s, p + s, 2p + s and so on. After a few forward passes each stage alternates between forward
and backward passes. With stages of equal length and free sends, the pipeline is idle for (p - 1) / (v m) of
the time that m micro-batches take on a stage.
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
    """A pass of a micro-batch through a virtual stage.

    Parameters
    ----------
    is_forward : bool
    micro_batch : int
    chunk : int
        Virtual stage, in order of the forward pass; it is on stage chunk mod p.
    """

    is_forward: bool
    micro_batch: int
    chunk: int


def stage_order(stage: int, stages: int, micro_batches: int, interleave: int = 1) -> list[Visit]:
    """Return the passes of a stage in order.

    With one stage each micro-batch goes forward and backward before the next (gradient accumulation). Raises
    ScheduleError if interleaved micro-batches are not a multiple of the stages.
    """
    if interleave > 1 and (stages == 1 or micro_batches % stages):
        raise ScheduleError(
            f"interleave {interleave}: expected micro-batches in multiples of pp, above 1; found "
            f"{micro_batches} with pp={stages}"
        )
    total = micro_batches * interleave
    ahead = stages - 1 - stage if interleave == 1 else 2 * (stages - 1 - stage) + (interleave - 1) * stages
    ahead = min(ahead, total)

    def visit(is_forward: bool, k: int) -> Visit:
        """Return the k-th forward (or backward) pass: groups of `stages` micro-batches per virtual stage."""
        group, place = divmod(k, stages * interleave)
        turn, within = divmod(place, stages)
        turn = turn if is_forward else interleave - 1 - turn
        return Visit(is_forward, group * stages + within, turn * stages + stage)

    forward, backward = ([visit(is_forward, k) for k in range(total)] for is_forward in (True, False))
    order = forward[:ahead]
    for pair in zip(forward[ahead:], backward, strict=False):
        order += pair
    return order + backward[total - ahead :]


def cut_layers(seconds: Sequence[Seconds], n_stages: int) -> list[range]:
    """Cut layers, given by their seconds, into virtual stages of which the longest is shortest.

    The longest is a sum of consecutive layers, so this is a binary search over such sums, O(n^2 log n).
    Raises ScheduleError if there are fewer layers than virtual stages.

    Examples
    --------
    >>> cut_layers([1, 1, 4, 1, 1], 3)
    [range(0, 2), range(2, 3), range(3, 5)]
    """
    n = len(seconds)
    if n_stages > n:
        raise ScheduleError(
            f"pipeline of {n_stages} virtual stages (pp x interleave): the model has {n} layers; use fewer"
        )
    before = [0, *accumulate(seconds)]
    sums = sorted({before[end] - before[start] for end in range(1, n + 1) for start in range(end)})
    bound = sums[bisect_left(sums, True, key=lambda most: _count(before, most) <= n_stages)]
    ends: list[int] = []
    for end in range(1, n + 1):
        start = ends[-1] if ends else 0
        # a virtual stage ends where it would get too long, or if each layer left must be one
        if end == n or before[end + 1] - before[start] > bound or n - end < n_stages - len(ends):
            ends.append(end)
    return [range(start, end) for start, end in zip([0, *ends], ends, strict=False)]


def _count(before: Sequence[Seconds], most: Seconds) -> int:
    """Return the fewest stages of at most `most` seconds; more than there are layers if one is longer."""
    count, start = 1, 0
    for end in range(1, len(before)):
        if before[end] - before[end - 1] > most:
            return len(before)
        if before[end] - before[start] > most:
            count, start = count + 1, end - 1
    return count
