"""Seconds of a step in pipeline stages, one forward, one backward (1F1B).

A stage runs some forward passes, one for each stage after it, then alternates, then runs the backward passes
that are left. Each pass waits for the one before it on its stage and for what the neighbour sends. All
communication of a layer happens for every micro-batch; the optimizer runs once, after them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from treadle.parallelism.evaluation.part_times import PartTimes
from treadle.parallelism.plan.parallel_plan import ParallelPlan
from treadle.training.costs import Costs


@dataclass(frozen=True)
class StageTimes:
    """Seconds of a stage.

    Parameters
    ----------
    forward_s, backward_s : float
        Of a micro-batch, exposed communication among it.
    after_s : float
        Of the optimizer.
    compute_s : float
        Of a micro-batch, what is exposed left out.
    """

    forward_s: float
    backward_s: float
    after_s: float
    compute_s: float


@dataclass(frozen=True)
class PipelineTimes:
    """A step in stages.

    Parameters
    ----------
    seconds : float
        From the first pass to the last optimizer's end.
    stages : tuple of StageTimes
    micro_batches : int
    send_s : float
        Of a micro-batch's activations, or their gradient, to the neighbour.
    """

    seconds: float
    stages: tuple[StageTimes, ...]
    micro_batches: int
    send_s: float

    @property
    def busiest_compute_s(self) -> float:
        """Compute of the stage that has most of it."""
        return max(self.micro_batches * one.compute_s + one.after_s for one in self.stages)


def pipelined(
    plan: ParallelPlan,
    layers: Sequence[PartTimes],
    switches: Sequence[float],
    costs: Costs,
    overlap: str,
    *,
    sent_bytes: int,
) -> PipelineTimes:
    """The times of a plan with a pipeline.

    Parameters
    ----------
    plan : ParallelPlan
    layers : sequence of PartTimes
        In the model's order.
    switches : sequence of float
        Seconds between each two layers whose boundary states differ.
    costs : Costs
    overlap : str
        ``model``: over the whole stage.
    sent_bytes : int
        Of a micro-batch's activations at a rank.
    """
    pipeline = plan.pipeline
    assert pipeline is not None
    stages, start = [], 0
    for count in pipeline.layers:
        stages.append(_stage(layers[start : start + count], switches[start : start + count - 1], overlap))
        start += count
    send_s = float(costs.send_s(pipeline.axis, sent_bytes))
    return PipelineTimes(
        one_f_one_b(stages, pipeline.micro_batches, send_s), tuple(stages), pipeline.micro_batches, send_s
    )


def _stage(layers: Sequence[PartTimes], switches: Sequence[float], overlap: str) -> StageTimes:
    forward = sum(one.forward_s for one in layers)
    backward = sum(one.backward_s for one in layers)
    moved_forward = sum(one.forward_moved_s for one in layers) + sum(switches) / 2
    moved_backward = sum(one.backward_moved_s for one in layers) + sum(switches) / 2
    moved = moved_forward + moved_backward
    if overlap == "none":
        exposed = moved
    elif overlap == "model":
        exposed = max(0.0, moved - forward - backward)
    else:
        exposed = sum(switches) + sum(
            max(0.0, one.forward_moved_s + one.backward_moved_s - one.forward_s - one.backward_s)
            for one in layers
        )
    share = moved_forward / moved if moved else 0.0  # what is exposed, by where it is moved
    return StageTimes(
        forward + exposed * share,
        backward + exposed * (1 - share),
        sum(one.optimizer_s for one in layers),
        forward + backward,
    )


def one_f_one_b(stages: Sequence[StageTimes], micro_batches: int, send_s: float) -> float:
    """Seconds until the last stage is through.

    Examples
    --------
    >>> one_f_one_b([StageTimes(1.0, 2.0, 0.0, 3.0)] * 4, 8, 0.0)
    33.0
    """
    ends: dict[tuple[int, bool, int], float] = {}
    queues = [list(_order(at, len(stages), micro_batches)) for at in range(len(stages))]
    free = [0.0] * len(stages)
    while any(queues):
        for at, queue in enumerate(queues):
            while queue:
                is_forward, batch = queue[0]
                giver = at - 1 if is_forward else at + 1
                given = 0.0
                if 0 <= giver < len(stages):
                    if (giver, is_forward, batch) not in ends:
                        break
                    given = ends[giver, is_forward, batch] + send_s
                seconds = stages[at].forward_s if is_forward else stages[at].backward_s
                free[at] = max(free[at], given) + seconds
                ends[at, is_forward, batch] = free[at]
                queue.pop(0)
    return max(end + stage.after_s for end, stage in zip(free, stages, strict=True))


def _order(stage: int, n_stages: int, micro_batches: int) -> Iterator[tuple[bool, int]]:
    """Passes of a stage: (whether forward, micro-batch)."""
    early = min(n_stages - stage - 1, micro_batches)
    for batch in range(early):
        yield True, batch
    for batch in range(early, micro_batches):
        yield True, batch
        yield False, batch - early
    for batch in range(micro_batches - early, micro_batches):
        yield False, batch
