"""Paths and layers chosen together: routes free of deadlock in few layers, near the optimal rate.

Waits that follow a total order of the links cannot form a cycle (Dally and Seitz 1987), so a path that climbs
the order of its layer is safe whatever others do. Orders are searched, paths come from a linear program.
Source: docs/algorithms/alltoall-routes.md.
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
    waits_of,
)
from treadle.topologies.topology import Topology

_FIRST_ROUNDS, _MORE_ROUNDS = 30, 20
"""Rounds of the search for orders, at first and when it goes on from the best."""

_WARM = 0.4
"""Heat with which it goes on."""

_SEARCH_GAP = 2e-4
"""Gap to which layered linear programs are solved."""

_SEARCHED_CELLS = 2**15
"""Searches times links times ranks, as far as the limits of their number allow."""

_HELP_ROUNDS = 10
"""Rounds of search for a number of layers that do, when the given one does not."""


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
        The links of each layer in an order that its paths climb: proof that nothing deadlocks.
    is_late : bool
        Time ran out; this is the best so far.
    """

    rate: float
    unlayered: RoutingResult
    routing: WeightedPaths
    layer: Int32Array
    orders: Int64Array
    is_late: bool = False

    @property
    def efficiency(self) -> float:
        """Rate over the bound of all routings; at most 1."""
        return self.rate / self.unlayered.bound


def layered_routes(
    topology: Topology,
    collective: Collective,
    max_layers: int,
    *,
    unlayered: RoutingResult | None = None,
    target: float = 0.9995,
    searches: int | None = None,
    seed: int = 0,
) -> LayeredRouting:
    """Route near the optimal rate in at most `max_layers` layers.

    Parameters
    ----------
    topology : Topology
    collective : Collective
    max_layers : int
        L >= 1; channels of the adapters.
    unlayered : RoutingResult, optional
        Of `generate_routes`, where it is at hand.
    target : float
        Stop at this part of the rate without layers.
    searches : int
        Most searches for better orders, each evaluated by a linear program. Default: 4, and up to 12 on small
        fabrics.
    seed : int
        The same seed gives the same routes.

    Raises
    ------
    InfeasibleError
        If no routing in so few layers was found (the message says if there is none), or a rank cannot be
        reached.
    ScheduleError
        If `max_layers` is not positive.
    TimeLimitError
        If the deadline passes before there is any routing.

    Notes
    -----
    A layer is a total order of the links and permits the paths that climb it, so there is nothing to check.
    For given orders the best routing is a linear program priced by one pass over the links. Orders start from
    the structure of grids and tori and from the routing without layers, packed first fit, and are then
    changed link by link (`OrderSearch`); each linear program says how good they are and which links limit
    them.
    """
    if max_layers < 1:
        raise ScheduleError(f"layers: at most {max_layers}, expected at least 1")
    base = generate_routes(topology, collective) if unlayered is None else unlayered
    search = _OrderSearch(topology, collective, base, max_layers, seed)
    if searches is None:
        searches = min(12, max(4, _SEARCHED_CELLS // (topology.n_links * collective.n_ranks)))
    try:
        search.start_on_grid()
        if search.efficiency < target:
            search.start_packed()
        for number in range(searches):
            if search.efficiency >= target:
                break
            context().report("layered routes", number, searches)
            search.improve(1 + number // 2 % 2)
    except TimeLimitError:
        if search.best is None:
            raise
        return search.result(is_late=True)
    if search.best is None:
        raise _refusal(topology, collective, base, max_layers, seed)
    return search.result(is_late=False)


class _OrderSearch:
    """The best orders and routing so far."""

    def __init__(
        self, topology: Topology, collective: Collective, base: RoutingResult, max_layers: int, seed: int
    ) -> None:
        self.topology, self.collective, self.base = topology, collective, base
        self.n_layers, self.seed = max_layers, seed
        self.best: RoutingResult | None = None
        self.orders: Int32Array = np.zeros((0, topology.n_links), dtype=np.int32)
        self._finder: OrderSearch | None = None
        self._is_warm = False

    @property
    def efficiency(self) -> float:
        """Part of the rate without layers."""
        return 0.0 if self.best is None else self.best.rate / self.base.rate

    def attempt(self, orders: Int32Array) -> RoutingResult | None:
        """Route over the orders and keep the result if it is the best; None if a pair has no path."""
        finder = LayeredPaths(self.topology, self.collective, orders)
        if not _serves_all(finder, self.collective):
            return None
        found = generate_routes(
            self.topology,
            self.collective,
            gap=_SEARCH_GAP,
            lengths=self.base.lengths if self.best is None else self.best.lengths,
            finder=finder,
            cutoff=0.0 if self.best is None else self.best.rate * (1 + _SEARCH_GAP),
        )
        if self.best is None or found.rate > self.best.rate:
            self.best, self.orders = found, orders
        return found

    def start_on_grid(self) -> None:
        """Orders of (dimension, direction) groups, if the fabric is a grid or torus."""
        sides = grid_sides(self.topology)
        if sides is not None:
            rng = np.random.default_rng(self.seed)
            self.attempt(self._greedy(grid_orders(self.topology, sides, rng)))

    def start_packed(self) -> None:
        """The routing without layers, packed first fit, long paths first, if it fits."""
        orders, fits = packed_orders(self.base, self.topology.n_links, self.n_layers)
        if fits:
            self.best, self.orders = self.base, orders

    def _greedy(self, candidates: Int64Array) -> Int32Array:
        """L of the orders, each the one that, with those before, keeps the demands nearest."""
        source, target, demand = demanded_pairs(self.collective)
        tables = []
        for order in candidates:
            finder = LayeredPaths(self.topology, self.collective, order[None])
            lengths = self.base.lengths + 1e-7 * self.base.lengths.mean()
            tables.append(finder.search(lengths).distance[source, finder.ranks[target]])
        # an order may serve no pair at all
        far = 100 * max(float(table[np.isfinite(table)].max(initial=0.0)) for table in tables) or 1.0
        distance = np.minimum(np.array(tables), far)
        nearest, chosen = np.full(len(demand), far), list[int]()
        for _ in range(self.n_layers):
            pick = int((np.minimum(distance, nearest) @ demand).argmin())
            chosen.append(pick)
            nearest = np.minimum(nearest, distance[pick])
        return candidates[chosen].astype(np.int32)

    def improve(self, effort: int) -> None:
        """Search for better orders, from the best ones of earlier searches if there are any."""
        if self._finder is None:
            orders, _ = packed_orders(self.base, self.topology.n_links, self.n_layers)
            self._finder = OrderSearch(self.topology, self.collective, orders, self.base.lengths, self.seed)
        if self._is_warm:
            self._finder.run(_MORE_ROUNDS, heat=_WARM, effort=effort)
        else:
            self._finder.run(_FIRST_ROUNDS, effort=effort)
        found = self.attempt(self._finder.orders)
        if found is not None:
            self._is_warm = True
            self._finder.restart(self.orders, found.lengths)

    def result(self, *, is_late: bool) -> LayeredRouting:
        """The best found."""
        assert self.best is not None
        layer = layers_of(self.best.routing.paths, self.orders)
        assert layer.min() >= 0
        return LayeredRouting(
            self.best.rate,
            self.base,
            self.best.routing,
            layer.astype(np.int32),
            self.orders.astype(np.int64),
            is_late,
        )


def packed_orders(base: RoutingResult, n_links: int, n_layers: int) -> tuple[Int32Array, bool]:
    """Orders that the routing's paths climb, packed first fit, long ones first; whether all of them fit."""
    paths = base.routing.paths
    sequence = np.argsort(-paths.hops, kind="stable").tolist()
    layer, layers = fill_layers(waits_of(paths), sequence, n_links, n_layers)
    places = [kept.place for kept in layers] + [list(range(n_links))] * (n_layers - len(layers))
    return np.argsort(np.array(places), axis=1, kind="stable").astype(np.int32), bool((layer >= 0).all())


def _serves_all(finder: LayeredPaths, collective: Collective) -> bool:
    """Whether every demanded pair has a climbing path."""
    source, target, _ = demanded_pairs(collective)
    reach = finder.search(np.ones(finder.orders.shape[1])).distance
    return bool(np.isfinite(reach[source, finder.ranks[target]]).all())


def _refusal(
    topology: Topology, collective: Collective, base: RoutingResult, max_layers: int, seed: int
) -> InfeasibleError:
    """The error for too few layers: whether that is proved, and the fewest layers that were found to do."""
    enough = int(lash_layers(base.routing.paths, topology.n_links).max()) + 1
    try:
        for number in range(max_layers + 1, enough):
            orders, _ = packed_orders(base, topology.n_links, number)
            search = OrderSearch(topology, collective, orders, base.lengths, seed)
            search.run(_HELP_ROUNDS)
            if _serves_all(LayeredPaths(topology, collective, search.orders), collective):
                enough = number
                break
    except TimeLimitError:
        pass  # what first fit needs is good enough
    remedy = f"{enough} are enough: allow at least {enough} (--layers {enough})"
    if max_layers == 1 and shared_waits_cycle(topology, collective):
        return InfeasibleError(
            f"{topology.name}: no routing in 1 layer is free of deadlock, because waits that every "
            f"routing has form a cycle; {remedy}"
        )
    return InfeasibleError(f"{topology.name}: no routing in {max_layers} layers was found; {remedy}")
