"""A factor graph with fewer states per node: the core reads the graph's tables through lists of states.

States without a partner that is allowed at some neighbour are removed until none is left (arc consistency),
so that every message of `reweighted_trees` is finite though tables forbid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from treadle.arrays import Int64Array, offsets_of
from treadle.engine import core
from treadle.parallelism.search.core_search_values import CoreDomains
from treadle.parallelism.search.factor_graph import FactorGraph, FloatArray

Domains = tuple[Int64Array, ...]
"""Per node the states that are left, ascending."""


def full_domains(graph: FactorGraph) -> Domains:
    """Return every state of every node."""
    return tuple(np.arange(size, dtype=np.int64) for size in graph.sizes)


def consistent(graph: FactorGraph, domains: Domains) -> Domains | None:
    """Keep the states with an allowed partner at every neighbour; None if a node loses all of them."""
    masks = ((states, graph.forbidden_alone.get(node)) for node, states in enumerate(domains))
    left = [states if mask is None else states[~mask[states]] for states, mask in masks]
    core_domains = _core_domains(left)
    stays = core.states_with_partners(graph.pair_tables, core_domains).astype(np.bool_)
    runs = pairwise(core_domains.start)
    found = tuple(states[stays[start:end]] for states, (start, end) in zip(left, runs, strict=True))
    return None if any(not len(states) for states in found) else found


def boxes_of(domains: Domains, node: int, groups: Sequence[Int64Array]) -> list[Domains]:
    """Return the domains that fall apart at one node."""
    return [(*domains[:node], states, *domains[node + 1 :]) for states in groups]


def _core_domains(domains: Sequence[Int64Array]) -> CoreDomains:
    starts = offsets_of(np.array([len(states) for states in domains], dtype=np.int64))
    return CoreDomains(np.concatenate([np.array([], dtype=np.int64), *domains]), starts)


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
        self.core_domains = _core_domains(domains)
        self.starts = self.core_domains.start
        """Start of each node's states, and the end."""

    @property
    def is_single(self) -> bool:
        """Whether one plan is left."""
        return all(size == 1 for size in self.sizes)

    @cached_property
    def _rows(self) -> Int64Array:
        """States among those of the graph, numbered through all nodes."""
        return self.core_domains.state + np.repeat(self.graph.starts[:-1], self.sizes)

    @cached_property
    def message_positions(self) -> Int64Array:
        """Positions of the slice's messages among the graph's: by edge, to either end."""
        nodes, before = self.graph.message_ends
        lengths = np.diff(self.starts)[nodes]
        first = np.repeat(self.starts[nodes] - offsets_of(lengths)[:-1], lengths)
        return self.core_domains.state[np.arange(len(first)) + first] + np.repeat(before, lengths)

    def energies(self, coefficients: FloatArray) -> Energies:
        """Return the sum of the quantities with these weights, shape (quantities,), not negative."""
        graph = self.graph
        unary = np.zeros(len(self._rows))
        for quantity in np.flatnonzero(coefficients):  # of dozens of moments few have a price
            unary += coefficients[quantity] * graph.amounts_by_quantity[quantity][self._rows]
        return Energies(
            unary,
            core.pair_energies(graph.pair_tables, self.core_domains, coefficients),
            float(graph.largest @ coefficients),
        )

    def plan(self, labels: Sequence[int]) -> tuple[int, ...]:
        """Return the states of the graph from places in the domains."""
        return tuple(int(states[label]) for states, label in zip(self.domains, labels, strict=True))

    def labels(self, plan: Sequence[int]) -> list[int] | None:
        """Return the places in the domains from states of the graph; None if the plan lies outside."""
        found = []
        for states, state in zip(self.domains, plan, strict=True):
            place = int(np.searchsorted(states, state))
            if place == len(states) or states[place] != state:
                return None
            found.append(place)
        return found
