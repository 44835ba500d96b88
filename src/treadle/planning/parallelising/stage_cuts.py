"""How a model's layers are cut into pipeline stages.

The stages run micro-batches one after the other (1F1B). With m micro-batches the slowest stage is passed m
times and each other one once, on the way in and out: (m - 1) * max + sum of the stages' seconds. The cut that
is best by this is found by a dynamic program over (stage, layers so far) for each value that the maximum may
have; what is reported is the timeline that `parallelism.evaluation` makes of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf


def best_cut(
    n_layers: int, n_stages: int, micro_batches: int, seconds_of: Callable[[int, int], float]
) -> tuple[int, ...] | None:
    """Layers of each stage; None where no cut is allowed.

    Parameters
    ----------
    n_layers, n_stages, micro_batches : int
    seconds_of : callable
        (stage, layers) -> seconds of a micro-batch there, forward and backward; infinity where the stage does
        not fit into memory. Of stages in the middle it is asked once: they are alike but for what they hold,
        so the answer may depend on the stage.

    Examples
    --------
    >>> best_cut(8, 2, 4, lambda stage, layers: layers + 2.0 * (stage == 1))
    (5, 3)
    """
    most = n_layers - n_stages + 1
    if most < 1:
        return None
    table = [[seconds_of(stage, layers) for layers in range(1, most + 1)] for stage in range(n_stages)]
    best: tuple[float, tuple[int, ...] | None] = (inf, None)
    for limit in sorted({value for row in table for value in row if value < inf}):
        if (micro_batches - 1) * limit >= best[0]:
            break
        found = _least_sum(table, n_layers, limit)
        if found is not None:
            longest = max(table[stage][layers - 1] for stage, layers in enumerate(found[1]))
            best = min(best, ((micro_batches - 1) * longest + found[0], found[1]))
    return best[1]


def _least_sum(
    table: Sequence[Sequence[float]], n_layers: int, limit: float
) -> tuple[float, tuple[int, ...]] | None:
    """The cut of least sum whose stages all stay within the limit."""
    reached: dict[int, tuple[float, tuple[int, ...]]] = {0: (0.0, ())}
    for row in table:
        after: dict[int, tuple[float, tuple[int, ...]]] = {}
        for done, (seconds, cut) in reached.items():
            for layers, own in enumerate(row, start=1):
                if own > limit or done + layers > n_layers:
                    continue
                total = (seconds + own, (*cut, layers))
                if done + layers not in after or total < after[done + layers]:
                    after[done + layers] = total
        reached = after
    return reached.get(n_layers)


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
    before = [0.0]
    for seconds in layers_s:
        before.append(before[-1] + seconds)
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
