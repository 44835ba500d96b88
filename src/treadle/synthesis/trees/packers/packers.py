"""Choice of the packer: small-height and fast ones first, exact incremental packing, which always succeeds,
last.

Packers that bound the height are tried first; none of them is complete. Exact incremental packing
(`tree_packing`) packs whatever satisfies the cut condition, but its height may be large. See
docs/how-it-works/optimal-trees.md for the order and what each is good for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from treadle.arrays import Int64Array
from treadle.context import context, under
from treadle.synthesis.core_values.tree_values import TreeRows
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
    Start,
    height_bound,
    match_vertices,
)
from treadle.synthesis.trees.switch_removal import LogicalGraph

# Each packer improves some fabric (test_alternatives.py). Without shortest paths the height of
# hamming(2,24) is 3 and not 2, and crown(128) takes twice as long; without matching that of
# double_binary_tree(100) is 11 and not 10; without priced matching that of 150 ranks is 16 and not 15, and
# 500 ranks take ten times longer.
_BEFORE_GROWTH = (Packer.BREADTH_FIRST, Packer.SHORTEST_PATHS, Packer.MATCHING, Packer.PRICED_MATCHING)

SMALL_CELLS = 2**18
"""Trees times nodes up to which incremental packing is fast, and the forest of smaller height is kept."""

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

    The cut condition must hold in the graph. If a packer is given, only it and then incremental packing are
    tried. If `capacities`, units of every link, are given, local search reduces the height within them,
    unless another packer was given; the result then has a graph of its own. Local search is left out if it
    may take more than `search_steps` steps.
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
    shortest, left = Packer.SHORTEST_PATHS, 0.0
    # on dense graphs shortest paths come first
    dense = is_dense(digraph.n_nodes, len(digraph.tails))
    names = [name for name in _BEFORE_GROWTH if packer in (None, name)]
    for name in sorted(names, key=lambda name: dense and name is not shortest):
        reason = ""
        if not packer and name is Packer.MATCHING and left > NEAR:
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
        height, trees = packing_height(found.packing), len(found.packing.root)
        is_untried = all(attempt.packer is not shortest for attempt in attempts)
        if packer is None and name is Packer.BREADTH_FIRST and height > lowest and is_untried:
            # shortest paths may give a smaller height
            other = pack(shortest)
            attempt = PackingAttempt(shortest, other.outcome)
            if other.packing is not None:
                attempts[-1] = PackingAttempt(name, f"not taken: height {height}")
                return Packed(graph, other.packing, shortest, (*attempts, attempt))
            attempts.insert(0, attempt)
        if packer is None and name is Packer.PRICED_MATCHING and _cells(digraph, unit) <= SMALL_CELLS:
            # incremental packing may give a smaller height, or the same with fewer trees
            grown = _grow(problem, graph, multiplicities, unit)
            other_height, others = packing_height(grown), len(grown.root)
            if (height, trees) > (other_height, others):
                attempts[-1] = PackingAttempt(name, f"not taken: height {height}, {trees} trees")
                return _grown(graph, grown, attempts)
            attempts.append(
                PackingAttempt(Packer.GROWTH, f"not taken: height {other_height}, {others} trees")
            )
        return Packed(graph, found.packing, name, tuple(attempts))
    return _grown(graph, _grow(problem, graph, multiplicities, unit), attempts)


def _grown(graph: LogicalGraph, grown: Packing, attempts: Sequence[PackingAttempt]) -> Packed:
    outcome = f"made the forest: {grown.speculative} unit trees greedily, {grown.exact} exactly"
    return Packed(graph, grown, Packer.GROWTH, (*attempts, PackingAttempt(Packer.GROWTH, outcome)))


def largest_unit(problem: Instance, graph: LogicalGraph, multiplicities: Int64Array) -> int:
    """Return the largest divisor of all multiplicities for which floor(c / unit) keeps the cut condition.

    Trees of multiplicity `unit` are fewest. Divisors are those of `divisors`: all of them below 2^32.
    """
    total = int(multiplicities.sum())
    logical = replace(problem, tails=graph.tails, heads=graph.heads)
    for unit in divisors(int(np.gcd.reduce(multiplicities)))[:-1]:
        capacities = graph.capacities // unit
        entering = np.bincount(graph.heads, weights=capacities, minlength=problem.n_nodes)[problem.terminals]
        # cuts around single ranks are tested quickly, and most units fail there
        if np.any(entering < (total - multiplicities) // unit):
            continue
        if find_violated_cut(replace(logical, weights=multiplicities // unit), capacities) is None:
            return unit
    return 1


def divisors(number: int) -> list[int]:
    """Return the divisors of a positive integer, largest first; primes above 2^16 count as one factor.

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
        found = [divisor * power for divisor in found for power in powers]
    if rest > 1:
        found += [divisor * rest for divisor in found]
    return sorted(found, reverse=True)


def _cells(graph: Digraph, unit: int) -> int:
    return int(graph.multiplicities.sum()) // unit * graph.n_nodes


@dataclass(frozen=True)
class _Attempt:
    """A packing or None, its outcome, and the fraction of tree edges that matching left on full arcs."""

    packing: Packing | None
    outcome: str
    left: float | None = None


def _attempt(name: Packer, *, digraph: Digraph, unit: int, lowest: int) -> _Attempt:
    if name is Packer.SHORTEST_PATHS:
        trees = pack_shortest_trees(digraph, unit=unit)
        if trees is None:
            return _Attempt(None, "failed: some rank's in-links do not suffice, or the trees are too many")
        outcome = f"made the forest: height {lowest}, every rank at its distance in this graph"
        return _Attempt(Packing(*trees), outcome)
    # all trees of a root begin as one, so roots are counted, not trees
    cells = int(np.count_nonzero(digraph.multiplicities)) * digraph.n_nodes
    is_breadth_first, is_priced = name is Packer.BREADTH_FIRST, name is Packer.PRICED_MATCHING
    work = _BREADTH_FIRST_WORK if is_breadth_first else _PRICED_WORK if is_priced else _MATCHING_WORK
    found = match_vertices(
        digraph,
        start=Start.PRICED if is_priced else Start.BREADTH_FIRST,
        detours=not is_breadth_first,
        first_height=lowest,
        last_height=2 * lowest + 2 if is_breadth_first else None,
        unit=unit,
        max_work=max(_LEAST_WORK, work * cells),
    )
    if found.failure:
        return _Attempt(None, f"failed: {found.failure}", found.overload / max(1, _cells(digraph, unit)))
    return _Attempt(
        Packing.by_root(TreeRows(found.root, found.multiplicity, found.parent), digraph.n_nodes),
        f"made the forest: height {found.height} (at least {lowest} in this graph), "
        f"{found.rehangs} re-hangings, {found.splits} splits, {found.detours} detours",
    )


def _grow(problem: Instance, graph: LogicalGraph, multiplicities: Int64Array, unit: int) -> Packing:
    """Pack trees of multiplicity `unit` incrementally; the cut condition must hold for them."""
    coarse = replace(graph, capacities=graph.capacities // unit)
    grown = pack_trees(problem, coarse, multiplicities // unit)
    return replace(grown, multiplicity=grown.multiplicity * unit)
