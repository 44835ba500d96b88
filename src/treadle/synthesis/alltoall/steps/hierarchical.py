"""Hierarchical all-to-all on fabrics of boxes: inside the box to the right rail, then along the rail."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from treadle.arrays import Float64Array, Int64Array, mask_of
from treadle.errors import ScheduleError
from treadle.math.lp import Program
from treadle.schedules.alltoall.alltoall_certificate import FlowDualCertificate
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.rate.certificate import rounded_certificate
from treadle.synthesis.alltoall.rate.flow_instance import flow_instance
from treadle.synthesis.alltoall.rate.flow_symmetry import find_symmetry
from treadle.synthesis.alltoall.routes.path_sets import (
    PathSet,
    WeightedPaths,
    check_linked,
    path_rows,
    weighted_path_set,
)
from treadle.synthesis.alltoall.routes.route_units import route_schedule
from treadle.synthesis.alltoall.routes.virtual_channels import lash_layers
from treadle.synthesis.alltoall.steps.relays import Candidates, RelayPath, RelayPaths, candidates
from treadle.synthesis.trees.baselines.boxes import find_boxes
from treadle.topologies.topology import Topology

MAX_PAIRS = 2500
"""Most pairs with individual splits; beyond that, equivalent pairs share one."""

_CLOSED = 1e-6


@dataclass(frozen=True, eq=False)
class HierarchicalRoutes:
    """A hierarchical all-to-all, with an upper bound on all routings.

    Parameters
    ----------
    schedule : RouteSchedule
    algbw : Fraction
        Bytes/s by the exact loads of the links.
    fractional_algbw : float
        Before rounding to whole chunks.
    upper : Fraction
        algbw that no routing exceeds, proved by `certificate`.
    certificate : FlowDualCertificate
        Lengths from the duals of the split.
    boxes : tuple of tuples of int
        Ranks of each box, in order of position.
    relayed : float
        Fraction of the data between boxes that passes a compute node.
    """

    schedule: RouteSchedule
    algbw: Fraction
    fractional_algbw: float
    upper: Fraction
    certificate: FlowDualCertificate
    boxes: tuple[tuple[int, ...], ...]
    relayed: float

    @property
    def gap(self) -> float:
        """Optimality gap of `algbw`, relative to the upper side."""
        return max(0.0, 1 - float(self.algbw / self.upper))


def hierarchical_routes(
    topology: Topology,
    collective: Collective,
    *,
    ways: Sequence[RelayPath] = tuple(RelayPath),
    boxes: Sequence[Sequence[int]] | None = None,
    chunks: int | None = None,
    max_routes: int | None = None,
) -> HierarchicalRoutes:
    """Split every pair's data over direct paths and relays of its boxes to minimize the largest load.

    Parameters
    ----------
    topology : Topology
    collective : Collective
        An all-to-all; demands may be uneven.
    ways : sequence of RelayPath
        Allowed types of paths; a pair with none of them goes direct. (RelayPath.DIRECT,) makes the direct
        schedule, (RelayPath.RELAY_BEFORE,) PXN's two phases.
    boxes : sequence of sequences of int, optional
        Ranks of each box in order of position; default `find_boxes`.
    chunks, max_routes : int, optional
        As in `route_schedule`.

    Raises
    ------
    InfeasibleError
        If a rank cannot be reached.
    ScheduleError
        If an argument is out of range, or the paths are too many.

    Notes
    -----
    Phase 1 sends data inside the box to the GPU on the rail of the target, phase 2 along the rail: PXN of
    NCCL 2.12. Both run concurrently, chunk by chunk. Equivalent pairs (same positions and distance) first
    share one split, which loses nothing on interchangeable boxes. If the duals of that program do not prove
    the split optimal, SPREAD is added, then a split for each pair, up to MAX_PAIRS pairs. Among equally fast
    splits the one with the shortest paths is taken.

    Examples
    --------
    >>> from treadle.schedules.collective import CollectiveKind, on_all_ranks
    >>> from treadle.topologies import parse
    >>> fabric = parse("rail_optimized(2, 4)")
    >>> hierarchical_routes(fabric, on_all_ranks(fabric, CollectiveKind.ALLTOALL)).gap
    0.0
    """
    if not ways:
        raise ScheduleError("hierarchical: no type of path is allowed; allow at least one, such as direct")
    check_linked(topology, collective)
    layout = RelayPaths(topology, collective, find_boxes(topology, collective) if boxes is None else boxes)
    found, split, upper, certificate = _closest(topology, collective, layout, ways)
    merged = _merged(found.paths, split.weights * layout.demand[found.pair])
    layer = lash_layers(merged.paths, topology.n_links)
    chunked = route_schedule(
        topology,
        collective,
        merged.paths,
        merged.weights,
        chunks=chunks,
        max_routes=max_routes,
        layer=layer,
    )
    return HierarchicalRoutes(
        chunked.schedule,
        chunked.algbw,
        collective.pair_demands.buffer_units / split.time_s,
        upper,
        certificate,
        layout.boxes,
        _relayed(topology, layout, merged.paths, merged.weights),
    )


@dataclass(frozen=True, eq=False)
class _Split:
    """Solution of the program: share of its pair on each candidate path, time per unit of demand, lengths."""

    weights: Float64Array
    time_s: float
    lengths: Float64Array


def _closest(
    topology: Topology, collective: Collective, layout: RelayPaths, ways: Sequence[RelayPath]
) -> tuple[Candidates, _Split, Fraction, FlowDualCertificate]:
    """Find the best split: add types of paths, then finer splits, until a bound is attained."""
    instance, orbit = flow_instance(topology, collective), np.arange(topology.n_links)
    orbit[instance.links] = topology.n_links + find_symmetry(instance).link_orbit
    classes, pairs = _alike(layout), np.arange(len(layout.demand))
    simple: list[RelayPath] = [way for way in ways if way is not RelayPath.SPREAD]
    attempts = [(simple, classes), (list(ways), classes), (list(ways), pairs)]
    # Hops prove a bound even where bandwidths are so far apart that fast links have no length.
    proofs = [np.ones(topology.n_links), layout.length]
    best: tuple[Candidates, _Split] | None = None
    for chosen, rows in attempts:
        is_fine = rows is pairs
        if not chosen or (is_fine and best is not None and len(pairs) > MAX_PAIRS):
            continue
        found = candidates(layout, chosen)
        column = np.arange(found.paths.n_paths)
        if not is_fine:
            number = classes[found.pair] * len(RelayPath) + found.way
            column = np.unique(number, return_inverse=True)[1].reshape(-1)
        split = _best_split(topology, layout, found, rows, column)
        if best is None or split.time_s < best[1].time_s * (1 - _CLOSED):
            best = found, split
        proofs += [_averaged(split.lengths, orbit), split.lengths]
        upper, certificate = _tightest(topology, collective, proofs)
        if collective.pair_demands.buffer_units / best[1].time_s >= float(upper) * (1 - _CLOSED):
            break
    assert best is not None
    return *best, upper, certificate


def _averaged(lengths: Float64Array, orbit: Int64Array) -> Float64Array:
    """Average over each orbit: the mean proves no less, and dual vertices are often lopsided."""
    mean: Float64Array = (np.bincount(orbit, weights=lengths) / np.maximum(np.bincount(orbit), 1))[orbit]
    return mean


def _tightest(
    topology: Topology, collective: Collective, lengths: Sequence[Float64Array]
) -> tuple[Fraction, FlowDualCertificate]:
    """Return the smallest bound on algbw that some of the lengths prove, with its certificate."""
    found = []
    for certificate in map(rounded_certificate, lengths):
        # Lengths of a split without some type of path may leave all ranks at distance 0.
        with suppress(ScheduleError):
            found.append((certificate.bound(topology, collective), certificate))
    return min(found, key=lambda one: one[0])


def _alike(layout: RelayPaths) -> Int64Array:
    """Number the pairs, equally for pairs of the same positions and distance."""
    source, target = layout.source, layout.target
    keys = np.column_stack(
        [
            layout.box[source] == layout.box[target],
            layout.position[source],
            layout.position[target],
            layout.distance[source, layout.ranks[target]],
        ]
    )
    number: Int64Array = np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)
    return number


def _best_split(
    topology: Topology, layout: RelayPaths, found: Candidates, rows: Int64Array, column: Int64Array
) -> _Split:
    """Minimize the largest load; `rows` numbers each pair's split, `column` each path's variable."""
    n_columns, m = int(column.max()) + 1, topology.n_links
    share = np.ones(len(column)) if n_columns == len(column) else found.share
    amount = (share * layout.demand[found.pair])[found.paths.owner]
    key, place = np.unique(column[found.paths.owner] * m + found.paths.links, return_inverse=True)
    link = (key % m).astype(np.int64)
    load_s = np.bincount(place, weights=amount) / topology.bandwidths[link]
    row = np.empty(n_columns, dtype=np.int64)
    row[column] = rows[found.pair]
    # The largest load becomes about 1, since the solver's tolerances are absolute.
    scale = float(np.bincount(link, weights=load_s).max())
    values, time, lengths = _least_load(int(rows.max()) + 1, m, row, key // m, link, load_s / scale)
    return _Split(values[column] * share, time * scale, lengths / topology.bandwidths)


def _least_load(
    n_rows: int, n_links: int, row: Int64Array, column: Int64Array, link: Int64Array, load: Float64Array
) -> tuple[Float64Array, float, Float64Array]:
    """Minimize T, the largest load, and then the total load; the columns of each row add up to 1.

    Loads are triples sorted by column. Returns values of the columns, T, and the links' duals at the first
    optimum.
    """
    count = len(row)
    # The first of equally long paths.
    total = np.bincount(column, weights=load, minlength=count) * (1 + 1e-3 * np.arange(count) / count)
    lp = Program("hierarchical", tolerance=1e-9)
    lp.empty_rows(np.repeat([1.0, -np.inf], [n_rows, n_links]), np.repeat([1.0, 0.0], [n_rows, n_links]))
    lp.column(1.0, np.arange(n_rows, n_rows + n_links), np.full(n_links, -1.0))
    lp.columns(row, np.searchsorted(column, np.arange(count)), n_rows + link, load)
    values, duals = lp.solve()
    time = float(values[0])
    # Keep T up to rounding while the total is minimized.
    lp.solver.changeColBounds(0, 0.0, time * (1 + 1e-9))
    lp.solver.changeColsCost(count + 1, np.arange(count + 1, dtype=np.int32), np.concatenate([[0.0], total]))
    return np.maximum(lp.solve()[0][1:], 0.0), time, np.maximum(-duals[n_rows:], 0.0)


def _merged(paths: PathSet, weights: Float64Array) -> WeightedPaths:
    """Return each path with weight once, with the weight of all its types."""
    keep = weights > 1e-9
    paths = paths.take(keep)
    return weighted_path_set(paths.source, paths.target, path_rows(paths), weights[keep])


def _relayed(topology: Topology, layout: RelayPaths, paths: PathSet, weights: Float64Array) -> float:
    """Return the fraction of the data between boxes that passes a compute node."""
    between = layout.box[paths.source] != layout.box[paths.target]
    first = mask_of(len(paths.links), paths.offset[:-1])
    stop = topology.is_compute[topology.tails[paths.links]] & ~first
    passes = np.bincount(paths.owner[stop], minlength=paths.n_paths) > 0
    total = float(weights[between].sum())
    return float(weights[between & passes].sum()) / total if total else 0.0
