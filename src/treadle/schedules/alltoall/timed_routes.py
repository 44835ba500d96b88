"""Rounds of routed chunks: when each chunk of a route schedule sets out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treadle.arrays import FrozenArrays, Int32Array, Int64Array
from treadle.errors import ScheduleError
from treadle.notebook import displayed, own_repr
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.collective import CollectiveKind


@displayed(own_repr)
@dataclass(frozen=True, eq=False)
class TimedRoutes(FrozenArrays):
    """A route schedule whose chunks set out in rounds, one after another.

    In a round, each of its chunks crosses its whole path: adapters forward without their hosts.

    Parameters
    ----------
    routes : RouteSchedule
    round_offset : array of int64, shape (rounds + 1,)
        Chunks of round t (from 0) are round_offset[t] up to round_offset[t + 1].
    path : array of int32, shape (chunks,)
        Path of the schedule that each chunk takes; the chunks of a path set out in order.

    Raises
    ------
    ScheduleError
        If shapes or ranges are wrong. `treadle.verification.routes.round_check` checks meaning.
    """

    routes: RouteSchedule
    round_offset: Int64Array
    path: Int32Array

    def __post_init__(self) -> None:
        self._freeze("rounds")
        offset, total = self.round_offset, len(self.path)
        if not offset.size or offset[0] != 0 or offset[-1] != total or np.any(np.diff(offset) < 0):
            raise ScheduleError(f"rounds: round_offset must rise from 0 to {total}, the number of chunks")
        last = self.routes.n_paths - 1
        if total and not (int(self.path.min()) >= 0 and int(self.path.max()) <= last):
            raise ScheduleError(f"rounds: path has a value outside 0 to {last}")

    @property
    def kind(self) -> CollectiveKind:
        """Routes serve all-to-all only."""
        return CollectiveKind.ALLTOALL

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
        """Most chunks of a round that leave a host, or enter one."""
        number = np.repeat(np.arange(self.n_rounds), np.diff(self.round_offset)) * self.n_ranks
        ends = (self.routes.source, self.routes.target)
        flows = (np.unique(number + end[self.path], return_counts=True)[1] for end in ends)
        return max((int(count.max(initial=0)) for count in flows), default=0)

    def span(self, number: int) -> slice:
        """Where the chunks of a round (from 0) are."""
        return slice(int(self.round_offset[number]), int(self.round_offset[number + 1]))

    def __repr__(self) -> str:
        return f"<TimedRoutes: {self.n_rounds} rounds, {len(self.path)} chunks of {self.routes!r}>"


def routes_in(schedule: object, algorithm: str) -> RouteSchedule:
    """The routes of a schedule, with or without rounds.

    Raises
    ------
    ScheduleError
        If it has none; `algorithm`, which made it, is named.
    """
    routes = schedule.routes if isinstance(schedule, TimedRoutes) else schedule
    if not isinstance(routes, RouteSchedule):
        raise ScheduleError(
            f"the plan ({algorithm}) has no routes; expected one of treadle solve FABRIC alltoall "
            f"--algorithm routes"
        )
    return routes
