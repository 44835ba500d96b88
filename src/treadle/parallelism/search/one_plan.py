"""The fastest plan that fits into memory; where none does, the smallest memory into which one fits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from treadle.parallelism.search.branching import Incumbent, SearchEffort, minimise
from treadle.parallelism.search.factor_graph import FactorGraph
from treadle.parallelism.search.minimax import Overlap, peak_memory, step_time
from treadle.parallelism.search.reweighted_trees import no_messages, tree_bound
from treadle.parallelism.search.slices import Domains, Slice, consistent


@dataclass(frozen=True)
class MemoryShortage:
    """No plan fits.

    Parameters
    ----------
    memory_bytes : float
        What there was.
    least_bytes : float
        Into which `plan` fits.
    bound_bytes : float
        No plan fits into less.
    plan : tuple of int, optional
        None where the factors forbid every plan.
    """

    memory_bytes: float
    least_bytes: float
    bound_bytes: float
    plan: tuple[int, ...] | None


def least_persistent(graph: FactorGraph, within: Domains) -> float:
    """Return a lower bound on the bytes that any plan of some states holds at every moment."""
    domains = consistent(graph, within)
    if domains is None:
        return np.inf
    part, weights = Slice(graph, domains), np.zeros(graph.quantities.count)
    weights[graph.quantities.persistent] = 1
    return tree_bound(part, part.energies(weights), no_messages(graph), n_passes=1).bound


def fastest_plan(
    graph: FactorGraph,
    *,
    memory_bytes: float = np.inf,
    overlap: Overlap = Overlap.LAYER,
    within: Domains | None = None,
    named: Iterable[tuple[int, ...]] = (),
    effort: SearchEffort | None = None,
) -> Incumbent | MemoryShortage:
    """Minimise the step's time, memory first.

    Parameters
    ----------
    graph : FactorGraph
    memory_bytes : float
        Limit of every moment.
    overlap : Overlap
    within : tuple of int arrays, optional
        States that a plan may take, ascending, per node: a preset is a restriction of the same graph, for
        which `NAMED_EFFORT` is enough.
    named : iterable of plans
        That are known to be allowed; where one of them fits, memory needs no search of its own.
    effort : SearchEffort, optional
        Of the search for time; memory is searched until a plan fits, or the same gap is proven and that none
        fits.

    Returns
    -------
    The plan and its bound; or by how much memory falls short. A search that ends by its limits of effort
    before it finds a plan that fits, and before it proves that none does, gives an `Incumbent` without a
    plan.
    """
    effort = SearchEffort() if effort is None else effort
    known = [plan for plan in named if graph.is_allowed(plan)]
    aim = step_time(graph, overlap=overlap, memory_bytes=memory_bytes)
    if np.isfinite(memory_bytes) and not any(aim.fits(graph.amounts(plan)) for plan in known):
        least = _least_memory(graph, memory_bytes, within, known, effort)
        if least.bound > memory_bytes:
            return MemoryShortage(memory_bytes, least.value, least.bound, least.plan)
        if least.plan is not None:
            known.append(least.plan)
    found = minimise(graph, aim, within=within, warm_starts=known, effort=effort)
    if found.plan is None and found.bound == np.inf:
        return MemoryShortage(memory_bytes, np.inf, np.inf, None)
    return found


def _least_memory(
    graph: FactorGraph,
    memory_bytes: float,
    within: Domains | None,
    known: list[tuple[int, ...]],
    effort: SearchEffort,
) -> Incumbent:
    """Return a plan that fits, or one of the least memory, to a gap that decides whether any fits.

    Left undecided, the search for time would have to find out, whose bounds are weak on memory.
    """
    gap = effort.gap
    while True:
        own = replace(effort, enough=memory_bytes, gap=gap)
        least = minimise(graph, peak_memory(graph), within=within, warm_starts=known, effort=own)
        is_open = least.bound <= memory_bytes < least.value
        if not is_open or least.plan is None or least.bound < least.value * (1 - gap):
            return least
        known, smaller = [*known, least.plan], 0.999 * (1 - memory_bytes / least.value)
        if smaller >= gap:
            return least
        gap = smaller
