"""Reduce tree heights at equal loads: swaps between trees along physical paths, and moves into free
capacity."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from treadle.arrays import Int32Array, Int64Array, sums_of
from treadle.engine import core, run_until
from treadle.synthesis.core_values.tree_values import (
    Arcs,
    RankedFabric,
    RoutedForest,
    SearchLimits,
)
from treadle.synthesis.trees.instance import Instance
from treadle.synthesis.trees.packers.tree_packing import Packing, logical_arcs, tree_rows
from treadle.synthesis.trees.switch_removal import LogicalGraph

MAX_CELLS = 2**23
"""Largest trees times ranks in memory, at about 50 bytes each."""

MAX_POOLS = 2**23
"""Ranks times nodes: lists of tree edges by sender and by node they pass."""

WORK = 10**8
"""Steps of a search by default, a second or two; counted, not timed, so results do not vary."""

_WORK_PER_CELL = 1500

_SPLIT = 16
"""Parts, on average, that trees with large multiplicities are split into at most."""

_LEAST_CELLS = 2**17


@dataclass(frozen=True)
class LocalOptimum:
    """A forest after the search.

    Parameters
    ----------
    graph : LogicalGraph
        Its arcs are those the trees use: swaps at switches make new ones.
    packing : Packing
        Trees of that graph; equal ones are one.
    before, after : int
        Heights in hops from rank to rank.
    swaps, reversals, rehangs, splits : int
        Exchanges of two tree edges, of chains of them, moves into free capacity, and trees cut in two for it.
    work : int
        Steps.
    failure : str
        Why nothing was tried, or "".
    """

    graph: LogicalGraph
    packing: Packing
    before: int
    after: int
    swaps: int = 0
    reversals: int = 0
    rehangs: int = 0
    splits: int = 0
    work: int = 0
    failure: str = ""


def rank_numbers(problem: Instance) -> Int32Array:
    """Numbers of the nodes with terminals first, in the order of ranks; shape (n_nodes,)."""
    number = np.empty(problem.n_nodes, dtype=np.int32)
    number[np.concatenate([problem.terminals, problem.relays])] = np.arange(problem.n_nodes, dtype=np.int32)
    return number


def link_units(graph: LogicalGraph, n_links: int) -> Int64Array:
    """Units that the arcs of a logical graph take of every link, shape (n_links,)."""
    lengths = np.diff(graph.path_offset)
    by_path = np.bincount(graph.segment_path, weights=graph.segment_units, minlength=len(lengths))
    return sums_of(n_links, graph.path_links, np.repeat(by_path.astype(np.int64), lengths))


def default_steps(packing: Packing) -> int:
    """Default limit of steps of the local search."""
    trees = min(int(packing.multiplicity.sum()), _SPLIT * len(packing.root))
    cells = trees * int(packing.parent.shape[1])
    return min(WORK, _WORK_PER_CELL * max(cells, min(4 * cells, 1024)))


def reduce_tree_heights(
    problem: Instance,
    graph: LogicalGraph,
    packing: Packing,
    *,
    capacities: Int64Array | None = None,
    lowest: int = 1,
    max_work: int | None = None,
    seed: int = 0,
) -> LocalOptimum:
    """Reduce the height of a forest, within capacities; the height never increases.

    `capacities` are units of every link, by default what the arcs of the graph take of it. The search ends at
    the height bound `lowest`, or after `max_work` steps: by default 1500 per unit tree and rank (at most 16
    unit trees per tree; up to four times as many where these are few), at most 10**8.

    Every tree edge is a path of links. Two edges of different trees whose paths pass one node, a switch or
    the receiver, may swap what comes before it: no link's load changes. Where that would close a cycle,
    nodes above change sides too (w -> v -> u in one tree and x -> u -> v in the other become x -> u -> v and
    w -> v -> u). Where links have free units a subtree moves to a parent that reaches it over them. The cost
    of a node grows with the square of its hops above a limit; the limit is found by bisection.
    """
    n, n_nodes = len(problem.terminals), problem.n_nodes
    before = packing_height(packing)
    unchanged = LocalOptimum(graph, packing, before, before)
    if before <= lowest:
        return unchanged
    if len(packing.root) * n > MAX_CELLS or n * n_nodes > MAX_POOLS:  # the latter keeps ranks within 16 bits
        return replace(unchanged, failure=f"{len(packing.root)} trees of {n} ranks are too many")
    units = link_units(graph, len(problem.tails)) if capacities is None else capacities
    trees = min(int(packing.multiplicity.sum()), _SPLIT * len(packing.root))
    limits = SearchLimits(
        height=lowest,
        max_work=default_steps(packing) if max_work is None else max_work,
        max_cells=min(MAX_CELLS, max(trees * n, _LEAST_CELLS)),
        seed=seed,
    )
    fabric, forest = ranked_fabric(problem, units), routed_forest(problem, graph, packing)
    status, lower, (first, last, swaps, reversals, rehangs, splits, steps) = run_until(
        "local search", lambda control: core.lower_forest(fabric, forest, limits, control)
    )
    if status != 0:
        return replace(unchanged, failure="trees with one path per edge are too many")
    assert first == before
    made = from_routed_forest(problem, RoutedForest.of(lower))
    return LocalOptimum(*made, before, last, swaps, reversals, rehangs, splits, steps)


def ranked_fabric(problem: Instance, capacities: Int64Array) -> RankedFabric:
    """Return a fabric as the core's searches take it, nodes numbered with terminals first."""
    number = rank_numbers(problem)
    arcs = Arcs(number[problem.tails], number[problem.heads], capacities)
    return RankedFabric(len(problem.terminals), problem.n_nodes, arcs)


def routed_forest(problem: Instance, graph: LogicalGraph, packing: Packing) -> RoutedForest:
    """Graph and trees as the core takes them, in rank numbers."""
    return RoutedForest(logical_arcs(problem, graph), tree_rows(packing))


def from_routed_forest(problem: Instance, forest: RoutedForest) -> tuple[LogicalGraph, Packing]:
    """Return the graph and the trees of a forest that the core returned."""
    arcs, trees = forest
    in_nodes = arcs._replace(tail=problem.terminals[arcs.tail], head=problem.terminals[arcs.head])
    rows = trees.parent.reshape(len(trees.root), len(problem.terminals))
    return LogicalGraph(*in_nodes), Packing(trees.root, trees.multiplicity, rows)


def packing_height(packing: Packing) -> int:
    """Hops in the logical graph, greatest over all trees."""
    return core.forest_height(np.ascontiguousarray(packing.parent).ravel(), packing.parent.shape[1])
