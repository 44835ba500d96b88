"""Loss of a plan's number of trees, and the rates of other numbers."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from treadle.context import context, under
from treadle.inputs.problem import Problem
from treadle.schedulers.forest_request import ForestRequest
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.factored import FactoredSchedule
from treadle.schedules.trees.forest import ForestSchedule
from treadle.synthesis import trees as forestcoll
from treadle.synthesis.result import Alternative, Result
from treadle.synthesis.trees.tree_budget import is_dyadic
from treadle.units import format_fraction

_MOST_RANKS = 256
"""Limit above which other numbers of trees are not computed only to report them."""


def with_tree_choice(problem: Problem, request: ForestRequest, made: Result) -> Result:
    """The candidate with notes on its number of trees, and the alternatives that they name.

    Parameters
    ----------
    problem : Problem
    request : ForestRequest
        Its budget, as given.
    made : Result
        A forest with its bound; `exact_trees_per_root` or `exact_trees` give the trees of the optimum.
    """
    schedule, bound, algbw = made.schedule, made.bound, made.algbw
    if request.budget.exact or bound is None or not isinstance(schedule, ForestSchedule | FactoredSchedule):
        return made
    is_default, chunks = request.budget.is_default, schedule.total_units
    told: list[tuple[str, Alternative | None]] = []
    if algbw < bound.algbw and (made.exact_trees_per_root or made.exact_trees):
        told.append(_exact(made, format_fraction(1 - algbw / bound.algbw), chunks, is_default=is_default))
    if is_default and not (is_dyadic(chunks) or _is_one_a_shard(problem.collective, chunks)):
        told.append(_dyadic(problem, made, chunks))
    return replace(
        made,
        notes=(*made.notes, *(note for note, _ in told)),
        alternatives=tuple(one for _, one in told if one is not None),
    )


def _is_one_a_shard(collective: Collective, chunks: int) -> bool:
    """Chunks that are shards themselves, or shards that differ: nothing is left to be divided evenly."""
    is_whole = collective.kind is CollectiveKind.ALLREDUCE or collective.kind.is_rooted
    return collective.weights is not None or (not is_whole and chunks == collective.n_ranks)


def _exact(made: Result, loss: str, chunks: int, *, is_default: bool) -> tuple[str, Alternative]:
    """Trees of the optimum."""
    per_root, in_all = made.exact_trees_per_root, made.exact_trees
    offer = Alternative("--exact", Fraction(0), per_root, in_all)
    number, where = (per_root, "per root") if per_root is not None else (in_all, "in all")
    if not is_default:
        return f"the optimum takes {number} tree{'' if number == 1 else 's'} {where} (--exact)", offer
    own = f"{chunks} trees in all" if made.trees_per_root is None else f"{made.trees_per_root} trees per root"
    other = f"{number}" if own.endswith(where) else f"{number} {where}"
    text = f"{own}, {loss} below the optimum with {other}; --exact builds those"
    if is_dyadic(chunks):
        text += f" ({chunks} chunks divide buffers of a power of two, which runtimes ask of texts)"
    return text, offer


def _dyadic(problem: Problem, made: Result, chunks: int) -> tuple[str, Alternative | None]:
    """Note that buffers of a power of two do not divide, the effect on lowering, and alternatives."""
    collective = problem.collective
    kind, ranks, per_root = collective.kind, collective.n_ranks, made.trees_per_root
    is_by_shard = not (kind is CollectiveKind.ALLREDUCE or kind.is_rooted)
    if not is_by_shard or is_dyadic(ranks):
        part = "shards" if is_by_shard else "it"
        return (
            f"{chunks} chunks do not divide a power-of-two buffer; lower cuts {part} into a power of two of "
            f"chunks, unequal among trees, where that costs less than 1% (--chunks)"
        ), None
    text = (
        f"{chunks} chunks on {ranks} ranks: exported files support shards divisible by {chunks // ranks}; "
        f"lower lists the sizes, and changes chunks where that supports more (--chunks)"
    )
    if ranks > _MOST_RANKS or per_root is None or is_dyadic(per_root):
        return text, None
    with under(context().unlimited):
        trees, loss = forestcoll.dyadic_alternative(problem.topology, collective)
    offer = Alternative(f"--trees {trees}", loss, trees, None)
    text += f"; {trees} per root, {format_fraction(loss)} below the optimum, support powers of two"
    return f"{text} ({offer.option})", offer
