"""Routes of an all-to-all for a problem by the name of their generator, and the bound beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import monotonic, process_time
from types import MappingProxyType

import numpy as np

from treadle.errors import InfeasibleError, ScheduleError
from treadle.planning.problem import Problem
from treadle.planning.solving.alltoall_candidates import late_bound
from treadle.planning.solving.bounds import find_bound
from treadle.planning.solving.candidate import Candidate, Options, check_chunks
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.alltoall.timed_routes import TimedRoutes
from treadle.schedules.collective import CollectiveKind
from treadle.synthesis.alltoall.baselines import single_source_shortest_paths, with_layers
from treadle.synthesis.alltoall.routes.layered_routes import layered_routes
from treadle.synthesis.alltoall.routes.layers import lash_layers
from treadle.synthesis.alltoall.routes.quick_routes import QUICK_LAYERS, up_down_routes
from treadle.synthesis.alltoall.routes.route_columns import RoutingResult, generate_routes
from treadle.synthesis.alltoall.routes.route_units import route_schedule
from treadle.synthesis.alltoall.routes.timed_routes import timed_routes
from treadle.synthesis.alltoall.steps.hierarchical import hierarchical_routes
from treadle.synthesis.watch import UNWATCHED, Watch

ROUTES = "routes"
HIERARCHICAL = "hierarchical-routes"
UP_DOWN, SSSP = "up-down", "sssp"
"""What stands in for them when time has run out."""

_TIMED_CHUNKS = 4
"""Chunks per unit of demand of routes in rounds, unless told otherwise: each is placed on its own."""

_LOSS = 1e-3
"""What layers may cost without a word about it."""

_LAYERING_S = 0.5
"""Seconds beyond a time limit for the layers of paths that are at hand when it is reached."""

Built = tuple[RouteSchedule, tuple[str, ...], bool]
"""Routes, notes, and whether time ran out before they were the wanted ones."""


def _best(problem: Problem, options: Options) -> Built:
    """Near the optimal rate: the best paths, then their layers; or both together if layers are limited."""
    topology, collective, request = problem.topology, problem.collective, options.routes
    best = generate_routes(topology, collective, watch=options.watch)
    notes: tuple[str, ...] = ()
    is_late = best.is_late
    if best.is_late:
        notes += (
            f"time ran out; the paths are at most {1 - best.rate / best.bound:.2%} below the best ones",
        )
    if request.max_layers is None:
        routing = best.routing
        layer = lash_layers(routing.paths, topology.n_links, watch=_layering(options, is_late=is_late))
    else:
        layered = layered_routes(
            topology,
            collective,
            request.max_layers,
            unlayered=best,
            seed=options.exact.seed,
            watch=options.watch,
        )
        routing, layer, is_late = layered.routing, layered.layer, best.is_late or layered.is_late
        if layered.efficiency < 1 - _LOSS:
            notes += (
                f"{_counted(request.max_layers, 'layer')} cost {1 - layered.efficiency:.2%} of the rate; "
                f"{_layers_of(best, problem)} are enough for all of it (--layers)",
            )
    chunks = options.chunks
    built = route_schedule(
        topology,
        collective,
        routing.paths,
        routing.weights,
        chunks=_TIMED_CHUNKS if chunks is None and request.max_flows is not None else chunks,
        max_routes=request.max_routes,
        layer=layer,
    )
    if built.loss > _LOSS:
        what, remedy = "whole chunks", "more (--chunks)"
        if request.max_routes is not None:
            what += f" on at most {_counted(request.max_routes, 'route')}"
            remedy = "more routes (--max-routes) or chunks (--chunks)"
        notes += (f"{what} cost {built.loss:.2%} of the rate; {remedy} cost less",)
    return built.schedule, notes, is_late


def _layering(options: Options, *, is_late: bool) -> Watch:
    """For the layers of the best paths: late ones get a moment, without which they would be of no use."""
    if is_late and options.deadline is not None:
        return Watch(options.progress, max(options.deadline, monotonic() + _LAYERING_S))
    return options.watch


def _layers_of(best: RoutingResult, problem: Problem) -> int:
    return int(lash_layers(best.routing.paths, problem.topology.n_links).max()) + 1


def _hierarchical(problem: Problem, options: Options) -> Built:
    found = hierarchical_routes(problem.topology, problem.collective, chunks=options.chunks).schedule
    request = options.routes
    most = int(np.bincount(found.pair).max())
    for what, limit, needed in (
        ("layers", request.max_layers, found.n_layers),
        ("routes a pair", request.max_routes, most),
    ):
        if limit is not None and needed > limit:
            raise InfeasibleError(
                f"{HIERARCHICAL}: needs {needed} {what}, at most {limit} are allowed; allow more, or use "
                f"--algorithm {ROUTES}"
            )
    return found, (), False


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


ROUTE_ALGORITHMS: Mapping[str, Callable[[Problem, Options], Built]] = MappingProxyType(
    {ROUTES: _best, HIERARCHICAL: _hierarchical}
)
"""Generators of routes for fabrics whose adapters forward, by name."""


def generate_routed(problem: Problem, algorithm: str, options: Options) -> Candidate:
    """Routes by one of `ROUTE_ALGORITHMS`, in rounds where flows per host are limited.

    Raises
    ------
    ScheduleError
        For other collectives than all-to-all.
    InfeasibleError
        If a rank cannot be reached, or the limits do not do.
    """
    kind = problem.collective.kind
    if kind is not CollectiveKind.ALLTOALL:
        raise ScheduleError(f"{algorithm} is for alltoall; {kind} has spanning trees and steps of its own")
    check_chunks(options)
    start = process_time()
    routes, notes, is_late = ROUTE_ALGORITHMS[algorithm](problem, options)
    schedule = _in_rounds(problem, routes, options, options.watch)
    seconds = {"schedule": process_time() - start}
    start = process_time()
    bound = options.bound or find_bound(problem, options.watch, cards_forward=True)
    seconds["bound"] = process_time() - start
    return Candidate(algorithm, schedule, bound, seconds=seconds, notes=notes, is_late=is_late)


def quick_routes(problem: Problem, options: Options) -> Candidate:
    """One short path a pair, spread over the links, for when time has run out.

    Raises
    ------
    InfeasibleError
        If a rank cannot be reached, or the layers do not do.
    """
    start = process_time()
    topology, collective, limit = problem.topology, problem.collective, options.routes.max_layers
    name, routes = UP_DOWN, up_down_routes(topology, collective, max_layers=limit or QUICK_LAYERS)
    if routes is None:
        name, paths = SSSP, single_source_shortest_paths(topology, collective)
        try:
            routes = with_layers(topology, paths, max_layers=limit)
        except InfeasibleError:
            raise InfeasibleError(
                f"layers: the time limit was reached, and quick routes do not fit into {limit}; allow more "
                f"time or layers"
            ) from None
    schedule = _in_rounds(problem, routes, options, UNWATCHED)  # time is up already
    seconds = {"schedule": process_time() - start}
    start = process_time()
    bound = late_bound(problem, cards_forward=True)
    seconds["bound"] = process_time() - start
    return Candidate(name, schedule, bound, seconds=seconds)


def _in_rounds(
    problem: Problem, routes: RouteSchedule, options: Options, watch: Watch
) -> RouteSchedule | TimedRoutes:
    flows = options.routes.max_flows
    return routes if flows is None else timed_routes(problem.topology, routes, max_flows=flows, watch=watch)
