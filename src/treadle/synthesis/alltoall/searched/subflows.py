"""Subflows: demands split into integral chunks that take one path each."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from treadle.arrays import Int32Array, Int64Array, offsets_of
from treadle.errors import InfeasibleError
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.routes.path_sets import ShortestPaths, check_limits, demanded_pairs
from treadle.synthesis.core_values.column_values import SubproblemTable
from treadle.topologies.distances import distance_matrix
from treadle.topologies.topology import Topology

_SPARE_HOPS = 3
"""Default hops of the longest path beyond the longest distance of a pair."""

_FINE, _FINER = 200, 600
"""Least number of subflows on the fullest link, with equal and with unequal demands."""

_MOST_PIECES, _MOST_UNEQUAL = 16, 1024
"""Largest number of a pair's subflows, with equal and with unequal demands; more than four take fewer pairs
than local search is for.

A pair that has most of all data fills links by itself.
"""


@dataclass(frozen=True, eq=False)
class Subflows:
    """Subflows, sorted by source, then by target, and their arrays for the core.

    Parameters
    ----------
    n_chunks : int
        Chunks per unit of demand.
    source, target : arrays of int32, shape (k,)
        Ranks.
    table : SubproblemTable
        Amounts in chunks.
    distance : array of int32, shape (k,)
        Hops from source to target, at least.
    most_hops : int
        Of a path.
    """

    n_chunks: int
    source: Int32Array
    target: Int32Array
    table: SubproblemTable
    distance: Int32Array
    most_hops: int

    @property
    def n_subflows(self) -> int:
        """Number of subflows."""
        return len(self.source)


def cut_demands(
    topology: Topology,
    collective: Collective,
    *,
    chunks: int | None = None,
    max_routes: int | None = None,
    max_hops: int | None = None,
) -> Subflows:
    """Split every pair's demand into a power of two of equal subflows, each a small part of the fullest link.

    Parameters
    ----------
    topology : Topology
    collective : Collective
    chunks : int, optional
        Per unit of demand; default the least that makes all subflows integral.
    max_routes : int, optional
        Most subflows of a pair.
    max_hops : int, optional
        Default: the longest distance of a pair plus 3.

    Raises
    ------
    ScheduleError
        If an argument is out of range.
    InfeasibleError
        If a rank cannot be reached, or not within the hops.
    """
    check_limits(chunks, max_routes)
    source, target, demand = demanded_pairs(collective)
    ranks = np.array(collective.ranks, dtype=np.int32)
    hops = _hops(topology, collective, source, target)
    longest = int(hops.max(initial=0))
    most_hops = longest + _SPARE_HOPS if max_hops is None else max_hops
    if longest > most_hops:
        far = int(hops.argmax())
        raise InfeasibleError(
            f"{topology.name}: rank {source[far]} to rank {target[far]} is {longest} hops, at most "
            f"{most_hops} are allowed (--max-hops, or --max-steps)"
        )
    count = _counts(topology, collective, demand, hops, chunks, max_routes)
    n_chunks = chunks or int((count // np.gcd(demand, count)).max(initial=1))
    piece = np.repeat(np.arange(len(demand)), count)
    table = SubproblemTable(
        topology.n_nodes,
        np.ascontiguousarray(topology.tails, dtype=np.int32),
        np.ascontiguousarray(topology.heads, dtype=np.int32),
        topology.bandwidths / topology.bandwidths.max(),
        ranks,
        offsets_of(np.bincount(source[piece], minlength=collective.n_ranks)),
        ranks[target[piece]],
        (demand * n_chunks // count)[piece],
    )
    return Subflows(n_chunks, source[piece], target[piece], table, hops[piece], most_hops)


def _hops(topology: Topology, collective: Collective, source: Int32Array, target: Int32Array) -> Int32Array:
    """From the sources to the targets, at least."""
    ranks = np.array(collective.ranks)
    if np.array_equal(ranks, topology.compute_nodes):
        with suppress(InfeasibleError):  # of pairs that need no way, perhaps
            return distance_matrix(topology)[source, target]
    away = ShortestPaths(topology, collective).distances(np.ones(topology.n_links))[source, ranks[target]]
    for lost in np.flatnonzero(np.isinf(away))[:1]:
        raise InfeasibleError(f"{topology.name}: rank {source[lost]} cannot reach rank {target[lost]}")
    hops: Int32Array = away.astype(np.int32)
    return hops


def _counts(
    topology: Topology,
    collective: Collective,
    demand: Int64Array,
    hops: Int32Array,
    chunks: int | None,
    max_routes: int | None,
) -> Int64Array:
    """Return the number of subflows of every pair: a power of two."""
    width = float((topology.bandwidths / topology.bandwidths.max()).sum())
    load = float(demand.astype(np.float64) @ hops) / width  # of a link, if all had the same
    n_ranks = collective.n_ranks
    is_even = demand.min() == demand.max() and len(demand) == n_ranks * (n_ranks - 1)
    fine = _FINE if is_even else _FINER
    limit = _MOST_PIECES if is_even else _MOST_UNEQUAL
    most = limit if max_routes is None else min(limit, max_routes)
    wanted = np.clip(demand * (fine / max(load, 1e-9)), 1, most)
    least: Int64Array = np.exp2(np.ceil(np.log2(wanted))).astype(np.int64)
    count: Int64Array = np.minimum(least, 1 << (most.bit_length() - 1))
    if chunks is None:
        return count
    whole: Int64Array = np.gcd(count, demand * chunks)  # only subflows of whole chunks
    return whole
