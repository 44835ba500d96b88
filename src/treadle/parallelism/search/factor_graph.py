"""Choices that cost by themselves and in pairs: nodes with finite domains, and tables of several quantities.

A *plan* picks one state of each node. A *quantity* (compute seconds of a section, communication seconds of a
section, persistent bytes, transient bytes at a moment) is a sum over *factors*, each a table over the states
of one node or of two. Sections (the repeated block, the ends of the model) are priced apart, because the step
adds the larger of compute and communication of each. Nothing here knows what a node stands for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from treadle.arrays import BoolArray, Int64Array, frozen, offsets_of
from treadle.errors import ScheduleError
from treadle.parallelism.search.core_search_values import PairTables

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Quantities:
    """Numbers of the quantities.

    Parameters
    ----------
    n_sections : int
        Parts of the model whose compute and communication are added apart.
    n_moments : int
        Moments at which transient bytes are counted; 0 where only persistent bytes are.
    """

    n_sections: int
    n_moments: int

    def serial(self, section: int) -> int:
        """Return the seconds of computing in a section, and of communication that it waits for, once."""
        return section

    def overlapped(self, section: int) -> int:
        """Return the seconds of overlapped communication in a section, once."""
        return self.n_sections + section

    @property
    def persistent(self) -> int:
        """Bytes that are held at every moment."""
        return 2 * self.n_sections

    def transient(self, moment: int) -> int:
        """Return the bytes that are held at one moment besides the persistent ones."""
        return 2 * self.n_sections + 1 + moment

    @property
    def count(self) -> int:
        """Number of quantities."""
        return 2 * self.n_sections + 1 + self.n_moments


@dataclass(frozen=True, eq=False)
class Factor:
    """Costs of the states of one node, or of two.

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
        """Shape of the tables; None without any."""
        arrays = [*self.tables.values(), *([] if self.forbidden is None else [self.forbidden])]
        return arrays[0].shape if arrays else None


def factor(scope: Sequence[int], tables: Mapping[int, ArrayLike]) -> Factor:
    """Return A factor from tables in which infinity forbids, its scope in any order.

    Parameters
    ----------
    scope : sequence of int
        One node, or two.
    tables : mapping of int to array
        Quantity -> amounts; axes as in `scope`. Equal ones are kept once.
    """
    turned = len(scope) == 2 and scope[0] > scope[1]
    given = {q: np.asarray(table, dtype=np.float64) for q, table in tables.items()}
    different = {id(table): table for table in given.values()}
    forbidden = None
    for table in different.values():
        infinite = np.isposinf(table)
        if infinite.any():
            forbidden = infinite if forbidden is None else forbidden | infinite
    made: dict[int, FloatArray] = {}
    for number, table in different.items():
        amounts = frozen(table if forbidden is None else np.where(forbidden, 0.0, table), np.float64)
        made[number] = next((one for one in made.values() if np.array_equal(one, amounts)), amounts)
    clean = {q: made[id(table)] for q, table in given.items()}
    if forbidden is not None:
        clean = {q: table for q, table in clean.items() if table.any()}
    if turned:
        turned_once = {id(table): frozen(table.T, np.float64) for table in made.values()}
        clean = {q: turned_once[id(table)] for q, table in clean.items()}
        forbidden = None if forbidden is None else frozen(forbidden.T, np.bool_)
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
        Per node, keys of its states, most important first: branching splits by the first column in
        which good plans differ. By default a state's number.
    first : tuple of int
        Nodes to branch on before others (boundary states of a block).
    kappa : float
        While a rank computes and communicates, both take this factor longer: 1 to 2.

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
    kappa: float = 1.0

    def __post_init__(self) -> None:
        n_repeats, n_sections = len(self.repeats), self.quantities.n_sections
        if n_repeats != n_sections:
            raise ScheduleError(f"factor graph: expected {n_sections} repeats, found {n_repeats}")
        if any(size < 1 for size in self.sizes):
            raise ScheduleError("factor graph: a node has no states")
        seen: set[tuple[int, ...]] = set()
        for part in self.factors:
            for fault in self._faults(part):
                raise ScheduleError(f"factor graph: {fault}")
            if part.scope in seen:
                raise ScheduleError(f"factor graph: two factors over nodes {part.scope}; merge them")
            seen.add(part.scope)

    def _faults(self, part: Factor) -> Iterator[str]:
        scope, place = part.scope, f"nodes {part.scope}"
        if len(scope) not in (1, 2) or list(scope) != sorted(set(scope)):
            yield f"expected one node or two in ascending order, found {scope}"
        if not all(0 <= node < len(self.sizes) for node in scope):
            yield f"{scope} names a node that is not there"
        shape = tuple(self.sizes[node] for node in scope)
        masks = [] if part.forbidden is None else [part.forbidden]
        if any(not mask.flags.c_contiguous or mask.dtype != np.bool_ for mask in masks):
            yield f"{place}: flags must be made by `factor`"
        for table in [*part.tables.values(), *masks]:
            if table.shape != shape:
                yield f"{place}: expected {shape}, found {table.shape}"
        for quantity, table in part.tables.items():
            if not table.flags.c_contiguous or table.dtype != np.float64:
                yield f"{place}: tables must be made by `factor`"
            if not 0 <= quantity < self.quantities.count:
                yield f"{place}: no quantity {quantity}"
            if not np.isfinite(table).all() or (table < 0).any():
                yield f"{place}: amounts must be finite and not negative"

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.sizes)

    def is_allowed(self, plan: Sequence[int]) -> bool:
        """Whether no factor forbids the plan."""
        return not any(mask[tuple(plan[node] for node in scope)] for scope, mask in self._bans)

    @cached_property
    def _bans(self) -> list[tuple[tuple[int, ...], BoolArray]]:
        return [(part.scope, part.forbidden) for part in self.factors if part.forbidden is not None]

    @cached_property
    def starts(self) -> Int64Array:
        """Start of each node's states in the global numbering, and the end."""
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
    def amounts_by_quantity(self) -> FloatArray:
        """The same, quantity after quantity."""
        return np.ascontiguousarray(self.node_amounts.T)

    @cached_property
    def forbidden_alone(self) -> Mapping[int, BoolArray]:
        """States of each node that no plan takes, if any."""
        return {
            part.scope[0]: part.forbidden
            for part in self.factors
            if len(part.scope) == 1 and part.forbidden is not None
        }

    @cached_property
    def edges(self) -> tuple[Factor, ...]:
        """Factors over two nodes."""
        return tuple(part for part in self.factors if len(part.scope) == 2)

    @cached_property
    def message_ends(self) -> tuple[Int64Array, Int64Array]:
        """Ends of edges, edge after edge, and where messages to each begin when they are numbered through."""
        nodes = np.array([part.scope for part in self.edges], dtype=np.int64).ravel()
        return nodes, offsets_of(np.array(self.sizes, dtype=np.int64)[nodes])[:-1]

    @cached_property
    def most_edges(self) -> int:
        """Costs of a node."""
        return int(np.bincount([node for part in self.edges for node in part.scope], minlength=1).max())

    @cached_property
    def pair_tables(self) -> PairTables:
        """All of it as the core reads it, without copies of tables; quantities share those that are equal."""
        edge, start, quantity, banned = [], [0], list[int](), []
        for number, part in enumerate(self.edges):
            by_table: dict[int, list[int]] = {}
            for q, table in part.tables.items():
                by_table.setdefault(id(table), []).append(q)
            for shared in by_table.values():
                edge.append(number)
                quantity += shared
                start.append(len(quantity))
            banned.append(0 if part.forbidden is None else part.forbidden.ctypes.data)
        ends = np.array([part.scope for part in self.edges], dtype=np.int32).reshape(-1, 2)
        return PairTables(
            np.array(self.sizes, dtype=np.int32),
            self.node_amounts,
            ends[:, 0].copy(),
            ends[:, 1].copy(),
            np.array(edge, dtype=np.int32),
            np.array(start, dtype=np.int32),
            np.array(quantity, dtype=np.int32),
            np.array([table.ctypes.data for table in self._tables], dtype=np.uint64),
            np.array(banned, dtype=np.uint64),
        )

    @cached_property
    def _tables(self) -> list[FloatArray]:
        """Different tables of edges, edge after edge."""
        return [
            table for part in self.edges for table in {id(one): one for one in part.tables.values()}.values()
        ]

    @cached_property
    def largest(self) -> FloatArray:
        """Sum over factors of the largest amount of each quantity."""
        found = np.zeros(self.quantities.count)
        for part in self.factors:
            for quantity, table in part.tables.items():
                found[quantity] += table.max()
        return found

    def amounts(self, plan: Sequence[int]) -> FloatArray:
        """Return every quantity of a plan, shape (quantities,)."""
        found = self.node_amounts[self.starts[:-1] + np.array(plan, dtype=np.int64)].sum(axis=0)
        tables = self.pair_tables
        states = np.array(plan, dtype=np.int64)
        tails, heads = states[tables.tail[tables.edge]], states[tables.head[tables.edge]]
        picked = [table[u, v] for table, u, v in zip(self._tables, tails, heads, strict=True)]
        np.add.at(found, tables.quantity, np.repeat(np.array(picked), np.diff(tables.start)))
        return np.asarray(found)
