"""Find the optimum of a collective on a fabric, with a certificate."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from treadle.checking import checked, unexpected
from treadle.context import Progress, context, in_context
from treadle.inputs.fabrics_and_plans import FabricLike, as_sizes
from treadle.inputs.problem import make_forwarding_problem, make_problem, problem_keywords
from treadle.options.keywords import BoundOptions
from treadle.schedulers.bound_results import BoundResult, bound_problem, naming_cut_off
from treadle.schedules.collective import Collective, CollectiveKind

if TYPE_CHECKING:
    from treadle.synthesis.alltoall.rate.methods import RateMethod


def _as_method(value: Any, place: str) -> Any:
    """Check a method without loading its type, which few calls need."""
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
    """Compute the exact optimum of a collective on a fabric, with a certificate that proves it.

    Parameters
    ----------
    topology, collective, **options
        See `treadle.inputs.problem.make_problem`.
    method : RateMethod or str, optional
        Published method for an all-to-all; default Treadle's own, the fastest and tightest. Cuts give upper
        bounds only.
    gap : float, optional
        Optimality gap of an all-to-all, as a share; default 0.001, or 0.05 for Fleischer's scheme.
    seed : int
        Seed of the search for cuts.
    time_limit_s : float, optional
        Seconds after which to give up an allreduce, or to stop an all-to-all with what there is; the cut
        search of the others is not interrupted.
    progress : callable, optional
        progress(stage, done, total).
    sizes : sequence of int or str
        Bytes of the larger per-rank buffer, for each of which a time lower bound is computed.
    cost_model : CostModel, str or Path, optional
        Costs of messages at these sizes; see `simulate`.

    Raises
    ------
    TreadleError
        For malformed input; InfeasibleError if a rank cannot be reached.
    TimeLimitError
        If time ran out for an allreduce: no bound is known then.

    Examples
    --------
    >>> import treadle
    >>> treadle.bound("dgx_a100:2", "allgather").algbw
    Fraction(1040000000000, 3)
    """
    given_sizes = options.get("sizes", ())
    sizes = () if given_sizes == () else as_sizes(given_sizes, "bound: sizes")
    of_problem = problem_keywords(options)
    with context().stage("fabric"):
        problem = make_problem(topology, collective, **of_problem)
    with naming_cut_off(problem, lambda: make_forwarding_problem(topology, collective, of_problem)):
        result = bound_problem(problem, method=method, gap=gap, seed=seed)
    if not sizes:
        return result
    # here, because few bounds are requested at sizes
    from treadle.simulation.cost_models import cost_model_of
    from treadle.simulation.size_bounds.problem_bounds import size_bounds

    model = cost_model_of(problem.topology, options.get("cost_model"))
    with context().stage("sizes"):
        bounds = size_bounds(problem, result.bound.certificate, sizes, cost_model=model)
    return replace(result, at_sizes=bounds, cost_model=model, seconds=context().seconds)
