"""Decomposition of a time-stepped flow into timed paths, and of these into whole chunks: a step schedule."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain

import numpy as np

from treadle.arrays import Float64Array
from treadle.context import context
from treadle.errors import InfeasibleError, ScheduleError
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.alltoall.exchange_cost import step_times
from treadle.schedules.collective import Collective
from treadle.schedules.steps.steps import MAX_CHUNKS
from treadle.synthesis.alltoall.routes.integral_units import least_integral, rounded_units
from treadle.synthesis.alltoall.steps.route_runs import exchange_from_sends
from treadle.synthesis.alltoall.steps.time_stepped import TimeSteppedFlow
from treadle.topologies.topology import Topology

_DUST = 1e-9  # fraction of a demand below which a flow counts as rounding
_LEAST = 0.99  # least fraction of each demand that a flow must deliver

Hop = tuple[int, int]
"""(step from 0, link)."""


@dataclass(frozen=True)
class ChunkedExchange:
    """A schedule, and the loss by rounding to whole chunks.

    Parameters
    ----------
    schedule : ExchangeSchedule
    time : Fraction
        Seconds per unit of demand, by exact loads.
    loss : float
        Excess over the fractional flow's time, relative to it.
    """

    schedule: ExchangeSchedule
    time: Fraction
    loss: float


def chunked_exchange(
    topology: Topology, collective: Collective, flow: TimeSteppedFlow, *, chunks: int | None = None
) -> ChunkedExchange:
    """Decompose a flow into timed paths of pairs, and give each path whole chunks.

    Parameters
    ----------
    topology : Topology
    collective : Collective
    flow : TimeSteppedFlow
        A flow of it.
    chunks : int, optional
        P per shard; default the least up to 64 that makes every share an integer, or 64.

    Raises
    ------
    ScheduleError
        For a number of chunks out of range.
    InfeasibleError
        If the flow leaves more than a hundredth of some demand undelivered.

    Notes
    -----
    Walks lead from the target at the end back over the fullest arcs (links and waiting) to the source; the
    narrowest arc is the path's share. A path that visits a node twice waits there instead. Rounding is by
    largest remainders.
    """
    if chunks is not None and not 1 <= chunks <= MAX_CHUNKS:
        raise ScheduleError(f"chunks: {chunks} per shard, expected 1 to 2**24")
    demands = collective.pair_demands.between
    found: list[tuple[int, list[Hop], float]] = []
    n_pairs = 0
    for source in range(collective.n_ranks):
        context().report("timed paths", source, collective.n_ranks)
        peeler = _TimedPeeler(topology, flow.by_step[:, source], collective.ranks[source])
        for target in np.flatnonzero(demands[source]).tolist():
            paths = peeler.take(collective.ranks[target], float(demands[source, target]))
            found += [(n_pairs, *path) for path in paths]
            n_pairs += 1
    numbers = np.array([pair for pair, _, _ in found], dtype=np.int64)
    weights = np.array([weight for _, _, weight in found])
    shares = weights / np.bincount(numbers, weights=weights)[numbers]
    n_chunks = least_integral(shares) if chunks is None else chunks
    units = rounded_units(numbers, shares * n_chunks, np.full(n_pairs, n_chunks))
    high = np.cumsum(units) - numbers * n_chunks  # the paths of a pair follow each other
    ways = [path if count else [] for (_, path, _), count in zip(found, units.tolist(), strict=True)]
    row, hop = np.repeat(np.arange(len(ways)), [*map(len, ways)]), np.array(list(chain(*ways)))
    sends = [numbers[row], hop[:, 1], hop[:, 0], (high - units)[row], high[row]]
    schedule = exchange_from_sends(collective, n_chunks, sends, len(flow.step_times))
    time = sum(step_times(topology, collective, schedule), Fraction(0))
    return ChunkedExchange(schedule, time, float(time) / flow.time - 1)


class _TimedPeeler:
    """Remaining flow of one source.

    Parameters
    ----------
    topology : Topology
    by_step : array of float64, shape (T, m)
    source : int
        Node.
    """

    def __init__(self, topology: Topology, by_step: Float64Array, source: int) -> None:
        self._source = source
        self._tails = topology.tails.tolist()
        self._heads = topology.heads.tolist()
        self._n_steps = len(by_step)
        # Arcs with flow into node v at the end of step t.
        self._into: list[dict[int, list[int]]] = []
        self._left: list[dict[int, float]] = []
        for flows in by_step:
            links = np.flatnonzero(flows > 0)
            self._left.append(dict(zip(links.tolist(), flows[links].tolist(), strict=True)))
            into: dict[int, list[int]] = defaultdict(list)
            for link in links.tolist():
                into[self._heads[link]].append(link)
            self._into.append(into)
        # Data that wait at each node from the end of step t to the end of step t + 1.
        held = np.zeros((len(by_step), topology.n_nodes))
        for step in range(len(by_step) - 1):
            np.add.at(held[step], topology.heads, by_step[step])
            if step:
                held[step] += held[step - 1]
            np.add.at(held[step], topology.tails, -by_step[step + 1])
        self._held: list[list[float]] = np.maximum(held, 0.0).tolist()

    def take(self, target: int, demand: float) -> list[tuple[list[Hop], float]]:
        """Remove timed paths to the target that carry its demand; return each with its amount."""
        found: list[tuple[list[Hop], float]] = []
        left = demand
        while left > _DUST * demand:
            # By the fullest arcs, so that few paths carry most of the demand.
            walk = self._walk_back(target)
            amount = left
            for step, link, node in walk:
                amount = min(amount, self._left[step][link] if link >= 0 else self._held[step][node])
            if not walk or amount <= _DUST * demand:
                break
            for step, link, node in walk:
                if link >= 0:
                    self._left[step][link] -= amount
                else:
                    self._held[step][node] -= amount
            found.append((self._hops(walk, target), amount))
            left -= amount
        if left > (1 - _LEAST) * demand:
            raise InfeasibleError(
                f"time-stepped flow: delivers {1 - left / demand:.3f} of some demand, expected all of it; "
                f"use --algorithm pipelined"
            )
        return found

    def _walk_back(self, target: int) -> list[tuple[int, int, int]]:
        """Return (step, link or -1 for waiting, node) from the end back to the source; empty if none.

        The step of waiting at a node is that at whose end it begins.
        """
        walk: list[tuple[int, int, int]] = []
        node = target
        for step in range(self._n_steps - 1, -1, -1):
            if node == self._source:
                break
            best, widest = -1, self._held[step - 1][node] if step else 0.0
            left = self._left[step]
            for link in self._into[step].get(node, ()):
                if left[link] > widest:
                    best, widest = link, left[link]
            if widest <= 0.0:
                return []
            walk.append((step, best, node) if best >= 0 else (step - 1, -1, node))
            if best >= 0:
                node = self._tails[best]
        return walk if node == self._source else []

    def _hops(self, walk: list[tuple[int, int, int]], target: int) -> list[Hop]:
        """Return the links of a walk, from the source on, without cycles."""
        hops: list[Hop] = []
        visited = {self._source: 0}
        for step, link, _ in reversed(walk):
            if link < 0:
                continue
            hops.append((step, link))
            head = self._heads[link]
            if head in visited:
                del hops[visited[head] :]
                visited = {node: place for node, place in visited.items() if place <= len(hops)}
            else:
                visited[head] = len(hops)
        assert hops
        assert self._heads[hops[-1][1]] == target
        return hops
