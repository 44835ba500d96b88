"""Lower trees at equal loads: exchanges between trees along physical paths, and moves into free capacity."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treadle.arrays import Int32Array, Int64Array
from treadle.synthesis.engine import Progress, core, run_until
from treadle.synthesis.trees.instance import Instance
from treadle.synthesis.trees.packers.tree_packing import Packing
from treadle.synthesis.trees.switch_removal import LogicalGraph

MAX_CELLS = 2**23
"""Trees times ranks that are kept in memory, at about 50 bytes each."""

MAX_POOLS = 2**23
"""Ranks times nodes: lists of tree edges by sender and by node they pass."""

WORK = 10**8
"""Steps of a search by default, a second or two; counted, not timed, so results do not vary."""

_WORK_PER_CELL = 1500

_SPLIT = 16
"""Parts, on average, that trees with large multiplicities are split into at most."""

_LEAST_CELLS = 2**17

RoutedInput = tuple[
    int,
    int,
    Int32Array,
    Int32Array,
    Int64Array,
    Int32Array,
    Int32Array,
    Int64Array,
    Int32Array,
    Int64Array,
    Int64Array,
    Int32Array,
    Int32Array,
    Int64Array,
    Int32Array,
]
"""What the core's searches take: ranks and nodes, links, a logical graph in rank numbers, its trees."""

RoutedArrays = tuple[
    int,
    Int32Array,
    Int32Array,
    Int64Array,
    Int64Array,
    Int32Array,
    Int64Array,
    Int64Array,
    Int32Array,
    Int32Array,
    Int64Array,
    Int32Array,
    Int64Array,
]
"""What the core returns of trees with paths: status, a logical graph in rank numbers, its trees, counts."""


@dataclass(frozen=True)
class Lowered:
    """A forest after the search.

    Parameters
    ----------
    graph : LogicalGraph
        Its arcs are those the trees use: exchanges at switches make new ones.
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
    units = np.zeros(n_links, dtype=np.int64)
    np.add.at(units, graph.path_links, np.repeat(by_path.astype(np.int64), lengths))
    return units


def default_steps(packing: Packing) -> int:
    """Steps that the search for lower trees takes at most if nothing else is said."""
    trees = min(int(packing.multiplicity.sum()), _SPLIT * len(packing.root))
    return min(WORK, _WORK_PER_CELL * max(1024, trees * int(packing.parent.shape[1])))


def lower_trees(
    problem: Instance,
    graph: LogicalGraph,
    packing: Packing,
    *,
    capacities: Int64Array | None = None,
    lowest: int = 1,
    max_work: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    deadline: float | None = None,
) -> Lowered:
    """The forest made lower, at most as loaded as capacities allow; never higher than it was.

    Parameters
    ----------
    problem : Instance
    graph : LogicalGraph
    packing : Packing
        Trees of the graph, within its capacities.
    capacities : array of int64, shape (m,), optional
        Units of every link of the problem; default what the arcs of the graph take of it.
    lowest : int
        A bound of the height: the search ends when it is met.
    max_work : int, optional
        Steps; default 1500 per unit tree and rank (at most 16 unit trees per tree), at most 10**8.
    seed : int
        Breaks ties. The same arguments give the same trees.
    deadline : float, optional
        When it passes the lowest forest so far is returned; no error.

    Notes
    -----
    Every tree edge is a path of links. Two edges of different trees whose paths pass one node, a switch or
    the receiver, may exchange what comes before it: no link's load changes. Where that would close a cycle,
    nodes above change sides too (w -> v -> u in one tree and x -> u -> v in the other become x -> u -> v and
    w -> v -> u). Where links have free units a subtree hangs on whoever reaches it over them. The cost of a
    node grows with the square of its hops above a limit; the limit is found by bisection.
    """
    n, n_nodes = len(problem.terminals), problem.n_nodes
    before = packing_height(packing)
    if before <= lowest:
        return Lowered(graph, packing, before, before)
    if len(packing.root) * n > MAX_CELLS or n * n_nodes > MAX_POOLS or n >= 2**16 - 1:
        return Lowered(
            graph, packing, before, before, failure=f"{len(packing.root)} trees of {n} ranks are too many"
        )
    limits = link_units(graph, len(problem.tails)) if capacities is None else capacities
    routed = routed_input(problem, graph, packing, limits)
    trees = min(int(packing.multiplicity.sum()), _SPLIT * len(packing.root))
    work = default_steps(packing) if max_work is None else max_work
    kept: RoutedArrays = run_until(
        "local search",
        lambda control: core.lower_forest(
            *routed, lowest, work, min(MAX_CELLS, max(trees * n, _LEAST_CELLS)), seed, control
        ),
        progress=progress,
        deadline=deadline,
    )
    if kept[0] != 0:
        return Lowered(graph, packing, before, before, failure="trees with one path per edge are too many")
    lower_graph, lower_packing = routed_forest(problem, kept)
    first, last, swaps, reversals, rehangs, splits, steps = kept[-1].tolist()
    assert first == before
    return Lowered(lower_graph, lower_packing, before, last, swaps, reversals, rehangs, splits, steps)


def routed_input(
    problem: Instance, graph: LogicalGraph, packing: Packing, capacities: Int64Array
) -> RoutedInput:
    """A fabric and its trees as the core's searches take them, nodes numbered with terminals first."""
    number = rank_numbers(problem)
    return (
        len(problem.terminals),
        problem.n_nodes,
        number[problem.tails],
        number[problem.heads],
        capacities,
        number[graph.tails],
        number[graph.heads],
        graph.segment_offset,
        graph.segment_path,
        graph.segment_units,
        graph.path_offset,
        graph.path_links,
        packing.root,
        packing.multiplicity,
        np.ascontiguousarray(packing.parent).ravel(),
    )


def routed_forest(problem: Instance, arrays: RoutedArrays) -> tuple[LogicalGraph, Packing]:
    """Graph and trees from what the core returns of trees with paths."""
    _, tails, heads, units, offset, path, path_units, path_offset, links, root, multiplicity, parent, _ = (
        arrays
    )
    graph = LogicalGraph(
        problem.terminals[tails],
        problem.terminals[heads],
        units,
        offset,
        path,
        path_units,
        path_offset,
        links,
        cuts_mended=0,
        exact_splits=0,
    )
    rows = parent.reshape(len(root), len(problem.terminals))
    return graph, Packing(root, multiplicity, rows, speculative=0, exact=0)


def packing_height(packing: Packing) -> int:
    """Hops in the logical graph, greatest over all trees."""
    return core.forest_height(np.ascontiguousarray(packing.parent).ravel(), packing.parent.shape[1])
