"""Find the fastest schedule for each message size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from treadle.checking import checked, left_alone
from treadle.context import Progress, TimeLimitError, context, in_context, under
from treadle.errors import FormatError, ScheduleError
from treadle.inputs.fabrics_and_plans import FabricLike, SizesLike, as_sizes
from treadle.inputs.problem import make_problem, problem_keywords
from treadle.options.keywords import SizeSetOptions
from treadle.schedulers.bounds import find_bound
from treadle.schedulers.schedulers import find_scheduler
from treadle.schedulers.sizes.candidate_options import entrants, left_out
from treadle.schedulers.sizes.cost_ranges import uncertain_choices
from treadle.schedulers.sizes.selection import SelectionRules, select
from treadle.schedulers.sizes.size_sets import MOST_RANGES, SizeSet, half_octaves, size_set, verified_racers
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.simulation.cost_models import cost_model_of


@checked(sizes=left_alone)
@in_context()
def solve_sizes(
    topology: FabricLike,
    collective: Collective | CollectiveKind | str,
    sizes: SizesLike = "1K..1G",
    *,
    max_schedules: int | None = MOST_RANGES,
    algorithms: Sequence[str] | None = None,
    halves: bool = True,
    time_limit_s: float | None = None,
    progress: Progress | None = None,
    **problem_options: Unpack[SizeSetOptions],
) -> SizeSet:
    """Simulate all candidates over sizes and keep the fastest of each in one plan.

    Parameters
    ----------
    topology, collective, **problem_options
        See `treadle.inputs.problem.make_problem`.
    sizes : sequence of int or str
        Bytes of the larger per-rank buffer.
    max_schedules : int, optional
        Maximum number of size ranges of the plan, chosen by the worst ratio to the fastest candidate, then by
        the mean. None: as many as the fastest schedule at every size needs.
    algorithms : sequence of str, optional
        Only candidates of these; default all that fit the problem.
    halves : bool
        Try the half octave between sizes that double.
    cost_model : CostModel, str or Path, optional
        Costs of messages; default those of the fabric, `default_cost_model`.
    time_limit_s : float, optional
        Seconds after which the search stops with the sizes that were simulated.
    progress : callable, optional

    Returns
    -------
    SizeSet
        Its plan supports all sizes: the first range those below, the last those above.

    Raises
    ------
    TreadleError
        For malformed input; InfeasibleError if no schedule exists.

    Examples
    --------
    >>> import treadle
    >>> result = treadle.solve_sizes("ring:3", "allgather", "1K,1G")
    >>> [(row.size_bytes, row.title) for row in result.rows]
    [(1024, 'forestcoll'), (1073741824, 'forestcoll')]
    """
    at = sorted(set(as_sizes(sizes, "solve: sizes")))
    at = half_octaves(at) if halves else at
    if max_schedules is not None and max_schedules < 1:
        raise FormatError(f"solve: max_schedules {max_schedules}, expected at least 1")
    with context().stage("fabric"):
        problem = make_problem(topology, collective, **problem_keywords(problem_options))
    if problem.collective.groups is not None:
        raise ScheduleError("solve: sets by size are of one group of ranks; leave out the mesh or the sizes")
    chosen = [find_scheduler(name) for name in algorithms or ()]
    with context().stage("bound"), under(context().unlimited):
        bound = find_bound(problem, cards_forward=True)
    model = cost_model_of(problem.topology, problem_options.get("cost_model"))
    rules = SelectionRules(problem, model)
    with context().stage("candidates"):
        candidates, is_late = verified_racers(rules, entrants(problem, rules.least_alpha_s, chosen), bound)
    with context().stage("race"):
        try:
            select(candidates, at)
        except TimeLimitError:
            is_late = True
    with context().stage("ranges"), under(context().unlimited):
        found = size_set(rules, candidates, at, bound, max_schedules)
        uncertain = uncertain_choices(rules, candidates, found[2])
    rejected = [candidate.title for candidate in candidates if candidate.refusal]
    return SizeSet(
        *found,
        bound,
        model,
        uncertain,
        n_candidates=len(candidates),
        n_timed=sum(bool(candidate.times) for candidate in candidates),
        left_out=(*(() if chosen else left_out(problem)), *rejected),
        is_late=is_late,
        seconds=context().seconds,
    )
