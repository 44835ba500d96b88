"""Tasks of a step in the order of issue: computations and blocking communications of a rank form a chain."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from treadle.schedules.collective import CollectiveKind
from treadle.training.costs import Costs, Seconds
from treadle.training.forms.layer_passes import Communication, LayerAction
from treadle.training.timeline.task import COMPUTE_STREAM, Category, Task
from treadle.training.training_options import CommunicationStreams, TrainingOptions

ONE_STREAM = "communication"
"""Name of the only stream of communication."""


@dataclass(slots=True)
class Chain:
    """A device, and the tasks that its next one waits for."""

    device: int
    tail: tuple[int, ...] = ()


@dataclass
class Issue:
    """Tasks issued so far."""

    costs: Costs
    options: TrainingOptions
    tasks: list[Task] = field(default_factory=list)

    def compute(self, chain: Chain, name: str, seconds: Seconds, category: Category) -> None:
        """Add a computation to a chain, unless it takes no time."""
        if seconds:
            self.tasks.append(Task(name, chain.device, COMPUTE_STREAM, seconds, chain.tail, category))
            chain.tail = (len(self.tasks) - 1,)

    def communicate(
        self, device: int, name: str, exchange: Communication, waits_for: Iterable[int]
    ) -> tuple[int, ...]:
        """Add a communication outside the chains; return its index, or nothing if it moves no bytes."""
        if not exchange.size_bytes:
            return ()
        per_axis = self.options.streams is CommunicationStreams.PER_AXIS
        if exchange.kind is None:
            seconds = self.costs.send_s(exchange.axes[0], exchange.size_bytes)
        else:
            seconds = self.costs.time_s(exchange.kind, exchange.axes, exchange.size_bytes)
        self.tasks.append(
            Task(
                name,
                device,
                ",".join(exchange.axes) if per_axis else ONE_STREAM,
                seconds,
                tuple(waits_for),
                Category.SEND if exchange.kind is None else Category(exchange.kind.value),
                (exchange.kind, exchange.axes),
                exchange.size_bytes,
                self.options.alltoall_overtakes and exchange.kind is CollectiveKind.ALLTOALL,
            )
        )
        return (len(self.tasks) - 1,)

    def act(self, chain: Chain, name: str, actions: Iterable[LayerAction], category: Category) -> None:
        """Add actions to a chain, one after another."""
        for action in actions:
            moved: tuple[int, ...] = ()
            if action.exchange is not None:
                moved = self.communicate(chain.device, name, action.exchange, chain.tail)
            before, purpose = chain.tail, Category.RECOMPUTE if action.is_recomputed else category
            self.compute(chain, name, action.seconds, purpose)
            if moved:
                chain.tail = moved + (chain.tail if chain.tail != before else ())
