"""Fronts of trees as ``pareto --json`` prints them."""

from __future__ import annotations

from treadle.planning.fronts.tree_front import TreeFront
from treadle.planning.summary import exact_text


def tree_front_summary(front: TreeFront) -> dict[str, object]:
    """The optimum and the points.

    Examples
    --------
    >>> from treadle import planning
    >>> front = planning.tree_front(planning.pose("ring:4", "allgather"), trees=[1])
    >>> [point["share_of_bound"] for point in planning.tree_front_summary(front)["points"]]
    [0.75, 1.0]
    """
    return {
        "optimal_algbw_bytes_per_s": float(front.optimal_algbw),
        "optimal_algbw_exact": exact_text(front.optimal_algbw),
        "points": [
            {
                "height": point.height,
                "trees_per_root": point.trees_per_root,
                "algbw_bytes_per_s": float(point.algbw),
                "algbw_exact": exact_text(point.algbw),
                "share_of_bound": float(point.algbw / front.optimal_algbw),
                "most_bytes_per_s": None if point.most is None else float(point.most),
                "certified": front.certified(point),
            }
            for point in front.points
        ],
    }
