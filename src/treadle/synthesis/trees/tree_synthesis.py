"""Results of trees written out: their schedules, and the choice between two."""

from __future__ import annotations

from dataclasses import replace

from treadle.schedules.collective import CollectiveKind
from treadle.schedules.trees.forest import Forest, ForestSchedule
from treadle.schedules.trees.forest_cost import height_max
from treadle.synthesis.result import Result
from treadle.synthesis.trees.packers.packed import Packer, PackingAttempt


def preferred(taken: Result, other: Result) -> Result:
    """Return the first, with the height of the other among its packing attempts."""
    beaten = PackingAttempt(Packer(str(other.packer)), f"not taken: height {height_max(other.trees)}")
    return replace(taken, packing=(beaten, *taken.packing))


def schedule_of(kind: CollectiveKind, forest: Forest) -> ForestSchedule:
    """Return the schedule of one collective that has this forest alone."""
    return ForestSchedule(
        kind, reduce=forest if kind.reduces else None, broadcast=forest if kind.broadcasts else None
    )
