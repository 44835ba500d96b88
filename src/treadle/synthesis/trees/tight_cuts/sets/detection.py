"""Node sets that are likely to be tight: boxes, leaves, pods, found bottom-up on the quotient fabric.

A guess: a set is used only if it can be made tight and all subproblems satisfy the cut condition, so a wrong
one costs time, never the optimum (Corollary 6). Source: docs/proofs/decomposition.md, section 7, "By
bandwidths and neighbours".
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter

import numpy as np

from treadle.arrays import Int32Array, distinct, sums_of
from treadle.math.graphs import components
from treadle.synthesis.runs import extremes
from treadle.synthesis.trees.instance import Instance
from treadle.synthesis.trees.tight_cuts.family import Family
from treadle.synthesis.trees.tight_cuts.sets.diffusion import clusters
from treadle.synthesis.trees.tight_cuts.sets.quotient import Quotient

_MOST_LEVELS = 8
_MOST_THRESHOLDS = 16


def detect(problem: Instance) -> Family:
    """A laminar family of sets that hold several terminals each, and are joined better inside than outside.

    Parameters
    ----------
    problem : Instance

    Returns
    -------
    Family
        Empty where nothing was found. Nothing says that its sets are tight, or that this is all of them.

    Notes
    -----
    Level by level: candidates are the components of the links of at least some bandwidth, and terminals with
    equal neighbours together with the switches that only they are joined to. Of the candidate levels the one
    whose sets need their entering bandwidth most, (W - w(X)) / b-(X) on average, is contracted to points; the
    next level is sought on what results. Where there is no such candidate, clusters are sought that few links
    join to the rest.
    """
    quotient = Quotient.of(problem)
    levels: list[Int32Array] = []
    while len(levels) < _MOST_LEVELS:
        needs = [(quotient.need(labels), labels) for labels in _candidates(quotient)]
        known = [(need, labels) for need, labels in needs if need is not None]
        best = max(known, key=itemgetter(0))[1] if known else clusters(quotient)
        if best is None:
            break
        levels.append(np.where(quotient.point >= 0, best[quotient.point], -1).astype(np.int32))
        quotient = quotient.contracted(best)
    return Family.from_levels(problem.n_nodes, levels)


def _candidates(quotient: Quotient) -> Iterator[Int32Array]:
    """Candidate levels: a set's number for each quotient node, -1 outside of all sets."""
    thresholds = distinct(quotient.bandwidths)[::-1][:_MOST_THRESHOLDS]
    for threshold in thresholds:
        strong = quotient.bandwidths >= threshold
        labels = components(quotient.n_nodes, quotient.tails[strong], quotient.heads[strong])
        found = _cleaned(quotient, labels, reject_shared=True)
        if found is not None:
            yield found
    found = _cleaned(quotient, _equal_neighbours(quotient), reject_shared=False)
    if found is not None:
        yield found


def _equal_neighbours(quotient: Quotient) -> Int32Array:
    """Points with equal sets of neighbours, and switches whose points are all of one such group."""
    one, other = quotient.neighbours
    # a 64-bit fingerprint of each neighbour set; groups are only candidates, so a collision does no harm
    rng = np.random.default_rng(1)
    mark = rng.integers(0, 2**63, quotient.n_nodes, dtype=np.int64)
    print_of = sums_of(quotient.n_nodes, one, mark[other])
    label = np.arange(quotient.n_nodes, dtype=np.int32)
    points = np.flatnonzero(quotient.is_point)
    _, first, inverse = np.unique(print_of[points], return_index=True, return_inverse=True)
    label[points] = points[first[inverse]]
    label = _with_strays(quotient, label)
    switch, point = quotient.joined_pairs
    least, most = extremes(quotient.n_nodes, switch, label[point])
    private = (least == most) & ~quotient.is_point
    label[private] = least[private]
    return label


def _with_strays(quotient: Quotient, label: Int32Array) -> Int32Array:
    """Groups of points, with points that lost links to some of a group's switches and join no other ones.

    Most of all points at each switch of such a point are of one larger group.
    """
    n = quotient.n_nodes
    switch, point = (side.astype(np.int64) for side in quotient.joined_pairs)
    pairs, counts = np.unique(switch * n + label[point], return_counts=True)
    order = np.argsort(counts, kind="stable")
    usual = np.full(n, -1, dtype=np.int64)
    usual[pairs[order] // n] = pairs[order] % n  # the last one written is the most frequent
    least, most = extremes(n, point, usual[switch])
    sizes = np.bincount(label[quotient.is_point], minlength=n)
    joins = np.flatnonzero(least == most)
    joins = joins[sizes[most[joins]] > sizes[label[joins]]]
    joined = label.copy()
    joined[joins] = most[joins]
    return joined


def _cleaned(quotient: Quotient, labels: Int32Array, *, reject_shared: bool) -> Int32Array | None:
    """Sets of two or more points (not all of them), numbered from 0, with their small private switches.

    With `reject_shared`, a set is dropped if one of its switches joins points outside.
    """
    n = quotient.n_nodes
    points = np.bincount(labels[quotient.is_point], minlength=n)
    sizes = np.bincount(labels, minlength=n)
    joined = np.zeros(n, dtype=bool)  # sets that some link joins inside
    one, other = quotient.neighbours
    joined[labels[one][labels[one] == labels[other]]] = True
    good = (points >= 2) & (points < quotient.is_point.sum()) & joined & (sizes >= 2)
    if reject_shared:
        switch, others = quotient.joined_pairs
        good[labels[switch][labels[switch] != labels[others]]] = False
    kept = np.where(good[labels], labels, -1).astype(np.int32)
    if not np.any(kept >= 0):
        return None
    kept = _with_adapters(quotient, kept)
    names, inverse = np.unique(kept, return_inverse=True)
    numbers: Int32Array = (inverse - (names[0] < 0)).astype(np.int32)
    return numbers


def _with_adapters(quotient: Quotient, labels: Int32Array) -> Int32Array:
    """Take in switches such as NICs: all but one of their neighbours in one set, no less bandwidth to it."""
    n = quotient.n_nodes
    one, other, width = *quotient.neighbours, quotient.widths
    while True:
        at = (~quotient.is_point & (labels < 0))[one]
        near = at & (labels[other] >= 0)
        far = at & (labels[other] < 0)
        least, most = extremes(n, one[near], labels[other[near]])
        within, beyond = (np.bincount(one[some], weights=width[some], minlength=n) for some in (near, far))
        few = np.bincount(one[far], minlength=n) <= 1
        adapter = few & (least == most) & (within >= beyond)
        if not adapter.any():
            return labels
        labels = np.where(adapter, least, labels).astype(np.int32)
