"""Routes of an all-to-all on which NICs forward, as files for the tools that program them."""

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
from treadle.inputs.verification import require_verified
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
    """File formats of routes, named by their extensions.

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
    """Verified routes.

    Parameters
    ----------
    plan : Plan
        Its entry for the largest sizes has the routes.
    report : Report
        Report of the independent verifier.
    seconds : mapping of stage to CPU seconds
        Empty for routes of an existing plan.
    notes : tuple of str
        Remarks for the user.
    is_late : bool
        Whether time ran out: these are quick routes instead of the requested ones.

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
        """Routes, without their rounds if they have any."""
        return routes_in(self.plan.entries[-1].schedule, self.plan.algorithm)

    @property
    def algbw(self) -> Fraction:
        """Throughput by the exact loads, bytes/s."""
        return self.plan.algbw

    @property
    def bound(self) -> Fraction | None:
        """Upper bound on the throughput of any routing, bytes/s; None if it is not known."""
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
    """Route an all-to-all: weighted paths for every pair, integral chunks on each, layers without deadlock.

    Parameters
    ----------
    topology, **options
        See `treadle.inputs.problem.make_problem`.
    max_layers : int, optional
        Choose paths and layers together, with at most this many layers. Default: the best paths in the
        layers that first fit takes (LASH), or paths in fewer layers that cost at most 1% of the rate.
    layer_changes : bool
        The layer may rise along a path, as InfiniBand's map of service levels and switches that increment
        the virtual channel allow.
    max_routes : int, optional
        Maximum number of paths from a rank to another.
    max_hops : int, optional
        Maximum number of links of a path.
    chunks : int, optional
        Chunks per unit of demand; default the least that makes all weights integral, or 64.
    seed : int
        Seed of the search for layers.
    time_limit_s : float, optional
        Seconds after which quick routes take the place of the requested ones.
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
    """Return the routes of a plan, verified again.

    Raises
    ------
    ScheduleError
        If its schedule for the largest sizes has no routes.
    UnverifiedPlanError
        If the plan's schedules or claims are false.

    Examples
    --------
    >>> import treadle
    >>> plan = treadle.solve("ring:4", "alltoall", algorithm="routes").plan
    >>> treadle.planning.routes_of(plan).schedule
    <RouteSchedule: 4 ranks, 1 chunks, 12 paths, 16 hops, 1 layers>
    """
    schedule = plan.entries[-1].schedule
    routes_in(schedule, plan.algorithm)
    has_rounds = isinstance(schedule, TimedRoutes)
    notes = ("the plan's rounds are not part of such files",) if has_rounds else ()
    return RoutesResult(plan, require_verified(plan).report, notes=notes)


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
