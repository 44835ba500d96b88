"""How a model's layers are cut into pipeline stages.

The stages run micro-batches one after the other (1F1B). With m micro-batches the slowest stage is passed m
times and each other one once, on the way in and out: (m - 1) * max + sum of the stages' seconds. The sum is
that of all layers, so the best cut by this has the least maximum; of those the evenest is taken. What is
reported is the timeline that `parallelism.evaluation` makes of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import inf

_ROUNDING = 1e-9
"""Of sums of layers, relative."""


def best_cut(layers_s: Sequence[float], n_stages: int) -> tuple[int, ...] | None:
    """Layers of each stage; None where there are more stages than layers.

    Parameters
    ----------
    layers_s : sequence of float
        Seconds of each layer for one micro-batch, forward and backward.
    n_stages : int

    Examples
    --------
    >>> best_cut([1.0] * 7 + [3.0], 2)
    (5, 3)
    """
    before = [0.0, *accumulate(layers_s)]
    least: list[float] = [0.0, *[inf] * len(layers_s)]
    for _ in range(n_stages):
        least = [
            min((max(least[start], done - before[start]) for start in range(end)), default=inf)
            for end, done in enumerate(before)
        ]
    if least[-1] == inf:
        return None
    limit = least[-1] * (1 + _ROUNDING)
    evenest: list[tuple[float, tuple[int, ...]]] = [(0.0, ()), *[(inf, ())] * len(layers_s)]
    for _ in range(n_stages):
        evenest = [
            min(
                (
                    (evenest[start][0] + (done - before[start]) ** 2, (*evenest[start][1], end - start))
                    for start in range(end)
                    if done - before[start] <= limit
                ),
                default=(inf, ()),
            )
            for end, done in enumerate(before)
        ]
    return evenest[-1][1]


def least_pipeline_s(seconds: float, n_stages: int, micro_batches: int) -> float:
    """What no cut into stages undercuts: seconds of all micro-batches one forward, one backward.

    Parameters
    ----------
    seconds : float
        That all stages together take for one micro-batch, at least.
    n_stages, micro_batches : int

    Notes
    -----
    The first forward pass reaches stage k when the stages before it have done theirs, and after the stage's
    last backward pass these have one more to do: a step of B takes m t_k + (t_1 + ... + t_(k-1)) or more.
    So the first k stages have at most S_k = S_(k-1) + (B - S_(k-1)) / m seconds of a micro-batch, which
    sums up to B (1 - (1 - 1/m)^k).

    Examples
    --------
    >>> least_pipeline_s(4.0, 1, 8)
    32.0
    """
    return seconds / (1 - (1 - 1 / micro_batches) ** n_stages)


def least_of_cuts(layers_s: Sequence[float], n_stages: int, micro_batches: int) -> float:
    """What no cut of these layers undercuts: a layer lies in one stage as a whole.

    Parameters
    ----------
    layers_s : sequence of float
        Seconds of each layer for one micro-batch, at least.
    n_stages, micro_batches : int

    Notes
    -----
    A step takes m t_k + (t_1 + ... + t_(k-1)) or more for every stage k, as in `least_pipeline_s`, and what
    lies before a stage is the same however it is cut.

    Examples
    --------
    >>> least_of_cuts([1.0, 1.0, 3.0], 2, 4)
    14.0
    """
    before = [0.0, *accumulate(layers_s)]
    least = [inf, *(micro_batches * done for done in before[1:])]
    for _ in range(n_stages - 1):
        least = [
            min(
                (
                    max(least[start], micro_batches * (done - before[start]) + before[start])
                    for start in range(end)
                ),
                default=inf,
            )
            for end, done in enumerate(before)
        ]
    return least[-1]
