"""Prices of fabrics for a workload in groups, with ranks placed where its groups communicate well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf
from operator import itemgetter

from treadle.context import WorkBudget
from treadle.finder.construction import Placed, expression, unplaced
from treadle.finder.designing.workload_costs import PricedFabric, is_quick_in_groups, priced_groups
from treadle.finder.evaluate import GroupCosts
from treadle.finder.measure import Option
from treadle.finder.rank_order import RankGroups, order_ranks
from treadle.finder.workload import Exchange, Network, Workload
from treadle.tabular import format_csv
from treadle.topologies.naming import MAX_NAME
from treadle.topologies.properties import is_symmetric

_HOPEFUL = 1.1
"""A placement is priced exactly if the search's estimate is at most this times the fastest known."""

_WORTHWHILE = 1e-6
"""Smallest part of the time that a placement has to save."""


def placement_sheet(option: Option) -> str:
    """Format rank, node and the node's number in the fabric's own numbers as CSV.

    Examples
    --------
    >>> from treadle.finder.designing.candidates import named_option
    >>> print(placement_sheet(named_option('with_nodes_ordered(hamming(2, 2), "0,1,3,2")', 4, 2)))
    rank,node,number
    0,n0,0
    1,n1,1
    2,n3,3
    3,n2,2
    <BLANKLINE>
    """
    made, names = option.candidate.construction, option.topology.node_names
    nodes: Sequence[int] = made.nodes if isinstance(made, Placed) else range(len(names))
    return format_csv(("rank", "node", "number"), zip(range(len(names)), names, nodes, strict=True))


@dataclass(frozen=True)
class PlacementPace:
    """Work for placements in a design.

    Parameters
    ----------
    seed : int
        Of the searches.
    links : int
        That searches look at; 16 million take a quarter of a second.
    rates : int
        For the exact rates of placed groups, as an `WorkBudget`: two seconds.
    """

    seed: int = 0
    links: int = 16_000_000
    rates: int = 2 * 10**9

    @classmethod
    def of(cls, seed: int, *, is_searched: bool) -> PlacementPace:
        """Return the usual work, or ten times as much where better graphs are searched for too."""
        usual, factor = cls(seed), 10 if is_searched else 1
        return cls(seed, factor * usual.links, factor * usual.rates)


def priced_fabrics(
    options: Sequence[Option],
    workload: Workload,
    network: Network,
    pace: PlacementPace,
    *,
    best_s: float = inf,
) -> list[PricedFabric]:
    """Price fabrics of one size, each with its own order of ranks or a better one that a search finds.

    Prices take longest. So a placement is priced only where it may make its fabric faster than `best_s` and
    all others.
    """
    found = [priced_groups(option, workload) for option in options]
    times = [own.seconds(workload, network) for own in found]
    best_s = min([best_s, *(seconds for seconds in times if seconds is not None)])
    moved = []
    for place, (own, seconds) in enumerate(zip(found, times, strict=True)):
        # lower bound of all placements: every group among neighbours, all ports receiving new data
        ideal = {
            (n, stride): GroupCosts(1, Fraction(n - 1, n), Fraction(n - 1, n), own.option.nodes * (n - 1))
            for n, stride in own.shared
        }
        least = replace(own, shared=ideal).seconds(workload, network)
        if seconds is None or least is None or seconds <= least * (1 + _WORTHWHILE):
            continue
        kinds, work = rank_groups(own.option, workload, network), pace.links // len(options)
        other = _placed(own.option, kinds, work, pace.seed)
        if other is None:
            continue
        share, option = other
        alone = sum(  # calls over all nodes, which no placement changes
            float(call.count) * (cost or 0.0)
            for call, cost in zip(workload.calls, own.costs(workload, network), strict=True)
            if call.group_size is None or call.group_size == own.option.nodes
        )
        estimate = alone + (seconds - alone) * share
        if estimate < _HOPEFUL * best_s:
            moved.append((estimate, place, seconds, option))
    # the most promising ones first, for which there is work enough
    budget = WorkBudget(pace.rates)
    for _, place, before, option in sorted(moved, key=itemgetter(0, 1)):
        placed = priced_groups(option, workload, budget)
        seconds = placed.seconds(workload, network)
        if seconds is not None and seconds < before * (1 - _WORTHWHILE):
            found[place] = replace(placed, own_s=before)
    return found


def rank_groups(option: Option, workload: Workload, network: Network) -> list[RankGroups]:
    """Return the groups of a workload by size and stride, with what their trees cost on a fabric."""
    nodes, prices = option.nodes, dict[tuple[int, int, int], list[float]]()
    backwards = 0 if is_symmetric(option.topology) else 1
    for call in workload.calls:
        size = call.group_size
        if size is None or size == nodes or not is_quick_in_groups(call, nodes):
            continue
        count, transfer = float(call.count), call.size_bytes / network.bandwidth_bytes_per_s
        share = option.degree / size
        reducing = transfer + network.gamma_s_per_byte * call.size_bytes
        parts = []
        if call.kind in (Exchange.ALLGATHER, Exchange.ALLREDUCE):
            parts.append((0, share * transfer, 0.0))
        if call.kind in (Exchange.REDUCE_SCATTER, Exchange.ALLREDUCE):
            parts.append((backwards, share * reducing, 0.0))
        if call.kind is Exchange.ALLTOALL:
            parts.append((0, 0.0, transfer / (size * nodes)))
        for graph, load, distance in parts:
            known = prices.setdefault((size, call.stride, graph), [0.0, 0.0, 0.0])
            for place, price in enumerate((network.alpha_s, load, distance)):
                known[place] += count * price
    return [RankGroups(*place, *sums) for place, sums in prices.items()]


def _placed(option: Option, kinds: Sequence[RankGroups], work: int, seed: int) -> tuple[float, Option] | None:
    """Place ranks better: the part of the trees' cost that is left, and the fabric.

    None if the search finds no better placement, or the fabric's expression would be too long for a name.
    """
    if not kinds:
        return None
    found = order_ranks(option.topology, kinds, work=work, seed=seed)
    if found.cost >= found.own_cost * (1 - _WORTHWHILE):
        return None
    made, nodes = option.candidate.construction, found.nodes.tolist()
    if isinstance(made, Placed):
        nodes = [made.nodes[node] for node in nodes]
    placed = Placed(unplaced(made), tuple(nodes))
    if len(expression(placed)) > MAX_NAME:
        return None
    candidate = replace(option.candidate, construction=placed)
    return found.cost / found.own_cost, replace(option, candidate=candidate)
