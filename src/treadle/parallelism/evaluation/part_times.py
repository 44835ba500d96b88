"""Seconds of one run of a part, and every collective in it."""

from __future__ import annotations

from dataclasses import dataclass

from treadle.brief import brief
from treadle.parallelism.evaluation.passages import PricedCollective
from treadle.parallelism.graph.compute_graph import Phase


@dataclass(frozen=True)
class Movement:
    """A collective of a step.

    Parameters
    ----------
    collective : Collective
        Kind, axes, bytes of a rank's larger buffer.
    count : int
        In one run of the part (chunks of a loop each have theirs).
    seconds : float
        Of all of these.
    part, tensor : str
    plan : int
        Which of the part's plans.
    phase : Phase
    why : str
        The operator that takes the tensor so, or what becomes of it.
    """

    collective: PricedCollective
    count: int
    seconds: float
    part: str
    plan: int
    tensor: str
    phase: Phase
    why: str


@brief("part", "plan", "runs", "compute_s", "communication_s")
@dataclass(frozen=True)
class PartTimes:
    """Seconds of a part under one of its plans.

    Parameters
    ----------
    part : str
    plan : int
        Its place among the part's plans.
    runs : int
        Runs of it in a step (of one micro-batch).
    forward_s, backward_s : float
        Compute of a run; recomputed operators in the second, without the optimizer.
    optimizer_s : float
        Of a run's parameters.
    forward_moved_s, backward_moved_s : float
        Communication of a run.
    movements : tuple of Movement
    """

    part: str
    plan: int
    runs: int
    forward_s: float
    backward_s: float
    optimizer_s: float
    forward_moved_s: float
    backward_moved_s: float
    movements: tuple[Movement, ...]

    @property
    def compute_s(self) -> float:
        """Of a run, the optimizer included."""
        return self.forward_s + self.backward_s + self.optimizer_s

    @property
    def communication_s(self) -> float:
        """Of a run."""
        return self.forward_moved_s + self.backward_moved_s

    @property
    def exposed_s(self) -> float:
        """Communication of a run that no compute of it hides."""
        return max(0.0, self.communication_s - self.compute_s)
