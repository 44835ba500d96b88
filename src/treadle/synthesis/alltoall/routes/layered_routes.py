"""Paths and layers chosen together: routes free of deadlock in few layers, near the optimal rate.

Waits that follow a total order of the links cannot form a cycle (Dally and Seitz 1987), so a path that climbs
the order of its layer cannot deadlock. Orders are searched, paths come from a linear program.
Source: docs/how-it-works/all-to-all.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treadle.arrays import Int32Array, Int64Array
from treadle.context import TimeLimitError, context
from treadle.errors import InfeasibleError, ScheduleError
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.routes.link_orders import LayeredPaths, grid_orders, grid_sides, layers_of
from treadle.synthesis.alltoall.routes.order_search import OrderSearch
from treadle.synthesis.alltoall.routes.path_sets import WeightedPaths, demanded_pairs
from treadle.synthesis.alltoall.routes.route_columns import RoutingResult, generate_routes
from treadle.synthesis.alltoall.routes.virtual_channels import (
    fill_layers,
    lash_layers,
    shared_waits_cycle,
)
from treadle.topologies.topology import Topology

_ENOUGH = 0.9995
"""Fraction of the rate without layers at which the search stops."""

_FIRST_ROUNDS, _MORE_ROUNDS = 30, 20
"""Rounds of the search for orders, at first and from the best ones."""

_WARM = 0.4
"""Heat of the search from the best orders."""

_SEARCH_GAP = 2e-4
"""Gap to which layered linear programs are solved."""

_SEARCHED_CELLS = 2**15
"""Searches times links times ranks, within the limits of their number."""

_HELP_ROUNDS = 10
"""Rounds of the search for a sufficient number of layers when the given one is too small."""


@dataclass(frozen=True, eq=False)
class LayeredRouting:
    """Weighted paths with layers.

    Parameters
    ----------
    rate : float
        F of the routing, bytes/s per unit of demand.
    unlayered : RoutingResult
        The routing without layers; its bound holds for every number of layers.
    routing : WeightedPaths
    layer : array of int32, shape (k,)
        Layer of each path, from 0.
    orders : array of int64, shape (L, m)
        The links of each layer in an order that its paths climb: proves freedom from deadlock.
    is_late : bool
        Whether the deadline passed; this is the best so far.
    """

    rate: float
    unlayered: RoutingResult
    routing: WeightedPaths
    layer: Int32Array
    orders: Int64Array
    is_late: bool = False

    @property
    def efficiency(self) -> float:
        """Rate over the bound of all routings, at most 1."""
        return self.rate / self.unlayered.bound


def layered_routes(
    topology: Topology,
    collective: Collective,
    max_layers: int,
    *,
    unlayered: RoutingResult | None = None,
    searches: int | None = None,
    seed: int = 0,
) -> LayeredRouting:
    """Route near the optimal rate in at most `max_layers` layers.

    Parameters
    ----------
    topology : Topology
    collective : Collective
    max_layers : int
        L >= 1: virtual channels of the adapters.
    unlayered : RoutingResult, optional
        Of `generate_routes`, if known.
    searches : int
        Most searches for better orders, each evaluated by a linear program. Default: 4, up to 12 on small
        fabrics.
    seed : int
        The same seed gives the same routes.

    Raises
    ------
    InfeasibleError
        If no such routing was found (the message states whether none exists), or a rank cannot be reached.
    ScheduleError
        If `max_layers` is not positive.
    TimeLimitError
        If the deadline passes before there is any routing.

    Notes
    -----
    A layer is a total order of the links and permits the paths that climb it, so no check is needed. For
    given orders the best routing is a linear program priced by one pass over the links. Orders start from the
    structure of grids and tori and from the routing without layers, packed first fit, and are then changed
    link by link (`OrderSearch`); each linear program evaluates them and finds the links that limit them.
    """
    if max_layers < 1:
        raise ScheduleError(f"layers: at most {max_layers}, expected at least 1")
    base = generate_routes(topology, collective) if unlayered is None else unlayered
    search = _BestRouting(topology, collective, base, max_layers)
    if searches is None:
        searches = min(12, max(4, _SEARCHED_CELLS // (topology.n_links * collective.n_ranks)))
    is_late = False
    try:
        sides = grid_sides(topology)
        if sides is not None:
            search.attempt(search.nearest_orders(grid_orders(topology, sides, np.random.default_rng(seed))))
        if search.efficiency < _ENOUGH:
            orders, fits = packed_orders(base, topology.n_links, max_layers)
            if fits:
                search.best, search.orders = base, orders
            order_search, is_warm = OrderSearch(topology, collective, orders, base.lengths, seed), False
        for number in range(searches):
            if search.efficiency >= _ENOUGH:
                break
            context().report("layered routes", number, searches)
            rounds, heat = (_MORE_ROUNDS, _WARM) if is_warm else (_FIRST_ROUNDS, 1.0)
            order_search.run(rounds, heat=heat, effort=1 + number // 2 % 2)
            found = search.attempt(order_search.orders)
            if found is not None:
                is_warm = True
                order_search.restart(search.orders, found.lengths)
    except TimeLimitError:
        if search.best is None:
            raise
        is_late = True
    if search.best is None:
        raise _too_few_layers(topology, collective, base, max_layers, seed)
    layer = layers_of(search.best.routing.paths, search.orders)
    assert layer.min() >= 0
    return LayeredRouting(
        search.best.rate,
        base,
        search.best.routing,
        layer.astype(np.int32),
        search.orders.astype(np.int64),
        is_late,
    )


class _BestRouting:
    """The best orders and routing so far."""

    def __init__(
        self, topology: Topology, collective: Collective, base: RoutingResult, n_layers: int
    ) -> None:
        self._topology, self._collective, self._base = topology, collective, base
        self._n_layers = n_layers
        self.best: RoutingResult | None = None
        self.orders: Int32Array = np.zeros((0, topology.n_links), dtype=np.int32)

    @property
    def efficiency(self) -> float:
        """Rate over that without layers."""
        return 0.0 if self.best is None else self.best.rate / self._base.rate

    def attempt(self, orders: Int32Array) -> RoutingResult | None:
        """Route over the orders and keep the result if it is the best; None if a pair has no path."""
        finder = LayeredPaths(self._topology, self._collective, orders)
        if not _reaches_all(finder, self._collective):
            return None
        found = generate_routes(
            self._topology,
            self._collective,
            gap=_SEARCH_GAP,
            lengths=(self.best or self._base).lengths,
            finder=finder,
            cutoff=0.0 if self.best is None else self.best.rate * (1 + _SEARCH_GAP),
        )
        if self.best is None or found.rate > self.best.rate:
            self.best, self.orders = found, orders
        return found

    def nearest_orders(self, candidates: Int64Array) -> Int32Array:
        """Choose an order per layer greedily, each so that demands have the shortest paths in some layer."""
        source, target, demand = demanded_pairs(self._collective)
        lengths = self._base.lengths + 1e-7 * self._base.lengths.mean()
        tables = []
        for order in candidates:
            finder = LayeredPaths(self._topology, self._collective, order[None])
            tables.append(finder.search(lengths).distance[source, finder.ranks[target]])
        # An order may have no path for any pair.
        far = 100 * max(float(table[np.isfinite(table)].max(initial=0.0)) for table in tables) or 1.0
        distance = np.minimum(np.array(tables), far)
        nearest, chosen = np.full(len(demand), far), list[int]()
        for _ in range(self._n_layers):
            chosen.append(int((np.minimum(distance, nearest) @ demand).argmin()))
            nearest = np.minimum(nearest, distance[chosen[-1]])
        return candidates[chosen].astype(np.int32)


def packed_orders(base: RoutingResult, n_links: int, n_layers: int) -> tuple[Int32Array, bool]:
    """Return orders that the paths climb, packed first fit, long ones first, and whether all paths fit."""
    layer, layers = fill_layers(base.routing.paths, n_links, n_layers)
    places = [kept.place for kept in layers] + [list(range(n_links))] * (n_layers - len(layers))
    return np.argsort(np.array(places), axis=1, kind="stable").astype(np.int32), bool((layer >= 0).all())


def _reaches_all(finder: LayeredPaths, collective: Collective) -> bool:
    """Whether every demanded pair has a climbing path."""
    source, target, _ = demanded_pairs(collective)
    reach = finder.search(np.ones(finder.orders.shape[1])).distance
    return bool(np.isfinite(reach[source, finder.ranks[target]]).all())


def _too_few_layers(
    topology: Topology, collective: Collective, base: RoutingResult, max_layers: int, seed: int
) -> InfeasibleError:
    """Return the error for too few layers: whether that is proved, and the fewest layers found sufficient."""
    enough = int(lash_layers(base.routing.paths, topology.n_links).max()) + 1
    try:
        for number in range(max_layers + 1, enough):
            orders, _ = packed_orders(base, topology.n_links, number)
            search = OrderSearch(topology, collective, orders, base.lengths, seed)
            search.run(_HELP_ROUNDS)
            if _reaches_all(LayeredPaths(topology, collective, search.orders), collective):
                enough = number
                break
    except TimeLimitError:
        pass  # as many as first fit needs
    fix = f"{enough} are enough: allow at least {enough} (--layers {enough})"
    if max_layers == 1 and shared_waits_cycle(topology, collective):
        return InfeasibleError(
            f"{topology.name}: no routing in 1 layer is free of deadlock, because waits that every "
            f"routing has form a cycle; {fix}"
        )
    return InfeasibleError(f"{topology.name}: no routing in {max_layers} layers was found; {fix}")
