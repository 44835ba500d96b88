"""Rounds of routed chunks: the start of each chunk of a route schedule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from treadle.arrays import FrozenArrays, Int32Array, Int64Array, check_offsets
from treadle.errors import ScheduleError
from treadle.notebook import displayed, own_repr
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.checks import check_range
from treadle.schedules.collective import CollectiveKind


@displayed(own_repr)
@dataclass(frozen=True, eq=False)
class TimedRoutes(FrozenArrays):
    """A route schedule whose chunks start in rounds, one after another.

    In a round, each of its chunks crosses its entire path: network adapters forward without their hosts.

    Parameters
    ----------
    routes : RouteSchedule
    round_offset : array of int64, shape (rounds + 1,)
        Chunks of round t (from 0) are round_offset[t] up to round_offset[t + 1].
    path : array of int32, shape (chunks,)
        Path of the schedule that each chunk takes; the chunks of a path start in order.

    Raises
    ------
    ScheduleError
        If shapes or ranges are wrong. `treadle.verification.routes.round_check` checks meaning.
    """

    kind: ClassVar[CollectiveKind] = CollectiveKind.ALLTOALL

    routes: RouteSchedule
    round_offset: Int64Array
    path: Int32Array

    def __post_init__(self) -> None:
        self._freeze("rounds")
        check_offsets("rounds", "round_offset", self.round_offset, self.n_rounds, len(self.path))
        check_range("rounds", "path", self.path, 0, self.routes.n_paths)

    @property
    def n_ranks(self) -> int:
        """Number of ranks N."""
        return self.routes.n_ranks

    @property
    def n_rounds(self) -> int:
        """Number of rounds."""
        return len(self.round_offset) - 1

    @property
    def max_flows(self) -> int:
        """Largest number of chunks of a round that leave a host, or enter one."""
        number = np.repeat(np.arange(self.n_rounds), np.diff(self.round_offset)) * self.n_ranks
        ends = (self.routes.source, self.routes.target)
        flows = (np.unique(number + end[self.path], return_counts=True)[1] for end in ends)
        return max((int(count.max(initial=0)) for count in flows), default=0)

    def span(self, number: int) -> slice:
        """Return the slice of the chunks of a round (from 0)."""
        return slice(int(self.round_offset[number]), int(self.round_offset[number + 1]))

    def __repr__(self) -> str:
        return f"<TimedRoutes: {self.n_rounds} rounds, {len(self.path)} chunks of {self.routes!r}>"


def routes_in(schedule: object, algorithm: str) -> RouteSchedule:
    """Return the routes of a schedule, with or without rounds; ScheduleError if it has none."""
    routes = schedule.routes if isinstance(schedule, TimedRoutes) else schedule
    if not isinstance(routes, RouteSchedule):
        raise ScheduleError(
            f"the plan ({algorithm}) has no routes; use treadle solve FABRIC alltoall --algorithm routes"
        )
    return routes
