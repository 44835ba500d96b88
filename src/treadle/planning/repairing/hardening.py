"""Plans for failures that have not happened yet: one for each cable or node that may fail."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from time import monotonic

from treadle.brief import brief
from treadle.checking import checked
from treadle.errors import InfeasibleError, ScheduleError
from treadle.planning.fabrics_and_plans import PlanLike, as_plan
from treadle.planning.repairing.repair import RepairResult, check_repairable, forwarding, repair
from treadle.schedules.plan import Plan
from treadle.synthesis.parallel import map_blocks, runs_apart
from treadle.topologies.topology import Topology
from treadle.watch import Progress, Watch

_BATCH = 64
"""Failures that workers are given at once, so that not all plans are in memory together."""


class Failures(StrEnum):
    """What may fail: a cable (a link and the one back), a node (GPU, NIC or switch), or either.

    Examples
    --------
    >>> import treadle
    >>> from treadle.planning import Failures
    >>> rows = treadle.harden(treadle.solve("ring:4", "allgather"), which=Failures.NODES)
    >>> [(row.failure.name, float(row.loss)) for row in rows][:2]
    [('n0', 0.5), ('n1', 0.5)]
    """

    CABLES = "cables"
    NODES = "nodes"
    ALL = "all"


@dataclass(frozen=True)
class Failure:
    """One thing that fails.

    Parameters
    ----------
    name : str
        A node, or a cable as `repair` takes it: ``one--other``, ``tail->head`` where there is no way back.
    is_node : bool
    """

    name: str
    is_node: bool


@brief("failure.name", "loss", "refusal", "is_late")
@dataclass(frozen=True)
class HardenedRow:
    """What one failure leaves.

    Parameters
    ----------
    failure : Failure
    result : RepairResult, optional
        With the new plan, verified; None if there is none.
    refusal : str
        Why there is none, else "": ranks are cut off, the root is gone.
    is_late : bool
        Time ran out before its turn.

    Examples
    --------
    >>> import treadle
    >>> row = next(treadle.harden(treadle.solve("ring:4", "allgather")))
    >>> row.failure.name, float(row.loss), row.result.new.algbw
    ('n0--n1', 0.5, Fraction(4, 3))
    """

    failure: Failure
    result: RepairResult | None = None
    refusal: str = ""
    is_late: bool = False

    @property
    def loss(self) -> Fraction | None:
        """Share of the optimum that is lost, of the plan's throughput where no optimum is known; of busbw."""
        if self.result is None:
            return None
        lost = self.result.optimum_loss
        return self.result.throughput_loss if lost is None else lost


def single_failures(topology: Topology, which: Failures) -> tuple[Failure, ...]:
    """Everything of a kind that may fail by itself, cables first, in the order of the fabric.

    Examples
    --------
    >>> from treadle.topologies import parse
    >>> [one.name for one in single_failures(parse("star(3)"), Failures.ALL)]
    ['n0--n1', 'n0--n2', 'n0', 'n1', 'n2']
    """
    names = topology.node_names
    ends = list(zip(topology.tails.tolist(), topology.heads.tolist(), strict=True))
    present, found = set(ends), []
    if which is not Failures.NODES:
        for tail, head in dict.fromkeys(ends):
            if tail == head or ((head, tail) in present and tail > head):
                continue  # a self-loop carries nothing; the other direction stands for both
            arrow = "--" if (head, tail) in present else "->"
            found.append(Failure(f"{names[tail]}{arrow}{names[head]}", is_node=False))
    if which is not Failures.CABLES:
        found += [Failure(name, is_node=True) for name in names]
    return tuple(found)


@checked()
def harden(
    plan: PlanLike,
    *,
    which: Failures | str = Failures.CABLES,
    trim: bool = False,
    forward: bool = False,
    time_limit_s: float | None = None,
    progress: Progress | None = None,
) -> Iterator[HardenedRow]:
    """A plan for each single failure of a plan's fabric, as `repair` makes it.

    Parameters
    ----------
    plan : Plan
    which : Failures
        What may fail.
    trim, forward
        As in `repair`.
    time_limit_s : float, optional
        Seconds for all together; failures that do not get their turn are yielded as late.
    progress : callable, optional

    Yields
    ------
    HardenedRow
        In the order of `single_failures`. A plan can be written and dropped before the next is made.

    Raises
    ------
    ScheduleError
        If the plan's witness does not hold, or `forward` is asked of a plan of one group.

    Examples
    --------
    >>> import treadle
    >>> rows = list(treadle.harden(treadle.solve("ring:4", "allgather")))
    >>> [(row.failure.name, float(row.loss)) for row in rows][:2]
    [('n0--n1', 0.5), ('n1--n2', 0.5)]
    """
    plan = as_plan(plan, "harden: plan")
    watch = Watch(progress, None if time_limit_s is None else monotonic() + time_limit_s)
    check_repairable(plan)
    if forward:
        forwarding(plan.collective)
    failures = single_failures(plan.topology, Failures(which))
    at_once = _BATCH if runs_apart() else 1
    for first in range(0, len(failures), at_once):
        watch.announce(f"failure {first + 1} of {len(failures)}")
        blocks = [(plan, one, trim, forward, watch.seconds_left) for one in failures[first : first + at_once]]
        yield from map_blocks("failures", _row, blocks)


def _row(plan: Plan, failure: Failure, trim: bool, forward: bool, seconds_left: float | None) -> HardenedRow:
    if seconds_left == 0:
        return HardenedRow(failure, refusal="time ran out", is_late=True)
    links, nodes = ((), (failure.name,)) if failure.is_node else ((failure.name,), ())
    try:
        result = repair(plan, links=links, nodes=nodes, trim=trim, forward=forward, time_limit_s=seconds_left)
    except (InfeasibleError, ScheduleError) as error:
        return HardenedRow(failure, refusal=str(error))
    return HardenedRow(failure, result)
