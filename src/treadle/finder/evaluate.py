"""Cost of a workload on a fabric by the alpha-beta model, and the best fabrics for it.

Allreduce, allgather and reduce-scatter over all nodes cost what their schedules cost, exactly. All-to-all is
computed by the flow that was found for it, or else by its distance bound. A collective in groups smaller than
the fabric uses trees of shortest paths pruned to the group, pipelined: an attainable estimate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from operator import itemgetter

import numpy as np

from treadle.engine import core
from treadle.finder.measure import Option
from treadle.finder.rank_order import tree_graph
from treadle.finder.workload import Call, Exchange, Network
from treadle.topologies.properties import is_symmetric


@dataclass(frozen=True)
class GroupCosts:
    """Cost of collectives in groups on a fabric that all groups share.

    Parameters
    ----------
    steps : int
        Longest distance within a group.
    t_b : Fraction
        Of the allgather along pruned trees, in M/B.
    t_b_reduce : Fraction
        The reduce-scatter's, computed on the transpose; equal if links are bidirectional.
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
    """Return the time of one call.

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
    """Build shortest-path trees from every member, pruned to its group and balanced greedily over the links.

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
    """Choose the fabric for each call of an iteration, when changing costs `delay_s`.

    Parameters
    ----------
    costs : sequence of mapping from fabric to seconds
        Per call, in order; iterations repeat, so the last is followed by the first. Fabrics that do not
        support a call are absent from its mapping.
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
    seconds, path = min((_from_first(costs, delay_s, first) for first in costs[0]), key=itemgetter(0))
    return path, seconds


_Path = tuple[str, "_Path | None"]
"""The fabric of the last call, and the path before it."""


def _from_first(
    costs: Sequence[Mapping[str, float]], delay_s: float, first: str
) -> tuple[float, tuple[str, ...]]:
    """Return the cheapest path that begins, and after the last call continues, with `first`."""
    ends: dict[str, tuple[float, _Path | None]] = {first: (costs[0][first], (first, None))}
    for call in costs[1:]:
        seconds, path = min(ends.values(), key=itemgetter(0))
        changed = seconds + delay_s, path
        came = {fabric: min(ends.get(fabric, changed), changed, key=itemgetter(0)) for fabric in call}
        ends = {fabric: (own + came[fabric][0], (fabric, came[fabric][1])) for fabric, own in call.items()}
    totals = [
        (seconds + (0.0 if fabric == first else delay_s), path) for fabric, (seconds, path) in ends.items()
    ]
    seconds, path = min(totals, key=itemgetter(0))
    fabrics: list[str] = []
    while path is not None:
        fabric, path = path
        fabrics.append(fabric)
    return seconds, tuple(fabrics[::-1])
