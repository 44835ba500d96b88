"""Write an HTML report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from treadle.checking import checked, left_alone
from treadle.context import Context, Progress, context, under
from treadle.drawing.page import page
from treadle.drawing.pages.drawn_fabric import DrawnFabric
from treadle.drawing.pages.plan_page import (
    SHOWN_SIZE,
    check_same_problem,
    course_values,
    display_names,
    display_sizes,
    page_of_result,
    scenes,
    size_curves,
    static_values,
    tiles,
)
from treadle.errors import FormatError
from treadle.inputs.fabrics_and_plans import PlanLike, as_plan, as_sizes
from treadle.inputs.verification import require_verified
from treadle.schedules.plan import Plan
from treadle.simulation.simulated_plans import simulate_plan
from treadle.tabular import Tabular
from treadle.viz.fabric_layout import MOST_COLLAPSED


@checked(plan=left_alone)
def report(
    plan: PlanLike | Tabular,
    others: Sequence[PlanLike] = (),
    *,
    size: int | str = SHOWN_SIZE,
    progress: Progress | None = None,
) -> str:
    """A page about a plan: one file of HTML that loads nothing, the same for the same plan.

    Parameters
    ----------
    plan : Plan, result with a plan, or path
        Verified first. Of `train`, `parallelize` and `design` the result.
    others : sequence of plans, results with a plan, or paths
        Whose times by size stand beside: of the same collective and number of ranks, on any fabric.
    size : int or str
        Bytes of the larger per-rank buffer, of the pictures over time.
    progress : callable, optional

    Raises
    ------
    UnverifiedPlanError
        If a plan's schedules or claims are false.
    FormatError
        If another plan is of another collective.
    ScheduleError
        If no schedule of a plan serves a size.

    Examples
    --------
    >>> import treadle
    >>> treadle.report(treadle.solve("ring:4", "allgather"))[:15]
    '<!doctype html>'
    """
    if not isinstance(plan, Plan | Path | str) and (made := page_of_result(plan)):
        if others:
            raise FormatError("report: others stand beside plans of collectives only")
        return made
    own = as_plan(plan, "report: plan")
    beside = [as_plan(other, "report: others") for other in others]
    (shown,) = as_sizes([size], "report: size")
    for other in beside:
        check_same_problem(own, other)
    with under(Context(progress)):
        context().announce("verifying")
        for one in (own, *beside):
            require_verified(one)
        fabric = DrawnFabric(own.topology)
        values = static_values(own, fabric)
        if own.collective.n_ranks <= MOST_COLLAPSED:
            values["scenes"] = scenes(own, fabric)
            context().announce("simulating")
            sizes = display_sizes(own)
            run = simulate_plan(
                own, [*sizes, shown], progress=progress
            )  # the last is that of the course in time
            values |= {**course_values(own, fabric, shown, run), "tiles": tiles(own, run.rows)}
            values["curves"] = size_curves(
                own, sizes, run, beside, display_names(own, beside), progress=progress
            )
        elif beside:
            raise FormatError(
                f"report: plans of more than {MOST_COLLAPSED} ranks are not simulated beside others"
            )
        return page(values)
