"""Choices that cost by themselves and in pairs: nodes with finite domains, and tables of several quantities.

A *plan* picks one state of each node. A *quantity* (compute seconds of a section, communication seconds of a
section, persistent bytes, transient bytes at a moment) is a sum over *factors*, each a table over the states
of one node or of two. Sections (the repeated block, the ends of the model) are priced apart, because the step
adds the larger of compute and communication of each. Nothing here knows what a node stands for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from treadle.arrays import BoolArray, Int64Array, frozen, offsets_of
from treadle.errors import ScheduleError

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Quantities:
    """Which quantity has which number.

    Parameters
    ----------
    n_sections : int
        Parts of the model whose compute and communication are added apart.
    n_moments : int
        Moments at which transient bytes are counted; 0 where only persistent bytes are.
    """

    n_sections: int
    n_moments: int

    def compute(self, section: int) -> int:
        """Compute seconds of a section, once."""
        return section

    def communication(self, section: int) -> int:
        """Communication seconds of a section, once."""
        return self.n_sections + section

    @property
    def persistent(self) -> int:
        """Bytes that are held at every moment."""
        return 2 * self.n_sections

    def transient(self, moment: int) -> int:
        """Bytes that are held at one moment beside the persistent ones."""
        return 2 * self.n_sections + 1 + moment

    @property
    def count(self) -> int:
        """Number of quantities."""
        return 2 * self.n_sections + 1 + self.n_moments


@dataclass(frozen=True, eq=False)
class Factor:
    """What the states of one node, or of two, cost.

    Parameters
    ----------
    scope : tuple of int
        One node, or two in ascending order.
    tables : mapping of int to array of shape (states,) or (states, states)
        Quantity -> amounts, finite and not negative; quantities without an entry cost nothing.
    forbidden : bool array of that shape, optional
        States that no plan may take.
    """

    scope: tuple[int, ...]
    tables: Mapping[int, FloatArray]
    forbidden: BoolArray | None = None

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Of the tables; None where there are none."""
        for table in self.tables.values():
            return table.shape
        return None if self.forbidden is None else self.forbidden.shape

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Factor):
            return NotImplemented
        mine, theirs = self.forbidden, other.forbidden
        return (
            self.scope == other.scope
            and self.tables.keys() == other.tables.keys()
            and all(np.array_equal(table, other.tables[q]) for q, table in self.tables.items())
            and (mine is theirs or (mine is not None and theirs is not None and np.array_equal(mine, theirs)))
        )

    def __hash__(self) -> int:
        return hash((self.scope, tuple(sorted(self.tables))))


def factor(scope: Sequence[int], tables: Mapping[int, ArrayLike]) -> Factor:
    """A factor from tables in which infinity forbids, its scope in any order.

    Parameters
    ----------
    scope : sequence of int
        One node, or two.
    tables : mapping of int to array
        Quantity -> amounts; axes as in `scope`.
    """
    turned = len(scope) == 2 and scope[0] > scope[1]
    given = {q: np.asarray(table, dtype=np.float64) for q, table in tables.items()}
    if turned:
        given = {q: table.T for q, table in given.items()}
    forbidden = None
    for table in given.values():
        infinite = np.isposinf(table)
        if infinite.any():
            forbidden = infinite if forbidden is None else forbidden | infinite
    clean = {}
    for q, table in given.items():
        amounts = table if forbidden is None else np.where(forbidden, 0.0, table)
        if amounts.any() or forbidden is None:
            clean[q] = frozen(amounts, np.float64)
    return Factor(tuple(sorted(scope)), clean, None if forbidden is None else frozen(forbidden, np.bool_))


@dataclass(frozen=True)
class FactorGraph:
    """Nodes with domains, and the factors over them.

    Parameters
    ----------
    sizes : tuple of int
        States of each node.
    quantities : Quantities
        What is counted.
    factors : tuple of Factor
        At most one per scope.
    repeats : tuple of int
        How often each section runs in a step (the layers of a repeated block; 1 for an end).
    letters : tuple of int arrays of shape (states, any), optional
        Per node, what tells its states apart, most telling first: branching splits by the first column in
        which good plans differ. By default a state's number.
    first : tuple of int
        Nodes to branch on before others (boundary states of a block).

    Raises
    ------
    ScheduleError
        If shapes, scopes or amounts do not fit.
    """

    sizes: tuple[int, ...]
    quantities: Quantities
    factors: tuple[Factor, ...]
    repeats: tuple[int, ...]
    letters: tuple[Int64Array, ...] = field(default=(), compare=False)
    first: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if len(self.repeats) != self.quantities.n_sections:
            raise ScheduleError(
                f"factor graph: expected {self.quantities.n_sections} repeats, found {len(self.repeats)}"
            )
        if any(size < 1 for size in self.sizes):
            raise ScheduleError("factor graph: a node has no states")
        seen: set[tuple[int, ...]] = set()
        for part in self.factors:
            self._check(part)
            if part.scope in seen:
                raise ScheduleError(f"factor graph: two factors over nodes {part.scope}; merge them")
            seen.add(part.scope)

    def _check(self, part: Factor) -> None:
        scope = part.scope
        if len(scope) not in (1, 2) or list(scope) != sorted(set(scope)):
            raise ScheduleError(f"factor graph: expected one node or two in ascending order, found {scope}")
        if not all(0 <= node < len(self.sizes) for node in scope):
            raise ScheduleError(f"factor graph: {scope} names a node that is not there")
        shape = tuple(self.sizes[node] for node in scope)
        masks = [] if part.forbidden is None else [part.forbidden]
        for table in [*part.tables.values(), *masks]:
            if table.shape != shape:
                raise ScheduleError(f"factor graph: nodes {scope}: expected {shape}, found {table.shape}")
        for quantity, table in part.tables.items():
            if not 0 <= quantity < self.quantities.count:
                raise ScheduleError(f"factor graph: nodes {scope}: no quantity {quantity}")
            if not np.isfinite(table).all() or (table < 0).any():
                raise ScheduleError(f"factor graph: nodes {scope}: amounts must be finite and not negative")

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.sizes)

    def is_allowed(self, plan: Sequence[int]) -> bool:
        """Whether no factor forbids the plan."""
        return not any(
            part.forbidden is not None and part.forbidden[tuple(plan[node] for node in part.scope)]
            for part in self.factors
        )

    @cached_property
    def starts(self) -> Int64Array:
        """Where each node's states begin when those of all nodes are numbered through, and the end."""
        return offsets_of(np.array(self.sizes, dtype=np.int64))

    @cached_property
    def node_amounts(self) -> FloatArray:
        """Every quantity of the factors over one node, shape (states of all nodes, quantities)."""
        found = np.zeros((sum(self.sizes), self.quantities.count))
        for part in self.factors:
            if len(part.scope) == 1:
                rows = found[self.starts[part.scope[0]] : self.starts[part.scope[0] + 1]]
                for quantity, table in part.tables.items():
                    rows[:, quantity] = table
        return found

    @cached_property
    def edges(self) -> tuple[Factor, ...]:
        """Factors over two nodes."""
        return tuple(part for part in self.factors if len(part.scope) == 2)

    def amounts(self, plan: Sequence[int]) -> FloatArray:
        """Every quantity of a plan, shape (quantities,)."""
        found = self.node_amounts[self.starts[:-1] + np.array(plan, dtype=np.int64)].sum(axis=0)
        for part in self.edges:
            u, v = part.scope
            for quantity, table in part.tables.items():
                found[quantity] += table[plan[u], plan[v]]
        return np.asarray(found)
