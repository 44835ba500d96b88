"""A factor graph with fewer states per node, its tables cut out once for many evaluations.

States without a partner that is allowed at some neighbour are removed until none is left (arc consistency),
so that every message of `reweighted_trees` is finite though tables forbid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from treadle.arrays import BoolArray, Int64Array
from treadle.parallelism.search.factor_graph import Factor, FactorGraph, FloatArray

Domains = tuple[Int64Array, ...]
"""Per node the states that are left, ascending."""


def whole(graph: FactorGraph) -> Domains:
    """Every state of every node."""
    return tuple(np.arange(size, dtype=np.int64) for size in graph.sizes)


def consistent(graph: FactorGraph, domains: Domains) -> Domains | None:
    """Those states that have an allowed partner at every neighbour; None where a node loses all of them."""
    left = list(domains)
    bans = [part for part in graph.factors if part.forbidden is not None]
    changed = {node for part in bans for node in part.scope}
    while changed:
        touched: set[int] = set()
        for part in bans:
            if not changed.intersection(part.scope):
                continue
            assert part.forbidden is not None
            for axis, node in enumerate(part.scope):
                allowed = ~part.forbidden[np.ix_(*(left[other] for other in part.scope))]
                keep = allowed if len(part.scope) == 1 else allowed.any(axis=1 - axis)
                if not keep.all():
                    left[node] = left[node][keep]
                    touched.add(node)
                    if not len(left[node]):
                        return None
        changed = touched
    return None if any(not len(states) for states in left) else tuple(left)


@dataclass(frozen=True, eq=False)
class _Part:
    scope: tuple[int, ...]
    shape: tuple[int, ...]
    tables: tuple[tuple[int, FloatArray], ...]
    forbidden: BoolArray | None

    def energy(self, coefficients: FloatArray) -> tuple[FloatArray, float]:
        """The weighted sum of the tables, infinite where forbidden, and its largest finite entry."""
        total = np.zeros(self.shape)
        for quantity, table in self.tables:
            if coefficients[quantity]:
                total += coefficients[quantity] * table
        largest = float(total.max())
        if self.forbidden is not None:
            total[self.forbidden] = np.inf
        return total, largest


def _cut(part: Factor, domains: Domains) -> _Part:
    place = np.ix_(*(domains[node] for node in part.scope))
    mask = None if part.forbidden is None else part.forbidden[place]
    return _Part(
        part.scope,
        tuple(len(domains[node]) for node in part.scope),
        tuple((quantity, table[place]) for quantity, table in part.tables.items()),
        mask if mask is not None and mask.any() else None,
    )


@dataclass(frozen=True, eq=False)
class Energies:
    """One number per state and per pair of states: what message passing minimises.

    Parameters
    ----------
    unary : list of arrays of shape (states,)
        Per node.
    pairs : list of arrays of shape (states, states)
        Per edge.
    largest : float
        Sum over factors of the largest finite entry.
    """

    unary: list[FloatArray]
    pairs: list[FloatArray]
    largest: float


class Slice:
    """A factor graph on consistent domains.

    Parameters
    ----------
    graph : FactorGraph
    domains : tuple of int arrays
        As `consistent` returns them.
    """

    def __init__(self, graph: FactorGraph, domains: Domains) -> None:
        self.graph = graph
        self.domains = domains
        self.sizes = tuple(len(states) for states in domains)
        parts = [_cut(part, domains) for part in graph.factors]
        self.nodes = tuple(part for part in parts if len(part.scope) == 1)
        self.edges = tuple(part for part in parts if len(part.scope) == 2)
        self.before: list[list[int]] = [[] for _ in domains]
        """Per node the edges to earlier nodes."""
        self.after: list[list[int]] = [[] for _ in domains]
        """Per node the edges to later nodes."""
        for e, edge in enumerate(self.edges):
            self.after[edge.scope[0]].append(e)
            self.before[edge.scope[1]].append(e)
        self.own: list[_Part | None] = [None] * len(domains)
        for node in self.nodes:
            self.own[node.scope[0]] = node

    @property
    def is_single(self) -> bool:
        """Whether one plan is left."""
        return all(size == 1 for size in self.sizes)

    def energies(self, coefficients: FloatArray) -> Energies:
        """The sum of the quantities with these weights, shape (quantities,), not negative."""
        unary = [np.zeros(size) for size in self.sizes]
        largest = 0.0
        for part in self.nodes:
            unary[part.scope[0]], most = part.energy(coefficients)
            largest += most
        pairs = []
        for part in self.edges:
            table, most = part.energy(coefficients)
            pairs.append(table)
            largest += most
        return Energies(unary, pairs, largest)

    def plan(self, labels: Sequence[int]) -> tuple[int, ...]:
        """States of the graph from places in the domains."""
        return tuple(int(states[label]) for states, label in zip(self.domains, labels, strict=True))

    def labels(self, plan: Sequence[int]) -> list[int] | None:
        """Places in the domains from states of the graph; None if the plan lies outside."""
        found = []
        for states, state in zip(self.domains, plan, strict=True):
            place = int(np.searchsorted(states, state))
            if place == len(states) or states[place] != state:
                return None
            found.append(place)
        return found

    def choices(self, node: int, labels: Sequence[int]) -> tuple[FloatArray, BoolArray]:
        """Quantities of the factors at a node for each of its states, others fixed, and which are allowed.

        Returns
        -------
        amounts : array of shape (states, quantities)
        allowed : bool array of shape (states,)
        """
        amounts = np.zeros((self.sizes[node], self.graph.quantities.count))
        allowed = np.ones(self.sizes[node], dtype=np.bool_)
        parts = [self.edges[e] for e in (*self.before[node], *self.after[node])]
        own = self.own[node]
        for part in parts if own is None else [own, *parts]:
            place: tuple[int | slice, ...] = tuple(
                slice(None) if other == node else labels[other] for other in part.scope
            )
            for quantity, table in part.tables:
                amounts[:, quantity] += table[place]
            if part.forbidden is not None:
                allowed &= ~part.forbidden[place]
        return amounts, allowed
