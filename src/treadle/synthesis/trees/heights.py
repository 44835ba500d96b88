"""Lower bound on the height of any forest.

Three bounds hold for every forest of the given capacities, and the greatest is taken: distances; what a root
can reach directly by its own links; and sets joined inside by faster links than outside, which some tree can
enter only once. Reports print it next to the forest's height. See `smallest_height`.
"""

from __future__ import annotations

import numpy as np

from treadle.arrays import BoolArray, Int64Array, positions_of, sums_of
from treadle.math.graphs import components
from treadle.synthesis.trees.instance import Instance
from treadle.synthesis.trees.packers.vertex_matching import height_bound

_MOST_RELAY_STEPS = 2**31
_LARGEST_SET = 64
_SETS = 4
_MANY_RANKS = 4096
_FEW_ROOTS = 8


def smallest_height(problem: Instance, multiplicities: Int64Array, capacities: Int64Array) -> int:
    """Return a lower bound on the height of every forest within the capacities, in hops from rank to rank.

    Parameters
    ----------
    multiplicities : array of int64, shape (N,)
        r(v).
    capacities : array of int64, shape (m,)
        Units of every link.

    Notes
    -----
    The greatest of three bounds. Hops to the farthest terminal, of a few roots where there are very many. 2
    where a root cannot reach all others directly: at height 1 each of its links carries at most r(v) units
    per terminal that it leads to through relays. And for sets X that are joined by faster links than those
    around them, one more than the radius of X if the capacity into X is less than twice the trees rooted
    outside: some tree enters X only once.
    """
    n = len(problem.terminals)
    if n < 2:
        return 0
    roots = problem.terminals[multiplicities > 0]
    if n > _MANY_RANKS:
        # any roots give a valid bound: a few are enough
        roots = roots[:: -(-len(roots) // _FEW_ROOTS)]
    farthest = height_bound(problem.n_nodes, problem.tails, problem.heads, problem.terminals, roots)
    narrow = 2 if farthest < 2 and _has_narrow_root(problem, multiplicities, capacities) else 1
    return max(farthest, narrow, _bound_of_sets(problem, multiplicities, capacities))


def _has_narrow_root(problem: Instance, multiplicities: Int64Array, capacities: Int64Array) -> bool:
    """Whether some root cannot send all its trees directly to all ranks."""
    n = len(problem.terminals)
    rank_of = positions_of(problem.n_nodes, problem.terminals)
    starts = np.flatnonzero((rank_of[problem.tails] >= 0) & (problem.tails != problem.heads))
    pairs = rank_of[problem.tails[starts]] * problem.n_nodes + problem.heads[starts]
    first, place = np.unique(pairs, return_inverse=True)
    units = sums_of(len(first), place, capacities[starts])
    rank, head = np.divmod(first, problem.n_nodes)
    served = np.minimum(units, multiplicities[rank] * _others_behind(problem, rank_of, rank, head))
    leaving = sums_of(n, rank, served)
    return bool(np.any(leaving < multiplicities * (n - 1)))


def _bound_of_sets(problem: Instance, multiplicities: Int64Array, capacities: Int64Array) -> int:
    """Return one more than the radius of a set that some tree enters only once."""
    units = sums_of(problem.n_nodes, problem.terminals, multiplicities)
    is_rank = sums_of(problem.n_nodes, problem.terminals, 1)
    total, bound = int(multiplicities.sum()), 1
    # without the slower links the fabric has components that are joined faster inside than outside
    for threshold in np.unique(problem.bandwidths)[:-1]:
        keep = problem.bandwidths > threshold
        label = components(problem.n_nodes, problem.tails[keep], problem.heads[keep])
        component = np.unique(label, return_inverse=True)[1]
        ranks = np.bincount(component, weights=is_rank)
        heads = component[problem.heads]
        crossing = np.where(component[problem.tails] != heads, capacities, 0)
        entering = np.bincount(heads, weights=crossing, minlength=len(ranks))
        outside = total - np.bincount(component, weights=units)
        is_once = (ranks > 2) & (ranks <= _LARGEST_SET) & (outside > 0) & (entering < 2 * outside)
        for number in np.flatnonzero(is_once)[:_SETS]:
            bound = max(bound, 1 + _radius(problem, component == number))
    return bound


def _radius(problem: Instance, inside: BoolArray) -> int:
    """Return the least eccentricity of a set's ranks by links within the set."""
    ranks = problem.terminals[inside[problem.terminals]]
    within = inside[problem.tails] & inside[problem.heads]
    tails, heads = problem.tails[within], problem.heads[within]
    roots = (ranks[i : i + 1] for i in range(len(ranks)))
    reached = (height_bound(problem.n_nodes, tails, heads, ranks, root) for root in roots)
    return min((hops for hops in reached if hops >= 0), default=1)


def _others_behind(problem: Instance, rank_of: Int64Array, rank: Int64Array, head: Int64Array) -> Int64Array:
    """Return how many other terminals each pair of rank and neighbour reaches through relays alone."""
    relays, n = problem.relays, len(problem.terminals)
    through = np.flatnonzero(rank_of[head] < 0)
    others = np.ones(len(rank), dtype=np.int64)
    if len(relays) ** 2 * n > _MOST_RELAY_STEPS:
        # too many relays to follow: at most all others are behind one, which keeps the bound valid
        others[through] = n - 1
        return others
    relay_of = positions_of(problem.n_nodes, relays)
    tails, heads = relay_of[problem.tails], problem.heads
    to_rank, to_relay = (tails >= 0) & (rank_of[heads] >= 0), (tails >= 0) & (relay_of[heads] >= 0)
    reach = np.zeros((len(relays), n), dtype=np.float32)
    reach[tails[to_rank], rank_of[heads[to_rank]]] = 1
    step = np.eye(len(relays), dtype=np.float32)
    step[tails[to_relay], relay_of[heads[to_relay]]] = 1
    further = np.minimum(step @ reach, 1)
    while not np.array_equal(further, reach):
        reach, further = further, np.minimum(step @ further, 1)
    relay = relay_of[head[through]]
    others[through] = (reach.sum(axis=1)[relay] - reach[relay, rank[through]]).astype(np.int64)
    return others
