"""The independent evaluator's prediction of an execution."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter
from zlib import crc32

from treadle.brief import brief
from treadle.parallelism.evaluation.evaluation import evaluate
from treadle.parallelism.evaluation.node_work import DeviceNumbers
from treadle.parallelism.execution.execute import RankExecutions
from treadle.parallelism.execution.rank_step import RankTask
from treadle.parallelism.execution.run_comparison import CollectiveKey
from treadle.parallelism.plan.fit import stored_inputs
from treadle.schedules.collective import CollectiveKind
from treadle.training.costs import DerivedCosts, Seconds
from treadle.unsupported import Unsupported

LARGEST_ERROR = 1e-6
"""Error of outputs and gradients, relative to the largest number of each."""
_ROUNDINGS = 16
"""In the last digit, that sums in another order may differ by."""


@brief("n_collectives", "peak_bytes", "peak_at")
@dataclass(frozen=True)
class Prediction:
    """Predicted work of ranks.

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
    """Predict the collectives and the fullest moment of a task by `evaluation`.

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
    numbers = DeviceNumbers(1.0, 1.0, stored_bytes=stored_bytes, spread_bytes=(0, 0, 0))
    found = evaluate(task.plan, task.model, task.costs, numbers)
    held = _input_bytes(task)
    n_bytes, peak = max(((one.n_bytes + held[one.part], one) for one in found.moments), key=itemgetter(0))
    return Prediction(found.collectives, n_bytes, f"{peak.phase.value} {peak.part} {peak.node}")


def _input_bytes(task: RankTask) -> dict[str, int]:
    """Return the inputs and buffers of each part that `evaluation` leaves out."""
    sizes, found, held = task.plan.sizes, dict[str, int](), 0
    for part, run in task.model.runs():
        states = task.plan.plan_of(part.name, run).inputs
        for name, tensor in stored_inputs(part).items():
            held += part.graph.nbytes(tensor) // states[name].n_shards(sizes)
        found[part.name] = held
    return found


def tolerance(execution: RankExecutions) -> float:
    """Return the largest error that is not a fault; it is larger where the numbers are coarser."""
    return max(LARGEST_ERROR, _ROUNDINGS * execution.precision)


def disagreements(execution: RankExecutions, prediction: Prediction) -> Iterator[Unsupported]:
    """Yield the differences of an execution from one device, or from the prediction."""
    most = tolerance(execution)
    for name, error in execution.errors.items():
        if not error <= most:
            yield Unsupported(f"off by {error:.1e} of its largest number; expected {most:.2g}", name)
    for key in {**execution.collectives, **prediction.collectives}:
        called, expected = execution.collectives.get(key, 0), prediction.collectives.get(key, 0)
        if called != expected:
            kind, axes, size = key
            where = f"{kind.value} of {size} bytes along {','.join(axes)}"
            yield Unsupported(f"called {called} times; predicted {expected}", where)


_LEAST = 1e-6
"""Share of a collective's seconds by which those of other kinds and axes differ at most."""


class UntiedCosts(DerivedCosts):
    """Costs, each kind along each axes increased by less than a millionth, to break ties."""

    def time_s(self, kind: CollectiveKind, axes: tuple[str, ...], size_bytes: int) -> Seconds:
        """Return the seconds of a collective."""
        more = _LEAST * crc32(f"{kind.value} {','.join(axes)}".encode()) / 2**32
        return float(self.costs.time_s(kind, axes, size_bytes)) * (1 + more)
