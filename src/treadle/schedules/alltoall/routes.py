"""Route schedules: weighted source routes of an all-to-all for fabrics whose network adapters forward."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from treadle.arrays import FrozenArrays, Int32Array, Int64Array, check_offsets, frozen, offsets_of
from treadle.errors import ScheduleError
from treadle.notebook import displayed, own_repr
from treadle.schedules.checks import check_length, check_range
from treadle.schedules.collective import CollectiveKind

MAX_UNITS = 2**24
"""Most chunks per unit of demand."""


@displayed(own_repr)
@dataclass(frozen=True, eq=False)
class RouteSchedule(FrozenArrays):
    """Paths of every pair of ranks, the chunks on each, and its layer (virtual channel).

    Each unit of demand is cut into P = `n_chunks` equal chunks, so pair (i, j) of demand w has P * w of
    them. Path p carries `units[p]` of them from rank `source[p]` to rank `target[p]` over the links
    path_links[path_offset[p]:path_offset[p + 1]]; network adapters forward them without their hosts.

    Parameters
    ----------
    n_ranks : int
        N.
    n_chunks : int
        P, 1 to 2**24.
    source, target : arrays of int32, shape (k,)
        Ranks; the paths are sorted by source, then by target.
    units : array of int64, shape (k,)
        At least 1.
    layer : array of int32, shape (k,)
        From 0; the layer of the first hop if it changes along the path.
    path_offset : array of int64, shape (k + 1,)
    path_links : array of int32, shape (total hops,)
        Physical links in order.
    hop_layer : array of int32, shape (total hops,), optional
        Layer of every hop, if it changes along some path; otherwise empty.

    Raises
    ------
    ScheduleError
        If shapes or ranges are wrong. `treadle.verification.routes.route_check` checks meaning.

    Notes
    -----
    28 bytes a path and 4 a hop. Read-only arrays of the right type are adopted without a copy.
    """

    n_ranks: int
    n_chunks: int
    source: Int32Array
    target: Int32Array
    units: Int64Array
    layer: Int32Array
    path_offset: Int64Array
    path_links: Int32Array
    hop_layer: Int32Array = field(default_factory=lambda: frozen([], np.int32))

    def __post_init__(self) -> None:
        self._freeze("routes")
        if self.n_ranks < 2 or not 1 <= self.n_chunks <= MAX_UNITS:
            raise ScheduleError("routes: needs at least 2 ranks and 1 to 2**24 chunks per unit of demand")
        for key, low, high in (
            ("source", 0, self.n_ranks),
            ("target", 0, self.n_ranks),
            ("units", 1, 2**44 + 1),
            ("layer", 0, 2**15 + 1),
        ):
            check_length("routes", key, getattr(self, key), self.n_paths)
            check_range("routes", key, getattr(self, key), low, high)
        check_offsets("routes", "path_offset", self.path_offset, self.n_paths, len(self.path_links))
        check_range("routes", "path_links", self.path_links, 0, 2**31)
        if self.hop_layer.size:
            check_length("routes", "hop_layer", self.hop_layer, len(self.path_links))
            check_range("routes", "hop_layer", self.hop_layer, 0, 2**15 + 1)
            if np.any(self.hop_layer[self.path_offset[:-1][self.hops > 0]] != self.layer[self.hops > 0]):
                raise ScheduleError("routes: layer must be that of each path's first hop in hop_layer")
        if np.any(np.diff(self.pair) < 0):
            raise ScheduleError("routes: paths must be sorted by source, then by target")

    @property
    def kind(self) -> CollectiveKind:
        """All-to-all."""
        return CollectiveKind.ALLTOALL

    @property
    def n_paths(self) -> int:
        """Number of paths k."""
        return len(self.source)

    @property
    def n_layers(self) -> int:
        """Number of layers."""
        layer = self.hop_layer if self.hop_layer.size else self.layer
        return int(layer.max()) + 1 if self.n_paths else 0

    @property
    def layers_by_hop(self) -> Int32Array:
        """Layer of every hop, shape (total hops,)."""
        return self.hop_layer if self.hop_layer.size else np.repeat(self.layer, self.hops)

    @property
    def pair(self) -> Int64Array:
        """source * N + target of every path, shape (k,)."""
        number: Int64Array = self.source.astype(np.int64) * self.n_ranks + self.target
        return number

    @property
    def hops(self) -> Int64Array:
        """Number of links of every path, shape (k,)."""
        return np.diff(self.path_offset)

    def span(self, source: int, target: int) -> slice:
        """Return the slice of the paths of a pair."""
        number = source * self.n_ranks + target
        return slice(*np.searchsorted(self.pair, [number, number + 1]).tolist())

    def path(self, index: int) -> Int32Array:
        """Return the links of path `index`."""
        return self.path_links[self.path_offset[index] : self.path_offset[index + 1]]

    def __repr__(self) -> str:
        return (
            f"<RouteSchedule: {self.n_ranks} ranks, {self.n_chunks} chunks, {self.n_paths} paths, "
            f"{len(self.path_links)} hops, {self.n_layers} layers>"
        )


Route = tuple[int, int, int, int, Sequence[int]]
"""(source rank, target rank, units, layer, links)."""


def routes_from_paths(n_ranks: int, n_chunks: int, routes: Iterable[Route]) -> RouteSchedule:
    """Return a route schedule from tuples in any order.

    Parameters
    ----------
    n_ranks, n_chunks : int
    routes : iterable of (source, target, units, layer, links)
        They are sorted by pair; the order within a pair is kept.

    Raises
    ------
    ScheduleError
        If a value is out of range.

    Examples
    --------
    >>> routes_from_paths(2, 1, [(1, 0, 1, 0, [1]), (0, 1, 1, 0, [0])])
    <RouteSchedule: 2 ranks, 1 chunks, 2 paths, 2 hops, 1 layers>
    """
    rows = sorted(routes, key=lambda route: route[:2])
    columns = list(zip(*(row[:4] for row in rows), strict=True)) or [(), (), (), ()]
    return RouteSchedule(
        n_ranks=n_ranks,
        n_chunks=n_chunks,
        source=np.array(columns[0], dtype=np.int64),
        target=np.array(columns[1], dtype=np.int64),
        units=np.array(columns[2], dtype=np.int64),
        layer=np.array(columns[3], dtype=np.int64),
        path_offset=offsets_of([len(row[4]) for row in rows]),
        path_links=np.array([link for row in rows for link in row[4]], dtype=np.int64),
    )
