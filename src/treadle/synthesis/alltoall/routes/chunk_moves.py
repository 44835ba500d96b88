"""Single chunks moved from paths over the busiest link to other paths of their pair."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int64Array, ranges_of
from treadle.synthesis.alltoall.routes.path_sets import PathSet
from treadle.synthesis.runs import within

_MOST_MOVES = 20_000

_MOST_CELLS = 2**24
"""Links of alternatives in memory; beyond that they are computed again when needed."""

_LOWER = 1 - 1e-12
"""A move must reduce the longest time by more than rounding does."""

_Moves = tuple[Int64Array, Int64Array, NDArray[np.int32], Int64Array, Int64Array]
"""Moves off a link: old and new paths, links that only the new path has, added load, starts of moves."""


def move_chunks(
    paths: PathSet,
    pair: Int64Array,
    units: Int64Array,
    bandwidths: Int64Array,
    amount: Int64Array | None = None,
) -> Int64Array:
    """Move chunks off the busiest link, one at a time, while that reduces its load.

    Parameters
    ----------
    paths : PathSet
    pair : array of int64, shape (k,)
        Number of each path's pair, not falling.
    units : array of int64, shape (k,)
        Chunks on each path.
    bandwidths : array of int64, shape (m,)
    amount : array of int64, shape (k,), optional
        Data of a chunk of each path's pair; default 1.

    Returns
    -------
    array of int64, shape (k,)
        Chunks on each path; those of a pair add up as before.

    Notes
    -----
    Each move goes to the path whose new links stay furthest below the longest time, the first such in order
    of paths. The moves off a link are found when it first is the busiest, and stored: a move then takes a few
    array operations.
    """
    units, width = units.copy(), bandwidths.astype(np.float64)
    amount = np.ones(paths.n_paths, dtype=np.int64) if amount is None else amount
    owner, hops, n_links = paths.owner, paths.hops, len(bandwidths)
    bounds = np.searchsorted(pair, np.arange(int(pair.max(initial=-1)) + 2))
    first, size = bounds[:-1][pair], np.diff(bounds)[pair]
    entries = np.flatnonzero(size[owner] > 1)  # paths of pairs that have a choice
    entries = entries[np.argsort(paths.links[entries], kind="stable")]
    users_of_links = owner[entries]
    link_bounds = np.searchsorted(paths.links[entries], np.arange(n_links + 1))

    def links_of(chosen: Int64Array) -> tuple[Int64Array, NDArray[np.int32]]:
        """Return the links of these paths, one after another, and the position of each one's path."""
        position, places = ranges_of(paths.offset[chosen], hops[chosen])
        return position, paths.links[places]

    def moves_off(link: int) -> _Moves:
        users = users_of_links[link_bounds[link] : link_bounds[link + 1]]
        old = np.repeat(users, size[users])
        new = np.repeat(first[users], size[users]) + within(size[users])
        avoids = ~np.isin(new, users)
        old, new = old[avoids], new[avoids]
        move, gained = links_of(new)
        move_old, lost = links_of(old)
        is_gained = ~np.isin(move * n_links + gained, move_old * n_links + lost)
        move, gained = move[is_gained], gained[is_gained]
        kept, starts = np.unique(move, return_index=True)
        return old[kept], new[kept], gained, amount[old[move]], starts

    load = np.bincount(paths.links, weights=(units * amount)[owner], minlength=n_links).astype(np.int64)
    known: dict[int, _Moves] = {}
    for _ in range(_MOST_MOVES):
        time = load / width
        worst = int(np.argmax(time))
        if worst not in known:
            if sum(len(gained) for _, _, gained, _, _ in known.values()) > _MOST_CELLS:
                known.clear()
            known[worst] = moves_off(worst)
        old, new, gained, added, starts = known[worst]
        if not len(old):
            break
        after = np.maximum.reduceat((load[gained] + added) / width[gained], starts)
        after[units[old] == 0] = np.inf
        best = int(np.argmin(after))
        if not after[best] < float(time[worst]) * _LOWER:
            break
        for path, sign in ((int(old[best]), -1), (int(new[best]), 1)):
            units[path] += sign
            load[paths.links_of(path)] += sign * amount[path]
    return units
