"""Which packer makes the forest: low and quick ones first, exact growth, which always succeeds, last.

Packers that bound the height are tried first; none of them is complete. Exact growth (`tree_packing`) packs
whatever satisfies condition C, but its trees may be high. See docs/algorithms/packers.md for the order and
what each is good for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from treadle.arrays import Int32Array, Int64Array, positions_of
from treadle.context import context, under
from treadle.synthesis.trees.instance import Instance, find_violated_cut
from treadle.synthesis.trees.packers.improvement import search_lower
from treadle.synthesis.trees.packers.local_search import packing_height
from treadle.synthesis.trees.packers.packed import Packed, Packer, PackingAttempt
from treadle.synthesis.trees.packers.shortest_trees import is_dense, pack_shortest_trees
from treadle.synthesis.trees.packers.tree_packing import Packing, pack_trees
from treadle.synthesis.trees.packers.vertex_matching import (
    Digraph,
    Matched,
    Start,
    height_bound,
    match_vertices,
)
from treadle.synthesis.trees.switch_removal import LogicalGraph

__all__ = ["Packed", "Packer", "PackingAttempt", "largest_unit", "pack_lowest"]

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


def pack_lowest(
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
    return search_lower(packed, problem, capacities, steps=search_steps)


def _pack(
    problem: Instance, graph: LogicalGraph, multiplicities: Int64Array, packer: Packer | None
) -> Packed:
    attempts: list[PackingAttempt] = []
    wanted = tuple(Packer) if packer is None else (packer,)
    digraph = _digraph(problem, graph, multiplicities)
    with under(context().unlimited):
        unit = largest_unit(problem, graph, multiplicities)
    lowest = max(0, height_bound(*_whole(digraph)))
    pack = partial(_attempt, digraph=digraph, unit=unit, lowest=lowest)
    left: float | None = None
    for name in _order(wanted, digraph):
        reason = "" if packer else _reason_to_skip(name, problem, left)
        if reason:
            attempts.append(PackingAttempt(name, f"not tried: {reason}"))
            continue
        found = pack(name)
        attempts.append(PackingAttempt(name, found.outcome))
        left = left if found.left is None else found.left
        if found.packing is None:
            continue
        made = Packed(graph, found.packing, name, tuple(attempts))
        if name is Packer.BREADTH_FIRST and packer is None and packing_height(found.packing) > lowest:
            return _unless_shortest(made, pack)
        if name is Packer.PRICED_MATCHING and packer is None and _cells(digraph, unit) <= SMALL_CELLS:
            return _lower(made, _grow(problem, graph, multiplicities, unit))
        return made
    grown = _grow(problem, graph, multiplicities, unit)
    attempts.append(PackingAttempt(Packer.GROWTH, _grew(grown)))
    return Packed(graph, grown, Packer.GROWTH, tuple(attempts))


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


def _digraph(problem: Instance, graph: LogicalGraph, multiplicities: Int64Array) -> Digraph:
    rank_of = positions_of(problem.n_nodes, problem.terminals, dtype=np.int32)
    return Digraph(multiplicities, rank_of[graph.tails], rank_of[graph.heads], graph.capacities)


def _whole(graph: Digraph) -> tuple[int, Int32Array, Int32Array, Int32Array, Int32Array]:
    nodes = np.arange(graph.n_nodes, dtype=np.int32)
    return graph.n_nodes, graph.tails, graph.heads, nodes, nodes[graph.multiplicities > 0]


def _cells(graph: Digraph, unit: int) -> int:
    return int(graph.multiplicities.sum()) // unit * graph.n_nodes


def _reason_to_skip(name: Packer, problem: Instance, left: float | None) -> str:
    """Why a packer would not pay, or ""."""
    if name is Packer.MATCHING and left is not None and left > NEAR:
        return f"breadth-first left {left:.0%} of the tree edges on full arcs"
    if name is Packer.PRICED_MATCHING and len(problem.relays):
        return "behind switches growth is as low, with fewer trees"
    return ""


def _order(wanted: tuple[Packer, ...], graph: Digraph) -> list[Packer]:
    """Those before growth; on dense graphs shortest paths first."""
    dense = is_dense(graph.n_nodes, len(graph.tails))
    names = [name for name in _BEFORE_GROWTH if name in wanted]
    return sorted(names, key=lambda name: dense and name is not Packer.SHORTEST_PATHS)


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
    return _Attempt(_packing(found), _made(found, lowest))


def _unless_shortest(made: Packed, pack: Callable[[Packer], _Attempt]) -> Packed:
    """That forest, which is higher than distances, or one of shortest paths if they have not been tried."""
    name = Packer.SHORTEST_PATHS
    if any(attempt.packer is name for attempt in made.attempts):
        return made
    found = pack(name)
    told = PackingAttempt(name, found.outcome)
    if found.packing is None:
        return replace(made, attempts=(told, *made.attempts))
    beaten = PackingAttempt(made.packer, f"not taken: height {packing_height(made.packing)}")
    return Packed(made.graph, found.packing, name, (*made.attempts[:-1], beaten, told))


def _match(name: Packer, graph: Digraph, unit: int, lowest: int) -> Matched:
    # all trees of a root begin as one, so roots count and not trees
    cells = int(np.count_nonzero(graph.multiplicities)) * graph.n_nodes
    if name is Packer.BREADTH_FIRST:
        return match_vertices(
            graph,
            detours=False,
            first_height=lowest,
            last_height=2 * lowest + 2,
            unit=unit,
            max_work=max(_LEAST_WORK, _BREADTH_FIRST_WORK * cells),
        )
    is_priced = name is Packer.PRICED_MATCHING
    return match_vertices(
        graph,
        start=Start.PRICED if is_priced else Start.BREADTH_FIRST,
        first_height=lowest,
        unit=unit,
        max_work=max(_LEAST_WORK, (_PRICED_WORK if is_priced else _MATCHING_WORK) * cells),
    )


def _packing(found: Matched) -> Packing:
    order = np.argsort(found.root, kind="stable")
    return Packing(found.root[order], found.multiplicity[order], found.parent[order], speculative=0, exact=0)


def _made(found: Matched, lowest: int) -> str:
    return (
        f"made the forest: height {found.height} (at least {lowest} in this graph), "
        f"{found.rehangs} re-hangings, {found.splits} splits, {found.detours} detours"
    )


def _grew(grown: Packing) -> str:
    return f"made the forest: {grown.speculative} unit trees greedily, {grown.exact} exactly"


def _grow(problem: Instance, graph: LogicalGraph, multiplicities: Int64Array, unit: int) -> Packing:
    """Growth of trees in bundles of `unit`, for which condition C holds too."""
    coarse = replace(graph, capacities=graph.capacities // unit)
    grown = pack_trees(problem, coarse, multiplicities // unit)
    return replace(grown, multiplicity=grown.multiplicity * unit)


def _lower(made: Packed, grown: Packing) -> Packed:
    """That packing, or growth's if it is lower (or as low with fewer trees)."""
    mine, other = packing_height(made.packing), packing_height(grown)
    if (mine, len(made.packing.root)) <= (other, len(grown.root)):
        note = PackingAttempt(Packer.GROWTH, f"not taken: height {other}, {len(grown.root)} trees")
        return replace(made, attempts=(*made.attempts, note))
    beaten = PackingAttempt(made.packer, f"not taken: height {mine}, {len(made.packing.root)} trees")
    attempts = (*made.attempts[:-1], beaten, PackingAttempt(Packer.GROWTH, _grew(grown)))
    return Packed(made.graph, grown, Packer.GROWTH, attempts)
