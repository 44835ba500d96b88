"""What a workload costs on a fabric, by the alpha-beta model; and which fabrics serve it best.

Allreduce, allgather and reduce-scatter over all nodes cost what their schedules cost, exactly. All-to-all is
told by the flow that was found for it, or else by its distance bound. A collective in groups smaller than the
fabric is told by trees of shortest paths pruned to the group, pipelined: an estimate that can be attained.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from treadle.engine import core
from treadle.finder.measure import Option
from treadle.finder.rank_order import tree_graph
from treadle.finder.workload import Call, Exchange, Network
from treadle.topologies.properties import is_symmetric


@dataclass(frozen=True)
class GroupCosts:
    """What collectives in groups cost on a fabric that all groups share.

    Parameters
    ----------
    steps : int
        Longest distance within a group.
    t_b : Fraction
        Of the allgather along pruned trees, in M/B.
    t_b_reduce : Fraction
        Of the reduce-scatter, the same on the transpose; equal where links come in opposite pairs.
    distance_sum : int or Fraction
        Over all ordered pairs within groups; larger where they use some of the links only.
    least, least_reduce : Fraction
        What no schedule can be below, in M/B.
    """

    steps: int
    t_b: Fraction
    t_b_reduce: Fraction
    distance_sum: int | Fraction
    least: Fraction = Fraction(0)
    least_reduce: Fraction = Fraction(0)


def call_seconds(
    call: Call, option: Option, network: Network, groups: GroupCosts | None = None
) -> float | None:
    """Time of one call.

    Parameters
    ----------
    call : Call
    option : Option
        The fabric.
    network : Network
    groups : GroupCosts, optional
        Where the call runs in groups on a larger fabric; default: over all nodes of the fabric.

    Returns
    -------
    float or None
        Seconds; None for an all-to-all on a fabric too large for its distances to be known, and for calls
        over all nodes of a fabric in parts.
    """
    alpha, transfer = network.alpha_s, call.size_bytes / network.bandwidth_bytes_per_s
    figures = option.candidate
    if call.kind is Exchange.ALLTOALL:
        size = call.group_size if groups is not None and call.group_size else option.nodes
        total = option.distance_sum if groups is None else groups.distance_sum
        hops = option.diameter if groups is None else groups.steps
        if total is None or hops is None:
            return None
        if groups is None and option.flow is not None:
            return hops * alpha + transfer * option.degree / (option.nodes * option.flow.rate)
        # every pair moves size / group bytes over its distance; the links share that evenly at best
        return hops * alpha + transfer * float(total) / (size * option.nodes)
    if groups is None and option.parts > 1:
        return None
    if groups is None:
        steps, gather, reduce = figures.steps, figures.gather.t_b, figures.reduce.t_b
    else:
        steps, gather, reduce = groups.steps, groups.t_b, groups.t_b_reduce
    reducing = steps * alpha + float(reduce) * (transfer + network.gamma_s_per_byte * call.size_bytes)
    gathering = steps * alpha + float(gather) * transfer
    return {
        Exchange.ALLGATHER: gathering,
        Exchange.REDUCE_SCATTER: reducing,
        Exchange.ALLREDUCE: reducing + gathering,
    }[call.kind]


def group_costs(option: Option, groups: Sequence[Sequence[int]]) -> GroupCosts:
    """Shortest-path trees from every member to its group, pruned to it, balanced greedily over the links.

    Each tree may pass through nodes of other groups. The load of a link counts every group.
    """
    topology, nodes = option.topology, np.array(groups, dtype=np.int32)
    share = Fraction(option.degree, len(groups[0]))
    gather, steps, total = core.tree_figures(tree_graph(topology), nodes)
    # Opposite links carry the same trees backwards.
    reduce = gather
    if not is_symmetric(topology):
        reduce = core.tree_figures(tree_graph(topology.transpose()), nodes)[0]
    return GroupCosts(steps, share * gather, share * reduce, total)


def cheapest_sequence(costs: Sequence[Mapping[str, float]], delay_s: float) -> tuple[tuple[str, ...], float]:
    """Which fabric to use for each call of an iteration, when changing costs `delay_s`.

    Parameters
    ----------
    costs : sequence of mapping from fabric to seconds
        Per call, in order; iterations repeat, so the last is followed by the first. Fabrics that cannot serve
        a call are absent from its mapping.
    delay_s : float

    Returns
    -------
    tuple of str
        Fabric per call.
    float
        Seconds per iteration, changes included.

    Notes
    -----
    Exact: for each fabric to begin with, the cheapest path through the calls (Viterbi) and back to it.
    """
    cheapest = min((_from_first(costs, delay_s, first) for first in costs[0]), key=lambda found: found[1])
    return tuple(cheapest[0]), cheapest[1]


def _from_first(costs: Sequence[Mapping[str, float]], delay_s: float, first: str) -> tuple[list[str], float]:
    """The cheapest path that begins, and after the last call continues, with `first`."""
    spent = {first: costs[0][first]}
    before: list[dict[str, str]] = []
    for call in costs[1:]:
        nearest = min(spent, key=lambda fabric: spent[fabric])
        came: dict[str, str] = {}
        reached: dict[str, float] = {}
        for fabric, own in call.items():
            change = spent[nearest] + delay_s
            came[fabric] = fabric if fabric in spent and spent[fabric] <= change else nearest
            reached[fabric] = own + min(spent.get(fabric, change), change)
        spent = reached
        before.append(came)
    totals = {fabric: value + (delay_s if fabric != first else 0.0) for fabric, value in spent.items()}
    path = [min(totals, key=lambda fabric: totals[fabric])]
    for came in reversed(before):
        path.append(came[path[-1]])
    return path[::-1], min(totals.values())
