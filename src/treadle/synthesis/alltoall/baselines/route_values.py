"""Route schedules from paths."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.routes.path_sets import PathSet


def routes_of(
    collective: Collective, paths: PathSet, units: NDArray[np.integer], n_chunks: int
) -> RouteSchedule:
    """The schedule in which path p carries units[p] chunks, all in layer 0."""
    return RouteSchedule(
        n_ranks=collective.n_ranks,
        n_chunks=n_chunks,
        source=paths.source,
        target=paths.target,
        units=np.asarray(units, dtype=np.int64),
        layer=np.zeros(paths.n_paths, dtype=np.int32),
        path_offset=paths.offset,
        path_links=paths.links,
    )


def single_routes(collective: Collective, paths: PathSet) -> RouteSchedule:
    """The schedule in which the one path of each pair carries all of its demand."""
    demand = collective.pair_demands.between
    return routes_of(collective, paths, demand[paths.source, paths.target], 1)
