"""Seconds of one run of a part, and every collective in it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from treadle.brief import brief
from treadle.parallelism.evaluation.reshardings import PricedCollective
from treadle.parallelism.graph.compute_graph import Phase


class Role(Enum):
    """Kind of moved tensor, which determines the time of moving."""

    WAIT = "wait"
    """A new result: computing waits for it."""
    SAVED = "saved"
    """A saved tensor, or one being saved: moved while the operator before computes."""
    WEIGHT = "weight"
    """Parameters, gathered ahead."""
    GRADIENT = "gradient"
    """Gradients of parameters, reduced behind the computing of each micro-batch."""
    SUM = "sum"
    """Gradients that are only added up where the parameter is stored: once, after the last micro-batch."""


@dataclass(frozen=True)
class Movement:
    """A collective of a step.

    Parameters
    ----------
    collective : Collective
        Kind, axes, bytes of a rank's larger buffer.
    count : int
        In one run of the part (chunks of a loop each have their own).
    seconds : float
        Of all of these.
    part, tensor : str
    plan : int
        Which of the part's plans.
    phase : Phase
    why : str
        The operator that takes the tensor so, or what becomes of it.
    role : Role
    reader : int
        The operator that waits for it; below 0: none.
    """

    collective: PricedCollective
    count: int
    seconds: float
    part: str
    plan: int
    tensor: str
    phase: Phase
    why: str
    role: Role = Role.WAIT
    reader: int = -1


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
    movements : tuple of Movement
    zero : int
        As `ParallelPlan.zero`.
    """

    part: str
    plan: int
    runs: int
    forward_s: float
    backward_s: float
    optimizer_s: float
    movements: tuple[Movement, ...]
    zero: int = 0

    @property
    def compute_s(self) -> float:
        """Seconds of a run, the optimizer included."""
        return self.forward_s + self.backward_s + self.optimizer_s

    @property
    def communication_s(self) -> float:
        """Seconds of a run, hidden or not."""
        return sum(map(self.moved_s, Phase))

    def moved_s(self, phase: Phase) -> float:
        """Return the seconds of communication in one phase of a run."""
        return sum(one.seconds for one in self.movements if one.phase is phase)

    def serial_s(self, micro_batches: int = 1) -> float:
        """Return the seconds of computing and of communication that it waits for, of a micro-batch."""
        waits = sum(one.seconds for one in self.movements if one.role is Role.WAIT)
        return self.forward_s + self.backward_s + self.optimizer_s / micro_batches + waits

    def overlapped_s(self, micro_batches: int = 1) -> float:
        """Return the seconds of overlapped communication, of a micro-batch."""
        share = partial_sum_fraction(self.zero, micro_batches)
        return sum(
            one.seconds * (share if one.role is Role.SUM else 1)
            for one in self.movements
            if one.role is not Role.WAIT
        )


def partial_sum_fraction(zero: int, micro_batches: int) -> float:
    """Return what each micro-batch has of an allreduce of gradients.

    It is done once in a step; with ZeRO-2 its first half, a reduce-scatter, for every micro-batch.
    """
    return (1 + micro_batches) / (2 * micro_batches) if zero == 2 else 1 / micro_batches
