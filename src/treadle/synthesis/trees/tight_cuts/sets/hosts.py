"""Ranks that stand alone between boxes, each made a set of its own together with its network cards."""

from __future__ import annotations

import numpy as np

from treadle.arrays import Int32Array, mask_of
from treadle.synthesis.trees.instance import Instance
from treadle.synthesis.trees.tight_cuts.family import Family


def with_hosts(problem: Instance, family: Family) -> Family:
    """The family and a set for each rank outside of all sets that has relays of its own.

    Parameters
    ----------
    problem : Instance
    family : Family

    Returns
    -------
    Family
        New sets come last; the same family if there are none.

    Notes
    -----
    A relay is a rank's own if it is in no set, and joined to that rank, to other relays outside of all sets,
    and to nothing else. A relay that joins a rank to several planes is then inside, and the children of the
    outermost piece are joined by planes alone.
    """
    if family.n_sets == 1:
        return family
    is_rank = mask_of(problem.n_nodes, problem.terminals)
    loose = family.innermost == 0
    tails, heads = problem.tails.astype(np.int64), problem.heads.astype(np.int64)
    relay = np.concatenate([tails, heads])
    other = np.concatenate([heads, tails])
    near = loose[relay] & ~is_rank[relay] & (relay != other)
    relay, other = relay[near], other[near]
    meets_set = mask_of(problem.n_nodes, relay[~loose[other]])
    at_rank = is_rank[other] & loose[other]
    pairs = np.unique(np.stack([relay[at_rank], other[at_rank]], axis=1), axis=0)
    counts = np.bincount(pairs[:, 0], minlength=problem.n_nodes)
    to_relay = mask_of(problem.n_nodes, relay[~is_rank[other]])
    own = pairs[(counts[pairs[:, 0]] == 1) & ~meets_set[pairs[:, 0]] & to_relay[pairs[:, 0]]]
    if not len(own):
        return family
    hosts, place = np.unique(own[:, 1], return_inverse=True)
    innermost = family.innermost.copy()
    numbers = (family.n_sets + np.arange(len(hosts))).astype(np.int32)
    innermost[hosts] = numbers
    innermost[own[:, 0]] = numbers[place.ravel()]
    outer: Int32Array = np.concatenate([family.outer, np.zeros(len(hosts), dtype=np.int32)])
    return Family(outer, innermost)
