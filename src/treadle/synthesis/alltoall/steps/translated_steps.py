"""All-to-alls in steps on fabrics whose automorphisms move every node: one source of each orbit is solved.

Take a group of automorphisms that keep the demands, of which none but the identity leaves a node where it is:
translations of a torus, or products from the left in a Cayley graph. Where all translates of a path are used,
all links of an orbit carry the same, in every step. So paths and steps are found for one source of each orbit
of ranks, with the orbits of links in place of links, and translated. Source: symmetry reduction of
multi-commodity flows as in `alltoall.rate.flow_symmetry`; here the paths are integral. What comes out is a
schedule like any other, and verified as such.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int32Array, Int64Array, offsets_of, positions_of
from treadle.context import context
from treadle.math.graphs import InArcs
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.steps.hop_steps import STEPS_PER_HOP, Runs, assigned_steps
from treadle.synthesis.alltoall.steps.route_runs import exchange_from_sends
from treadle.synthesis.translations import Translations, translations_of
from treadle.topologies.topology import Topology

_MAX_SOURCES = 8
"""Orbits of ranks: each has its own search."""

_SPARE_HOPS = 3
"""Hops of a path beyond the longest distance."""

_SWEEPS, _IDLE_SWEEPS = 60, 12
_FLAT, _STEEP = 15.0, 1500.0
"""Exponent of a link's length in its relative load, first and last."""

_SHARPNESS = 64
"""Power of loads whose sum a move has to make smaller: near enough to the largest load."""

_CHUNKS_PER_CAP = 32
"""Least number of chunks that a link carries in an even step, where the limit on chunks allows it."""


def few_translated(topology: Topology, collective: Collective) -> Translations | None:
    """Return a group that keeps the demands and has few orbits of ranks; None if none is found."""
    ranks = np.array(collective.ranks, dtype=np.int64)
    if not np.array_equal(ranks, np.arange(topology.n_nodes)) or topology.injection_bytes_per_s.any():
        return None
    found = translations_of(topology, ranks, collective.pair_demands.between)
    return found if topology.n_nodes <= _MAX_SOURCES * len(found.nodes) else None


def translated_exchange(
    topology: Topology,
    collective: Collective,
    group: Translations,
    *,
    max_chunks: int,
    max_steps: int | None = None,
) -> ExchangeSchedule:
    """Return a schedule of equal demands that the group leaves as it is.

    Parameters
    ----------
    topology : Topology
        Without switches; hosts store and forward.
    collective : Collective
        All pairs that have something for one another have the same.
    group : Translations
        From `few_translated`.
    max_chunks : int
        Of a shard.
    max_steps : int, optional
        Default: 3 for each hop of the longest path.
    """
    search = _PathSearch(topology, collective, group, max_chunks)
    search.run()
    runs = search.runs()
    longest = int(np.diff(runs.offset).max())
    n_steps = STEPS_PER_HOP * longest if max_steps is None else max_steps
    step = assigned_steps(runs, search.width, n_steps, topology.name)
    order = np.argsort(step, kind="stable")
    chunk = np.repeat(np.arange(len(runs.amount)), np.diff(runs.offset))[order]
    count = len(group.nodes)
    n = collective.n_ranks
    number = positions_of(n * n, np.flatnonzero(collective.pair_demands.between)).astype(np.int32)
    pairs = group.nodes[:, search.source].astype(np.int64) * n + group.nodes[:, search.target]
    shard = np.ascontiguousarray(number[pairs].T)
    sends = [
        shard[chunk].reshape(-1),
        np.ascontiguousarray(group.links.T)[search.links[order]].reshape(-1),
        np.repeat(step[order].astype(np.int32), count),
        np.repeat(runs.low[chunk], count),
        np.repeat(runs.high[chunk], count),
    ]
    return exchange_from_sends(collective, runs.n_chunks, sends)


class _PathSearch:
    """Local search of paths of representatives: a move to a shortest path counts if it levels the loads.

    Lengths grow exponentially with the loads (Shahrokhi and Matula, JACM 37, 1990), and differ a little at
    random between links of an orbit, so that paths of equal length all come up.
    """

    def __init__(
        self, topology: Topology, collective: Collective, group: Translations, max_chunks: int
    ) -> None:
        self._random = np.random.default_rng(0)
        usable = np.flatnonzero(topology.tails != topology.heads)
        self._arcs = InArcs.of(topology.tails, topology.heads, usable)
        self._tails, self._heads = topology.tails.astype(np.int64), topology.heads.astype(np.int64)
        self._n = topology.n_nodes
        first, self._orbit = np.unique(group.links.min(axis=0), return_inverse=True)
        bandwidths = topology.bandwidths[first]
        self.width: NDArray[np.float64] = bandwidths / bandwidths.min()
        roots = np.unique(group.nodes.min(axis=0))
        source, target = np.nonzero(collective.pair_demands.between[roots])
        hops = np.stack([self._distances(int(root), np.ones(len(usable)))[0] for root in roots])
        load = float(hops[source, target].sum()) / len(first)
        self._most_hops = int(hops[source, target].max()) + _SPARE_HOPS
        even = load / (STEPS_PER_HOP * (self._most_hops - _SPARE_HOPS))
        parts = 1
        while parts * even < _CHUNKS_PER_CAP and 2 * parts <= max_chunks:
            parts *= 2
        self.n_chunks = parts
        self.source = np.repeat(roots[source], parts)
        self.target = np.repeat(target, parts)
        self._table = np.full((len(self.source), self._most_hops), -1, dtype=np.int32)
        self._counts = np.zeros((len(self.source), len(first)))

    def _distances(self, root: int, lengths: NDArray[np.float64]) -> tuple[NDArray[np.float64], Int64Array]:
        """Bellman-Ford: the distance of each node, and the last link of a shortest path to it."""
        arcs = self._arcs
        distance, last = np.full(self._n, np.inf), np.full(self._n, -1, dtype=np.int64)
        distance[root] = 0.0
        while True:
            reached = distance[arcs.tails] + lengths
            best = np.minimum.reduceat(reached, arcs.starts)
            is_better = best < distance[arcs.heads]
            if not is_better.any():
                return distance, last
            # links are kept only where the distance falls: those that vanish next to it close no cycle
            least = np.repeat(np.where(is_better & (best < np.inf), best, np.nan), arcs.widths)
            kept = arcs.order[reached == least]
            last[self._heads[kept]] = kept
            distance[arcs.heads] = np.minimum(distance[arcs.heads], best)

    def _paths(self, root: int, loads: NDArray[np.float64], steep: float) -> Int32Array:
        """A shortest path to every node, links from the root on, padded by -1, shape (n, hops)."""
        exponent = steep * (loads / max(float(loads.max()), 1e-9) - 1)
        price = np.exp(np.maximum(exponent, -20.0)) / self.width
        lengths = price[self._orbit[self._arcs.order]] * (
            1 + 0.02 * self._random.random(len(self._arcs.order))
        )
        last = self._distances(root, lengths)[1]
        backwards = []
        node = np.arange(self._n)
        while np.any(node != root):
            link = np.where(node == root, -1, last[node])
            backwards.append(link)
            node = np.where(link < 0, node, self._tails[link])
        table = np.stack(backwards[::-1], axis=1)
        order = np.argsort(table < 0, axis=1, kind="stable")
        moved: Int32Array = np.take_along_axis(table, order, axis=1).astype(np.int32)
        return moved

    def run(self) -> None:
        """Give every chunk a path, then move chunks as long as that helps."""
        loads = np.zeros(len(self.width))
        idle = 0
        for sweep in range(_SWEEPS):
            steep = 0.0 if sweep == 0 else _FLAT * (_STEEP / _FLAT) ** (sweep / _SWEEPS)
            moved = 0
            for chunks, table in self._candidates(loads, steep):
                context().report("paths", sweep, _SWEEPS)
                counts = self._counted(table)
                for i, chunk in enumerate(chunks.tolist()):
                    other = loads + (counts[i] - self._counts[chunk]) / self.width
                    most = max(float(loads.max()), 1e-9)
                    if sweep and not np.sum((other / most) ** _SHARPNESS) < np.sum(
                        (loads / most) ** _SHARPNESS
                    ):
                        continue
                    loads, moved = other, moved + 1
                    self._counts[chunk] = counts[i]
                    self._table[chunk] = table[i]
            idle = 0 if moved else idle + 1
            if idle == _IDLE_SWEEPS:
                break

    def _candidates(
        self, loads: NDArray[np.float64], steep: float
    ) -> Iterator[tuple[Int64Array, Int32Array]]:
        """Chunks, in random order, and a new path for each; the chunks of a pair by different trees."""
        for root in np.unique(self.source).tolist():
            mine = np.flatnonzero(self.source == root)
            for part in range(self.n_chunks):
                some = self._random.permutation(mine[part :: self.n_chunks])
                paths = self._paths(root, loads, steep)[self.target[some]]
                fits = np.count_nonzero(paths >= 0, axis=1) <= self._most_hops
                table = np.full((len(some), self._most_hops), -1, dtype=np.int32)
                width = min(self._most_hops, paths.shape[1])
                table[:, :width] = paths[:, :width]
                changes = fits & (self._counted(table) != self._counts[some]).any(axis=1)
                yield some[changes], table[changes]

    def _counted(self, table: Int32Array) -> NDArray[np.float64]:
        """Hops on links of each orbit, shape (paths, orbits)."""
        row, column = np.nonzero(table >= 0)
        n_orbits = len(self.width)
        flat = np.bincount(row * n_orbits + self._orbit[table[row, column]], minlength=len(table) * n_orbits)
        return flat.reshape(len(table), n_orbits).astype(np.float64)

    @property
    def links(self) -> Int64Array:
        """Links of all paths, one after another."""
        return self._table[self._table >= 0].astype(np.int64)

    def runs(self) -> Runs:
        """The paths with orbits in place of links."""
        part = np.arange(len(self.source)) % self.n_chunks
        return Runs(
            self.n_chunks,
            np.zeros(len(self.source), dtype=np.int32),
            part.astype(np.int32),
            (part + 1).astype(np.int32),
            np.ones(len(self.source), dtype=np.int64),
            offsets_of(np.count_nonzero(self._table >= 0, axis=1)),
            self._orbit[self.links].astype(np.int32),
        )
