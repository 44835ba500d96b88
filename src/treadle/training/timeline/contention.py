"""How much longer tasks take while others of their device run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from treadle.errors import ScheduleError
from treadle.notebook import displayed, own_fields
from treadle.training.costs import Seconds, Traffic, exact, format_traffic
from treadle.training.timeline.task import Task

Slowdowns: TypeAlias = Callable[[tuple[Traffic, ...]], tuple[Seconds, ...]]
"""As `Costs.slowdowns`."""


def _none(running: tuple[Traffic, ...]) -> tuple[Seconds, ...]:
    return (1,) * len(running)


@displayed(own_fields)
@dataclass(frozen=True)
class Contention:
    """What computing and communicating at once cost.

    Parameters
    ----------
    kappa : number
        While a device computes and communicates, both take so many times as long: 1 (they do not meet) to
        2 (no better than one after the other).
    slowdowns : callable
        How many times longer communications take while several streams of a device communicate.

    Raises
    ------
    ScheduleError
        If kappa is out of its range.
    """

    kappa: Seconds = 1
    slowdowns: Slowdowns = _none

    def __post_init__(self) -> None:
        if not 1 <= self.kappa <= 2:
            raise ScheduleError(
                f"contention: kappa {self.kappa}; expected 1 (overlap is free) to 2 (it gains nothing)"
            )

    def stretches(self, running: Sequence[Task]) -> list[Seconds]:
        """Times as long that each of a device's running tasks takes, for now.

        Parameters
        ----------
        running : sequence of Task
            At most one of each stream.
        """
        moving = [place for place, task in enumerate(running) if not task.computes]
        meets = self.kappa != 1 and 0 < len(moving) < len(running)
        kappa: Seconds = exact(self.kappa) if meets else 1
        found: list[Seconds] = [kappa] * len(running)
        if len(moving) > 1:
            moved = [(traffic, place) for place in moving if (traffic := running[place].traffic) is not None]
            moved.sort(key=lambda one: format_traffic(one[0]))
            factors = self.slowdowns(tuple(traffic for traffic, _ in moved))
            if len(factors) != len(moved) or not all(factor >= 1 for factor in factors):
                raise ScheduleError(
                    f"contention: slowdowns {factors} of {len(moved)} streams; expected as many of at least 1"
                )
            for (_, place), factor in zip(moved, factors, strict=True):
                found[place] = kappa * exact(factor)
        return found


FREE = Contention()
"""Overlap costs nothing."""
