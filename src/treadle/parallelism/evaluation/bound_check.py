"""Lower bounds checked in one pass, without search, for any given multipliers and messages.

For shares a of compute, prices mu >= 0 of bytes and any plan that keeps to the limit M,

    step >= sum over sections of repeats * (a C + (1 - a) W) + sum over moments of mu * (bytes - M),

because the larger of C and W is no less than any mean of them, and bytes - M is not positive. The right side
is a sum of tables over one node or two. A message moves an amount from the table over two nodes to one of
them, which changes no plan's sum; then the sum of all tables' least entries, each by itself, is no more than
any plan's. The rounding of these sums is subtracted.

A proof may take the plans box by box: a box falls apart by the states of one node, which must all be in one
of its parts, and each box that does not is bounded so. Layers that differ are bounded by the dual of their
master program: at one price of bytes at each moment for all of them, the cheapest block and the cheapest ends
are each bounded by a proof of their own, since bytes that a mixture holds are no less than the mean over its
layers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from treadle.arrays import BoolArray, Int64Array
from treadle.errors import ScheduleError
from treadle.parallelism.plan.parallel_plan import OVERLAPS
from treadle.parallelism.search.bound_certificate import BoundCertificate, ProofStep
from treadle.parallelism.search.factor_graph import Factor, FactorGraph, FloatArray

_ROUNDING = 2.0**-52
Box: TypeAlias = Sequence[BoolArray]
"""Allowed states of each node."""


def checked_proof(
    graph: FactorGraph,
    steps: Iterable[ProofStep],
    *,
    overlap: str = "layer",
    memory_bytes: float = np.inf,
    within: Sequence[Int64Array] | None = None,
) -> float:
    """Return a lower bound on the seconds of all plans within the limit, by a proof box by box.

    Parameters
    ----------
    graph : FactorGraph
        The original problem: nothing removed.
    steps : iterable of ProofStep
        Depth first, the parts of a box in their order.
    overlap, memory_bytes
        As of `checked_bound`.
    within : sequence of int arrays, optional
        States that plans may take, by node.

    Raises
    ------
    ScheduleError
        If the boxes do not cover all plans, or a certificate is invalid.
    """

    def bounded(certificate: BoundCertificate, box: Box) -> float:
        return checked_bound(graph, certificate, overlap=overlap, memory_bytes=memory_bytes, box=box)

    return _covered(graph, steps, bounded, within)


def checked_mixture(
    graph: FactorGraph,
    block: Collection[int],
    boundary: Sequence[int],
    prices: Sequence[float],
    proofs: tuple[Iterable[ProofStep], Iterable[ProofStep]],
    *,
    overlap: str = "layer",
    memory_bytes: float = np.inf,
) -> float:
    """Return a lower bound on the seconds of models whose layers may each take another plan of the block.

    Parameters
    ----------
    graph : FactorGraph
        Of one plan for all layers.
    block : collection of int
        Nodes of the block.
    boundary : sequence of int
        Nodes that layers share with each other and with the ends.
    prices : sequence of float
        Seconds for each byte at each moment, 0 or more.
    proofs : pair of iterables of ProofStep
        Of the block's graph and of that of the ends, whose nodes are those of each side and of the boundary
        in ascending order; the certificates' own prices do not count.
    overlap, memory_bytes
        As of `checked_bound`; not over the whole model.

    Raises
    ------
    ScheduleError
        If block and ends do not fall apart, or a proof proves nothing.
    """
    if overlap == "model":
        raise ScheduleError("bound: layers that differ overlap by themselves; expected layer or none")
    total, slack = 0.0, 0.0
    for side, steps in zip(_sides(graph, frozenset(block), frozenset(boundary)), proofs, strict=True):

        def bounded(certificate: BoundCertificate, box: Box, side: FactorGraph = side) -> float:
            own = replace(certificate, prices=tuple(prices))
            return least_sum(side, _weights(side, own, overlap), own.messages, box)

        found = _covered(side, steps, bounded)
        if np.isinf(found):
            return found
        total, slack = total + found, slack + abs(found)
    paid = _paid(float(np.sum(prices)), memory_bytes)
    return total - paid - 8 * (len(prices) + 2) * _ROUNDING * (paid + slack)


def _covered(
    graph: FactorGraph,
    steps: Iterable[ProofStep],
    bounded: Callable[[BoundCertificate, Box], float],
    within: Sequence[Int64Array] | None = None,
) -> float:
    """Return the least bound of boxes that together are all plans."""
    start = [np.ones(size, bool) for size in graph.sizes]
    if within is not None:
        start = [np.isin(np.arange(size), some) for size, some in zip(graph.sizes, within, strict=True)]
    boxes, least = [start], np.inf
    for step in steps:
        if not boxes:
            raise ScheduleError("bound: a proof goes on after its last box")
        box = boxes.pop()
        if isinstance(step, BoundCertificate):
            least = min(least, bounded(step, box))
            continue
        if not 0 <= step.node < graph.n_nodes:
            raise ScheduleError(f"bound: a box falls apart at node {step.node}; there are {graph.n_nodes}")
        states = np.arange(graph.sizes[step.node])
        pieces = [box[step.node] & np.isin(states, some) for some in step.groups]
        if (box[step.node] & ~np.logical_or.reduce([np.zeros(len(states), bool), *pieces])).any():
            raise ScheduleError(f"bound: states of node {step.node} are in no part of a box")
        boxes += [[*box[: step.node], piece, *box[step.node + 1 :]] for piece in reversed(pieces)]
    if boxes:
        raise ScheduleError(f"bound: {len(boxes)} boxes are left unbounded")
    return float(least)


def _sides(
    graph: FactorGraph, block: frozenset[int], boundary: frozenset[int]
) -> tuple[FactorGraph, FactorGraph]:
    """Return the graphs of block and ends; every factor is in one of them."""
    names = graph.quantities
    if block & boundary:
        raise ScheduleError("bound: a node of the block is one of its boundary")
    factors: tuple[list[Factor], list[Factor]] = [], []
    timed: tuple[set[int], set[int]] = set(), set()
    for part in graph.factors:
        at = 0 if set(part.scope) <= block | boundary else 1
        if at and block.intersection(part.scope):
            raise ScheduleError(f"bound: nodes {part.scope} tie the block to the ends")
        factors[at].append(part)
        timed[at].update(
            quantity % names.n_sections
            for quantity, table in part.tables.items()
            if quantity < names.persistent and table.any()
        )
    if len(timed[0]) > 1 or timed[0] & timed[1]:
        raise ScheduleError(f"bound: the block costs time in sections {sorted(timed[0])}; expected its own")
    sides = []
    for own, nodes in ((factors[0], block | boundary), (factors[1], set(range(graph.n_nodes)) - block)):
        number = {node: at for at, node in enumerate(sorted(nodes))}
        moved = [replace(one, scope=tuple(number[node] for node in one.scope)) for one in own]
        sizes = tuple(graph.sizes[node] for node in sorted(nodes))
        sides.append(FactorGraph(sizes, names, tuple(moved), graph.repeats, kappa=graph.kappa))
    return sides[0], sides[1]


def checked_bound(
    graph: FactorGraph,
    certificate: BoundCertificate,
    *,
    overlap: str = "layer",
    memory_bytes: float = np.inf,
    box: Box | None = None,
) -> float:
    """Return a lower bound on the seconds of all plans of the graph within the limit.

    Parameters
    ----------
    graph : FactorGraph
        The original problem: nothing removed.
    certificate : BoundCertificate
    overlap : str
    memory_bytes : float
        Limit of every moment.
    box : sequence of bool arrays, optional
        States that plans may take, by node.

    Raises
    ------
    ScheduleError
        If the certificate does not fit the graph, a share lies outside 0 to 1, or a price is negative: such a
        certificate is invalid.
    """
    weights = _weights(graph, certificate, overlap)
    n_moments, limit = len(certificate.prices), _paid(float(sum(certificate.prices)), memory_bytes)
    found = least_sum(graph, weights, certificate.messages, box)
    if np.isinf(found):
        return found
    return found - limit - 8 * n_moments * _ROUNDING * (limit + abs(found))


def _paid(prices: float, memory_bytes: float) -> float:
    """Return the seconds for all bytes of the limit at the sum of the prices of all moments."""
    if prices and not memory_bytes < np.inf:
        raise ScheduleError("bound: bytes have prices, but nothing limits them")
    return prices * memory_bytes if prices else 0.0


def _weights(graph: FactorGraph, certificate: BoundCertificate, overlap: str) -> FloatArray:
    """Return the prices of a certificate for each quantity, such that no step is faster than its cost."""
    names = graph.quantities
    if overlap not in OVERLAPS:
        raise ScheduleError(f"overlap {overlap!r}; expected {', '.join(OVERLAPS)}")
    n_moments = max(names.n_moments, 1)
    shares, prices = np.array(certificate.shares), np.array(certificate.prices)
    if shares.shape != (names.n_sections,) or prices.shape != (n_moments,):
        raise ScheduleError(
            f"bound: {shares.size} shares, {prices.size} prices; expected {names.n_sections}, {n_moments}"
        )
    if not ((shares >= 0) & (shares <= 1)).all() or not ((prices >= 0) & (prices < np.inf)).all():
        raise ScheduleError("bound: expected shares from 0 to 1, and prices of 0 or more")
    if overlap == "model":
        shares = np.full_like(shares, shares[0])
    repeats, ones = np.array(graph.repeats), np.ones_like(shares)
    more = graph.kappa - 1  # of the shorter of the two, whose time the longer one shares
    serial, beside = (shares + more * (1 - shares), 1 - shares + more * shares)
    if overlap == "none":
        serial = beside = ones
    weights = [*(repeats * serial), *(repeats * beside), prices.sum(), *prices[: names.n_moments]]
    return np.array(weights, np.float64)  # in the order of `Quantities`


def least_sum(graph: FactorGraph, weights: FloatArray, messages: FloatArray, box: Box | None = None) -> float:
    """Lower bound of all plans' weighted sums of quantities, by any messages.

    Parameters
    ----------
    graph : FactorGraph
    weights : array of shape (quantities,)
        0 or more.
    messages : array
        As of a `BoundCertificate`.
    box : sequence of bool arrays, optional
        States that plans may take, by node.

    Raises
    ------
    ScheduleError
        If messages do not fit the graph or are not finite.
    """
    pairs = [part for part in graph.factors if len(part.scope) == 2]
    ends = np.cumsum([graph.sizes[node] for part in pairs for node in part.scope])
    if messages.shape != (int(ends[-1]) if pairs else 0,) or not np.isfinite(messages).all():
        raise ScheduleError("bound: expected a finite message for each end of each factor over two nodes")
    sent = np.split(messages, ends[:-1]) if pairs else []
    possible = _possible(graph, box)
    if possible is None:
        return np.inf
    sums = [np.zeros(size) for size in graph.sizes]
    largest = [np.zeros(size) for size in graph.sizes]
    for part in graph.factors:
        if len(part.scope) == 1:
            charged = _charged(part, weights)
            sums[part.scope[0]] += charged
            largest[part.scope[0]] += charged
    total, slack, n_terms = 0.0, 0.0, len(weights) + len(graph.factors) + 4
    for part, first, second in zip(pairs, sent[::2], sent[1::2], strict=True):
        rows, columns = (np.flatnonzero(possible[node]) for node in part.scope)
        own = _charged(part, weights, rows, columns)
        slack += float(own.max() + np.abs(first[rows]).max() + np.abs(second[columns]).max())
        own = own - first[rows, None]
        own -= second[columns]
        if part.forbidden is not None:
            own[part.forbidden[np.ix_(rows, columns)]] = np.inf
        total += float(own.min())
        for node, message in zip(part.scope, (first, second), strict=True):
            sums[node] += message
            largest[node] += np.abs(message)
    for node, states in enumerate(possible):
        total += float(sums[node][states].min())
        slack += float(largest[node][states].max())
    return total - 2 * n_terms * _ROUNDING * slack


def _charged(part: Factor, weights: FloatArray, *states: Int64Array) -> FloatArray:
    """Return the costs of a factor's states at nonnegative weights; quantities often share a table."""
    shared: dict[int, tuple[FloatArray, float]] = {}
    for quantity, table in part.tables.items():
        if weights[quantity]:
            _, before = shared.get(id(table), (table, 0.0))
            shared[id(table)] = table, before + float(weights[quantity])
    place = np.ix_(*states) if states else ...
    charges = [weight * table[place] for table, weight in shared.values()]
    if charges:
        return sum(charges[1:], start=charges[0])
    shape = part.shape
    assert shape is not None, "a factor has tables, or forbids"
    return np.zeros([len(some) for some in states] if states else shape)


def _possible(graph: FactorGraph, box: Box | None) -> list[BoolArray] | None:
    """Return the states of a box that pairwise consistency allows; None if a node has none."""
    found = [np.ones(size, bool) for size in graph.sizes] if box is None else [one.copy() for one in box]
    bans = [part for part in graph.factors if part.forbidden is not None]
    changed = set(range(graph.n_nodes))
    while changed:
        looked_at, changed = changed, set()
        for part in bans:
            if looked_at.isdisjoint(part.scope) and changed.isdisjoint(part.scope):
                continue
            assert part.forbidden is not None
            allowed = ~part.forbidden
            before = [int(found[node].sum()) for node in part.scope]
            if len(part.scope) == 1:
                found[part.scope[0]] &= allowed
            else:
                first, second = part.scope
                found[first] &= allowed @ found[second]
                found[second] &= found[first] @ allowed
            changed.update(node for node, n in zip(part.scope, before, strict=True) if found[node].sum() < n)
    return found if all(states.any() for states in found) else None
