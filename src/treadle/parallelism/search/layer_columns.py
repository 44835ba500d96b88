"""A repeated block and the ends of a model apart: what layers may take, and what each of it costs.

Layers and ends meet at boundary nodes only (the activations X and gradients G that pass from layer to layer).
A *column* is a plan of the block with equal boundary states at both sides; an *ending* is a
plan of the ends with their states. Where a layer is followed by one with other boundary states, the tensors
move.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from treadle.errors import ScheduleError
from treadle.parallelism.search.factor_graph import Factor, FactorGraph, FloatArray
from treadle.parallelism.search.minimax import Minimax, Overlap, step_time

Plan = tuple[int, ...]


@dataclass(frozen=True)
class Layering:
    """Repeated part of a graph.

    Parameters
    ----------
    graph : FactorGraph
        With equal boundary states of all layers.
    section : int
        That repeats.
    boundary : tuple of int
        Nodes that layers share with each other and with the ends.
    switches : tuple of arrays of shape (states, states)
        Per boundary node, seconds to get from the state of a layer (or of the ends) to that of the next in
        the order of the model (for gradients, which come back, the table is turned); not negative, infinity
        if impossible. Diagonals are 0.
    block : frozenset of int
        Nodes of the section that are not boundaries.

    Raises
    ------
    ScheduleError
        If a factor ties block and ends, counts in the other's section, or switches do not fit.
    """

    graph: FactorGraph
    section: int
    boundary: tuple[int, ...]
    switches: tuple[FloatArray, ...] = field(compare=False)
    block: frozenset[int]

    def __post_init__(self) -> None:
        names = self.graph.quantities
        if self.block & set(self.boundary):
            raise ScheduleError("layers: a boundary node is not in the block")
        for node, table in zip(self.boundary, self.switches, strict=True):
            size = self.graph.sizes[node]
            if table.shape != (size, size) or not (table >= 0).all() or table.diagonal().any():
                raise ScheduleError(
                    f"layers: boundary node {node}: expected {size} x {size} seconds, 0 to itself"
                )
        own = {names.serial(self.section), names.overlapped(self.section)}
        for part in self.graph.factors:
            inside = self._is_inside(part)
            if inside and not self.block.union(self.boundary).issuperset(part.scope):
                raise ScheduleError(f"layers: nodes {part.scope} tie the block to the ends")
            timed = {q for q, table in part.tables.items() if q < names.persistent and table.any()}
            if not (timed <= own if inside else timed.isdisjoint(own)):
                raise ScheduleError(f"layers: nodes {part.scope} cost time in another section than their own")

    @property
    def n_layers(self) -> int:
        """Number of runs of the section."""
        return self.graph.repeats[self.section]

    def _is_inside(self, part: Factor) -> bool:
        return bool(self.block.intersection(part.scope)) or set(part.scope) <= set(self.boundary)

    @cached_property
    def layers(self) -> BoundarySide:
        """The block."""
        return self._side(inside=True)

    @cached_property
    def ends(self) -> BoundarySide:
        """Part that runs once."""
        return self._side(inside=False)

    def _side(self, *, inside: bool) -> BoundarySide:
        graph = self.graph
        nodes = [
            node for node in range(graph.n_nodes) if node in self.boundary or (node in self.block) == inside
        ]
        number = {node: i for i, node in enumerate(nodes)}
        factors = tuple(
            Factor(tuple(number[node] for node in part.scope), part.tables, part.forbidden)
            for part in graph.factors
            if self._is_inside(part) == inside
        )
        small = FactorGraph(
            tuple(graph.sizes[node] for node in nodes),
            graph.quantities,
            factors,
            graph.repeats,
            tuple(graph.letters[node] for node in nodes) if graph.letters else (),
            tuple(number[node] for node in graph.first if node in number),
            graph.kappa,
        )
        return BoundarySide(small, tuple(nodes), tuple(number[node] for node in self.boundary))

    def switch_seconds(self, before: Plan, after: Plan) -> float:
        """Return the seconds from boundary states to boundary states."""
        return float(sum(t[i, j] for t, i, j in zip(self.switches, before, after, strict=True)))


@dataclass(frozen=True, eq=False)
class BoundarySide:
    """The graph of the block or of the ends.

    Parameters
    ----------
    graph : FactorGraph
    nodes : tuple of int
        In the graph of both.
    boundary : tuple of int
        In `graph`.
    """

    graph: FactorGraph
    nodes: tuple[int, ...]
    boundary: tuple[int, ...]

    def cut(self, plan: Plan) -> Plan:
        """Return the part of a plan that is on this side."""
        return tuple(plan[node] for node in self.nodes)

    def boundary_of(self, plan: Plan) -> Plan:
        """Return the boundary states of a plan of this side."""
        return tuple(plan[node] for node in self.boundary)


def joined(layering: Layering, column: Plan, ending: Plan) -> Plan:
    """Return A plan of the whole graph: the ends' nodes from the ending, all else from the column."""
    found = dict(zip(layering.ends.nodes, ending, strict=True))
    found |= dict(zip(layering.layers.nodes, column, strict=True))
    return tuple(found[node] for node in range(layering.graph.n_nodes))


@dataclass(frozen=True, eq=False)
class ColumnPool:
    """Plans of one side and what they cost.

    Parameters
    ----------
    side : Side
    plans : tuple of plans
        Of the side.
    seconds : array of shape (plans,)
        Of a step, all layers taking the column; limits aside.
    held : array of shape (plans, moments)
        Bytes at each moment, persistent ones of all layers and transient ones.
    persistent : array of shape (plans,)
        Bytes of these that count for a layer's share; transient ones count once.
    """

    side: BoundarySide
    plans: tuple[Plan, ...]
    seconds: FloatArray
    held: FloatArray
    persistent: FloatArray

    @classmethod
    def of(cls, side: BoundarySide, plans: Iterable[Plan], overlap: Overlap) -> ColumnPool:
        """Price plans; each counts once, forbidden ones do not."""
        graph, aim = side.graph, step_time(side.graph, overlap=overlap)
        kept = tuple(plan for plan in dict.fromkeys(plans) if graph.is_allowed(plan))
        amounts = np.array([graph.amounts(plan) for plan in kept]).reshape(-1, graph.quantities.count)
        held, persistent = amounts @ aim.forms[list(aim.limited)].T, amounts[:, graph.quantities.persistent]
        return cls(side, kept, aim.values(amounts), held, persistent)

    def with_more(self, plans: Iterable[Plan], overlap: Overlap) -> ColumnPool:
        """Return the union of both sets."""
        known = set(self.plans)
        more = ColumnPool.of(self.side, [plan for plan in plans if plan not in known], overlap)
        return ColumnPool(
            self.side,
            self.plans + more.plans,
            np.concatenate([self.seconds, more.seconds]),
            np.vstack([self.held, more.held]),
            np.concatenate([self.persistent, more.persistent]),
        )

    @property
    def transient(self) -> FloatArray:
        """Bytes at each moment besides the persistent ones."""
        return self.held - self.persistent[:, None]

    def chosen(self, rows: Sequence[int]) -> ColumnPool:
        """Return some of the plans."""
        at = np.array(rows, dtype=np.int64)
        plans = tuple(self.plans[i] for i in rows)
        return ColumnPool(self.side, plans, self.seconds[at], self.held[at], self.persistent[at])

    def up_to(self, seconds: float) -> ColumnPool:
        """Keep those that take no more."""
        return self.chosen(np.flatnonzero(self.seconds <= seconds).tolist())

    def undominated(self, merit: FloatArray, most: int) -> ColumnPool:
        """Return at most `most` plans of least merit; none is worse in all costs than another."""
        costs = np.hstack([self.seconds[:, None], self.persistent[:, None], self.transient])
        kept: list[int] = []
        for i in np.argsort(merit, kind="stable")[: 10 * most].tolist():
            mine = self.side.boundary_of(self.plans[i])
            rivals = [j for j in kept if self.side.boundary_of(self.plans[j]) == mine]
            if not any((costs[j] <= costs[i]).all() for j in rivals):
                kept.append(i)
            if len(kept) == most:
                break
        return self.chosen(kept)


def priced(side: BoundarySide, overlap: Overlap, prices: FloatArray) -> Minimax:
    """Return the objective seconds of a step + bytes at each moment * prices, without limits."""
    aim = step_time(side.graph, overlap=overlap)
    row = prices @ aim.forms[list(aim.limited)]
    return Minimax(np.vstack([aim.forms, row]), (*aim.groups, (1.0, (len(aim.forms),))))
