"""Find the optimum of a collective on a fabric, with a certificate."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack, cast

from treadle.checking import checked, unexpected
from treadle.context import Progress, context, in_context
from treadle.inputs.fabrics_and_plans import FabricLike, as_sizes
from treadle.inputs.problem import make_forwarding_problem, make_problem
from treadle.options.keywords import BoundOptions, ProblemOptions
from treadle.schedulers.bound_results import BoundResult, bound_problem, naming_cut_off
from treadle.schedules.collective import Collective, CollectiveKind

if TYPE_CHECKING:
    from treadle.synthesis.alltoall.rate.methods import RateMethod


def _as_method(value: Any, place: str) -> Any:
    """What `bound` takes as a method, whose type is loaded where one is asked for."""
    if value is None or isinstance(value, str):
        return value
    raise unexpected(place, "a RateMethod or its name", value)


@checked(method=_as_method)
@in_context()
def bound(
    topology: FabricLike,
    collective: Collective | CollectiveKind | str,
    *,
    method: RateMethod | str | None = None,
    gap: float | None = None,
    seed: int = 0,
    time_limit_s: float | None = None,
    progress: Progress | None = None,
    **options: Unpack[BoundOptions],
) -> BoundResult:
    """The exact optimum of a collective on a fabric, with a witness that proves it.

    Parameters
    ----------
    topology, collective, **options
        See `treadle.inputs.problem.make_problem`.
    method : RateMethod or str, optional
        Of an all-to-all: a published method, to compare with; default the quickest and closest, ours. Cuts
        are upper bounds only.
    gap : float, optional
        How close the two sides of an all-to-all's optimum are to come, as a share; default 0.001, of
        Fleischer's scheme 0.05.
    seed : int
        Of the search for cuts.
    time_limit_s : float, optional
        Seconds after which to give up an allreduce, or to stop an all-to-all with what there is; the cut
        search of the others is not interrupted.
    progress : callable, optional
        progress(stage, done, total).
    sizes : sequence of int or str
        Bytes of the larger per-rank buffer, for each of which the least time of any schedule is found.
    cost_model : CostModel, str or Path, optional
        What messages cost there; see `simulate`.

    Raises
    ------
    TreadleError
        For malformed input; InfeasibleError if a rank cannot be reached.
    TimeLimitError
        If time ran out for an allreduce: there is no bound then.

    Examples
    --------
    >>> import treadle
    >>> treadle.bound("dgx_a100:2", "allgather").algbw
    Fraction(1040000000000, 3)
    """
    asked = options.get("sizes", ())
    at = () if asked == () else as_sizes(asked, "bound: sizes")
    given = options.get("cost_model")
    names = ("sizes", "cost_model")
    posed = cast(ProblemOptions, {name: one for name, one in options.items() if name not in names})
    with context().stage("fabric"):
        problem = make_problem(topology, collective, **posed)
    with naming_cut_off(problem, lambda: make_forwarding_problem(topology, collective, posed)):
        result = bound_problem(problem, method=method, gap=gap, seed=seed)
    if not at:
        return result
    # here, because few bounds are of sizes
    from treadle.simulation.cost_models import cost_model_of
    from treadle.simulation.size_bounds.problem_bounds import size_bounds

    model = cost_model_of(problem.topology, given)
    with context().stage("sizes"):
        least = size_bounds(problem, result.bound.witness, at, cost_model=model)
    return replace(result, at_sizes=least, cost_model=model, seconds=context().seconds)
