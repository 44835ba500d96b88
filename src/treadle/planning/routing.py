"""Routes of an all-to-all where network cards forward: near the optimal rate, free of deadlock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Unpack

from treadle.lowering.route_files import emit_route_csv, emit_route_json, emit_route_xml
from treadle.planning.candidate import seconds_left
from treadle.planning.problem import Problem, ProblemOptions, pose
from treadle.planning.solving import RejectedError
from treadle.planning.stages import Stopwatch
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.routes import RouteSchedule
from treadle.schedules.verify_routes import verify_routes
from treadle.schedules.violations import Report
from treadle.synthesis.alltoall.certificate import RateResult
from treadle.synthesis.alltoall.layered_routes import layered_routes
from treadle.synthesis.alltoall.layers import lash_layers
from treadle.synthesis.alltoall.rate import optimal_rate
from treadle.synthesis.alltoall.route_columns import generate_routes
from treadle.synthesis.alltoall.route_units import route_schedule
from treadle.synthesis.engine import Progress
from treadle.synthesis.watch import UNWATCHED, Watch
from treadle.topologies.topology import Topology


class RouteFormat(StrEnum):
    """Text formats of routes, by the file's ending."""

    JSON = "json"
    CSV = "csv"
    XML = "xml"


@dataclass(frozen=True)
class RoutesResult:
    """Verified routes and what is known of them.

    Parameters
    ----------
    topology : Topology
    collective : Collective
    schedule : RouteSchedule
    report : Report
        Of the independent verifier.
    optimum : RateResult
        The optimal rate of any routing, with its bound.
    seconds : mapping of stage to CPU seconds
    """

    topology: Topology
    collective: Collective
    schedule: RouteSchedule
    report: Report
    optimum: RateResult
    seconds: Mapping[str, float]

    @property
    def algbw(self) -> Fraction:
        """By the exact loads, bytes/s."""
        assert self.report.algbw is not None
        return self.report.algbw

    @property
    def bound(self) -> Fraction:
        """The most that any routing can reach, bytes/s."""
        return self.optimum.upper * self.collective.pair_demands.buffer_units

    @property
    def n_layers(self) -> int:
        """Virtual channels that keep the routes free of deadlock."""
        return int(self.schedule.layer.max()) + 1


def routes(
    topology: Topology | str,
    *,
    max_layers: int | None = None,
    max_routes: int | None = None,
    chunks: int | None = None,
    seed: int = 0,
    time_limit_s: float | None = None,
    progress: Progress | None = None,
    **options: Unpack[ProblemOptions],
) -> RoutesResult:
    """Route an all-to-all: weighted paths for every pair, whole chunks on each, layers without deadlock.

    Parameters
    ----------
    topology, **options
        See `treadle.planning.problem.pose`.
    max_layers : int, optional
        Choose paths and layers together, with at most so many layers. Default: the best paths, packed into
        as few layers as first fit finds (LASH).
    max_routes : int, optional
        Most paths from a rank to another.
    chunks : int, optional
        Chunks per unit of demand; default the least that makes all weights whole, or 64.
    seed : int
        Of the search for layers.
    time_limit_s : float, optional
    progress : callable, optional

    Raises
    ------
    TreadleError
        For malformed input; InfeasibleError if a rank cannot be reached or the layers do not suffice.
    TimeLimitError
        If time ran out.
    """
    clock = Stopwatch()
    watch = Watch(progress, seconds_left(time_limit_s))
    with clock.stage("fabric"):
        problem = pose(topology, CollectiveKind.ALLTOALL, **options)
    with clock.stage("optimum"):
        optimum = optimal_rate(problem.topology, problem.collective, progress=progress)
    with clock.stage("paths"):
        schedule = best_routes(
            problem,
            max_layers=max_layers,
            max_routes=max_routes,
            chunks=chunks,
            seed=seed,
            watch=watch,
        )
    with clock.stage("verify"):
        report = verify_routes(
            problem.topology,
            problem.collective,
            schedule,
            witness=optimum.witness,
            max_routes=max_routes,
            max_layers=max_layers,
        )
    if not report.is_ok or report.algbw is None:
        raise RejectedError("routes", report)
    return RoutesResult(problem.topology, problem.collective, schedule, report, optimum, clock.seconds())


def best_routes(
    problem: Problem,
    *,
    max_layers: int | None = None,
    max_routes: int | None = None,
    chunks: int | None = None,
    seed: int = 0,
    watch: Watch = UNWATCHED,
) -> RouteSchedule:
    """The routes that `routes` verifies; parameters as there."""
    topology, collective = problem.topology, problem.collective
    best = generate_routes(topology, collective, watch=watch)
    if max_layers is None:
        routing = best.routing
        layer = lash_layers(routing.paths, topology.n_links)
    else:
        layered = layered_routes(topology, collective, max_layers, unlayered=best, seed=seed, watch=watch)
        routing, layer = layered.routing, layered.layer
    built = route_schedule(
        topology,
        collective,
        routing.paths,
        routing.weights,
        chunks=chunks,
        max_routes=max_routes,
        layer=layer,
    )
    return built.schedule


def routes_text(result: RoutesResult, form: RouteFormat) -> str:
    """The routes in a text format."""
    emit = {
        RouteFormat.JSON: emit_route_json,
        RouteFormat.CSV: emit_route_csv,
        RouteFormat.XML: emit_route_xml,
    }[form]
    return emit(result.topology, result.collective, result.schedule)


def routes_summary(result: RoutesResult) -> dict[str, object]:
    """What ``routes --json`` prints, but for the file."""
    schedule = result.schedule
    pairs = len(set(zip(schedule.source.tolist(), schedule.target.tolist(), strict=True)))
    return {
        "topology": result.topology.name,
        "collective": result.collective.kind.value,
        "ranks": result.collective.n_ranks,
        "nodes": result.topology.n_nodes,
        "links": result.topology.n_links,
        "routes": len(schedule.units),
        "routes_per_pair": len(schedule.units) / pairs,
        "hops_max": int((schedule.path_offset[1:] - schedule.path_offset[:-1]).max()),
        "layers": result.n_layers,
        "chunks_per_unit": schedule.n_chunks,
        "algbw_bytes_per_s": float(result.algbw),
        "algbw_exact": f"{result.algbw.numerator}/{result.algbw.denominator}",
        "optimal_algbw_bytes_per_s": float(result.bound),
        "gap": float(1 - result.algbw / result.bound),
        "verified": result.report.is_ok,
        "seconds": dict(result.seconds),
    }
