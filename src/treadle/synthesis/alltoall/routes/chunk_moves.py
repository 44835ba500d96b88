"""Single chunks moved from paths over the busiest link to other paths of their pair."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Float64Array, Int64Array
from treadle.synthesis.alltoall.routes.path_sets import PathSet
from treadle.synthesis.runs import within

_MOST_MOVES = 20_000

_MOST_CELLS = 2**24
"""Links of alternatives in memory; more than that are recomputed when they are needed."""

_LOWER = 1 - 1e-12
"""A move must lower the longest time by more than rounding does."""


def move_chunks(paths: PathSet, pair: Int64Array, units: Int64Array, bandwidths: Int64Array) -> Int64Array:
    """Move chunks off the busiest link, one at a time, while that lowers its load.

    Parameters
    ----------
    paths : PathSet
    pair : array of int64, shape (k,)
        Number of each path's pair, not falling.
    units : array of int64, shape (k,)
        Chunks on each path.
    bandwidths : array of int64, shape (m,)

    Returns
    -------
    array of int64, shape (k,)
        Chunks on each path; those of a pair add up to what they did.

    Notes
    -----
    Each move goes to the path whose new links stay furthest below the longest time; the first such in order
    of paths. What can leave a link is found when the link is first the busiest, and kept: a move then takes a
    few operations on arrays.
    """
    units = units.copy()
    owner = paths.owner
    moves = _Moves(paths, pair, len(bandwidths))
    load = np.bincount(paths.links, weights=units[owner], minlength=len(bandwidths)).astype(np.int64)
    width = bandwidths.astype(np.float64)
    for _ in range(_MOST_MOVES):
        time = load / width
        worst = int(np.argmax(time))
        chosen = moves.away_from(worst).best(units, (load + 1) / width, float(time[worst]) * _LOWER)
        if chosen is None:
            break
        giver, taker = chosen
        units[giver] -= 1
        units[taker] += 1
        load[paths.links_of(giver)] -= 1
        load[paths.links_of(taker)] += 1
    return units


@dataclass(frozen=True, eq=False)
class _Alternatives:
    """Moves of a chunk that lower the load of a link.

    Parameters
    ----------
    givers, takers : arrays of int64, shape (q,)
        Paths over the link, and paths of the same pair that avoid it.
    gained : array of int32
        Links of each taker that are not its giver's, move after move.
    starts : array of int64, shape (q,)
        Where each move's begin.
    """

    givers: Int64Array
    takers: Int64Array
    gained: NDArray[np.int32]
    starts: Int64Array

    def best(self, units: Int64Array, time_after: Float64Array, limit: float) -> tuple[int, int] | None:
        """(giver, taker) whose gained links stay lowest, and below the limit; None if there is none."""
        if not len(self.givers):
            return None
        after = np.maximum.reduceat(time_after[self.gained], self.starts)
        after[units[self.givers] == 0] = np.inf
        chosen = int(np.argmin(after))
        if not after[chosen] < limit:
            return None
        return int(self.givers[chosen]), int(self.takers[chosen])


class _Moves:
    """Alternatives by link, among the paths of pairs that have several."""

    def __init__(self, paths: PathSet, pair: Int64Array, n_links: int) -> None:
        self._paths, self._n_links = paths, n_links
        numbers = np.arange(int(pair.max(initial=-1)) + 2)
        bounds = np.searchsorted(pair, numbers)
        self._first, self._size = bounds[:-1][pair], np.diff(bounds)[pair]
        owner = paths.owner
        entries = np.flatnonzero(self._size[owner] > 1)
        entries = entries[np.argsort(paths.links[entries], kind="stable")]
        self._over = owner[entries]
        self._bounds = np.searchsorted(paths.links[entries], np.arange(n_links + 1))
        self._found: dict[int, _Alternatives] = {}
        self._cells = 0

    def away_from(self, link: int) -> _Alternatives:
        found = self._found.get(link)
        if found is None:
            found = self._search(link)
            if self._cells > _MOST_CELLS:
                self._found.clear()
                self._cells = 0
            self._found[link] = found
            self._cells += len(found.gained)
        return found

    def _search(self, link: int) -> _Alternatives:
        users = self._over[self._bounds[link] : self._bounds[link + 1]]
        givers = np.repeat(users, self._size[users])
        takers = np.repeat(self._first[users], self._size[users]) + within(self._size[users])
        avoiding = ~np.isin(takers, users)
        givers, takers = givers[avoiding], takers[avoiding]
        move, gained = self._links_of(takers)
        of_giver, lost = self._links_of(givers)
        new = ~np.isin(move * self._n_links + gained, of_giver * self._n_links + lost)
        move, gained = move[new], gained[new]
        kept, starts = np.unique(move, return_index=True)
        return _Alternatives(givers[kept], takers[kept], gained, starts)

    def _links_of(self, chosen: Int64Array) -> tuple[Int64Array, NDArray[np.int32]]:
        """Links of the chosen paths, one after another, and the place of the path of each."""
        hops = self._paths.offset[chosen + 1] - self._paths.offset[chosen]
        places = np.repeat(self._paths.offset[chosen], hops) + within(hops)
        return np.repeat(np.arange(len(chosen)), hops), self._paths.links[places]
