"""Simulated times beside those of a simulator by others, which shares no code with ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from treadle.brief import brief
from treadle.context import Context, Progress
from treadle.errors import MemoryLimitError
from treadle.inputs.verification import require_verified
from treadle.program.plan_programs import programs_of
from treadle.schedules.plan import Plan
from treadle.simulation.cost_models import step_alpha_ns
from treadle.simulation.simgrid import find_simgrid, simulate_with_simgrid
from treadle.simulation.simulate import simulate_graph
from treadle.simulation.simulation_options import Sharing, SimulationOptions
from treadle.simulation.tasks import task_graph
from treadle.units import format_size

_MOST_BYTES = 2**30
"""Buffers of all ranks together: SimGrid's processes hold and move real data, in one memory."""


class CrossCheck(StrEnum):
    """Simulators by others, spelt as on the command line.

    Examples
    --------
    >>> from treadle import planning
    >>> [one.value for one in planning.CrossCheck]
    ['simgrid']
    """

    SIMGRID = "simgrid"


@brief("size_bytes", "referee_s", "own_s", "wrong")
@dataclass(frozen=True)
class CrossCheckRow:
    """A size by both simulators, each message whole, links shared fairly.

    Parameters
    ----------
    size_bytes : int
        The larger per-rank buffer, in whole elements of 4 bytes.
    referee_s, own_s : float
        Seconds of the slowest rank, by the referee and by ours.
    wrong : int
        Elements that are wrong after the referee has moved them.
    alpha_ns : int
        Latency of every message that both count, on top of the links'.

    Examples
    --------
    >>> from treadle import planning
    >>> row = planning.CrossCheckRow(2**20, referee_s=1.00e-4, own_s=1.02e-4, wrong=0, alpha_ns=10_000)
    >>> f"{row.difference:+.1%}"
    '+2.0%'
    """

    size_bytes: int
    referee_s: float
    own_s: float
    wrong: int
    alpha_ns: int

    @property
    def difference(self) -> float:
        """Ours over the referee's, less one; 0 where both take no time."""
        return self.own_s / self.referee_s - 1 if self.referee_s else self.own_s


def require_cross_check(referee: CrossCheck, n_ranks: int, sizes: Sequence[int]) -> None:
    """Refuse at once what a referee cannot judge.

    Raises
    ------
    MissingDependencyError
        If it is not installed.
    MemoryLimitError
        If the data would not fit.

    Examples
    --------
    >>> from treadle import errors, planning
    >>> try:
    ...     planning.require_cross_check(planning.CrossCheck.SIMGRID, 4096, [2**40])
    ... except errors.TreadleError as error:
    ...     print(type(error).__name__)
    MemoryLimitError
    """
    assert referee is CrossCheck.SIMGRID
    find_simgrid()
    largest = max(sizes, default=0)
    if n_ranks * largest > _MOST_BYTES:
        raise MemoryLimitError(
            f"{referee}: moves real data, and {n_ranks} ranks with {format_size(largest)} each are more than "
            f"{format_size(_MOST_BYTES)}; expected sizes up to {format_size(_MOST_BYTES // n_ranks)} (--size)"
        )


def run_cross_check(
    plan: Plan,
    sizes: Sequence[int],
    *,
    referee: CrossCheck = CrossCheck.SIMGRID,
    alpha_ns: int | None = None,
    progress: Progress | None = None,
) -> tuple[CrossCheckRow, ...]:
    """Simulate a plan by another simulator too, and ours under the assumptions that both know.

    Parameters
    ----------
    plan : Plan
    sizes : sequence of int
        Bytes of the larger per-rank buffer.
    referee : Referee
    alpha_ns : int, optional
        Latency of every message on top of the links'; default what the dearest class of the fabric's links
        costs by its `default_cost_model`.
    progress : callable, optional

    Raises
    ------
    MissingDependencyError
        Without SimGrid or a C compiler.
    MemoryLimitError
        If the data would not fit.
    InfeasibleError
        If SimGrid cannot express the plan: several paths between two ranks, in-network copies and sums.
    UnverifiedPlanError
        If the plan's schedules or claims are false.

    Examples
    --------
    >>> import treadle
    >>> plan = treadle.solve("ring(4, bandwidth='25GB/s')", "allgather").plan
    >>> treadle.planning.run_cross_check(plan, [2**20])
    (<CrossCheckRow 1MB size, 1.88e-05 s referee, 1.88e-05 s own, wrong 0>,)
    """
    require_cross_check(referee, plan.collective.n_ranks, sizes)
    require_verified(plan)
    alpha = step_alpha_ns(plan.topology) if alpha_ns is None else alpha_ns
    options = SimulationOptions(alpha_ns=alpha, sharing=Sharing.FAIR)
    rows: dict[int, CrossCheckRow] = {}
    for entry in plan.entries:
        served = [place for place, size in enumerate(sizes) if plan.schedule_for(size) is entry.schedule]
        if not served:
            continue
        Context(progress).announce(str(referee))
        programs = programs_of(plan, sizes[served[0]])
        found = simulate_with_simgrid(
            plan.topology, programs, [sizes[place] for place in served], alpha_ns=alpha
        )
        graph = task_graph(plan.topology, programs.lists)
        for place, row in zip(served, found, strict=True):
            own = simulate_graph(graph, row.size_bytes, options)
            rows[place] = CrossCheckRow(row.size_bytes, row.time_s, own.time_s, row.wrong, alpha)
    return tuple(rows[place] for place in sorted(rows))
