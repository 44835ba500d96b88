"""What the independent evaluator says of a plan, in the terms of an execution."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from treadle.brief import brief
from treadle.parallelism.evaluation.evaluation import evaluate
from treadle.parallelism.evaluation.node_work import DeviceNumbers
from treadle.parallelism.execution.execute import RankExecutions
from treadle.parallelism.execution.rank_step import RankTask
from treadle.parallelism.execution.run_comparison import CollectiveKey
from treadle.parallelism.plan.fit import stored_inputs
from treadle.refusal import Refusal

LARGEST_ERROR = 1e-6
"""Of outputs and gradients, over the largest number of each."""
_ROUNDINGS = 16
"""In the last digit, that sums in another order may differ by."""


@brief("n_collectives", "peak_bytes", "peak_at")
@dataclass(frozen=True)
class Prediction:
    """What ranks should do.

    Parameters
    ----------
    collectives : mapping from (kind, axes, bytes) to int
    peak_bytes : int
        As `RankExecutions.peak_bytes` counts.
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
    given = _input_bytes(task)
    held, peak = max(
        ((one.n_bytes + given[one.part], one) for one in found.moments), key=lambda pair: pair[0]
    )
    return Prediction(dict(collectives), held, f"{peak.phase.value} {peak.part} {peak.node}")


def _input_bytes(task: RankTask) -> dict[str, int]:
    """By part the inputs and buffers that a rank holds while its last layer runs; `evaluation` has none."""
    sizes, found, held = task.plan.sizes, dict[str, int](), 0
    counts: Counter[str] = Counter()
    for at in task.model.order:
        part = task.model.parts[at]
        states = task.plan.plan_of(part.name, counts[part.name]).inputs
        counts[part.name] += 1
        for name, tensor in stored_inputs(part).items():
            held += part.graph.nbytes(tensor) // prod(sizes[axis] for axis in states[name].axes)
        found[part.name] = held
    return found


def tolerance(execution: RankExecutions) -> float:
    """The largest error that is no fault: `LARGEST_ERROR`, or more where the numbers are coarser."""
    return max(LARGEST_ERROR, _ROUNDINGS * execution.precision)


def disagreements(execution: RankExecutions, prediction: Prediction) -> Iterator[Refusal]:
    """Where an execution went another way than one device, or than predicted; nothing if all is well."""
    most = tolerance(execution)
    for name, error in execution.errors.items():
        if not error <= most:
            yield Refusal(f"off by {error:.1e} of its largest number; expected {most:.2g}", name)
    keys = {**execution.collectives, **prediction.collectives}
    for key in keys:
        called, expected = execution.collectives.get(key, 0), prediction.collectives.get(key, 0)
        if called != expected:
            kind, axes, size = key
            where = f"{kind.value} of {size} bytes along {','.join(axes)}"
            yield Refusal(f"called {called} times; predicted {expected}", where)
