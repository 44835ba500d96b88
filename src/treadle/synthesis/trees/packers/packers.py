"""Which packer makes the forest: low and quick ones first, exact growth, which always succeeds, last.

Packers that bound the height are tried first; none of them is complete. Exact growth (`tree_packing`) packs
whatever satisfies condition C, but its trees may be high. See docs/algorithms/packers.md for the order and
what each is good for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from treadle.arrays import Int64Array
from treadle.context import context, under
from treadle.synthesis.trees.instance import Instance, find_violated_cut
from treadle.synthesis.trees.packers.improvement import local_search
from treadle.synthesis.trees.packers.local_search import packing_height
from treadle.synthesis.trees.packers.packed import Packed as Packed
from treadle.synthesis.trees.packers.packed import Packer as Packer
from treadle.synthesis.trees.packers.packed import PackingAttempt as PackingAttempt
from treadle.synthesis.trees.packers.shortest_trees import is_dense, pack_shortest_trees
from treadle.synthesis.trees.packers.tree_packing import Packing, pack_trees, rank_arcs
from treadle.synthesis.trees.packers.vertex_matching import (
    Digraph,
    Matched,
    Start,
    height_bound,
    match_vertices,
)
from treadle.synthesis.trees.switch_removal import LogicalGraph

# Each is worth its code (test_alternatives.py). Without shortest paths hamming(2,24)
# has height 3 and not 2, and crown(128) takes twice as long; without matching double_binary_tree(100) has 11
# and not 10, without priced matching that of 150 ranks 16 and not 15, and that of 500 takes ten times longer.
_BEFORE_GROWTH = (Packer.BREADTH_FIRST, Packer.SHORTEST_PATHS, Packer.MATCHING, Packer.PRICED_MATCHING)

SMALL_CELLS = 2**18
"""Up to so many trees times nodes growth is quick, and the lower of two forests is kept."""

NEAR = 0.01
"""Matching follows breadth-first only if that left at most this share of the tree edges on full arcs."""

_BREADTH_FIRST_WORK = 150
_MATCHING_WORK = 40
_PRICED_WORK = 300
_LEAST_WORK = 20_000_000
_LARGEST_FACTOR = 2**16


def pack_smallest_height(
    problem: Instance,
    graph: LogicalGraph,
    multiplicities: Int64Array,
    *,
    packer: Packer | None = None,
    capacities: Int64Array | None = None,
    search_steps: int | None = None,
) -> Packed:
    """Pack r(v) spanning out-trees rooted at each terminal by the first packer that succeeds.

    Parameters
    ----------
    problem : Instance
    graph : LogicalGraph
        Condition C must hold.
    multiplicities : array of int64, shape (N,)
        r(v).
    packer : Packer, optional
        Try just this one, and growth after it; default all of them.
    capacities : array of int64, shape (m,), optional
        Units of every link. If they are given, local search makes the trees lower, within them, unless
        another packer was asked for; the result then has a graph of its own.
    search_steps : int, optional
        No local search if it may take more than so many steps.

    Raises
    ------
    TimeLimitError
        When the deadline passed before there was a forest.
    """
    packed = _pack(problem, graph, multiplicities, packer)
    if capacities is None or packer not in (None, Packer.LOCAL_SEARCH):
        return packed
    return local_search(packed, problem, capacities, steps=search_steps)


def _pack(
    problem: Instance, graph: LogicalGraph, multiplicities: Int64Array, packer: Packer | None
) -> Packed:
    attempts: list[PackingAttempt] = []
    arcs = rank_arcs(problem, graph)
    digraph = Digraph(multiplicities, *arcs)
    with under(context().unlimited):
        unit = largest_unit(problem, graph, multiplicities)
    ranks = np.arange(digraph.n_nodes, dtype=np.int32)
    lowest = max(0, height_bound(len(ranks), arcs.tail, arcs.head, ranks, ranks[multiplicities > 0]))
    pack = partial(_attempt, digraph=digraph, unit=unit, lowest=lowest)
    left: float | None = None
    # on dense graphs shortest paths come first
    dense = is_dense(digraph.n_nodes, len(digraph.tails))
    names = [name for name in _BEFORE_GROWTH if packer in (None, name)]
    for name in sorted(names, key=lambda name: dense and name is not Packer.SHORTEST_PATHS):
        reason = ""
        if not packer and name is Packer.MATCHING and left is not None and left > NEAR:
            reason = f"breadth-first left {left:.0%} of the tree edges on full arcs"
        elif not packer and name is Packer.PRICED_MATCHING and len(problem.relays):
            reason = "behind switches growth is as low, with fewer trees"
        if reason:
            attempts.append(PackingAttempt(name, f"not tried: {reason}"))
            continue
        found = pack(name)
        attempts.append(PackingAttempt(name, found.outcome))
        left = left if found.left is None else found.left
        if found.packing is None:
            continue
        made = Packed(graph, found.packing, name, tuple(attempts))
        height = packing_height(found.packing)
        shortest = Packer.SHORTEST_PATHS
        if packer is None and name is Packer.BREADTH_FIRST and height > lowest:
            # higher than distances: shortest paths may do better
            if any(attempt.packer is shortest for attempt in attempts):
                return made
            other = pack(shortest)
            told = PackingAttempt(shortest, other.outcome)
            if other.packing is None:
                return replace(made, attempts=(told, *attempts))
            beaten = PackingAttempt(name, f"not taken: height {height}")
            return Packed(graph, other.packing, shortest, (*attempts[:-1], beaten, told))
        if packer is None and name is Packer.PRICED_MATCHING and _cells(digraph, unit) <= SMALL_CELLS:
            # growth's packing if it is lower, or as low with fewer trees
            grown = _grow(problem, graph, multiplicities, unit)
            grown_height, trees = packing_height(grown), len(found.packing.root)
            if (height, trees) <= (grown_height, len(grown.root)):
                note = f"not taken: height {grown_height}, {len(grown.root)} trees"
                return replace(made, attempts=(*attempts, PackingAttempt(Packer.GROWTH, note)))
            attempts[-1] = PackingAttempt(name, f"not taken: height {height}, {trees} trees")
            return _grown(graph, grown, attempts)
        return made
    return _grown(graph, _grow(problem, graph, multiplicities, unit), attempts)


def _grown(graph: LogicalGraph, grown: Packing, attempts: Sequence[PackingAttempt]) -> Packed:
    outcome = f"made the forest: {grown.speculative} unit trees greedily, {grown.exact} exactly"
    return Packed(graph, grown, Packer.GROWTH, (*attempts, PackingAttempt(Packer.GROWTH, outcome)))


def largest_unit(problem: Instance, graph: LogicalGraph, multiplicities: Int64Array) -> int:
    """The largest divisor of all multiplicities with which condition C holds for floor(c / unit).

    Divisors are those of `divisors`: all of them below 2^32.
    """
    common = int(np.gcd.reduce(multiplicities))
    total = int(multiplicities.sum())
    # trees in bundles of a unit are fewer; of the largest unit that no floor hurts, fewest
    for unit in divisors(common)[:-1]:
        capacities = graph.capacities // unit
        entering = np.bincount(graph.heads, weights=capacities, minlength=problem.n_nodes)[problem.terminals]
        # cuts around single ranks cost next to nothing, and most units fail there
        if np.any(entering < (total - multiplicities) // unit):
            continue
        logical = Instance(
            problem.topology,
            problem.direction,
            problem.terminals,
            multiplicities // unit,
            graph.tails,
            graph.heads,
            capacities,
        )
        if find_violated_cut(logical, capacities) is None:
            return unit
    return 1


def divisors(number: int) -> list[int]:
    """Divisors of a positive integer, largest first; primes above 2^16 whose product it has stay together.

    Multiplicities come from bandwidths in bytes/s and may be of any size up to 2^62.

    Examples
    --------
    >>> divisors(12)
    [12, 6, 4, 3, 2, 1]
    """
    found, rest = [1], number
    for prime in range(2, _LARGEST_FACTOR + 1):  # composites no longer divide what is left
        if prime * prime > rest:
            break
        powers = [1]
        while rest % prime == 0:
            rest //= prime
            powers.append(powers[-1] * prime)
        found = [one * power for one in found for power in powers]
    if rest > 1:
        found += [one * rest for one in found]
    return sorted(found, reverse=True)


def _cells(graph: Digraph, unit: int) -> int:
    return int(graph.multiplicities.sum()) // unit * graph.n_nodes


@dataclass(frozen=True)
class _Attempt:
    """A packing or None, what is told of it, and the share of tree edges that matching left on full arcs."""

    packing: Packing | None
    outcome: str
    left: float | None = None


def _attempt(name: Packer, *, digraph: Digraph, unit: int, lowest: int) -> _Attempt:
    if name is Packer.SHORTEST_PATHS:
        trees = pack_shortest_trees(digraph, unit=unit)
        if trees is None:
            return _Attempt(None, "failed: some rank's in-links do not suffice, or the trees are too many")
        told = f"made the forest: height {lowest}, every rank at its distance in this graph"
        return _Attempt(Packing(*trees, speculative=0, exact=0), told)
    found = _match(name, digraph, unit, lowest)
    if found.failure:
        return _Attempt(None, f"failed: {found.failure}", found.overload / max(1, _cells(digraph, unit)))
    order = np.argsort(found.root, kind="stable")
    rows = found.root[order], found.multiplicity[order], found.parent[order]
    return _Attempt(
        Packing(*rows, speculative=0, exact=0),
        f"made the forest: height {found.height} (at least {lowest} in this graph), "
        f"{found.rehangs} re-hangings, {found.splits} splits, {found.detours} detours",
    )


def _match(name: Packer, graph: Digraph, unit: int, lowest: int) -> Matched:
    # all trees of a root begin as one, so roots count and not trees
    cells = int(np.count_nonzero(graph.multiplicities)) * graph.n_nodes
    is_breadth_first, is_priced = name is Packer.BREADTH_FIRST, name is Packer.PRICED_MATCHING
    work = _BREADTH_FIRST_WORK if is_breadth_first else _PRICED_WORK if is_priced else _MATCHING_WORK
    return match_vertices(
        graph,
        start=Start.PRICED if is_priced else Start.BREADTH_FIRST,
        detours=not is_breadth_first,
        first_height=lowest,
        last_height=2 * lowest + 2 if is_breadth_first else None,
        unit=unit,
        max_work=max(_LEAST_WORK, work * cells),
    )


def _grow(problem: Instance, graph: LogicalGraph, multiplicities: Int64Array, unit: int) -> Packing:
    """Growth of trees in bundles of `unit`, for which condition C holds too."""
    coarse = replace(graph, capacities=graph.capacities // unit)
    grown = pack_trees(problem, coarse, multiplicities // unit)
    return replace(grown, multiplicity=grown.multiplicity * unit)
