"""Routes of an all-to-all as the table of schedulers names them, limits, rounds, and quick ones."""

from __future__ import annotations

from time import monotonic, process_time

import numpy as np

from treadle.context import Context, context, under
from treadle.engine import core
from treadle.errors import InfeasibleError
from treadle.inputs.problem import Problem
from treadle.schedulers.alltoall_candidates import SEARCHED_PAIRS, late_bound
from treadle.schedulers.bounds import bound_of_alltoall
from treadle.schedules.alltoall.route_cost import route_algbw
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.alltoall.timed_routes import TimedRoutes
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.rate.remaining_rate import rate_with_routes
from treadle.synthesis.alltoall.routes.layered_routes import layered_routes
from treadle.synthesis.alltoall.routes.route_columns import RoutingResult, generate_routes
from treadle.synthesis.alltoall.routes.route_rounds import timed_routes
from treadle.synthesis.alltoall.routes.route_units import route_schedule
from treadle.synthesis.alltoall.routes.virtual_channels import lash_layers
from treadle.synthesis.alltoall.searched.searched_routes import LAYER_LOSS, SearchedRoutes, searched_routes
from treadle.synthesis.alltoall.steps.hierarchical import hierarchical_routes as mixed_routes
from treadle.synthesis.result import Result
from treadle.synthesis.scheduler_options import RouteOptions
from treadle.topologies.topology import Topology

ROUTES = "routes"
SEARCHED = "searched-routes"
"""Fallback when time has run out."""

_TIMED_CHUNKS = 4
"""Default chunks per unit of demand of routes in rounds: each is placed on its own."""

_LOSS = 1e-3
"""Cost of layers below which no note is printed."""

_ADAPTER_LAYERS = 4
"""Virtual channels that adapters commonly have: best paths that need more give way to nearly as good ones."""

_LAYERING_S = 0.5
"""Seconds beyond a time limit for the layers of paths that are at hand when it is reached."""


def best_routes(
    topology: Topology,
    collective: Collective,
    *,
    chunks: int | None = None,
    max_layers: int | None = None,
    layer_changes: bool = False,
    max_routes: int | None = None,
    max_hops: int | None = None,
    max_flows: int | None = None,
    seed: int = 0,
) -> Result:
    """Near the optimal rate: the best paths, then their layers; or both together if layers are limited."""
    if max_hops is not None or layer_changes or collective.pair_demands.n_pairs > SEARCHED_PAIRS:
        limits = RouteOptions(
            chunks=_TIMED_CHUNKS if chunks is None and max_flows is not None else chunks,
            max_layers=max_layers,
            layer_changes=layer_changes,
            max_routes=max_routes,
            max_hops=max_hops,
            seed=seed,
        )
        return _searched(topology, collective, limits)
    best = generate_routes(topology, collective)
    notes: tuple[str, ...] = ()
    is_late = best.is_late
    if best.is_late:
        notes += (
            f"time ran out; the paths are at most {1 - best.rate / best.bound:.2%} below the best ones",
        )
    if max_layers is None:
        routing = best.routing
        with under(_layering(is_late=is_late)):
            layer = lash_layers(routing.paths, topology.n_links)
        if int(layer.max(initial=0)) >= _ADAPTER_LAYERS and not is_late:
            limits = RouteOptions(chunks=chunks, max_routes=max_routes, seed=seed)
            few = _in_few_layers(topology, collective, best, limits) if max_flows is None else None
            if few is not None:
                return few
    else:
        layered = layered_routes(topology, collective, max_layers, unlayered=best, seed=seed)
        routing, layer, is_late = layered.routing, layered.layer, best.is_late or layered.is_late
        if layered.efficiency < 1 - _LOSS:
            notes += (
                f"{_counted(max_layers, 'layer')} cost {1 - layered.efficiency:.2%} of the rate; "
                f"{_layers_of(best, topology)} are enough for all of it (--layers)",
            )
    built = route_schedule(
        topology,
        collective,
        routing.paths,
        routing.weights,
        chunks=_TIMED_CHUNKS if chunks is None and max_flows is not None else chunks,
        max_routes=max_routes,
        layer=layer,
    )
    if built.loss > _LOSS:
        what, fix = "whole chunks", "more (--chunks)"
        if max_routes is not None:
            what += f" on at most {_counted(max_routes, 'route')}"
            fix = "more routes (--max-routes) or chunks (--chunks)"
        notes += (f"{what} cost {built.loss:.2%} of the rate; {fix} cost less",)
    return Result(built.schedule, notes=notes, is_late=is_late)


def _searched(topology: Topology, collective: Collective, limits: RouteOptions) -> Result:
    """Choose by local search; report the gap to the bound, and the layers' part of it."""
    found = _search(topology, collective, limits, seed=limits.seed)
    core.release_memory()
    bound = bound_of_alltoall(rate_with_routes(topology, collective, found.schedule))
    below = [
        float(1 - algbw / bound.algbw)
        for algbw in (found.unlayered_algbw, route_algbw(topology, collective, found.schedule))
    ]
    core.release_memory()  # the verifier comes next
    layers = _counted(found.schedule.n_layers, "layer")
    notes = (
        f"below the bound: without layers {below[0]:.2%}, in {layers} {below[1]:.2%}",
        *_other_layers(found),
    )
    return Result(found.schedule, bound, notes=notes, is_late=found.is_late)


def _search(
    topology: Topology, collective: Collective, limits: RouteOptions, *, seed: int = 0
) -> SearchedRoutes:
    return searched_routes(
        topology,
        collective,
        chunks=limits.chunks,
        max_layers=limits.max_layers,
        layer_changes=limits.layer_changes,
        max_routes=limits.max_routes,
        max_hops=limits.max_hops,
        seed=seed,
    )


def _other_layers(found: SearchedRoutes) -> tuple[str, ...]:
    """A note on what other numbers of layers cost, where some were tried."""
    if not found.layer_rates:
        return ()
    costs = ", ".join(f"{1 - rate:.2%} in {number}" for number, rate in sorted(found.layer_rates.items()))
    fewest = min(found.schedule.n_layers, *found.layer_rates)
    fewer = f"; no routing in fewer than {fewest} was found" if fewest > 1 else ""
    return (f"other numbers of layers (--layers) cost of the rate: {costs}{fewer}",)


def _in_few_layers(
    topology: Topology, collective: Collective, best: RoutingResult, limits: RouteOptions
) -> Result | None:
    """Searched routes, if they have at most as many layers as adapters and lose little of the best rate."""
    found = _search(topology, collective, limits, seed=limits.seed)
    rate = route_algbw(topology, collective, found.schedule) / collective.pair_demands.buffer_units
    loss = max(0.0, 1 - float(rate) / best.rate)
    if found.schedule.n_layers > _ADAPTER_LAYERS or loss > LAYER_LOSS:
        return None
    layers = _counted(found.schedule.n_layers, "layer")
    return Result(
        found.schedule,
        notes=(
            f"{layers} cost {loss:.2%} of the rate; {_layers_of(best, topology)} cost nothing (--layers)",
        ),
    )


def _layering(*, is_late: bool) -> Context:
    """For the layers of the best paths: late ones get a moment, without which they would be of no use."""
    now = context()
    if is_late and now.deadline is not None:
        return Context(now.progress, max(now.deadline, monotonic() + _LAYERING_S))
    return now


def _layers_of(best: RoutingResult, topology: Topology) -> int:
    return int(lash_layers(best.routing.paths, topology.n_links).max()) + 1


def hierarchical_routes(
    topology: Topology, collective: Collective, *, chunks: int | None = None
) -> RouteSchedule:
    """Direct and relayed paths through boxes and switches; see `synthesis.alltoall.steps.hierarchical`."""
    return mixed_routes(topology, collective, chunks=chunks).schedule


def within_limits(
    name: str, topology: Topology, routes: RouteSchedule | TimedRoutes, options: RouteOptions
) -> RouteSchedule | TimedRoutes:
    """Fit the routes of any scheduler to the given limits, in rounds if flows per host are limited.

    Raises
    ------
    InfeasibleError
        If there are more layers or routes than allowed.
    """
    if isinstance(routes, TimedRoutes):
        return routes
    most = int(np.bincount(routes.pair).max(initial=0))
    for what, limit, needed in (
        ("layers", options.max_layers, routes.n_layers),
        ("routes a pair", options.max_routes, most),
        ("hops", options.max_hops, int(routes.hops.max(initial=0))),
    ):
        if limit is not None and needed > limit:
            raise InfeasibleError(
                f"{name}: needs {needed} {what}, at most {limit} are allowed; allow more, or use "
                f"--algorithm {ROUTES}"
            )
    return _in_rounds(topology, routes, options)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def quick_routes(problem: Problem, options: RouteOptions) -> Result:
    """Searched routes, for when time has run out: a second of work for a thousand pairs and less.

    Raises
    ------
    InfeasibleError
        If a rank cannot be reached, or the layers do not do.
    """
    start = process_time()
    topology, collective = problem.topology, problem.collective
    found = _search(topology, collective, options)
    schedule = _in_rounds(topology, found.schedule, options)
    context().count("schedule", process_time() - start)
    with context().stage("bound"):
        bound = late_bound(problem, cards_forward=True)
    return Result(schedule, bound, SEARCHED)


def _in_rounds(
    topology: Topology, routes: RouteSchedule, options: RouteOptions
) -> RouteSchedule | TimedRoutes:
    flows = options.max_flows
    return routes if flows is None else timed_routes(topology, routes, max_flows=flows)
