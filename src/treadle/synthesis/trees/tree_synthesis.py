"""What a synthesis of trees comes to, and the time of its stages."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from fractions import Fraction

from treadle.schedules.collective import CollectiveKind
from treadle.schedules.trees.forest import Forest, ForestSchedule
from treadle.schedules.trees.forest_cost import height_max
from treadle.synthesis.trees.optimality import Optimum
from treadle.synthesis.trees.packers.packed import Packer, PackingAttempt


@dataclass(frozen=True)
class Synthesis:
    """A forest schedule with what was learnt on the way.

    Parameters
    ----------
    schedule : ForestSchedule
    algbw : Fraction
        Bytes/s that the construction guarantees (the verifier measures it anew).
    optimum : Optimum
        Of the direction that was solved.
    trees_per_root : int
        k, per unit of shard weight.
    exact_trees_per_root : int
        k that the optimum would need.
    exact_algbw : Fraction
        Bytes/s with so many; of an allreduce the most that its two phases reach.
    seconds : mapping of stage to CPU seconds
    details : mapping of str to int
        Cuts mended, exact splits, speculative and exact unit trees.
    note : str
        What had to be given up (say, trimmed capacities), or "".
    packer : str
        Which packer made the trees; of an allreduce's two halves both, if they differ.
    attempts : tuple of PackingAttempt
        What became of every packer, in the order of trial.
    height_bound : int
        No spanning tree is lower: hops from compute node to compute node, to the farthest one.
    """

    schedule: ForestSchedule
    algbw: Fraction
    optimum: Optimum
    trees_per_root: int
    exact_trees_per_root: int
    exact_algbw: Fraction
    seconds: dict[str, float] = field(default_factory=dict)
    details: dict[str, int] = field(default_factory=dict)
    note: str = ""
    packer: str = ""
    attempts: tuple[PackingAttempt, ...] = ()
    height_bound: int = 0


class StageClock:
    """CPU seconds per stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.process_time()

    def stop(self, stage: str) -> None:
        """Count the time since the last stop, or the beginning, to `stage`."""
        now = time.process_time()
        self.seconds[stage] = self.seconds.get(stage, 0.0) + now - self._last
        self._last = now


def preferred(taken: Synthesis, other: Synthesis) -> Synthesis:
    """That synthesis, and of the other one how high it was."""
    beaten = PackingAttempt(Packer(other.packer), f"not taken: height {height_max(other.schedule)}")
    return replace(taken, attempts=(beaten, *taken.attempts))


def schedule_of(kind: CollectiveKind, forest: Forest) -> ForestSchedule:
    """The schedule of one collective that has this forest alone."""
    return ForestSchedule(
        kind, reduce=forest if kind.reduces else None, broadcast=forest if kind.broadcasts else None
    )
