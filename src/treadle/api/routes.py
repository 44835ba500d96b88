"""Routes of an all-to-all where network cards forward, as text for tools that program them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import Unpack

from treadle.api.solve import solve
from treadle.context import Progress
from treadle.formats.file_options import FileOptions
from treadle.formats.format import find_format
from treadle.inputs.fabrics_and_plans import FabricLike
from treadle.inputs.verification import UnverifiedPlanError, check_plan
from treadle.lowering.lower import lower_verified
from treadle.lowering.lowered import Lowered
from treadle.notebook import displayed_by
from treadle.options.keywords import ProblemOptions
from treadle.schedulers.scheduler_records import ROUTES
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.alltoall.timed_routes import TimedRoutes, routes_in
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.plan import Plan
from treadle.verification.violations import Report


class RouteFormat(StrEnum):
    """Text formats of routes, by the file's ending.

    Examples
    --------
    >>> from treadle import planning
    >>> [one.value for one in planning.RouteFormat]
    ['json', 'csv', 'xml']
    """

    JSON = "json"
    CSV = "csv"
    XML = "xml"


@displayed_by("treadle.render.solving:route_rows")
@dataclass(frozen=True)
class RoutesResult:
    """Verified routes and what is known of them.

    Parameters
    ----------
    plan : Plan
        Of one entry for the largest sizes, which has the routes.
    report : Report
        Of the independent verifier.
    seconds : mapping of stage to CPU seconds
        Empty for routes that were made before.
    notes : tuple of str
        What a user should know.
    is_late : bool
        Time ran out; these are quick routes in place of the wanted ones.

    Examples
    --------
    >>> from treadle import planning
    >>> found = planning.routes("ring:4")
    >>> found.schedule
    <RouteSchedule: 4 ranks, 1 chunks, 12 paths, 16 hops, 1 layers>
    >>> found.algbw, found.bound
    (Fraction(2, 1), Fraction(2, 1))
    """

    plan: Plan
    report: Report
    seconds: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    is_late: bool = False

    @property
    def schedule(self) -> RouteSchedule:
        """The routes, without their rounds if they have any."""
        return routes_in(self.plan.entries[-1].schedule, self.plan.algorithm)

    @property
    def algbw(self) -> Fraction:
        """Rate by the exact loads, bytes/s."""
        return self.plan.algbw

    @property
    def bound(self) -> Fraction | None:
        """The most that any routing can reach, bytes/s, where it is known."""
        return self.plan.optimal_algbw


def routes(
    topology: FabricLike,
    *,
    max_layers: int | None = None,
    layer_changes: bool = False,
    max_routes: int | None = None,
    max_hops: int | None = None,
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
        See `treadle.inputs.problem.make_problem`.
    max_layers : int, optional
        Choose paths and layers together, with at most this many layers. Default: the best paths in the
        layers that first fit takes (LASH), or paths in fewer layers that cost at most 1% of the rate.
    layer_changes : bool
        The layer may rise along a path, as InfiniBand's map of service levels and switches that add one to
        the virtual channel allow.
    max_routes : int, optional
        Most paths from a rank to another.
    max_hops : int, optional
        Most links of a path.
    chunks : int, optional
        Chunks per unit of demand; default the least that makes all weights whole, or 64.
    seed : int
        Of the search for layers.
    time_limit_s : float, optional
        Seconds after which routes made in a moment take the place of the wanted ones.
    progress : callable, optional

    Raises
    ------
    TreadleError
        For malformed input; InfeasibleError if a rank cannot be reached or the layers do not suffice.

    Examples
    --------
    >>> from treadle import planning
    >>> planning.routes("torus:3,3").plan.collective.n_ranks
    9
    """
    found = solve(
        topology,
        CollectiveKind.ALLTOALL,
        algorithm=ROUTES,
        max_layers=max_layers,
        layer_changes=layer_changes,
        max_routes=max_routes,
        max_hops=max_hops,
        chunks=chunks,
        seed=seed,
        time_limit_s=time_limit_s,
        progress=progress,
        **options,
    )
    return RoutesResult(found.plan, found.report, found.seconds, found.notes, found.is_late)


def routes_of(plan: Plan) -> RoutesResult:
    """The routes of a plan, verified again.

    Raises
    ------
    ScheduleError
        If its schedule for the largest sizes is none of routes.
    UnverifiedPlanError
        If the plan's schedules or claims are false.

    Examples
    --------
    >>> import treadle
    >>> plan = treadle.solve("ring:4", "alltoall", algorithm="routes").plan
    >>> treadle.planning.routes_of(plan).schedule
    <RouteSchedule: 4 ranks, 1 chunks, 12 paths, 16 hops, 1 layers>
    """
    routes_in(plan.entries[-1].schedule, plan.algorithm)
    result = check_plan(plan)
    if not result.is_ok:
        raise UnverifiedPlanError(result)
    rounds = isinstance(plan.entries[-1].schedule, TimedRoutes)
    notes = ("the plan's rounds are not part of such files",) if rounds else ()
    return RoutesResult(plan, result.report, notes=notes)


def format_routes(result: RoutesResult, form: RouteFormat) -> str:
    """Format routes as CSV, JSON or XML.

    Examples
    --------
    >>> from treadle import planning
    >>> text = planning.format_routes(planning.routes("ring:4"), planning.RouteFormat.CSV)
    >>> text.splitlines()[1]
    '0,1,n0,n1,0,0,0,1,1,0,0,,49152,3'
    """
    return routes_lowered(result, form).text


def routes_lowered(result: RoutesResult, form: RouteFormat, *, path: str = "") -> Lowered:
    """Format routes, read them back and compare them with the plan's.

    Parameters
    ----------
    result : RoutesResult
    form : RouteFormat
    path : str
        Path of the file.

    Examples
    --------
    >>> from treadle import planning
    >>> found = planning.routes_lowered(planning.routes("ring:4"), planning.RouteFormat.CSV)
    >>> found.verdict
    <Verdict compared, alltoall, 4 ranks>
    """
    return lower_verified(result.plan, find_format(f"routes-{form}"), FileOptions(), path=path)
