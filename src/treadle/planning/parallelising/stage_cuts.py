"""How a model's layers are cut into pipeline stages, and what the pipeline then takes (1F1B).

The stages run micro-batches one after the other, as `training.forms.pipeline_parallel` orders them. With m
micro-batches the slowest stage is passed m times and each other one once, on the way in and out: (m - 1) *
max + sum of the stages' seconds. The cut that is best by this is found by a dynamic program over (stage,
layers so far) for each value that the maximum may have; what is reported is the timeline of that cut, with
sends between the stages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

from treadle.training.forms.pipeline_parallel import Visit, stage_order
from treadle.training.timeline.streams import run_tasks
from treadle.training.timeline.task import COMPUTE_STREAM, Category, Task

_SENDS = "send"


@dataclass(frozen=True)
class StagePass:
    """What a stage takes for one micro-batch.

    Parameters
    ----------
    forward_s, backward_s : float
        What the stage's own communication leaves exposed included.
    after_s : float
        Once a step, when all micro-batches are through: the optimizer, and what gradients wait for.
    """

    forward_s: float
    backward_s: float
    after_s: float = 0.0

    @property
    def seconds(self) -> float:
        """Forward and backward."""
        return self.forward_s + self.backward_s


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


def pipeline_seconds(stages: Sequence[StagePass], micro_batches: int, send_s: float = 0.0) -> float:
    """Seconds of a step through all stages, 1F1B.

    Parameters
    ----------
    stages : sequence of StagePass
    micro_batches : int
    send_s : float
        Of a micro-batch's activations, or of their gradient, to the next stage; sends run beside computing.

    Examples
    --------
    >>> pipeline_seconds([StagePass(1.0, 2.0)] * 4, 8)
    33.0
    """
    tasks: list[Task] = []
    place: dict[tuple[int, Visit], int] = {}
    todo = [stage_order(stage, len(stages), micro_batches) for stage in range(len(stages))]
    at = [0] * len(stages)
    while any(at[stage] < len(order) for stage, order in enumerate(todo)):
        for stage, order in enumerate(todo):
            while at[stage] < len(order) and _is_ready(place, stage, order[at[stage]], len(stages)):
                _add(tasks, place, stage, order[at[stage]], stages, send_s)
                at[stage] += 1
    for stage, own in enumerate(stages):
        if own.after_s:
            tasks.append(Task("update", stage, COMPUTE_STREAM, own.after_s, (), Category.OPTIMIZER))
    return float(run_tasks(tasks).total_s)


def _source(stage: int, visit: Visit, n_stages: int) -> tuple[int, Visit] | None:
    """Where a visit's input comes from: the stage before, or in the backward pass the one after."""
    before = stage - 1 if visit.is_forward else stage + 1
    if not 0 <= before < n_stages:
        return None
    return before, Visit(visit.is_forward, visit.micro_batch, before)


def _is_ready(place: dict[tuple[int, Visit], int], stage: int, visit: Visit, n_stages: int) -> bool:
    source = _source(stage, visit, n_stages)
    return source is None or source in place


def _add(
    tasks: list[Task],
    place: dict[tuple[int, Visit], int],
    stage: int,
    visit: Visit,
    stages: Sequence[StagePass],
    send_s: float,
) -> None:
    """A pass of a micro-batch, behind the send that brings its input."""
    source = _source(stage, visit, len(stages))
    waits: tuple[int, ...] = ()
    if source is not None:
        waits = (place[source],)
        if send_s:
            tasks.append(Task("send", source[0], _SENDS, send_s, waits, Category.SEND))
            waits = (len(tasks) - 1,)
    own = stages[stage]
    seconds = own.forward_s if visit.is_forward else own.backward_s
    kind = Category.FORWARD if visit.is_forward else Category.BACKWARD
    place[stage, visit] = len(tasks)
    tasks.append(Task(f"{kind} {visit.micro_batch}", stage, COMPUTE_STREAM, seconds, waits, kind))
