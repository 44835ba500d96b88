"""Schedules of concurrent groups of ranks: trees of each group on the links of one fabric."""

from __future__ import annotations

from dataclasses import dataclass

from treadle.brief import brief
from treadle.errors import ScheduleError
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.trees.forest import ForestSchedule


@brief("kind", "n_ranks", "groups")
@dataclass(frozen=True)
class GroupSchedule:
    """A forest schedule for each group of a collective; they run concurrently and their loads add up.

    Parameters
    ----------
    kind : CollectiveKind
    groups : tuple of ForestSchedule
        In the order of `Collective.groups`, each over the ranks of its group in the group's order, all of
        equal size. Paths have links of the entire fabric.

    Raises
    ------
    ScheduleError
        If their kinds or numbers of ranks differ.

    Notes
    -----
    Every group moves the same M bytes (the larger per-rank buffer), cut into equal units for its own trees: a
    unit of group g is M / R_g. So link e carries the sum over g of load_g(e) * M / R_g.
    """

    kind: CollectiveKind
    groups: tuple[ForestSchedule, ...]

    def __post_init__(self) -> None:
        if not self.groups:
            raise ScheduleError("group schedule: no group; expected at least one")
        for number, one in enumerate(self.groups):
            if one.kind is not self.kind:
                raise ScheduleError(f"group schedule: group {number} is for {one.kind}, not {self.kind}")
            if one.n_ranks != self.group_size:
                raise ScheduleError(
                    f"group schedule: group {number} has {one.n_ranks} ranks, the first {self.group_size}"
                )

    @property
    def group_size(self) -> int:
        """Ranks of each group."""
        return self.groups[0].n_ranks

    @property
    def n_ranks(self) -> int:
        """Ranks of all groups together."""
        return len(self.groups) * self.group_size
