"""What the calls of a workload cost on a fabric; groups by the exact optimum of all of them at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from treadle.context import Context, TimeLimitError, WorkBudget, context, under
from treadle.errors import InfeasibleError
from treadle.finder.evaluate import GroupCosts, call_seconds, group_costs
from treadle.finder.measure import LARGEST_MEASURED, Option
from treadle.finder.workload import Call, Exchange, Network, Workload
from treadle.schedules.collective import Collective, CollectiveKind

Shared = Mapping[tuple[int, int], GroupCosts]
"""Figures of groups by size and stride."""

Rate = tuple[Fraction | None, Fraction]
"""T_B in M/B that is reached, if that is known, and what none can be below."""

_MAX_GROUP_PAIRS = 2**20
"""Ordered pairs of nodes within groups up to which trees are built for them: some ten seconds a fabric."""

_MAX_EXACT_NODES = 256
_EXACT_WORK = 10**9
"""For the exact optimum of one kind of groups on one fabric, about a second; then what is known is told."""


def is_quick_in_groups(call: Call, nodes: int) -> bool:
    """Whether the call's trees, if it runs in groups, can be built in seconds."""
    if call.group_size is None or call.group_size == nodes:
        return True
    return nodes <= LARGEST_MEASURED and nodes * call.group_size <= _MAX_GROUP_PAIRS


def concurrent_costs(option: Option, workload: Workload, nodes: int) -> dict[tuple[int, int], GroupCosts]:
    """What groups, by size and stride, cost along pruned trees on one fabric."""
    return {
        (call.group_size, call.stride): group_costs(option, call.groups(nodes))
        for call in workload.calls
        if call.group_size is not None and call.group_size != nodes and is_quick_in_groups(call, nodes)
    }


def with_exact_rates(
    option: Option, shared: Shared, workload: Workload, nodes: int, budget: WorkBudget | None = None
) -> Shared:
    """The figures at the optimum that trees of all groups together reach, where that is quick to find.

    Parameters
    ----------
    option : Option
    shared : mapping of (group size, stride) to GroupCosts
    workload : Workload
    nodes : int
    budget : WorkBudget, optional
        Work for all of them; default: some for each.
    """
    if nodes > _MAX_EXACT_NODES:
        return shared
    found = dict(shared)
    for place, figures in shared.items():
        calls = [call for call in workload.calls if (call.group_size, call.stride) == place]
        kinds = {call.kind for call in calls} - {Exchange.ALLTOALL}
        if not kinds:
            continue
        groups, two_way = calls[0].groups(nodes), option.candidate.gather.is_bidirectional
        gather: Rate = (None, Fraction(0))
        reduce = gather
        if two_way or kinds != {Exchange.REDUCE_SCATTER}:
            gather = reduce = _optimal_t_b(option, groups, CollectiveKind.ALLGATHER, budget)
        if not two_way:
            reduce = None, Fraction(0)
            if kinds != {Exchange.ALLGATHER}:
                reduce = _optimal_t_b(option, groups, CollectiveKind.REDUCE_SCATTER, budget)
        found[place] = replace(
            figures,
            t_b=min(figures.t_b, gather[0] or figures.t_b),
            t_b_reduce=min(figures.t_b_reduce, reduce[0] or figures.t_b_reduce),
            least=gather[1],
            least_reduce=reduce[1],
        )
    return found


def _optimal_t_b(
    option: Option, groups: Sequence[Sequence[int]], kind: CollectiveKind, budget: WorkBudget | None
) -> Rate:
    """T_B in M/B that trees of all groups at once reach."""
    from treadle.synthesis.trees.groups.group_optimum import group_optimum  # brings a solver

    ranks = tuple(range(option.nodes))
    collective = Collective(kind, ranks, groups=tuple(map(tuple, groups)), ranks_forward=True)
    with under(Context(budget=budget or WorkBudget(_EXACT_WORK))):
        if context().is_late:
            return None, Fraction(0)
        try:
            found = group_optimum(option.topology, collective)
        except (TimeLimitError, InfeasibleError):
            return None, Fraction(0)
        # links of one byte/s: a node has d, and M/B is d times less than M at one of them
        return Fraction(option.degree) / found.lower, Fraction(option.degree) / found.upper


def costs_of(
    option: Option, workload: Workload, network: Network, nodes: int, shared: Shared
) -> list[float | None]:
    """Seconds of each call on one fabric for everything; None where that is not known."""
    return [
        call_seconds(call, option, network, shared.get((call.group_size or nodes, call.stride)))
        if is_quick_in_groups(call, nodes)
        else None
        for call in workload.calls
    ]


def total_seconds(workload: Workload, costs: Sequence[float | None]) -> float | None:
    """Of an iteration; None where some call is not known."""
    known = [
        float(call.count) * cost for call, cost in zip(workload.calls, costs, strict=True) if cost is not None
    ]
    return sum(known) if len(known) == len(costs) else None


def least_seconds(
    option: Option, workload: Workload, network: Network, nodes: int, shared: Shared
) -> float | None:
    """What no schedules can be below on this fabric: each call at its bound, latency by distances."""
    if option.parts > 1 and any(call.group_size is None for call in workload.calls):
        return None
    optimum = Fraction(nodes - 1, nodes)
    gather = replace(option.candidate.gather, t_b=optimum)
    ideal = replace(option, candidate=replace(option.candidate, gather=gather, reduce=gather))
    bounds = {
        place: replace(
            figures,
            t_b=max(figures.least, Fraction(place[0] - 1, place[0])),
            t_b_reduce=max(figures.least_reduce, Fraction(place[0] - 1, place[0])),
        )
        for place, figures in shared.items()
    }
    return total_seconds(workload, costs_of(ideal, workload, network, nodes, bounds))
