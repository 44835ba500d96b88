"""Paths and layers chosen together: routes free of deadlock in few layers, near the optimal rate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treadle.arrays import BoolArray, Int32Array, Int64Array
from treadle.errors import InfeasibleError, ScheduleError
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.disjoint_paths import bounded_paths
from treadle.synthesis.alltoall.layers import AcyclicWaits, Waits, waits_of
from treadle.synthesis.alltoall.link_orders import (
    LayeredPaths,
    grid_orders,
    grid_sides,
    is_two_way,
    layers_of,
    up_down_orders,
)
from treadle.synthesis.alltoall.paths import (
    Float64Array,
    PathSet,
    ShortestPaths,
    WeightedPaths,
    demanded_pairs,
    merge,
    path_set,
)
from treadle.synthesis.alltoall.route_columns import RoutingResult, generate_routes
from treadle.synthesis.watch import UNWATCHED, Watch
from treadle.topologies.topology import Topology

_KEPT = 0.7
"""Share of the incumbent's paths that a neighbourhood keeps in their layers."""

_STARTS = 20
"""Most packings that are tried before there is any routing."""

_DETOUR = 0.005
"""Relative excess over the distance from which on a pair counts as one that the layers cost something."""

_VARIANTS, _SHAKE = 3, 0.02
"""How many searches for better paths of such pairs, at lengths changed by up to how much."""

_UP_DOWN_ROOTS = 24

_SEARCH_GAP = 2e-4
"""Gap to which layered linear programs are solved during the search."""


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
    """

    rate: float
    unlayered: RoutingResult
    routing: WeightedPaths
    layer: Int32Array
    orders: Int64Array

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
    neighbourhoods: int = 8,
    seed: int = 0,
    watch: Watch = UNWATCHED,
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
    neighbourhoods : int
        Most rounds of search about the best routing.
    seed : int
    watch : Watch

    Raises
    ------
    InfeasibleError
        If no routing in so few layers was found (which proves nothing), or a rank cannot be reached.
    ScheduleError
        If `max_layers` is not positive.

    Notes
    -----
    A layer is a total order of the links and permits the paths that climb it, so there is nothing to check.
    For given orders the best routing is a linear program priced by one pass over the links. Orders come from
    the structure of grids, from up*/down*, and from packing the paths of the routing without layers and its
    nearly shortest alternatives into layers. The best is then improved: most of its paths keep their layers,
    the others and the candidates are packed anew at random. A search is given up as soon as link lengths
    prove that its orders cannot beat the best.
    """
    if max_layers < 1:
        raise ScheduleError(f"layers: at most {max_layers}, expected at least 1")
    base = generate_routes(topology, collective, watch=watch) if unlayered is None else unlayered
    search = _Search(topology, collective, base, max_layers, np.random.default_rng(seed))
    search.start_on_grid()
    for number in range(_STARTS):
        if search.efficiency >= target:
            break
        watch.beat("layered routes", 0, neighbourhoods)
        if search.start_packed(shuffle=number > 0):
            break
    if search.efficiency < target:
        search.start_up_down()
    routed, tried = 0, 0
    while search.best is not None and search.efficiency < target:
        if routed >= neighbourhoods or tried >= 3 * neighbourhoods:  # packings that lose a pair cost little
            break
        watch.beat("layered routes", routed, neighbourhoods)
        routed, tried = routed + search.improve(), tried + 1
    return search.result()


class _Search:
    """The best orders and routing so far."""

    def __init__(
        self,
        topology: Topology,
        collective: Collective,
        base: RoutingResult,
        max_layers: int,
        rng: np.random.Generator,
    ) -> None:
        self.topology, self.collective, self.base = topology, collective, base
        self.n_layers, self.rng = max_layers, rng
        self.best: RoutingResult | None = None
        self.orders: Int64Array = np.zeros((0, topology.n_links), dtype=np.int64)
        self.hard: BoolArray = np.zeros((collective.n_ranks, collective.n_ranks), dtype=np.bool_)
        self._spare: PathSet | None = None

    @property
    def efficiency(self) -> float:
        """Part of the rate without layers."""
        return 0.0 if self.best is None else self.best.rate / self.base.rate

    def attempt(self, orders: Int64Array, start: PathSet | None = None) -> bool:
        """Route over the orders and keep the result if it is the best; False if a pair has no path."""
        finder = LayeredPaths(self.topology, self.collective, orders)
        source, target, _ = demanded_pairs(self.collective)
        reach = finder.search(np.ones(self.topology.n_links)).distance[source, finder.ranks[target]]
        lost = np.isinf(reach)
        if lost.any():
            self.hard[source[lost], target[lost]] = True
            return False
        if start is not None:
            start = start.take(layers_of(start, orders) >= 0)
        found = generate_routes(
            self.topology,
            self.collective,
            gap=_SEARCH_GAP,
            start=start,
            lengths=self.base.lengths if self.best is None else self.best.lengths,
            finder=finder,
            cutoff=0.0 if self.best is None else self.best.rate * (1 + _SEARCH_GAP),
        )
        if self.best is None or found.rate > self.best.rate:
            self.best, self.orders = found, orders
        return True

    def start_on_grid(self) -> None:
        """Orders of (dimension, direction) groups, if the fabric is a grid or torus."""
        sides = grid_sides(self.topology)
        if sides is not None:
            self.attempt(self._greedy(grid_orders(self.topology, sides, self.rng)))

    def start_packed(self, *, shuffle: bool) -> bool:
        """The basic paths packed into layers, long ones first or at random; False if a pair has no path."""
        paths = self.base.routing.paths
        by_hops = [paths.take(paths.hops == hops) for hops in np.unique(paths.hops)[::-1].tolist()]
        return self.attempt(self._packed([paths] if shuffle else by_hops, [], shuffle=shuffle))

    def start_up_down(self) -> None:
        """Orders of up*/down* routing, if links lead both ways."""
        if is_two_way(self.topology):
            self.attempt(self._greedy(up_down_orders(self.topology, self.rng, _UP_DOWN_ROOTS)))

    def _greedy(self, candidates: Int64Array) -> Int64Array:
        """L of the orders, each the one that, with those before, keeps the demands nearest."""
        source, target, demand = demanded_pairs(self.collective)
        tables = []
        for order in candidates:
            finder = LayeredPaths(self.topology, self.collective, order[None])
            lengths = self.base.lengths + 1e-7 * self.base.lengths.mean()
            tables.append(finder.search(lengths).distance[source, finder.ranks[target]])
        far = 100 * max(float(table[np.isfinite(table)].max()) for table in tables)
        distance = np.minimum(np.array(tables), far)
        nearest, chosen = np.full(len(demand), far), list[int]()
        for _ in range(self.n_layers):
            pick = int((np.minimum(distance, nearest) @ demand).argmin())
            chosen.append(pick)
            nearest = np.minimum(nearest, distance[pick])
        return candidates[chosen]

    def _packed(self, first: list[PathSet], kept: list[PathSet], *, shuffle: bool) -> Int64Array:
        """Orders that paths packed into layers climb: `kept` ones by layer, then `first`, then candidates."""
        layers = [AcyclicWaits(self.topology.n_links) for _ in range(self.n_layers)]
        routed = np.zeros((self.collective.n_ranks, self.collective.n_ranks), dtype=np.bool_)
        for layer, paths in zip(layers, kept, strict=False):
            for waits in waits_of(paths):
                layer.add(waits)
            routed[paths.source, paths.target] = True
        if self.hard.any():  # pairs that found no place before go first now
            paths = self.base.routing.paths
            self._pack(layers, paths.take(self.hard[paths.source, paths.target]), routed, shuffle=False)
        for paths in first:
            self._pack(layers, paths, routed, shuffle=shuffle)
        near = (
            self.base.candidates if self.best is None else merge(self.base.candidates, self.best.candidates)
        )
        for wanted in (False, True):  # pairs without a path, then alternatives for all
            self._pack(layers, near.take(routed[near.source, near.target] == wanted), routed, shuffle=True)
            if not wanted and not self._all_routed(routed):
                spare = self._spares()
                self._pack(layers, spare.take(~routed[spare.source, spare.target]), routed, shuffle=True)
        return np.array([np.argsort(layer.place) for layer in layers], dtype=np.int64)

    def _all_routed(self, routed: BoolArray) -> bool:
        source, target, _ = demanded_pairs(self.collective)
        return bool(routed[source, target].all())

    def _spares(self) -> PathSet:
        """More paths for pairs that would have none."""
        if self._spare is None:
            self._spare = bounded_paths(self.topology, self.collective, slack=2, most=12)
        return self._spare

    def _pack(
        self,
        layers: list[AcyclicWaits],
        paths: PathSet,
        routed: BoolArray,
        *,
        shuffle: bool,
    ) -> None:
        """Put each path into the first layer that takes it."""
        every: list[Waits] = waits_of(paths)
        sequence = self.rng.permutation(paths.n_paths) if shuffle else np.arange(paths.n_paths)
        for path in sequence.tolist():
            turn = self.rng.permutation(len(layers)).tolist() if shuffle else range(len(layers))
            if any(layers[number].add(every[path]) for number in turn):
                routed[paths.source[path], paths.target[path]] = True

    def improve(self) -> bool:
        """Keep most of the best routing's paths in their layers and pack the rest anew; see `attempt`."""
        assert self.best is not None
        paths = self.best.routing.paths
        layer = layers_of(paths, self.orders)
        excess = self._excess()
        loses = excess > _DETOUR
        stays = self.rng.random(paths.n_paths) < np.where(loses[paths.source, paths.target], _KEPT / 2, _KEPT)
        kept = [paths.take(stays & (layer == number)) for number in range(self.n_layers)]
        better = self._better(loses)
        orders = self._packed([better, self.base.routing.paths, paths.take(~stays)], kept, shuffle=True)
        return self.attempt(orders, start=merge(better, self.base.routing.paths, self.best.candidates))

    def _lengths(self, best: RoutingResult) -> Float64Array:
        return best.lengths + 1e-7 * float(best.lengths.mean())

    def _excess(self) -> Float64Array:
        """What each pair loses by the layers at the best's link lengths, over the distance, shape (N, N)."""
        assert self.best is not None
        lengths = self._lengths(self.best)
        ranks = np.array(self.collective.ranks)
        free = ShortestPaths(self.topology, self.collective).distances(lengths)[:, ranks]
        bound = LayeredPaths(self.topology, self.collective, self.orders).search(lengths).distance[:, ranks]
        return np.asarray((bound - free) / np.where(free > 0, free, 1.0), dtype=np.float64)

    def _better(self, pairs: BoolArray) -> PathSet:
        """Nearly shortest paths at the best's link lengths for some pairs."""
        assert self.best is not None
        source, target, _ = demanded_pairs(self.collective)
        wanted = pairs[source, target]
        source, target = source[wanted], target[wanted]
        finder = ShortestPaths(self.topology, self.collective)
        found = []
        for _ in range(_VARIANTS):
            shaken = self._lengths(self.best) * self.rng.uniform(1, 1 + _SHAKE, self.topology.n_links)
            found.append(path_set(source, target, finder.search(shaken).paths(source, target)))
        return merge(*found)

    def result(self) -> LayeredRouting:
        """The best found."""
        if self.best is None:
            raise InfeasibleError(
                f"layers: no routing of {self.topology.name} in {self.n_layers} layers was found; allow more"
            )
        layer = layers_of(self.best.routing.paths, self.orders)
        assert layer.min() >= 0
        return LayeredRouting(
            self.best.rate, self.base, self.best.routing, layer.astype(np.int32), self.orders
        )
