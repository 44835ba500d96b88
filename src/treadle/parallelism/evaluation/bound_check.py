"""Lower bounds checked in one pass: no search, whatever multipliers and messages somebody hands over.

For shares a of compute, prices mu >= 0 of bytes and any plan that keeps to the limit M,

    step >= sum over sections of repeats * (a C + (1 - a) W) + sum over moments of mu * (bytes - M),

because the larger of C and W is no less than any mean of them, and bytes - M is not positive. The right side
is a sum of tables over one node or two. A message moves an amount from the table over two nodes to one of
them, which changes no plan's sum; then the sum of all tables' least entries, each by itself, is no more than
any plan's. It is told with the rounding of these sums taken off.
"""

from __future__ import annotations

import numpy as np

from treadle.errors import ScheduleError
from treadle.parallelism.plan.parallel_plan import OVERLAPS
from treadle.parallelism.search.bound_witness import BoundWitness
from treadle.parallelism.search.factor_graph import FactorGraph, FloatArray

_ROUNDING = 2.0**-52


def checked_bound(
    graph: FactorGraph, witness: BoundWitness, *, overlap: str = "layer", memory_bytes: float = np.inf
) -> float:
    """Seconds that no plan of the graph within the limit goes below.

    Parameters
    ----------
    graph : FactorGraph
        As it was posed: nothing removed.
    witness : BoundWitness
    overlap : str
    memory_bytes : float
        Limit of every moment.

    Raises
    ------
    ScheduleError
        If the witness does not fit the graph, a share lies outside 0 to 1, or a price is negative: such a
        witness proves nothing.
    """
    names = graph.quantities
    if overlap not in OVERLAPS:
        raise ScheduleError(f"overlap {overlap!r}; expected {', '.join(OVERLAPS)}")
    n_moments = max(names.n_moments, 1)
    shares, prices = np.array(witness.shares), np.array(witness.prices)
    if shares.shape != (names.n_sections,) or prices.shape != (n_moments,):
        raise ScheduleError(
            f"bound: {shares.size} shares, {prices.size} prices; expected {names.n_sections}, {n_moments}"
        )
    if not ((shares >= 0) & (shares <= 1)).all() or not ((prices >= 0) & (prices < np.inf)).all():
        raise ScheduleError("bound: expected shares from 0 to 1, and prices of 0 or more")
    if overlap == "model":
        shares = np.full_like(shares, shares[0])
    weights = np.zeros(names.count)
    for section, repeats in enumerate(graph.repeats):
        both = overlap == "none"
        weights[names.compute(section)] = repeats * (1.0 if both else shares[section])
        weights[names.communication(section)] = repeats * (1.0 if both else 1.0 - shares[section])
    limit = 0.0
    if prices.any():
        if not memory_bytes < np.inf:
            raise ScheduleError("bound: bytes have prices, but nothing limits them")
        weights[names.persistent] = prices.sum()
        for moment in range(names.n_moments):
            weights[names.transient(moment)] = prices[moment]
        limit = float(prices.sum()) * memory_bytes
    found = least_sum(graph, weights, witness.messages)
    if np.isinf(found):
        return found
    return found - limit - 8 * n_moments * _ROUNDING * (limit + abs(found))


def least_sum(graph: FactorGraph, weights: FloatArray, messages: FloatArray) -> float:
    """What no plan's weighted sum of quantities goes below, by messages that anybody made.

    Parameters
    ----------
    graph : FactorGraph
    weights : array of shape (quantities,)
        0 or more.
    messages : array
        As of a `BoundWitness`.

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
    possible = _possible(graph)
    if possible is None:
        return np.inf
    sums = [np.zeros(size) for size in graph.sizes]
    largest = [np.zeros(size) for size in graph.sizes]
    for part in graph.factors:
        if len(part.scope) == 1:
            for quantity, table in part.tables.items():
                sums[part.scope[0]] += weights[quantity] * table
                largest[part.scope[0]] += weights[quantity] * np.abs(table)
    total, slack, n_terms = 0.0, 0.0, len(weights) + len(graph.factors) + 4
    for part, first, second in zip(pairs, sent[::2], sent[1::2], strict=True):
        own = -(first[:, None] + second[None, :])
        size = np.abs(first)[:, None] + np.abs(second)[None, :]
        for quantity, table in part.tables.items():
            own = own + weights[quantity] * table
            size = size + weights[quantity] * np.abs(table)
        sums[part.scope[0]] += first
        sums[part.scope[1]] += second
        largest[part.scope[0]] += np.abs(first)
        largest[part.scope[1]] += np.abs(second)
        allowed = possible[part.scope[0]][:, None] & possible[part.scope[1]][None, :]
        if part.forbidden is not None:
            allowed = allowed & ~part.forbidden
        total += float(own[allowed].min())
        slack += float(size[allowed].max())
    for node, states in enumerate(possible):
        total += float(sums[node][states].min())
        slack += float(largest[node][states].max())
    return total - 2 * n_terms * _ROUNDING * slack


def _possible(graph: FactorGraph) -> list[np.ndarray] | None:
    """States that some plan may take, as far as pairs tell; None where a node has none."""
    found = [np.ones(size, bool) for size in graph.sizes]
    bans = [part for part in graph.factors if part.forbidden is not None]
    left = -1
    while left != (left := sum(int(states.sum()) for states in found)):
        for part in bans:
            assert part.forbidden is not None
            allowed = ~part.forbidden
            if len(part.scope) == 1:
                found[part.scope[0]] &= allowed
                continue
            first, second = part.scope
            found[first] &= (allowed & found[second][None, :]).any(axis=1)
            found[second] &= (allowed & found[first][:, None]).any(axis=0)
    return found if all(states.any() for states in found) else None
