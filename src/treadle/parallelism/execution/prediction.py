"""What the independent evaluator says of a plan, in the terms of an execution."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from treadle.brief import brief
from treadle.parallelism.evaluation.evaluation import evaluate
from treadle.parallelism.evaluation.node_work import DeviceNumbers
from treadle.parallelism.execution.execute import RankExecutions
from treadle.parallelism.execution.rank_step import RankTask
from treadle.parallelism.execution.run_comparison import CollectiveKey
from treadle.refusal import Refusal

LARGEST_ERROR = 1e-6
"""Of outputs and gradients, over the largest number of each."""


@brief("n_collectives", "peak_bytes", "peak_at")
@dataclass(frozen=True)
class Prediction:
    """What ranks should do.

    Parameters
    ----------
    collectives : mapping from (kind, axes, bytes) to int
    peak_bytes : int
        As `RankExecutions.peak_bytes` counts, but for inputs of the model.
    peak_at : str
    """

    collectives: Mapping[CollectiveKey, int]
    peak_bytes: int
    peak_at: str

    @property
    def n_collectives(self) -> int:
        """Calls of each rank."""
        return sum(self.collectives.values())


def predicted(task: RankTask) -> Prediction:
    """The collectives and the fullest moment of a task by `evaluation`.

    Raises
    ------
    ScheduleError
        If the plan is illegal.
    """
    parameters = [
        part.graph.result(tensor) for part in task.model.parts for tensor in part.parameters.values()
    ]
    stored_bytes = max((one.element_bytes for one in parameters), default=0)
    # rates decide nothing here: neither collectives nor memory hang on them
    numbers = DeviceNumbers(1.0, 1.0, stored_bytes=stored_bytes)
    found = evaluate(task.plan, task.model, task.costs, numbers)
    collectives: Counter[CollectiveKey] = Counter()
    for runs, movement in found.movements:
        one = movement.collective
        collectives[one.kind, one.axes, one.size_bytes] += runs * movement.count
    peak = found.peak
    return Prediction(dict(collectives), peak.n_bytes, f"{peak.phase.value} {peak.part} {peak.node}")


def disagreements(execution: RankExecutions, prediction: Prediction) -> Iterator[Refusal]:
    """Where an execution went another way than one device, or than predicted; nothing if all is well."""
    for name, error in execution.errors.items():
        if not error <= LARGEST_ERROR:
            yield Refusal(f"off by {error:.1e} of its largest number; expected {LARGEST_ERROR:g}", name)
    keys = {**execution.collectives, **prediction.collectives}
    for key in keys:
        called, expected = execution.collectives.get(key, 0), prediction.collectives.get(key, 0)
        if called != expected:
            kind, axes, size = key
            where = f"{kind.value} of {size} bytes along {','.join(axes)}"
            yield Refusal(f"called {called} times; predicted {expected}", where)
