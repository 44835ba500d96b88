"""The front of heights, trees per root and throughput on a fabric."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from treadle.brief import brief
from treadle.checking import checked
from treadle.context import Progress, start
from treadle.errors import InfeasibleError, ScheduleError
from treadle.inputs.problem import Problem
from treadle.schedulers.bounds import find_bound
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.trees.forest import Forest, ForestSchedule
from treadle.schedules.trees.forest_transforms import reverse
from treadle.synthesis.result import Bound
from treadle.synthesis.trees.few.bounded_height_lp import BoundedHeightTrees, bounded_height_trees
from treadle.synthesis.trees.few.fixed_k import MOST_RANKS, within_height
from treadle.synthesis.trees.few.height_bound import bounded
from treadle.synthesis.trees.instance import instance_of
from treadle.synthesis.trees.pipeline import synthesise
from treadle.synthesis.trees.tree_budget import TreeBudget
from treadle.verification.schedules import verify as verify_schedule

TREES_PER_ROOT = (1, 2, 4, 8, 16)
"""That are tried by default."""

_MOST_HEIGHTS = 6
_MOST_EXACT = 256
_ROUNDS, _EXACT_ROUNDS = 120, 6


@brief("height", "trees_per_root", "algbw")
@dataclass(frozen=True)
class TreePoint:
    """Trees that no others of the front are lower than, fewer than and faster than.

    Parameters
    ----------
    height : int
        Hops from rank to rank.
    trees_per_root : int
    algbw : Fraction
        As the verifier computed it, bytes/s.
    most : Fraction, optional
        Bytes/s that no trees of this height exceed, however many, as prices of links prove; None where no
        such bound is below the optimum of all trees.
    schedule : ForestSchedule
    """

    height: int
    trees_per_root: int
    algbw: Fraction
    most: Fraction | None
    schedule: ForestSchedule


@brief("optimal_algbw", "points")
@dataclass(frozen=True)
class TreeFront:
    """Points by rising height, then trees per root.

    Parameters
    ----------
    bound : Bound
        Of trees of any height.
    points : tuple of TreePoint

    Examples
    --------
    >>> from treadle import planning
    >>> front = planning.tree_front(planning.make_problem("ring:4", "allgather"), trees=[1, 2])
    >>> [(point.height, point.trees_per_root, point.algbw) for point in front.points]
    [(2, 1, Fraction(2, 1)), (2, 2, Fraction(8, 3))]
    >>> front.bound.algbw
    Fraction(8, 3)
    """

    bound: Bound
    points: tuple[TreePoint, ...]

    @property
    def optimal_algbw(self) -> Fraction:
        """Bytes/s."""
        return self.bound.algbw

    def certified(self, point: TreePoint) -> bool:
        """Whether nothing of its height is faster by a part in ten thousand, as a bound proves."""
        most = self.optimal_algbw if point.most is None else min(point.most, self.optimal_algbw)
        return point.algbw * (1 + Fraction(1, 10**4)) >= most


@checked()
def tree_front(
    problem: Problem,
    *,
    trees: Sequence[int] = TREES_PER_ROOT,
    max_height: int | None = None,
    time_limit_s: float | None = None,
    progress: Progress | None = None,
) -> TreeFront:
    """Which throughput trees of each height reach, so many per root, each verified.

    Parameters
    ----------
    problem : Problem
        An allgather or a reduce-scatter; an allreduce is one after the other.
    trees : sequence of int
        Numbers per root that are tried.
    max_height : int, optional
        Default: that of ForestColl's trees for the optimum.
    time_limit_s : float, optional
    progress : callable, optional

    Raises
    ------
    ScheduleError
        If the collective is another, or there are too many ranks in one box.
    InfeasibleError
        If no trees are that low.
    TimeLimitError
        When time ran out.

    Notes
    -----
    Up to 64 ranks by column generation, beyond by trees of boxes. Bounds of a height come from branch and
    bound, where ranks and heights are few enough (`few.height_bound`).

    Examples
    --------
    >>> from treadle import planning
    >>> front = planning.tree_front(planning.make_problem("ring:4", "allgather"), trees=[1, 2])
    >>> [(point.height, point.trees_per_root, point.algbw) for point in front.points]
    [(2, 1, Fraction(2, 1)), (2, 2, Fraction(8, 3))]
    """
    kind = problem.collective.kind
    if kind not in (CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER):
        raise ScheduleError(f"front of trees: {kind} is not supported; expected allgather or reduce-scatter")
    if not trees or min(trees) < 1 or (max_height is not None and max_height < 1):
        raise ScheduleError("front of trees: expected trees and heights of at least 1")
    with start(progress, time_limit_s):
        bound = find_bound(problem)
        points = [] if (exact := _exact(problem)) is None else [exact]
        last = max_height or (_MOST_HEIGHTS if exact is None else exact.height)
        for height in range(1, last + 1):
            try:
                points += _points(problem, sorted(set(trees)), height, bound.algbw)
            except InfeasibleError:
                if height == last:
                    raise
        points = [point for point in points if point.height <= last]
        return TreeFront(bound, _undominated(points))


def _exact(problem: Problem) -> TreePoint | None:
    """ForestColl's trees for the optimum; None where they are many or cannot be made."""
    if problem.collective.n_ranks > _MOST_EXACT:
        return None
    try:
        found = synthesise(problem.topology, problem.collective, budget=TreeBudget(exact=True))
    except InfeasibleError:
        return None
    return _point(problem, found.trees, found.trees_per_root or 1, None)


def _points(problem: Problem, trees: Iterable[int], height: int, optimum: Fraction) -> list[TreePoint]:
    topology, collective = problem.topology, problem.collective
    reduces = collective.kind.reduces
    fabric = topology.transpose() if reduces else topology
    gather = replace(collective, kind=CollectiveKind.ALLGATHER)
    found, most = None, None
    if gather.n_ranks <= MOST_RANKS:
        found = bounded_height_trees(instance_of(fabric, gather), height, rounds=_ROUNDS)
        found, rate = _bounded(found)
        total = None if rate is None else rate * sum(gather.shard_weights)
        most = total if total is not None and total < optimum else None
    points = []
    for number in trees:
        forest = within_height(fabric, gather, number, height, found=found)
        schedule = _schedule(collective.kind, reverse(forest) if reduces else forest)
        points.append(_point(problem, schedule, number, most))
    return points


def _point(
    problem: Problem, schedule: ForestSchedule, trees_per_root: int, most: Fraction | None
) -> TreePoint:
    """The point of a schedule that the verifier accepts."""
    report = verify_schedule(problem.topology, problem.collective, schedule)
    assert report.is_ok
    assert report.algbw is not None
    assert report.height_max is not None
    return TreePoint(report.height_max, trees_per_root, report.algbw, most, schedule)


def _bounded(found: BoundedHeightTrees) -> tuple[BoundedHeightTrees, Fraction | None]:
    """The trees, bettered where they are priced exactly, and the rate that none of their height exceed."""
    better = bounded(found, rounds=_EXACT_ROUNDS)
    return (found, None) if better is None else (better.found, better.rate)


def _schedule(kind: CollectiveKind, forest: Forest) -> ForestSchedule:
    return ForestSchedule(
        kind, reduce=forest if kind.reduces else None, broadcast=None if kind.reduces else forest
    )


def _undominated(points: Sequence[TreePoint]) -> tuple[TreePoint, ...]:
    kept: list[TreePoint] = []
    for point in sorted(points, key=lambda one: (one.height, one.trees_per_root, -one.algbw)):
        better = (one for one in kept if one.trees_per_root <= point.trees_per_root)
        if not any(one.algbw >= point.algbw for one in better):
            kept.append(point)
    return tuple(kept)
