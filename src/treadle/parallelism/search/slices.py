"""A factor graph with fewer states per node, its tables cut out once for many evaluations.

States without a partner that is allowed at some neighbour are removed until none is left (arc consistency),
so that every message of `reweighted_trees` is finite though tables forbid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from treadle.arrays import BoolArray, Int32Array, Int64Array, offsets_of
from treadle.parallelism.search.core_search_values import PairTables
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
class _Edge:
    scope: tuple[int, int]
    shape: tuple[int, int]
    tables: tuple[tuple[int, FloatArray], ...]
    forbidden: BoolArray | None


def _cut(part: Factor, graph: FactorGraph, domains: Domains) -> _Edge:
    u, v = part.scope
    shape = len(domains[u]), len(domains[v])
    if shape == (graph.sizes[u], graph.sizes[v]):  # tables of whole domains are large: no copies
        return _Edge((u, v), shape, tuple(part.tables.items()), part.forbidden)
    place = np.ix_(domains[u], domains[v])
    mask = None if part.forbidden is None else part.forbidden[place]
    return _Edge(
        (u, v),
        shape,
        tuple((quantity, table[place]) for quantity, table in part.tables.items()),
        mask if mask is not None and mask.any() else None,
    )


@dataclass(frozen=True, eq=False)
class Energies:
    """One number per state and per pair of states: what message passing minimises.

    Parameters
    ----------
    unary : array
        Node after node.
    pair : array
        Edge after edge, a row for each state of the earlier node; infinity forbids.
    largest : float
        At least the sum over factors of the largest finite entry.
    """

    unary: FloatArray
    pair: FloatArray
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
        self.starts = offsets_of(np.array(self.sizes, dtype=np.int64))
        """Where each node's states begin, and the end."""
        self.rows = np.concatenate(
            [start + states for start, states in zip(graph.starts[:-1], domains, strict=True)]
        )
        """States among those of the graph, numbered through all nodes."""
        self.node_amounts = graph.node_amounts[self.rows]
        self.edges = tuple(_cut(part, graph, domains) for part in graph.edges)
        self.at: list[list[int]] = [[] for _ in domains]
        """Per node its edges."""
        for e, edge in enumerate(self.edges):
            self.at[edge.scope[0]].append(e)
            self.at[edge.scope[1]].append(e)
        self.pair_starts = offsets_of(
            np.array([edge.shape[0] * edge.shape[1] for edge in self.edges], dtype=np.int64)
        )

    @property
    def is_single(self) -> bool:
        """Whether one plan is left."""
        return all(size == 1 for size in self.sizes)

    @cached_property
    def _largest(self) -> FloatArray:
        """By quantity, the sum over factors of the largest amount."""
        found = np.zeros(self.graph.quantities.count)
        for start, end in pairwise(self.starts.tolist()):
            found += self.node_amounts[start:end].max(axis=0)
        for edge in self.edges:
            for quantity, table in edge.tables:
                found[quantity] += table.max()
        return found

    @cached_property
    def _forbidden(self) -> Int64Array:
        """Places of forbidden pairs among those of all edges."""
        return np.concatenate(
            [
                np.array([], dtype=np.int64),
                *(
                    start + np.flatnonzero(edge.forbidden)
                    for start, edge in zip(self.pair_starts[:-1], self.edges, strict=True)
                    if edge.forbidden is not None
                ),
            ]
        )

    @cached_property
    def message_places(self) -> Int64Array:
        """Of the slice's messages among those of the graph: by edge, to the earlier node and to the later."""
        found, start = [np.array([], dtype=np.int64)], 0
        for edge in self.graph.edges:
            for node in edge.scope:
                found.append(start + self.domains[node])
                start += self.graph.sizes[node]
        return np.concatenate(found)

    @cached_property
    def core_arrays(self) -> tuple[Int32Array, Int32Array, Int32Array]:
        """States by node, and the nodes of each edge."""
        ends = np.array([edge.scope for edge in self.edges], dtype=np.int32).reshape(-1, 2)
        return np.array(self.sizes, dtype=np.int32), ends[:, 0].copy(), ends[:, 1].copy()

    def energies(self, coefficients: FloatArray) -> Energies:
        """The sum of the quantities with these weights, shape (quantities,), not negative."""
        pair = np.zeros(int(self.pair_starts[-1]))
        for start, edge in zip(self.pair_starts[:-1], self.edges, strict=True):
            own = pair[start : start + edge.shape[0] * edge.shape[1]].reshape(edge.shape)
            is_first = True
            for quantity, table in edge.tables:
                weight = coefficients[quantity]
                if weight and is_first:
                    np.multiply(table, weight, out=own)
                    is_first = False
                elif weight:
                    own += weight * table
        pair[self._forbidden] = np.inf
        return Energies(self.node_amounts @ coefficients, pair, float(self._largest @ coefficients))

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

    @cached_property
    def pair_tables(self) -> PairTables:
        """Every table, and what is forbidden, as the core reads them."""
        rows: list[tuple[int, int, int]] = []
        amounts = [np.array([])]
        for edge in self.edges:
            u, v = edge.scope
            rows += [(u, v, quantity) for quantity, _ in edge.tables]
            amounts += [table.ravel() for _, table in edge.tables]
            if edge.forbidden is not None:
                rows.append((u, v, -1))
                amounts.append(edge.forbidden.ravel().astype(np.float64))
        tail, head, quantity = np.array(rows, dtype=np.int32).reshape(-1, 3).T.copy()
        return PairTables(
            self.core_arrays[0], self.node_amounts, tail, head, quantity, np.concatenate(amounts)
        )
