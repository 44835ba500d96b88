"""One plan for all layers, by branch and bound over `multipliers`.

The weights' best bound may lie below the best plan, because the linear program mixes plans. Where
the mixed plans differ, the states of a node are split (`splitting`); each part is bounded again, with the
weights and messages it inherits. The part with the least bound is split first. Where one plan
is left its value is exact, and infinite if it breaks a limit: that is where bounds of parts without any plan
that fits come from.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import count

import numpy as np

from treadle.context import context
from treadle.parallelism.search.factor_graph import FactorGraph, FloatArray
from treadle.parallelism.search.local_moves import improved
from treadle.parallelism.search.minimax import Minimax
from treadle.parallelism.search.multipliers import Columns, Support, climb, even_weights
from treadle.parallelism.search.reweighted_trees import no_messages
from treadle.parallelism.search.slices import Domains, Slice, boxes_of, consistent, full_domains
from treadle.parallelism.search.splitting import PartRecord, best_split


@dataclass(frozen=True)
class Incumbent:
    """The best plan found, and how good any plan can be.

    Parameters
    ----------
    plan : tuple of int, optional
        None where none was found that keeps to the limits.
    value : float
        Of that plan; infinity without one.
    bound : float
        No plan has a smaller value; infinity where no plan keeps to the limits.
    n_parts : int
        Parts that were bounded.
    n_passes : int
        Calls of message passing.
    plans : tuple of plans
        That were met on the way, those that break limits too.
    record : PartRecord, optional
        How the bound was found.
    """

    plan: tuple[int, ...] | None
    value: float
    bound: float
    n_parts: int
    n_passes: int
    plans: tuple[tuple[int, ...], ...] = field(default=(), repr=False, compare=False)
    record: PartRecord | None = field(default=None, repr=False, compare=False)

    @property
    def gap(self) -> float:
        """Share of the value that may be saved at most."""
        if self.plan is None:
            return np.inf
        return 0.0 if self.value <= 0 else max(0.0, 1 - self.bound / self.value)


@dataclass(frozen=True)
class SearchEffort:
    """Stopping rules.

    Parameters
    ----------
    gap : float
        Optimality gap at which to stop, relative to the best value.
    enough : float
        A value at which a plan is good enough, whatever the bound.
    n_parts : int
        Most parts to bound.
    first_passes, other_passes : int
        Most calls of message passing for the whole and for each part.
    """

    gap: float = 0.01
    enough: float = -np.inf
    n_parts: int = 10_000
    first_passes: int = 60
    other_passes: int = 12


NAMED_EFFORT = SearchEffort(n_parts=1, first_passes=6)
"""Enough for the best plan within the few states of a named one: its bound is of no interest."""


@dataclass(frozen=True, eq=False)
class _Part:
    domains: Domains
    weights: FloatArray
    messages: FloatArray
    """In the queue, where thousands may wait, only those of its states."""
    support: Support
    record: PartRecord


def minimise(
    graph: FactorGraph,
    aim: Minimax,
    *,
    within: Domains | None = None,
    warm_starts: Iterable[tuple[int, ...]] = (),
    effort: SearchEffort | None = None,
) -> Incumbent:
    """Return the best plan, with a bound.

    Parameters
    ----------
    graph : FactorGraph
    aim : Minimax
    within : tuple of int arrays, optional
        States that a plan may take, ascending; all of them by default. The bound is that of such plans.
    warm_starts : iterable of plans
        To begin with; the answer is never worse than the best of those that fit and lie in the domains.
    effort : SearchEffort, optional
    """
    effort = SearchEffort() if effort is None else effort
    columns = Columns(graph, aim)
    start = consistent(graph, full_domains(graph) if within is None else within)
    if start is None:
        return Incumbent(None, np.inf, np.inf, 0, 0)
    part = Slice(graph, start)
    for plan in warm_starts:
        labels = part.labels(plan) if graph.is_allowed(plan) else None
        if labels is not None:  # it lies in the domains, and arc consistency keeps allowed plans
            columns.add(plan)
            columns.add(part.plan(improved(part, aim, labels)))
    return _Branching(columns, effort).run(start)


class _Branching:
    def __init__(self, columns: Columns, effort: SearchEffort) -> None:
        self.columns = columns
        self.effort = effort
        self.heap: list[tuple[float, int, _Part]] = []
        self.ticket = count()
        self.closed_bound = np.inf
        """Least bound among parts that were closed without being split."""
        self.n_parts = 0
        self.n_passes = 0

    def run(self, start: Domains) -> Incumbent:
        graph, aim = self.columns.graph, self.columns.aim
        record = PartRecord(even_weights(aim))
        self.bound_part(_Part(start, record.weights, no_messages(graph), (), record), -np.inf)
        while self.heap and not self.is_budget_spent:
            bound, _, part = heapq.heappop(self.heap)
            if bound >= self.cutoff:
                self.closed_bound = min(self.closed_bound, bound)
                continue
            whole_part, messages = Slice(graph, part.domains), no_messages(graph)
            messages[whole_part.message_positions] = part.messages
            node, groups = best_split(whole_part, aim, part.weights, messages, part.support)
            part.record.split(node, groups)
            for domains, own in zip(boxes_of(part.domains, node, groups), part.record.parts, strict=True):
                piece = _Part(domains, part.weights, messages, part.support, own)
                if self.is_budget_spent:  # what is not looked at keeps its parent's bound
                    self.push(bound, replace(piece, support=()))
                else:
                    self.bound_part(piece, bound)
            if (progress := context().progress) is not None:
                progress("branch and bound", self.n_parts, self.n_parts + len(self.heap))
        found, counts = self.columns, (self.n_parts, self.n_passes)
        bound = min([self.closed_bound, self.cutoff, found.value, *(bound for bound, _, _ in self.heap)])
        return Incumbent(found.best, found.value, bound, *counts, tuple(found.plans), record)

    @property
    def cutoff(self) -> float:
        return self.columns.value * (1 - self.effort.gap)

    @property
    def must_stop(self) -> bool:
        return context().is_late or self.columns.value <= self.effort.enough

    @property
    def is_budget_spent(self) -> bool:
        return self.must_stop or self.n_parts >= self.effort.n_parts

    def push(self, bound: float, part: _Part) -> None:
        given = part.messages[Slice(self.columns.graph, part.domains).message_positions]
        heapq.heappush(self.heap, (bound, next(self.ticket), replace(part, messages=given)))

    def bound_part(self, part: _Part, at_least: float) -> None:
        """Bound a part, and keep it if it may hold a plan below the cutoff."""
        self.n_parts += 1
        graph = self.columns.graph
        domains = consistent(graph, part.domains)
        if domains is None:
            return
        cut = Slice(graph, domains)
        if cut.is_single:
            self.settle(cut)
            return
        is_root = self.n_parts == 1
        found = climb(
            cut,
            self.columns,
            part.weights,
            part.messages,
            cut_at=1 - self.effort.gap,
            n_passes=self.effort.first_passes if is_root else self.effort.other_passes,
            probes_weights=is_root,  # of a smaller part it is quicker to split on
            must_stop=lambda: self.must_stop,
        )
        self.n_passes += found.n_passes
        part.record.weights = found.weights
        bound = max(found.bound, at_least)
        if found.domains is None or bound >= self.cutoff:
            self.closed_bound = min(self.closed_bound, bound)
        elif all(len(states) == 1 for states in found.domains):
            self.settle(Slice(graph, found.domains))
        else:
            self.push(bound, _Part(found.domains, found.weights, found.messages, found.support, part.record))

    def settle(self, single: Slice) -> None:
        """Settle a part of one plan: its value is the bound, or infinity if it breaks a limit."""
        plan = single.plan([0] * len(single.sizes))
        self.columns.add(plan)
        amounts = self.columns.plans[plan]
        if self.columns.aim.fits(amounts):
            self.closed_bound = min(self.closed_bound, self.columns.aim.value(amounts))
