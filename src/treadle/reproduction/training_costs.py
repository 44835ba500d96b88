"""Costs of communication as the dissertation's training figures have them (3.3.2, A.1.2, A.1.4, A.1.5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from treadle.errors import ScheduleError
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.training.compute_times import RooflineTimes
from treadle.training.costs import Costs, Traffic
from treadle.training.devices import accelerator
from treadle.training.models.training_model import TrainingModel
from treadle.training.step import StepOutcome, TrainingSetup, simulate_step
from treadle.training.training_options import TrainingOptions

GIGABIT = 10**9 // 8
"""Bytes."""


@dataclass(frozen=True)
class DirectConnectCosts:
    """Costs on a fabric of degree 4: an allreduce takes 2 (T_L + T_B), an all-to-all is a flow.

    Parameters
    ----------
    summary : str
        The fabric.
    nodes : int
    steps : int
        T_L / alpha of an allgather.
    t_b : Fraction
        T_B of an allgather, in M/B.
    alpha_s : float
        Of a step.
    bytes_per_s : float
        B: of a node's four links together.
    exchange : float
        f, in link bandwidths: rate of a concurrent all-to-all. 0: not needed.
    overhead_s : float
        Epsilon of A.1.2, once for each collective.
    is_bound : bool
        No fabric is quicker.
    """

    summary: str
    nodes: int
    steps: int
    t_b: Fraction
    alpha_s: float
    bytes_per_s: float
    exchange: float = 0.0
    overhead_s: float = 0.0
    is_bound: bool = False

    def time_s(self, kind: CollectiveKind, axes: tuple[str, ...], size_bytes: int) -> float:
        """Return the seconds of an allreduce or all-to-all over all nodes."""
        if size_bytes == 0:
            return 0.0
        if kind is CollectiveKind.ALLREDUCE:
            transfer_s = float(self.t_b) * size_bytes / self.bytes_per_s
            return 2 * (self.steps * self.alpha_s + transfer_s) + self.overhead_s
        if kind is CollectiveKind.ALLTOALL and self.exchange:
            return size_bytes / self.nodes / (self.exchange * self.bytes_per_s / 4) + self.overhead_s
        raise ScheduleError(f"{self.summary}: no price of {kind.value} over {', '.join(axes)}")

    def send_s(self, axis: str, size_bytes: int) -> float:
        """Reject sends: these figures have no pipelines."""
        raise ScheduleError(f"{self.summary}: no price of {size_bytes} bytes along {axis}")

    def slowdowns(self, running: tuple[Traffic, ...]) -> tuple[float, ...]:
        """Return no slowdown: one collective runs at a time."""
        return (1.0,) * len(running)


def roofline_step(
    model: TrainingModel,
    axes: Mapping[str, int],
    costs: Costs,
    options: TrainingOptions,
    sequences: int,
    tokens: Mapping[str, int],
    *,
    device: str,
    efficiency: float,
    precision: str = "bf16",
    memory_efficiency: float | None = None,
) -> StepOutcome:
    """Simulate a step with roofline compute times; `axes` has the ranks along each axis of the mesh."""
    found = accelerator(device)
    times = RooflineTimes(found, precision, efficiency, memory_efficiency)
    mesh = Mesh(tuple(axes.values()), tuple(axes))
    setup = TrainingSetup(model, mesh, found, precision, times, sequences, tokens, options)
    return simulate_step(setup, costs)
