"""Costs of a workload's calls on a fabric; groups by the exact optimum of all of them concurrently."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from treadle.context import Context, TimeLimitError, WorkBudget, context, under
from treadle.errors import InfeasibleError
from treadle.finder.evaluate import GroupCosts, call_seconds, group_costs
from treadle.finder.measure import LARGEST_MEASURED, Option
from treadle.finder.workload import Call, Exchange, Network, Workload
from treadle.schedules.collective import Collective, CollectiveKind

Shared = Mapping[tuple[int, int], GroupCosts]
"""Costs of groups by size and stride."""

Rate = tuple[Fraction | None, Fraction]
"""T_B in M/B that is attained, if that is known, and its lower bound."""

_UNKNOWN: Rate = (None, Fraction(0))
_MAX_GROUP_PAIRS = 2**20
"""Ordered pairs of nodes within groups up to which trees are built for them: some ten seconds a fabric."""

_MAX_EXACT_NODES = 256
_EXACT_WORK = 10**9
"""Work for the exact optimum of equal groups on one fabric: about a second; then the known range is used."""


@dataclass(frozen=True)
class PricedFabric:
    """A fabric and what groups cost on it.

    Parameters
    ----------
    option : Option
        With its ranks in the order that suits the workload best.
    shared : mapping of (group size, stride) to GroupCosts
    own_s : float, optional
        Seconds of the workload with ranks in the order of the fabric's own numbers, where they were placed.
    """

    option: Option
    shared: Shared
    own_s: float | None = None

    def costs(self, workload: Workload, network: Network, *, by_flow: bool = False) -> list[float | None]:
        """Return the seconds of each call; None where that is unknown.

        All-to-alls over all nodes are priced by the flow if `by_flow` and there is one, else by distances.
        """
        option = self.option if by_flow else replace(self.option, flow=None)
        return [
            call_seconds(
                call, option, network, self.shared.get((call.group_size or option.nodes, call.stride))
            )
            if is_quick_in_groups(call, option.nodes)
            else None
            for call in workload.calls
        ]

    def seconds(self, workload: Workload, network: Network) -> float | None:
        """Return the time of an iteration, all-to-alls by distances; None if a call is unknown."""
        return total_seconds(workload, self.costs(workload, network))


def is_quick_in_groups(call: Call, nodes: int) -> bool:
    """Whether the call's trees, if it runs in groups, can be built in seconds."""
    if call.group_size is None or call.group_size == nodes:
        return True
    return nodes <= LARGEST_MEASURED and nodes * call.group_size <= _MAX_GROUP_PAIRS


def priced_groups(option: Option, workload: Workload, budget: WorkBudget | None = None) -> PricedFabric:
    """Price the groups of a workload on one fabric: by pruned trees, and by the exact optimum where quick.

    The budget is for all optima together; by default each has some work.
    """
    nodes = option.nodes
    shared = {
        (call.group_size, call.stride): group_costs(option, call.groups(nodes))
        for call in workload.calls
        if call.group_size is not None and call.group_size != nodes and is_quick_in_groups(call, nodes)
    }
    return PricedFabric(option, with_exact_rates(option, shared, workload, budget))


def with_exact_rates(
    option: Option, shared: Shared, workload: Workload, budget: WorkBudget | None = None
) -> Shared:
    """Return the costs at the optimum of trees of all groups together, where that is quick to find."""
    if option.nodes > _MAX_EXACT_NODES:
        return shared
    found = dict(shared)
    for place, costs in shared.items():
        calls = [call for call in workload.calls if (call.group_size, call.stride) == place]
        kinds = {call.kind for call in calls} - {Exchange.ALLTOALL}
        if not kinds:
            continue
        groups, two_way = calls[0].groups(option.nodes), option.candidate.gather.is_bidirectional
        gather = reduce = _UNKNOWN
        if two_way or kinds != {Exchange.REDUCE_SCATTER}:
            gather = _optimal_t_b(option, groups, CollectiveKind.ALLGATHER, budget)
        if two_way:
            reduce = gather
        elif kinds != {Exchange.ALLGATHER}:
            reduce = _optimal_t_b(option, groups, CollectiveKind.REDUCE_SCATTER, budget)
        found[place] = replace(
            costs,
            t_b=min(costs.t_b, gather[0] or costs.t_b),
            t_b_reduce=min(costs.t_b_reduce, reduce[0] or costs.t_b_reduce),
            least=gather[1],
            least_reduce=reduce[1],
        )
    return found


def _optimal_t_b(
    option: Option, groups: Sequence[Sequence[int]], kind: CollectiveKind, budget: WorkBudget | None
) -> Rate:
    """Return the T_B in M/B that trees of all concurrent groups attain, and its lower bound."""
    from treadle.synthesis.trees.groups.group_optimum import group_optimum  # brings a solver

    ranks = tuple(range(option.nodes))
    collective = Collective(kind, ranks, groups=tuple(map(tuple, groups)), ranks_forward=True)
    with under(Context(budget=budget or WorkBudget(_EXACT_WORK))):
        if context().is_late:
            return _UNKNOWN
        try:
            found = group_optimum(option.topology, collective)
        except (TimeLimitError, InfeasibleError):
            return _UNKNOWN
    # links of one byte/s: a node has d, and M/B is d times less than M at one of them
    return Fraction(option.degree) / found.lower, Fraction(option.degree) / found.upper


def total_seconds(workload: Workload, costs: Sequence[float | None]) -> float | None:
    """Return the time of an iteration; None if some call is unknown."""
    known = [
        float(call.count) * cost for call, cost in zip(workload.calls, costs, strict=True) if cost is not None
    ]
    return sum(known) if len(known) == len(costs) else None


def least_seconds(priced: PricedFabric, workload: Workload, network: Network) -> float | None:
    """Return the bound of all schedules on this fabric: each call at its bound, latency by distances."""
    option = priced.option
    if option.parts > 1 and any(call.group_size is None for call in workload.calls):
        return None

    def optimum(n: int) -> Fraction:
        return Fraction(n - 1, n)

    gather = replace(option.candidate.gather, t_b=optimum(option.nodes))
    ideal = replace(option, candidate=replace(option.candidate, gather=gather, reduce=gather))
    bounds = {
        (size, stride): replace(
            costs,
            t_b=max(costs.least, optimum(size)),
            t_b_reduce=max(costs.least_reduce, optimum(size)),
        )
        for (size, stride), costs in priced.shared.items()
    }
    return total_seconds(workload, PricedFabric(ideal, bounds).costs(workload, network, by_flow=True))
