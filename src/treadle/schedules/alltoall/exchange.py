"""Step schedules of an all-to-all: sends of the data of each pair of ranks over links, step by step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from treadle.arrays import FrozenArrays, Int32Array
from treadle.errors import ScheduleError
from treadle.notebook import displayed, own_repr
from treadle.schedules.checks import check_length, check_range
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.steps.steps import Steps
from treadle.schedules.trees.forest import Direction


@displayed(own_repr)
@dataclass(frozen=True, eq=False)
class ExchangeSchedule(FrozenArrays):
    """Sends that carry a shard for each pair of ranks from the one to the other, by communication step.

    A shard is all data of one rank for another; its size is the pair's demand, so shards may differ in size.
    Each is cut into P equal chunks. A chunk is at one node at a time: a send moves it from the tail of its
    link to the head, and it may move on in the next step. This conserves flow like the time-stepped
    multi-commodity flow, lets a node free the memory of forwarded chunks, and delivers each chunk once.

    Parameters
    ----------
    sends : Steps
        Direction BROADCAST; the owner of a shard is the rank from which it comes.
    targets : array of int32, shape (S,)
        Destination rank of each shard.

    Raises
    ------
    ScheduleError
        If a shard stays at its rank, or a target is not a rank. `treadle.verification.schedules` checks
        meaning.

    Examples
    --------
    Two ranks swap their shards over links 0 and 1:

    >>> from treadle.schedules.steps.steps import steps_from_sends
    >>> both = [(0, 0, 0, 0, 1), (1, 1, 0, 0, 1)]
    >>> sends = steps_from_sends(Direction.BROADCAST, 2, 1, both, homes=[0, 1])
    >>> ExchangeSchedule(sends, targets=[1, 0])
    <ExchangeSchedule: 2 ranks, 2 shards of 1 chunks, 1 steps, 2 sends>
    """

    kind: ClassVar[CollectiveKind] = CollectiveKind.ALLTOALL

    sends: Steps
    targets: Int32Array

    def __post_init__(self) -> None:
        if self.sends.direction is not Direction.BROADCAST:
            raise ScheduleError("exchange: shards leave their owners; expected sends of direction broadcast")
        if self.sends.twins.size:
            raise ScheduleError("exchange: expected one owner of each shard")
        if self.sends.has_operations:
            raise ScheduleError(
                "exchange: shards have one target each, so no switch may multicast or aggregate"
            )
        self._freeze("exchange")
        check_length("exchange", "targets", self.targets, self.n_shards)
        check_range("exchange", "targets", self.targets, 0, self.n_ranks)
        for shard in np.flatnonzero(self.targets == self.sources)[:1]:
            raise ScheduleError(f"exchange: shard {shard} goes from rank {self.targets[shard]} to itself")

    @property
    def sources(self) -> Int32Array:
        """Source rank of each shard, shape (S,)."""
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
        """Number of chunks P of each shard."""
        return self.sends.n_chunks

    @property
    def n_steps(self) -> int:
        """Number of communication steps."""
        return self.sends.n_steps

    @property
    def n_sends(self) -> int:
        """Number of sends."""
        return self.sends.n_sends

    def __repr__(self) -> str:
        return (
            f"<ExchangeSchedule: {self.n_ranks} ranks, {self.n_shards} shards of {self.n_chunks} chunks, "
            f"{self.n_steps} steps, {self.n_sends} sends>"
        )
