"""Layers for searched paths: first fit in the layers there are, the others rerouted along the layers' orders.

LASH (Skeie, Lysne and Theiss, 2002) leaves every layer with an order of the links that its paths climb. Any
path that climbs it is free of deadlock there too (Dally and Seitz, 1987), so the misfits are rerouted
along these orders, and all loads are balanced again. If the layer may rise along a path, the orders one after
another are a single one, of (layer, link). Source: docs/how-it-works/all-to-all.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import BoolArray, Int32Array, Int64Array, mask_of, offsets_of
from treadle.context import context, under
from treadle.engine import core, run_core, run_until
from treadle.synthesis.alltoall.searched.hop_arrays import looked_up
from treadle.synthesis.alltoall.searched.path_search import search_paths
from treadle.synthesis.alltoall.searched.subflows import Subflows
from treadle.synthesis.core_values.column_values import ColumnPaths, DependencyPaths, OrderPace

_TRIES = 12
"""Rounds in which orders are changed until every subflow has a path."""

_PASSES = 2
"""Rounds over all layers, each refilled."""

_SWEEPS = 24
"""Sweeps of the search in improved layers: most of its paths come from one without."""


@dataclass(frozen=True, eq=False)
class LayeredSubflows:
    """Paths of subflows, with layers.

    Parameters
    ----------
    offset : array of int64, shape (k + 1,)
    links : array of int32
        Subflow i takes links[offset[i]:offset[i + 1]].
    layer : array of int32, of the shape of `links`
        Of each hop.
    order : array of int32, shape (L, m)
        The links of each layer, in an order that its paths climb: proof that nothing deadlocks.
    lost : array of int64
        Subflows without a path.
    """

    offset: Int64Array
    links: Int32Array
    layer: Int32Array
    order: Int32Array
    lost: Int64Array


def first_fit(
    subflows: Subflows,
    paths: ColumnPaths,
    *,
    max_layers: int = 0,
    may_rise: bool = False,
    short_first: bool = False,
) -> LayeredSubflows:
    """Put free paths into layers one by one; those that fit none are lost.

    Parameters
    ----------
    subflows : Subflows
    paths : ColumnPaths
        Free ones.
    max_layers : int
        0: as many as it takes.
    may_rise : bool
        A path may go to a higher layer on its way.
    short_first : bool
        Short paths before long ones: where layers are few, fewer are lost.

    Raises
    ------
    TimeLimitError
        If the deadline passes.
    """
    table, hops = subflows.table, np.diff(paths.offset)
    given = DependencyPaths(
        table.n_nodes,
        table.tail,
        table.head,
        paths.offset,
        paths.place,
        np.argsort(hops if short_first else -hops, kind="stable"),
        max_layers,
        may_rise,
    )
    _, layer, order = run_core("layers", lambda control: core.first_fit_layers(given, control))
    core.release_memory()
    found = order.reshape(-1, len(table.tail))
    missing = np.tile(np.arange(len(table.tail), dtype=np.int32), (max(0, max_layers - len(found)), 1))
    return _kept(paths, layer if may_rise else np.repeat(layer, hops), np.concatenate([found, missing]))


def improved_layers(
    subflows: Subflows, paths: ColumnPaths, orders: Int32Array, *, seed: int = 0
) -> LayeredSubflows:
    """Improve the layers' orders so that more subflows have short paths.

    Each layer in turn is refilled: with the paths that it alone has, then with those of subflows that no
    layer carries in as few hops as possible, then with the rest. It stays if the hops are no more in all.

    Parameters
    ----------
    subflows : Subflows
    paths : ColumnPaths
        Free ones; those that climb no order in the end are lost.
    orders : array of int32, shape (L, m)
        To start from.
    seed : int
    """
    pace = OrderPace(subflows.most_hops, _PASSES, seed)
    _, layer, order = run_until(
        "orders of layers",
        lambda control: core.improve_layer_orders(
            subflows.table, paths, subflows.distance, orders, pace, control
        ),
    )
    core.release_memory()
    return _kept(paths, np.repeat(layer, np.diff(paths.offset)), order.reshape(orders.shape))


def _kept(paths: ColumnPaths, layer: Int32Array, order: Int32Array) -> LayeredSubflows:
    """The paths with a layer for every hop, those of layer -1 lost."""
    hops, kept = np.diff(paths.offset), layer >= 0
    lost = np.flatnonzero(~kept[paths.offset[:-1]])
    hops[lost] = 0
    return LayeredSubflows(offsets_of(hops), paths.place[kept], layer[kept], order, lost)


def layered_search(
    subflows: Subflows,
    paths: ColumnPaths,
    max_layers: int,
    *,
    may_rise: bool = False,
    orders: Int32Array | None = None,
    sweeps: int | None = None,
    tries: int = _TRIES,
    seed: int = 0,
) -> LayeredSubflows:
    """Find paths in a limited number of layers, at a low largest load; subflows without a path are lost.

    Parameters
    ----------
    subflows : Subflows
    paths : ColumnPaths
        Free ones, to start from.
    max_layers : int
    may_rise : bool
        A path may go to a higher layer on its way.
    orders : array of int32, shape (max_layers, m), optional
        To start from, in place of those of first fit.
    sweeps : int, optional
        0: only find out which are lost. Default: 24 where improved orders keep most of the paths, else as
        many as without layers.
    tries : int
        Rounds in which orders are changed for lost subflows. 0 is fast: a subflow without a path stays lost.
    seed : int
    """
    if orders is None:
        with under(context().unlimited):
            filled = first_fit(
                subflows, paths, max_layers=max_layers, may_rise=may_rise, short_first=not may_rise
            )
        if not may_rise:
            filled = improved_layers(subflows, paths, filled.order, seed=seed)
            sweeps = _SWEEPS if sweeps is None else sweeps
    else:
        none = np.zeros(0, dtype=np.int32)
        filled = LayeredSubflows(
            np.zeros(subflows.n_subflows + 1, np.int64), none, none, orders, np.arange(subflows.n_subflows)
        )
    for number in range(tries + 1):
        order, given = filled.order, _in_lanes(subflows, filled, may_rise)
        del filled  # some bytes a hop, which the search has need of
        with under(context().unlimited):
            filled = _searched(subflows, order, given, may_rise, 0, seed + number)
        if not filled.lost.size or number == tries or context().is_late:
            break
        filled = _bent(subflows, paths, filled)
    if filled.lost.size or sweeps == 0:
        return filled
    order, given = filled.order, _in_lanes(subflows, filled, may_rise)
    del filled
    return _searched(subflows, order, given, may_rise, sweeps, seed)


def _in_lanes(subflows: Subflows, start: LayeredSubflows, may_rise: bool) -> ColumnPaths:
    """Return the paths as positions in columns of the orders: one column per layer, or one of all if paths
    may rise."""
    m = start.order.shape[1]
    at = looked_up(_places(start.order), start.layer, start.links)
    lane = np.zeros(subflows.n_subflows, dtype=np.int32)
    if may_rise:
        at += start.layer * np.int32(m)
    else:
        is_there = start.offset[1:] > start.offset[:-1]
        lane[is_there] = start.layer[start.offset[:-1][is_there]]
    return ColumnPaths(lane, start.offset, at)


def _searched(
    subflows: Subflows, order: Int32Array, given: ColumnPaths, may_rise: bool, sweeps: int | None, seed: int
) -> LayeredSubflows:
    """Search in the columns of these orders, from these paths."""
    n_layers, m = order.shape
    lanes = order.reshape(1, -1) if may_rise else order
    found, _ = search_paths(subflows, lanes=lanes, start=given, sweeps=sweeps, seed=seed)
    hops = np.diff(found.offset)
    of_hop = found.place // np.int32(m) if may_rise else np.repeat(found.lane, hops)
    links = looked_up(lanes, np.repeat(found.lane, hops), found.place)
    assert n_layers > int(of_hop.max(initial=0))
    return LayeredSubflows(found.offset, links, of_hop, order, np.flatnonzero(hops == 0))


def _places(order: Int32Array) -> Int32Array:
    """Place of each link in each layer's order, shape (L, m)."""
    place: Int32Array = np.argsort(order, axis=1).astype(np.int32)
    return place


def _bent(subflows: Subflows, paths: ColumnPaths, filled: LayeredSubflows) -> LayeredSubflows:
    """Change orders so that the lost subflows' free paths climb; subflows that no longer climb are lost
    instead."""
    order, place = filled.order.copy(), _places(filled.order)
    for piece in filled.lost.tolist():
        links = paths.place[paths.offset[piece] : paths.offset[piece + 1]]
        number = int((np.diff(place[:, links], axis=1) < 0).sum(axis=1).argmin())
        order[number] = _in_line(order[number].tolist(), links.tolist())
        place[number, order[number]] = np.arange(order.shape[1])
    at = place[filled.layer, filled.links].astype(np.int64) + filled.layer * np.int64(order.shape[1])
    inner = ~mask_of(len(at), filled.offset[:-1][np.diff(filled.offset) > 0])
    falls_back: BoolArray = np.zeros(len(at), dtype=np.bool_)
    falls_back[1:] = inner[1:] & (at[1:] < at[:-1])
    owner = np.repeat(np.arange(subflows.n_subflows), np.diff(filled.offset))
    broken = mask_of(subflows.n_subflows, owner[falls_back])
    hops = np.where(broken, 0, np.diff(filled.offset))
    kept = ~broken[owner]
    return LayeredSubflows(
        offsets_of(hops), filled.links[kept], filled.layer[kept], order, np.flatnonzero(hops == 0)
    )


def _in_line(order: list[int], links: list[int]) -> NDArray[np.int32]:
    """The order with each link of the path put just behind the one before it, where it came sooner."""
    for before, after in pairwise(links):
        first, second = order.index(before), order.index(after)
        if second < first:
            order.insert(first, order.pop(second))
    return np.array(order, dtype=np.int32)
