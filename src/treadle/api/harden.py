"""Plans for failures that have not happened yet: one for each cable or node that may fail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from time import monotonic

from treadle.api.repair import RepairResult, check_repairable, forwarding, repair
from treadle.brief import brief
from treadle.checking import checked
from treadle.context import UNLIMITED, Context, Progress, context, iterate_under, under
from treadle.errors import InfeasibleError, ScheduleError
from treadle.inputs.fabrics_and_plans import PlanLike, as_plan
from treadle.schedules.plan import Plan
from treadle.synthesis.parallel import map_blocks, runs_apart
from treadle.topologies.cables import named_cables
from treadle.topologies.topology import Topology
from treadle.topologies.transforms.changes import with_failed_links

_BATCH = 64
"""Failures given to workers in one batch, so that not all plans are in memory together."""


class Failures(StrEnum):
    """Parts that may fail: cables, nodes (GPU, NIC or switch), or both.

    Cables are those of `cabling` that join two nodes: a link and the one back of equal bandwidth, or a link
    alone; each of several in parallel by itself.

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
        A node, or a cable as `repair` takes it: ``one--other``, ``tail->head`` without a reverse link,
        ``one--other#0`` where there are several.
    is_node : bool
    """

    name: str
    is_node: bool


@brief("failure.name", "loss", "refusal", "is_late")
@dataclass(frozen=True)
class HardenedRow:
    """Outcome of one failure.

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
        return self.throughput_loss if self.optimum_loss is None else self.optimum_loss

    @property
    def optimum_loss(self) -> Fraction | None:
        """Same as `RepairResult.rate`."""
        return None if self.result is None else self.result.optimum_loss

    @property
    def throughput_loss(self) -> Fraction | None:
        """Loss as in `RepairResult`; a plan below the optimum may lose more or less than the optimum does."""
        return None if self.result is None else self.result.throughput_loss


def single_failures(topology: Topology, which: Failures) -> tuple[Failure, ...]:
    """Everything of a kind that may fail by itself, cables first, in the order of the fabric.

    Examples
    --------
    >>> from treadle.topologies import parse
    >>> [one.name for one in single_failures(parse("star(3)"), Failures.ALL)]
    ['n0--n1', 'n0--n2', 'n0', 'n1', 'n2']
    """
    found = []
    if which is not Failures.NODES:
        found += [Failure(cable.name, is_node=False) for cable in named_cables(topology)]
    if which is not Failures.CABLES:
        found += [Failure(name, is_node=True) for name in topology.node_names]
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
        Elements that may fail.
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
        If the plan's certificate is invalid, or `forward` is given for a plan of one group.

    Examples
    --------
    >>> import treadle
    >>> rows = list(treadle.harden(treadle.solve("ring:4", "allgather")))
    >>> [(row.failure.name, float(row.loss)) for row in rows][:2]
    [('n0--n1', 0.5), ('n1--n2', 0.5)]
    """
    running = Context(progress, None if time_limit_s is None else monotonic() + time_limit_s)
    return iterate_under(running, _rows(as_plan(plan, "harden: plan"), which, trim, forward))


def _rows(plan: Plan, which: Failures | str, trim: bool, forward: bool) -> Iterator[HardenedRow]:
    check_repairable(plan)
    if forward:
        forwarding(plan.collective)
    failures = single_failures(plan.topology, Failures(which))
    stand_in = _stand_ins(plan.topology, failures)
    awaited = Counter(stand_in.values())
    kept: dict[Failure, HardenedRow] = {}
    at_once = _BATCH if runs_apart() else 1
    for first in range(0, len(failures), at_once):
        context().announce(f"failure {first + 1} of {len(failures)}")
        batch = failures[first : first + at_once]
        fresh = [one for one in batch if one not in stand_in]
        blocks = [(plan, one, trim, forward, context().seconds_left) for one in fresh]
        with under(UNLIMITED):  # rows know the time that is left
            made = dict(zip(fresh, map_blocks("failures", _row, blocks), strict=True))
        kept |= {one: made[one] for one in fresh if one in awaited}
        for one in batch:
            if one in made:
                yield made.pop(one)
                continue
            like, row = stand_in[one], kept[stand_in[one]]
            awaited[like] -= 1
            if not awaited[like]:
                del kept[like]
            # why there is no plan is told of each by its own name
            yield (
                _renamed(row, one)
                if row.result is not None
                else _row(plan, one, trim, forward, context().seconds_left)
            )


def _stand_ins(topology: Topology, failures: Sequence[Failure]) -> dict[Failure, Failure]:
    """Map each failure to the first that leaves an equal fabric, e.g. of equal parallel cables.

    A plan for the one is a plan for the other, link by link.
    """
    first: dict[tuple[object, ...], Failure] = {}
    found: dict[Failure, Failure] = {}
    cables = {cable.name: cable.links for cable in named_cables(topology)}
    for one in failures:
        if one.is_node or "#" not in one.name:
            continue
        links = list(cables[one.name])
        nodes = frozenset((int(topology.tails[links[0]]), int(topology.heads[links[0]])))
        kind = nodes, *topology.bandwidths[links].tolist(), *topology.latencies_ns[links].tolist()
        like = first.setdefault(kind, one)
        if like is not one and _without(topology, like) == _without(topology, one):
            found[one] = like
    return found


def _without(topology: Topology, cable: Failure) -> Topology:
    return with_failed_links(topology, cable.name)


def _renamed(row: HardenedRow, failure: Failure) -> HardenedRow:
    """The row of an equal fabric under the name of this failure; it took no time of its own."""
    assert row.result is not None
    old = row.result
    fabric = old.new.topology
    name = fabric.name.replace(f'"{row.failure.name}"', f'"{failure.name}"')
    plan = replace(old.new, topology=replace(fabric, name=name))
    result = replace(
        old,
        solved=replace(old.solved, plan=plan),
        links=(failure.name,),
        seconds=dict.fromkeys(old.seconds, 0.0),
    )
    return HardenedRow(failure, result)


def _row(plan: Plan, failure: Failure, trim: bool, forward: bool, seconds_left: float | None) -> HardenedRow:
    if seconds_left == 0:
        return HardenedRow(failure, refusal="time ran out", is_late=True)
    links, nodes = ((), (failure.name,)) if failure.is_node else ((failure.name,), ())
    try:
        result = repair(plan, links=links, nodes=nodes, trim=trim, forward=forward, time_limit_s=seconds_left)
    except (InfeasibleError, ScheduleError) as error:
        return HardenedRow(failure, refusal=str(error))
    return HardenedRow(failure, result)
