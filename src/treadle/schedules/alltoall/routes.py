"""Route schedules: weighted source routes of an all-to-all for fabrics whose adapters forward."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from treadle.arrays import FrozenArrays, Int32Array, Int64Array, frozen, offsets_of
from treadle.errors import ScheduleError
from treadle.notebook import displayed, own_repr
from treadle.schedules.collective import CollectiveKind

MAX_UNITS = 2**24
"""Most chunks per unit of demand."""


@displayed(own_repr)
@dataclass(frozen=True, eq=False)
class RouteSchedule(FrozenArrays):
    """Paths of every pair of ranks, the chunks steered to each, and its layer (virtual channel).

    Each unit of demand is cut into P = `n_chunks` equal chunks, so pair (i, j) of demand w has P * w of
    them. Path p carries `units[p]` of them from rank `source[p]` to rank `target[p]` over the links
    path_links[path_offset[p]:path_offset[p + 1]]; adapters pass them on without their hosts.

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
        From 0; where it changes on the way, that of the first hop.
    path_offset : array of int64, shape (k + 1,)
    path_links : array of int32, shape (total hops,)
        Physical links in the order of the walk.
    hop_layer : array of int32, shape (total hops,), optional
        Layer of every hop, where it changes on some path's way; empty where none does.

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
        offset, count = self.path_offset, len(self.source)
        for key in ("target", "units", "layer"):
            if len(getattr(self, key)) != count:
                raise ScheduleError(f"routes: {key} has {len(getattr(self, key))} values, expected {count}")
        hops = len(self.path_links)
        if len(offset) != count + 1 or offset[0] != 0 or offset[-1] != hops or np.any(np.diff(offset) < 0):
            raise ScheduleError(f"routes: path_offset must rise from 0 to {hops} in {count} steps")
        for key, least, most in (
            ("source", 0, self.n_ranks - 1),
            ("target", 0, self.n_ranks - 1),
            ("units", 1, 2**44),
            ("layer", 0, 2**15),
            ("path_links", 0, 2**31 - 1),
            ("hop_layer", 0, 2**15),
        ):
            values = getattr(self, key)
            if values.size and not (least <= int(values.min()) and int(values.max()) <= most):
                raise ScheduleError(f"routes: {key} has a value outside {least} to {most}")
        if self.hop_layer.size and len(self.hop_layer) != hops:
            raise ScheduleError(f"routes: {len(self.hop_layer)} values in hop_layer, expected {hops} or none")
        begins = offset[:-1][np.diff(offset) > 0]
        if self.hop_layer.size and np.any(self.hop_layer[begins] != self.layer[np.diff(offset) > 0]):
            raise ScheduleError("routes: layer must be that of each path's first hop in hop_layer")
        if np.any(np.diff(self.pair) < 0):
            raise ScheduleError("routes: paths must be sorted by source, then by target")

    @property
    def kind(self) -> CollectiveKind:
        """Routes serve all-to-all only."""
        return CollectiveKind.ALLTOALL

    @property
    def n_paths(self) -> int:
        """Number of paths k."""
        return len(self.source)

    @property
    def n_layers(self) -> int:
        """One more than the highest layer."""
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
        """Links of every path, shape (k,)."""
        return np.diff(self.path_offset)

    def span(self, source: int, target: int) -> slice:
        """Where the paths of a pair are."""
        number = source * self.n_ranks + target
        return slice(*(int(place) for place in np.searchsorted(self.pair, [number, number + 1])))

    def path(self, index: int) -> Int32Array:
        """Links of path `index`."""
        return self.path_links[self.path_offset[index] : self.path_offset[index + 1]]

    def __repr__(self) -> str:
        return (
            f"<RouteSchedule: {self.n_ranks} ranks, {self.n_chunks} chunks, {self.n_paths} paths, "
            f"{len(self.path_links)} hops, {self.n_layers} layers>"
        )


Route = tuple[int, int, int, int, Sequence[int]]
"""(source rank, target rank, units, layer, links)."""


def routes_from_paths(n_ranks: int, n_chunks: int, routes: Iterable[Route]) -> RouteSchedule:
    """A route schedule from tuples in any order.

    Parameters
    ----------
    n_ranks, n_chunks : int
    routes : iterable of (source, target, units, layer, links)
        Sorted here by pair; the order within a pair is kept.

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
    offset = offsets_of([len(row[4]) for row in rows])
    return RouteSchedule(
        n_ranks=n_ranks,
        n_chunks=n_chunks,
        source=np.array(columns[0], dtype=np.int64),
        target=np.array(columns[1], dtype=np.int64),
        units=np.array(columns[2], dtype=np.int64),
        layer=np.array(columns[3], dtype=np.int64),
        path_offset=offset,
        path_links=np.array([link for row in rows for link in row[4]], dtype=np.int64),
    )
