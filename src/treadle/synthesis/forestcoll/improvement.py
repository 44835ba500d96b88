"""Lower forests of the same throughput, routed anew or by local search; and how low they can be."""

from __future__ import annotations

import numpy as np

from treadle.arrays import Int64Array
from treadle.schedules.forest import Forest
from treadle.synthesis.engine import Progress
from treadle.synthesis.forestcoll.height_first import HEIGHTS, grow_height_first
from treadle.synthesis.forestcoll.instance import Instance
from treadle.synthesis.forestcoll.local_search import lower_trees
from treadle.synthesis.forestcoll.packed import Packed, Packer, PackingAttempt
from treadle.synthesis.forestcoll.tree_packing import from_forest, to_forest
from treadle.synthesis.forestcoll.vertex_matching import height_bound

_MOST_RELAY_STEPS = 2**31


def lower_forest(
    problem: Instance,
    forest: Forest,
    capacities: Int64Array,
    packer: Packer,
    attempts: tuple[PackingAttempt, ...],
    *,
    height: int,
    progress: Progress | None = None,
    deadline: float | None = None,
) -> tuple[Forest, Packer, tuple[PackingAttempt, ...]]:
    """A forest made lower: by height-first if that succeeds below its height, and by local search.

    Parameters
    ----------
    problem : Instance
        Of the forest's direction.
    forest : Forest
    capacities : array of int64, shape (m,)
        Units of every link, not less than the forest's loads.
    packer : Packer
        Who made the forest.
    attempts : tuple of PackingAttempt
        What became of the packers before.
    height : int
        Of the forest.

    Returns
    -------
    tuple of (Forest, Packer, attempts)
        The same forest if nothing is lower.
    """
    multiplicities = forest.root_multiplicity
    if height <= lowest_height(problem, multiplicities, capacities):
        return forest, packer, attempts
    low = route_low(problem, capacities, multiplicities, below=height, progress=progress, deadline=deadline)
    if isinstance(low, PackingAttempt):
        packed = Packed(*from_forest(problem, forest), packer, (*attempts, low))
    else:
        beaten = [PackingAttempt(each.packer, f"not taken: height {height}") for each in attempts]
        packed = Packed(low.graph, low.packing, low.packer, (*beaten, *low.attempts))
    lower = search_lower(packed, problem, capacities, progress=progress, deadline=deadline)
    if lower.graph is not packed.graph or lower.packer is not packer:
        forest = to_forest(problem, lower.graph, lower.packing)
    return forest, lower.packer, lower.attempts


def route_low(
    problem: Instance,
    capacities: Int64Array,
    multiplicities: Int64Array,
    *,
    below: int | None = None,
    asked: bool = False,
    progress: Progress | None = None,
    deadline: float | None = None,
) -> Packed | PackingAttempt:
    """A forest by height-first on the fabric itself, or why there is none.

    Parameters
    ----------
    capacities : array of int64, shape (m,)
        Units of every link.
    multiplicities : array of int64, shape (N,)
        r(v).
    below : int, optional
        Only a lower forest than this is of use.
    asked : bool
        Try even where it hardly succeeds.

    Raises
    ------
    TimeLimitError
        When the deadline passed.
    """
    entering = np.zeros(problem.n_nodes, dtype=np.int64)
    np.add.at(entering, problem.heads, capacities)
    total = int(multiplicities.sum())
    reason = ""
    if not len(problem.relays):
        reason = "the fabric has no switches"
    elif np.all(entering[problem.terminals] > total - multiplicities):
        reason = "some set of several ranks is tight, and no single rank"
    if reason and not asked:
        return PackingAttempt(Packer.HEIGHT_FIRST, f"not tried: {reason}")
    lowest = lowest_height(problem, multiplicities, capacities)
    found = grow_height_first(
        problem,
        capacities,
        multiplicities,
        heights=range(lowest, min(lowest + HEIGHTS, lowest + HEIGHTS if below is None else below)),
        progress=progress,
        deadline=deadline,
    )
    attempt = PackingAttempt(Packer.HEIGHT_FIRST, found.outcome)
    if found.graph is None or found.packing is None:
        return attempt
    return Packed(found.graph, found.packing, Packer.HEIGHT_FIRST, (attempt,))


def search_lower(
    packed: Packed,
    problem: Instance,
    capacities: Int64Array,
    *,
    progress: Progress | None = None,
    deadline: float | None = None,
) -> Packed:
    """The forest after local search within the capacities, unless its height meets the bound."""
    multiplicities = np.zeros(len(problem.terminals), dtype=np.int64)
    np.add.at(multiplicities, packed.packing.root, packed.packing.multiplicity)
    lowest = lowest_height(problem, multiplicities, capacities)
    found = lower_trees(
        problem,
        packed.graph,
        packed.packing,
        capacities=capacities,
        lowest=lowest,
        progress=progress,
        deadline=deadline,
    )
    if found.before <= lowest:
        return packed
    if found.failure:
        outcome = f"not tried: {found.failure}"
    else:
        outcome = (
            f"height {found.before} -> {found.after} (at least {lowest}): {found.swaps} swaps, "
            f"{found.reversals} reversals, {found.rehangs} re-hangings"
        )
    attempts = (*packed.attempts, PackingAttempt(Packer.LOCAL_SEARCH, outcome))
    if found.after < found.before:
        return Packed(found.graph, found.packing, packed.packer, attempts)
    return Packed(packed.graph, packed.packing, packed.packer, attempts)


def lowest_height(problem: Instance, multiplicities: Int64Array, capacities: Int64Array) -> int:
    """A bound of the height: hops to the farthest terminal, and 2 where a root cannot reach all at once.

    Parameters
    ----------
    multiplicities : array of int64, shape (N,)
        r(v).
    capacities : array of int64, shape (m,)
        Units of every link.

    Notes
    -----
    At height 1 all r(v) trees of v reach all others straight from v, over links that serve at most r(v) units
    per terminal that they lead to through relays.
    """
    roots = problem.terminals[multiplicities > 0]
    farthest = height_bound(problem.n_nodes, problem.tails, problem.heads, problem.terminals, roots)
    n = len(problem.terminals)
    if farthest > 1 or n < 2:
        return max(farthest, 1 if n > 1 else 0)
    rank_of = np.full(problem.n_nodes, -1, dtype=np.int64)
    rank_of[problem.terminals] = np.arange(n)
    starts = np.flatnonzero((rank_of[problem.tails] >= 0) & (problem.tails != problem.heads))
    pairs = rank_of[problem.tails[starts]] * problem.n_nodes + problem.heads[starts]
    first, place = np.unique(pairs, return_inverse=True)
    units = np.zeros(len(first), dtype=np.int64)
    np.add.at(units, place, capacities[starts])
    rank, head = np.divmod(first, problem.n_nodes)
    served = np.minimum(units, multiplicities[rank] * _others_behind(problem, rank_of, rank, head))
    leaving = np.zeros(n, dtype=np.int64)
    np.add.at(leaving, rank, served)
    return 2 if np.any(leaving < multiplicities * (n - 1)) else 1


def _others_behind(problem: Instance, rank_of: Int64Array, rank: Int64Array, head: Int64Array) -> Int64Array:
    """For each pair of a rank and a neighbour: other terminals it leads to through relays alone."""
    relays, n = problem.relays, len(problem.terminals)
    through = np.flatnonzero(rank_of[head] < 0)
    others = np.ones(len(rank), dtype=np.int64)
    if len(relays) ** 2 * n > _MOST_RELAY_STEPS:
        others[through] = n - 1
        return others
    relay_of = np.full(problem.n_nodes, -1, dtype=np.int64)
    relay_of[relays] = np.arange(len(relays))
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
