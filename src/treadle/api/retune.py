"""Plans by size under other costs: the size ranges are recomputed, the schedules stay."""

from __future__ import annotations

from treadle.checking import checked, left_alone
from treadle.context import Progress, context, in_context
from treadle.errors import ScheduleError
from treadle.inputs.fabrics_and_plans import PlanLike, SizesLike, as_plan, as_sizes
from treadle.inputs.problem import Problem, model_of
from treadle.inputs.verification import require_verified
from treadle.schedulers.schedulers import find_scheduler, is_scheduler
from treadle.schedulers.sizes.cost_ranges import uncertain_choices
from treadle.schedulers.sizes.selection import SelectionRules, SizeCandidate, select
from treadle.schedulers.sizes.size_sets import MOST_RANGES, SizeSet, half_octaves, size_set
from treadle.simulation.cost_models import CostModelLike, as_cost_model
from treadle.synthesis.result import Bound


@checked(sizes=left_alone)
@in_context()
def retune(
    plan: PlanLike,
    cost_model: CostModelLike,
    sizes: SizesLike = "1K..1G",
    *,
    max_schedules: int | None = MOST_RANGES,
    progress: Progress | None = None,
) -> SizeSet:
    """Recompute the size ranges of a plan for other costs, without synthesis.

    Parameters
    ----------
    plan : Plan, str, Path or result with a plan
        Of one or more schedules.
    cost_model : CostModel, str or Path
        Costs of messages now; see `simulate`.
    sizes : sequence of int or str
        As for `solve_sizes`.
    max_schedules : int, optional
        Maximum number of size ranges; None: any number.
    progress : callable, optional

    Returns
    -------
    SizeSet
        Its plan has schedules of the given one only.

    Raises
    ------
    UnverifiedPlanError
        If the plan's schedules or claims are false.
    ScheduleError
        If the plan is of several groups of ranks.

    Examples
    --------
    >>> import treadle
    >>> found = treadle.solve_sizes("ring:3", "allgather", "1K,1G")
    >>> again = treadle.retune(found, "reference", "1K,1G")
    >>> [(row.size_bytes, row.title) for row in again.rows]
    [(1024, 'forestcoll'), (1073741824, 'forestcoll')]
    """
    old, model = as_plan(plan, "retune: plan"), as_cost_model(cost_model)
    at = half_octaves(as_sizes(sizes, "retune: sizes"))
    if old.collective.groups is not None:
        raise ScheduleError("retune: sets by size are of one group of ranks")
    with context().stage("verify"):
        reports = require_verified(old).reports
    rules = SelectionRules(Problem(old.topology, old.collective), model)
    candidates: list[SizeCandidate] = []
    for entry, report in zip(old.entries, reports, strict=True):
        name = entry.algorithm or old.algorithm
        if any(entry.schedule == other.schedule for other in candidates):
            continue
        is_baseline = is_scheduler(name) and find_scheduler(name).is_baseline
        baseline = f"{name} {entry.options}".strip() if is_baseline else ""
        candidates.append(
            SizeCandidate(rules, name, entry.options, entry.schedule, report, baseline=baseline)
        )
    with context().stage("race"):
        select(candidates, at)
    bound = None
    if old.optimal_algbw is not None and old.certificate is not None:
        bound = Bound(old.optimal_algbw, old.certificate, False, model_of(old.topology, old.collective))
    with context().stage("ranges"):
        found = size_set(rules, candidates, at, bound, max_schedules)
    return SizeSet(
        *found,
        bound,
        model,
        uncertain_choices(rules, candidates, found[2]),
        n_candidates=len(candidates),
        n_timed=sum(bool(candidate.times) for candidate in candidates),
        seconds=context().seconds,
    )
