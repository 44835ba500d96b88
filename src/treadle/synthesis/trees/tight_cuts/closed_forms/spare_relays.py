"""Relays of the outermost piece that failures cut off from some children, and that all can do without."""

from __future__ import annotations

import numpy as np

from treadle.arrays import Int64Array, sums_of
from treadle.synthesis.trees.instance import Instance
from treadle.synthesis.trees.tight_cuts.family import Family


def without_partial_relays(
    problem: Instance, family: Family, capacities: Int64Array, multiplicities: Int64Array
) -> Int64Array | None:
    """Capacities without those of outermost relays that some outermost child lacks; None if none is to spare.

    Parameters
    ----------
    problem : Instance
    family : Family
    capacities : array of int64, shape (links,)
    multiplicities : array of int64, shape (ranks,)
        Unit trees of each rank.

    Notes
    -----
    Source: docs/algorithms/decomposition.md, section 4. Only where relays are more than children. Those that
    are left serve all children, and children that have lost links to different ones become alike. Whether
    that is feasible is for the checks of pieces to say.
    """
    if family.n_sets == 1:
        return None
    n, tails, heads = len(family.innermost), problem.tails, problem.heads
    child = family.ancestors[1].astype(np.int64)  # of the outermost piece; -1 for its relays
    alone = problem.terminals[child[problem.terminals] < 0]
    child[alone] = family.n_sets + np.arange(len(alone))
    children, place = np.unique(child, return_inverse=True)
    if children[0] >= 0:
        return None
    child = place.ravel() - 1
    crossing = (capacities > 0) & (child[tails] != child[heads])
    if np.any((capacities > 0) & (child[tails] < 0) & (child[heads] < 0)):
        return None
    partial, joined = np.zeros((2, n), dtype=bool)
    for relay, end in ((heads, tails), (tails, heads)):
        here = np.flatnonzero(crossing & (child[relay] < 0))
        pairs = np.unique(relay[here].astype(np.int64) * len(children) + child[end[here]])
        met = np.bincount(pairs // len(children), minlength=n)
        joined |= met > 0
        partial |= met < len(children) - 1
    partial &= joined
    if not partial.any() or np.count_nonzero(joined) < len(children):
        return None  # closed forms serve few relays as they are
    left = np.where(partial[tails] | partial[heads], 0, capacities)
    native = sums_of(len(children) - 1, child[problem.terminals], multiplicities)
    for end, needed in ((tails, native), (heads, native.sum() - native)):
        here = np.flatnonzero(crossing & (child[end] >= 0))
        if np.any(sums_of(len(native), child[end[here]], left[here]) < needed):
            return None
    return left
