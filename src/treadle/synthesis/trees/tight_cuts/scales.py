"""Number of trees, and bandwidth of one: from the cuts of a family and of single ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from treadle.arrays import Int32Array, Int64Array, distinct, distinct_rows, mask_of, sums_of
from treadle.synthesis.trees.fixed_trees import Cut
from treadle.synthesis.trees.instance import Instance
from treadle.synthesis.trees.tight_cuts.family import Family


def cut_against(problem: Instance, nodes: Int32Array) -> Cut | None:
    """Return the cut out of a set of nodes; None if no shard must cross it."""
    inside = mask_of(problem.n_nodes, nodes)
    demand = int(problem.weights[inside[problem.terminals]].sum())
    if not demand or inside[problem.terminals].all():
        return None
    crossing = problem.bandwidths[inside[problem.tails] & ~inside[problem.heads]]
    return Cut(Counter(crossing.tolist()), demand, tuple(np.flatnonzero(~inside).tolist()))


def cut_classes(problem: Instance, family: Family) -> list[Cut]:
    """Return the cuts around the sets of a family and around single ranks, equal cuts once."""
    weight = sums_of(problem.n_nodes, problem.terminals, problem.weights)
    found: list[Cut] = []
    single = np.full(problem.n_nodes, -1, dtype=np.int32)
    single[problem.terminals] = problem.terminals
    for row in [single, *family.ancestors[1:]]:
        live = row >= 0
        inside = sums_of(int(row.max(initial=-1)) + 1, row[live], weight[live])
        for number, entering in _classes(problem, row, inside):
            demand = int(weight.sum() - inside[number])
            if demand:
                found.append(Cut(entering, demand, tuple(np.flatnonzero(row == number).tolist())))
    return found


def _classes(problem: Instance, row: Int32Array, inside: Int64Array) -> Iterator[tuple[int, Counter[int]]]:
    """Yield one set of each class, by weight inside and bandwidths of its ingress."""
    links = np.flatnonzero((row[problem.heads] >= 0) & (row[problem.heads] != row[problem.tails]))
    owner, bandwidth = row[problem.heads[links]], problem.bandwidths[links]
    values = distinct(bandwidth)
    place = np.searchsorted(values, bandwidth)
    pair, counts = np.unique(owner.astype(np.int64) * len(values) + place, return_counts=True)
    owner, place = np.divmod(pair, max(1, len(values)))
    numbers = np.flatnonzero(np.bincount(row[row >= 0]))
    starts = np.searchsorted(owner, numbers)
    ends = np.searchsorted(owner, numbers, side="right")
    widths = ends - starts
    for width in np.unique(widths).tolist():
        chosen = np.flatnonzero(widths == width)
        columns = starts[chosen][:, None] + np.arange(width)
        table = np.concatenate([inside[numbers[chosen]][:, None], place[columns], counts[columns]], axis=1)
        for position in distinct_rows(table)[0].tolist():
            of = columns[position]
            entering = Counter(dict(zip(values[place[of]].tolist(), counts[of].tolist(), strict=True)))
            yield int(numbers[chosen[position]]), entering
