"""What a device does in one go: a computation or a communication, on a stream, after others."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from treadle.errors import ScheduleError
from treadle.notebook import displayed, own_fields
from treadle.training.costs import Seconds, Traffic

COMPUTE_STREAM = "compute"
"""Every device has one; its other streams communicate."""


class Category(StrEnum):
    """What a task's time is reported as."""

    FORWARD = "forward"
    RECOMPUTE = "recompute"
    BACKWARD = "backward"
    OPTIMIZER = "optimizer"
    ALLGATHER = "allgather"
    REDUCE_SCATTER = "reduce-scatter"
    ALLREDUCE = "allreduce"
    ALLTOALL = "alltoall"
    SEND = "send"


@displayed(own_fields)
@dataclass(frozen=True, slots=True)
class Task:
    """A computation or communication that runs without a break once it has begun.

    Parameters
    ----------
    name : str
    device : int
        A pipeline's stage, say: ranks that do the same at the same time are one device.
    stream : str
        `COMPUTE_STREAM`, or the name of a stream that communicates. Tasks of a device's stream run one at a
        time, in the order of the list they stand in.
    seconds : number
        While nothing else of the device runs; at least 0.
    waits_for : tuple of int
        Places in the list of tasks that end before this one starts.
    category : Category
    traffic : Traffic, optional
        Kind and axes of a communication.
    size_bytes : int
        Of a communication.
    is_urgent : bool
        Overtakes tasks of its stream that have not begun, but no urgent one.

    Raises
    ------
    ScheduleError
        If seconds are negative or no number, or a task of `COMPUTE_STREAM` communicates.
    """

    name: str
    device: int
    stream: str
    seconds: Seconds
    waits_for: tuple[int, ...]
    category: Category
    traffic: Traffic | None = None
    size_bytes: int = 0
    is_urgent: bool = False

    def __post_init__(self) -> None:
        if not self.seconds >= 0:
            raise ScheduleError(f"task {self.name}: takes {self.seconds} s; expected 0 or more")
        if self.computes and self.traffic is not None:
            raise ScheduleError(f"task {self.name}: communicates on the stream {COMPUTE_STREAM}")

    @property
    def computes(self) -> bool:
        """It runs on the compute stream."""
        return self.stream == COMPUTE_STREAM
