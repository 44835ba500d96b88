"""Route schedules from paths, and what they reach: exact loads and bandwidth."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int64Array
from treadle.schedules.collective import Collective
from treadle.schedules.routes import RouteSchedule
from treadle.synthesis.alltoall.paths import PathSet
from treadle.topologies.topology import Topology


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


def route_loads(topology: Topology, schedule: RouteSchedule) -> Int64Array:
    """Chunks over each link, shape (m,)."""
    load = np.zeros(topology.n_links, dtype=np.int64)
    np.add.at(load, schedule.path_links, np.repeat(schedule.units, schedule.hops))
    return load


def slowest(loads: NDArray[np.integer], capacities: NDArray[np.integer]) -> Fraction:
    """Largest load over capacity, exact; 0 where nothing is loaded."""
    return max(
        (Fraction(int(loads[capacities == rate].max()), int(rate)) for rate in np.unique(capacities)),
        default=Fraction(0),
    )


def route_time(topology: Topology, collective: Collective, schedule: RouteSchedule) -> Fraction:
    """Seconds per unit of demand if all chunks move at once: the paper's all-to-all time, 1/F.

    The busiest link or, where hosts have an injection cap, what a host itself sends or receives.
    """
    time = slowest(route_loads(topology, schedule), topology.bandwidths) / schedule.n_chunks
    caps = topology.injection_bytes_per_s[np.array(collective.ranks)]
    between = collective.pair_demands.between
    own = np.maximum(between.sum(axis=0), between.sum(axis=1))
    return max(time, slowest(own[caps > 0], caps[caps > 0]))


def route_algbw(topology: Topology, collective: Collective, schedule: RouteSchedule) -> Fraction:
    """Bytes/s, exact: the larger per-rank buffer over the time.

    Examples
    --------
    >>> from treadle.schedules.collective import CollectiveKind, on_all_ranks
    >>> from treadle.synthesis.alltoall.baselines.dimension_order import dimension_order
    >>> from treadle.topologies.graphs import torus
    >>> fabric = torus(3, 3, 3)
    >>> everyone = on_all_ranks(fabric, CollectiveKind.ALLTOALL)
    >>> route_algbw(fabric, everyone, dimension_order(fabric, everyone))
    Fraction(3, 1)
    """
    return collective.pair_demands.buffer_units / route_time(topology, collective, schedule)
