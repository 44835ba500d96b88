"""Equal boxes whose ranks bind: one layer that enters every box once, and one that ignores the boxes.

Where single ranks are the bottleneck no box is tight. The union of forests for two parts of the capacities is
a forest for all of it (Theorem 8), and parts can be chosen so that boxes are tight in one and the other needs
none (Theorem 9). Source: docs/algorithms/decomposition.md, section 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import gcd, lcm

import numpy as np

from treadle.arrays import Int64Array, mask_of, sums_of
from treadle.refusal import Refusal
from treadle.synthesis.trees.instance import UNIT_LIMIT, Instance
from treadle.synthesis.trees.tight_cuts.family import Family


@dataclass(frozen=True)
class Part:
    """One layer: k trees a rank within these capacities (m,)."""

    trees: int
    capacities: Int64Array


@dataclass(frozen=True)
class Split:
    """Two layers whose capacities add up to the fabric's, at `scale` units per byte/s.

    Parameters
    ----------
    scale : Fraction
    boxes : Part
        Every box is tight in it.
    flat : Part
        It uses only links that cross the borders of boxes.
    """

    scale: Fraction
    boxes: Part
    flat: Part


def single_rate(problem: Instance) -> Fraction:
    """The least bandwidth into one rank per unit of weight elsewhere; 0 if some rank has no link."""
    carries = problem.tails != problem.heads
    ingress = np.bincount(
        problem.heads[carries], weights=problem.bandwidths[carries].astype(float), minlength=problem.n_nodes
    )
    # floats only choose the rank: its bandwidth is added up exactly
    node = problem.terminals[int(np.argmin(ingress[problem.terminals]))]
    total = int(problem.bandwidths[carries & (problem.heads == node)].sum())
    return Fraction(total, max(1, int(problem.weights.sum() - problem.weights.min())))


def split_layers(problem: Instance, family: Family) -> Split | Refusal:
    """Capacities and trees of the two layers, or why this does not apply.

    Notes
    -----
    B boxes of n ranks, N = n B, M = B - 1; every rank has bandwidth c within its box and beta across its
    border. With ka : kb = c (N - 1) : beta (N - 1 - M) - M c trees a rank the box-tight layer takes ka M
    units across and ka (N - 1 - M) within, the flat one kb (N - 1) units across: together they saturate every
    rank. Source: docs/algorithms/decomposition.md, superposition of equal boxes.
    """
    if int(family.depth.max()) != 1 or np.any(family.innermost[problem.terminals] == 0):
        return Refusal("ranks are not all in boxes that are not nested")
    if np.any(problem.weights != 1):
        return Refusal("shards are unequal")
    home = family.innermost
    sizes = np.bincount(home[problem.terminals], minlength=family.n_sets)[1:]
    crosses = home[problem.tails] != home[problem.heads]
    is_rank = mask_of(problem.n_nodes, problem.terminals)
    # bandwidth into each rank from within its box, and from outside
    within, across = (
        sums_of(problem.n_nodes, problem.heads[chosen], problem.bandwidths[chosen])[problem.terminals]
        for chosen in (~crosses & (problem.tails != problem.heads), crosses)
    )
    if np.ptp(sizes) or np.ptp(within) or np.ptp(across):
        return Refusal("boxes or their ranks are unequal")
    in_box = (home[problem.tails] > 0) | (home[problem.heads] > 0)
    if np.any(crosses & in_box & (is_rank[problem.tails] == is_rank[problem.heads])):
        return Refusal("links across a box's border do not all join a rank and a switch outside")
    ranks, others = len(problem.terminals), len(sizes) - 1
    c, beta = int(within[0]), int(across[0])
    trees_boxes, trees_flat = c * (ranks - 1), beta * (ranks - 1 - others) - others * c
    if trees_flat < 0 or not c:
        return Refusal("the borders of boxes bind, not the ranks")
    uses = (
        (0, crosses, Fraction(trees_boxes * others, beta)),
        (1, crosses, Fraction(trees_flat * (ranks - 1), beta)),
        (0, ~crosses, Fraction(trees_boxes * (ranks - 1 - others), c)),
    )
    units = [per * b for _, chosen, per in uses for b in np.unique(problem.bandwidths[chosen]).tolist()]
    units += [Fraction(trees_boxes), Fraction(trees_flat)]
    # the least integers with which every link has whole capacities in each layer
    common = lcm(*(unit.denominator for unit in units))
    factor = Fraction(common, gcd(*(int(unit * common) for unit in units)))
    if max(units) * factor * problem.topology.n_links >= UNIT_LIMIT:
        return Refusal("capacities of 2**61 units or more would be needed")
    capacities = np.zeros((2, len(problem.bandwidths)), dtype=np.int64)
    for part, chosen, per in uses:
        for b in np.unique(problem.bandwidths[chosen]).tolist():
            capacities[part, chosen & (problem.bandwidths == b)] = int(per * b * factor)
    parts = (
        Part(int(trees * factor), row)
        for trees, row in zip((trees_boxes, trees_flat), capacities, strict=True)
    )
    return Split(factor * uses[2][2], *parts)
