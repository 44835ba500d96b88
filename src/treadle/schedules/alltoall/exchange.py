"""Step schedules of an all-to-all: which part of which pair's data crosses which link in which step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treadle.arrays import Int32Array, frozen
from treadle.errors import ScheduleError
from treadle.notebook import displayed, own_repr
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.steps.steps import Steps
from treadle.schedules.trees.forest import Direction


@displayed(own_repr)
@dataclass(frozen=True, eq=False)
class ExchangeSchedule:
    """Sends that carry a shard for each pair of ranks from the one to the other, by communication step.

    A shard is all that a rank has for another one; its size is the pair's demand, so shards may differ in
    size. Each is cut into P equal chunks. A chunk is at one place at a time: a send takes it from the tail of
    its link to the head, from where it may go on in the next step. That conserves flow as the time-stepped
    multi-commodity flow does, lets a node free the memory of what it has passed on, and makes delivery
    happen once.

    Parameters
    ----------
    sends : Steps
        Of direction BROADCAST; shard k is at home at the rank that it comes from.
    targets : array of int32, shape (S,)
        Rank to which each shard goes.

    Raises
    ------
    ScheduleError
        If a shard stays at its rank, or a target is no rank. `treadle.verification.schedules` checks meaning.

    Examples
    --------
    Two ranks swap their shards over links 0 and 1:

    >>> from treadle.schedules.steps.steps import steps_from_sends
    >>> both = [(0, 0, 0, 0, 1), (1, 1, 0, 0, 1)]
    >>> sends = steps_from_sends(Direction.BROADCAST, 2, 1, both, homes=[0, 1])
    >>> ExchangeSchedule(sends, targets=[1, 0])
    <ExchangeSchedule: 2 ranks, 2 shards of 1 chunks, 1 steps, 2 sends>
    """

    sends: Steps
    targets: Int32Array

    def __post_init__(self) -> None:
        if self.sends.direction is not Direction.BROADCAST:
            raise ScheduleError("exchange: shards leave their homes; expected sends of direction broadcast")
        if self.sends.twins.size:
            raise ScheduleError("exchange: expected shards with one home each")
        if self.sends.has_operations:
            raise ScheduleError("exchange: a switch copies or adds up, but shards have one target each")
        try:
            targets = frozen(self.targets, np.int32)
        except (OverflowError, TypeError, ValueError) as error:
            raise ScheduleError(f"exchange: targets: expected int32 ({error})") from None
        if targets.shape != self.sources.shape:
            raise ScheduleError(
                f"exchange: targets of shape {targets.shape}, expected one for each of "
                f"{self.sends.n_shards} shards"
            )
        if targets.size and not (targets.min() >= 0 and targets.max() < self.n_ranks):
            raise ScheduleError(f"exchange: targets: expected ranks from 0 to {self.n_ranks - 1}")
        for shard in np.flatnonzero(targets == self.sources)[:1]:
            raise ScheduleError(f"exchange: shard {shard} goes from rank {targets[shard]} to itself")
        object.__setattr__(self, "targets", targets)

    @property
    def kind(self) -> CollectiveKind:
        """All-to-all."""
        return CollectiveKind.ALLTOALL

    @property
    def sources(self) -> Int32Array:
        """Rank from which each shard comes, shape (S,)."""
        return self.sends.homes

    @property
    def n_ranks(self) -> int:
        """Number of ranks N."""
        return self.sends.n_ranks

    @property
    def n_shards(self) -> int:
        """Number of shards S."""
        return self.sends.n_shards

    @property
    def n_chunks(self) -> int:
        """Chunks P of each shard."""
        return self.sends.n_chunks

    @property
    def n_steps(self) -> int:
        """Communication steps."""
        return self.sends.n_steps

    @property
    def n_sends(self) -> int:
        """Number of sends."""
        return self.sends.n_sends

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ExchangeSchedule):
            return NotImplemented
        return self.sends == other.sends and np.array_equal(self.targets, other.targets)

    def __hash__(self) -> int:
        return hash((self.sends, self.targets.tobytes()))

    def __repr__(self) -> str:
        return (
            f"<ExchangeSchedule: {self.n_ranks} ranks, {self.n_shards} shards of {self.n_chunks} chunks, "
            f"{self.n_steps} steps, {self.n_sends} sends>"
        )
