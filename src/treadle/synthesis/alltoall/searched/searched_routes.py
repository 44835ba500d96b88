"""Routes of an all-to-all by local search: paths first, then layers, then both together as a schedule.

Source: docs/how-it-works/all-to-all.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from time import monotonic

import numpy as np

from treadle.arrays import Int32Array, Int64Array, offsets_of
from treadle.context import Context, context, under
from treadle.errors import InfeasibleError, ScheduleError
from treadle.schedules.alltoall.route_cost import route_algbw
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.routes.link_orders import (
    LayeredPaths,
    grid_orders,
    grid_sides,
    up_down_orders,
)
from treadle.synthesis.alltoall.searched.hop_arrays import busiest, looked_up
from treadle.synthesis.alltoall.searched.layer_search import LayeredSubflows, first_fit, layered_search
from treadle.synthesis.alltoall.searched.path_search import search_paths
from treadle.synthesis.alltoall.searched.subflows import Subflows, cut_demands
from treadle.synthesis.core_values.column_values import ColumnPaths
from treadle.synthesis.runs import run_starts, within
from treadle.topologies.topology import Topology

_PATHS_TIME, _LAYERS_TIME = 0.35, 0.7
"""Parts of the time until a deadline by which paths and layers are to be there."""

_CLOSE = 1.001
"""Load over that without layers at which no other orders are tried."""

LAYER_LOSS = Fraction(1, 100)
"""Share of the rate that fewer layers may cost by default."""

_MANY = 500_000
"""Subflows above which a trial takes longer than the paths did, so that hopeless ones are left out."""

_MISFITS = 0.08
"""Fraction of many subflows that may be in later layers of first fit when a trial begins."""

_MOST_TRIED = 32
"""Layers up to which it is tried how many do."""

_NAMED = 3
"""Pairs without a way that an error names."""

_NO_WAY = 255
"""Hops of a pair that an order has no path for."""


@dataclass(frozen=True, eq=False)
class SearchedRoutes:
    """A route schedule, and what it would be without layers.

    Parameters
    ----------
    schedule : RouteSchedule
    unlayered_algbw : Fraction
        Of the paths before they had layers, bytes/s, by exact loads.
    is_late : bool
        Time ran out; these are the best so far.
    layer_rates : mapping of int to float
        Share of the rate without layers that other numbers of layers were found to keep.
    """

    schedule: RouteSchedule
    unlayered_algbw: Fraction
    is_late: bool = False
    layer_rates: Mapping[int, float] = field(default_factory=dict)


def searched_routes(
    topology: Topology,
    collective: Collective,
    *,
    max_layers: int | None = None,
    layer_changes: bool = False,
    max_routes: int | None = None,
    max_hops: int | None = None,
    chunks: int | None = None,
    seed: int = 0,
) -> SearchedRoutes:
    """One to four paths a pair at a low largest load, free of deadlock.

    Parameters
    ----------
    topology : Topology
    collective : Collective
        An all-to-all.
    max_layers : int, optional
        Default: the fewest found that cost at most 1% of the rate without layers.
    layer_changes : bool
        The layer may rise along a path (InfiniBand's SL to VL; the channel is incremented at switches).
    max_routes, max_hops, chunks : int, optional
        See `cut_demands`.
    seed : int
        The same seed gives the same routes.

    Raises
    ------
    ScheduleError
        If an argument is out of range.
    InfeasibleError
        If a rank cannot be reached, or some pairs have no path in this number of layers; the message names
        pairs, and a number of layers that do.
    """
    if max_layers is not None and max_layers < 1:
        raise ScheduleError(f"layers: at most {max_layers}, expected at least 1")
    subflows = cut_demands(topology, collective, chunks=chunks, max_routes=max_routes, max_hops=max_hops)
    by_then, at_last = until(_PATHS_TIME), until(_LAYERS_TIME)
    with under(by_then):
        free, is_whole = search_paths(subflows, seed=seed)
    assert is_whole
    is_late = by_then.is_late
    flat = np.zeros(len(free.place), dtype=np.int32)
    unlayered = route_algbw(topology, collective, subflow_routes(subflows, free.offset, free.place, flat))
    layer_rates = dict[int, float]()
    if max_layers is None:
        with under(at_last):
            found, layer_rates = _fewest_layers(subflows, free, layer_changes, seed)
    else:
        starts = _starts(topology, collective, max_layers, seed)
        with under(at_last):
            found = _in_layers(topology, subflows, free, max_layers, starts, layer_changes)
        is_late = is_late or at_last.is_late
    schedule = subflow_routes(subflows, found.offset, found.links, found.layer)
    layer_rates.pop(schedule.n_layers, None)
    return SearchedRoutes(schedule, unlayered, is_late, layer_rates)


def _fewest_layers(
    subflows: Subflows, free: ColumnPaths, may_rise: bool, seed: int
) -> tuple[LayeredSubflows, dict[int, float]]:
    """The fewest layers that cost little, and the share of the rate that each number tried keeps.

    First fit costs nothing, but may take many layers; a deadline leaves it as it is.
    """
    with under(context().unlimited):
        whole = first_fit(subflows, free, may_rise=may_rise)
    in_layer = np.bincount(whole.layer[whole.offset[:-1]])
    first = 1
    if subflows.n_subflows > _MANY:
        later = subflows.n_subflows - np.cumsum(in_layer)
        first = int(np.argmax(later <= _MISFITS * subflows.n_subflows)) + 1
    n_layers = int(whole.layer.max()) + 1
    load = busiest(subflows, free.offset, free.place)
    rates = {n_layers: 1.0}
    for number in range(first, n_layers):
        if context().is_late:
            break
        found = layered_search(subflows, free, number, may_rise=may_rise, tries=0, seed=seed)
        if found.lost.size:
            continue
        rates[number] = float(load / busiest(subflows, found.offset, found.links))
        if rates[number] >= 1 - LAYER_LOSS:
            return found, rates
    return whole, rates


def until(part: float) -> Context:
    """Return the context with a deadline after a fraction of the remaining time, if it has a deadline."""
    left = context().seconds_left
    return context() if left is None else Context(context().progress, monotonic() + part * left)


def _in_layers(
    topology: Topology,
    subflows: Subflows,
    free: ColumnPaths,
    max_layers: int,
    starts: Iterator[Int32Array | None],
    may_rise: bool,
) -> LayeredSubflows:
    """The free paths if they fit, else the best of what the orders to start from give."""
    with under(context().unlimited):
        filled = first_fit(subflows, free, max_layers=max_layers, may_rise=may_rise)
    if not filled.lost.size:
        return filled
    best, least = None, np.inf
    goal = _CLOSE * busiest(subflows, free.offset, free.place)
    for orders in starts:
        found = layered_search(subflows, free, max_layers, may_rise=may_rise, orders=orders)
        load = busiest(subflows, found.offset, found.links)
        if not found.lost.size and load < least:
            best, least = found, load
        if least <= goal or (best is not None and (context().is_late or orders is None)):
            break
    if best is None:
        raise _refusal(topology, subflows, free, found, may_rise)
    return best


def _starts(
    topology: Topology, collective: Collective, n_layers: int, seed: int
) -> Iterator[Int32Array | None]:
    """Orders to start from; None is first fit's."""
    sides = grid_sides(topology)
    if sides is not None:
        yield _grid_start(topology, collective, sides, n_layers, seed)
    yield None
    orders = up_down_orders(topology, n_layers)
    yield orders[np.arange(n_layers) % len(orders)]


def _grid_start(
    topology: Topology, collective: Collective, sides: tuple[int, ...], n_layers: int, seed: int
) -> Int32Array:
    """Orders of dimensions and directions, each the one that keeps, with those before, demands nearest."""
    candidates = grid_orders(topology, sides, np.random.default_rng(seed))
    demand = collective.pair_demands.between
    ranks = np.array(collective.ranks)
    tables = []
    for order in candidates:
        away = LayeredPaths(topology, collective, order[None]).search(np.ones(topology.n_links)).distance
        tables.append(np.minimum(away[:, ranks], _NO_WAY).astype(np.uint8))
    nearest, chosen = np.full(demand.shape, _NO_WAY, dtype=np.uint8), list[int]()
    for _ in range(n_layers):
        costs = [float((np.minimum(table, nearest) * demand).sum()) for table in tables]
        # where several are as good, orders that were not chosen yet spread the load
        pick = min(range(len(costs)), key=lambda number: (costs[number], number in chosen, number))
        chosen.append(pick)
        nearest = np.minimum(nearest, tables[pick])
    return candidates[chosen].astype(np.int32)


def _refusal(
    topology: Topology, subflows: Subflows, free: ColumnPaths, found: LayeredSubflows, may_rise: bool
) -> InfeasibleError:
    """The error for too few layers: pairs without a way, and a number of layers that do."""
    pairs = dict.fromkeys(
        zip(subflows.source[found.lost].tolist(), subflows.target[found.lost].tolist(), strict=True)
    )
    named = ", ".join(f"{source} to {target}" for source, target in list(pairs)[:_NAMED])
    more = ", ..." if len(pairs) > _NAMED else ""
    max_layers = len(found.order)
    enough = int(first_fit(subflows, free, may_rise=may_rise).layer.max()) + 1
    for number in range(max_layers + 1, min(enough, _MOST_TRIED)):
        if not layered_search(subflows, free, number, may_rise=may_rise, sweeps=0).lost.size:
            enough = number
            break
    return InfeasibleError(
        f"{topology.name}: {len(pairs)} of the pairs have no way of at most {subflows.most_hops} hops in "
        f"{max_layers} layers (ranks {named}{more}); {enough} layers do: allow them (--layers {enough}), or "
        f"longer ways (--max-hops)"
    )


def subflow_routes(
    subflows: Subflows, offset: Int64Array, links: Int32Array, layer: Int32Array
) -> RouteSchedule:
    """Convert the subflows' paths to routes; those of a pair on the same path in the same layers are one.

    Parameters
    ----------
    subflows : Subflows
    offset : array of int64, shape (k + 1,)
    links, layer : arrays of int32
        Subflow i takes links[offset[i]:offset[i + 1]], in these layers.
    """
    hops = np.diff(offset)
    same = ~run_starts(layer)
    same[offset[:-1]] = True
    is_used = np.bincount(layer) > 0
    if not is_used.all():  # layers are numbered without gaps
        number = np.cumsum(is_used, dtype=np.int32)[None] - np.int32(1)
        layer = looked_up(number, np.zeros_like(layer), layer)
    kept, units = _distinct(subflows, offset, links, layer)
    if len(kept) < subflows.n_subflows:
        place = np.repeat(offset[kept], hops[kept]) + within(hops[kept])
        offset, links, layer = offsets_of(hops[kept]), links[place], layer[place]
    for array in (offset, links):
        array.setflags(write=False)  # so that the schedule adopts them without a copy
    return RouteSchedule(
        n_ranks=int(subflows.table.node.size),
        n_chunks=subflows.n_chunks,
        source=subflows.source[kept],
        target=subflows.target[kept],
        units=units,
        layer=layer[offset[:-1]],
        path_offset=offset,
        path_links=links,
        hop_layer=np.zeros(0, dtype=np.int32) if same.all() else layer,
    )


def _distinct(
    subflows: Subflows, offset: Int64Array, links: Int32Array, layer: Int32Array
) -> tuple[Int64Array, Int64Array]:
    """Return the first subflows of each pair and path, and the chunks of all of them."""
    pair = subflows.source.astype(np.int64) * int(subflows.table.node.size) + subflows.target
    if np.all(pair[1:] != pair[:-1]):
        return np.arange(len(pair)), subflows.table.amount
    key = (links.astype(np.int64) << 32) + (layer.astype(np.int64) << 20) + within(np.diff(offset))
    # one round of splitmix64 (Steele, Lea and Flood)
    mixed = key.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ mixed >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    mark = np.add.reduceat(mixed ^ mixed >> np.uint64(27), offset[:-1])
    order = np.lexsort((mark, pair))
    is_new = run_starts(pair[order], mark[order])
    return order[is_new], np.add.reduceat(subflows.table.amount[order], np.flatnonzero(is_new))
