"""Options that an all-to-all's algorithm would not heed are refused, not passed over."""

from __future__ import annotations

from treadle.errors import ScheduleError
from treadle.planning.solving.alltoall_candidates import (
    ALLTOALL_ALGORITHMS,
    PIPELINED,
    SHORTEST_PATHS,
    SIZED,
    TSMCF,
)
from treadle.planning.solving.candidate import Options, RouteRequest
from treadle.planning.solving.route_candidates import ROUTE_ALGORITHMS
from treadle.planning.solving.step_candidates import BFB


def check_fit(algorithm: str, options: Options, *, multicast: bool) -> None:
    """Raise ScheduleError if an option has no meaning for the algorithm.

    Parameters
    ----------
    algorithm : str
    options : Options
    multicast : bool
        Whether trees are to be pruned at switches.
    """
    if options.routes != RouteRequest() and algorithm not in ROUTE_ALGORITHMS:
        raise ScheduleError(
            f"{algorithm}: limits of layers, routes and flows are for --algorithm "
            f"{' or '.join(ROUTE_ALGORITHMS)}"
        )
    if options.size is not None and algorithm not in (*SIZED, BFB):
        raise ScheduleError(f"{algorithm}: only {', '.join(SIZED)} and {BFB} can be made for a size")
    if algorithm not in ALLTOALL_ALGORITHMS and algorithm not in ROUTE_ALGORITHMS:
        return
    budget = options.budget
    for name, is_given in (
        ("--trees", budget.trees is not None),
        ("--max-trees", budget.max_trees is not None),
        ("--exact", budget.exact),
        ("--packer", options.packer is not None),
        ("--trim", options.trim),
        ("--multicast", multicast),
    ):
        if is_given:
            raise ScheduleError(f"{algorithm}: {name} is for spanning trees, which an all-to-all has none of")
    asked = options.exact
    if asked.symmetric:
        raise ScheduleError(f"{algorithm}: --symmetric is for --algorithm exact")
    if asked.steps is not None and algorithm != TSMCF:
        raise ScheduleError(f"{algorithm}: a number of steps (--steps) is for --algorithm {TSMCF}")
    if asked.rounds is not None and algorithm not in (PIPELINED, SHORTEST_PATHS):
        raise ScheduleError(f"{algorithm}: --rounds are for --algorithm {PIPELINED} or {SHORTEST_PATHS}")
