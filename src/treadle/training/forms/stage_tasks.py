"""A step as tasks of its stages: every stage's passes in the order of its pipeline, and what goes with them.

Gradients that are not sharded, and those of weights that stay gathered, are reduced after the last
micro-batch; where weights are gathered again for each pass, after each.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from treadle.schedules.collective import CollectiveKind
from treadle.training.costs import Costs, Seconds
from treadle.training.forms.issue import Chain, Issue
from treadle.training.forms.layer_passes import Communication, LayerPart
from treadle.training.forms.pipeline_parallel import Visit, stage_order
from treadle.training.timeline.task import Category, Task
from treadle.training.training_options import TrainingOptions

# Fully sharded weights: when they are gathered (Zhao et al. 2023, PyTorch FSDP; ZeRO-3, or ZeRO-2)


@dataclass(frozen=True)
class Turn:
    """A layer's pass with a micro-batch."""

    layer: int
    is_forward: bool
    micro_batch: int


def turns_to_gather_for(turns: Sequence[Turn], *, kept: frozenset[int]) -> list[int]:
    """Return the places of the turns for which weights must be gathered.

    Parameters
    ----------
    turns : sequence of Turn
        All of a rank, in order.
    kept : frozenset of int
        Layers whose weights stay once they are gathered; those of others are dropped after each turn.
    """
    found: list[int] = []
    there: set[int] = set()
    for place, turn in enumerate(turns):
        if turn.layer not in there:
            found.append(place)
            there.add(turn.layer)
        goes = place + 1 < len(turns) and turns[place + 1].layer != turn.layer
        if turn.layer not in kept and goes:
            there.discard(turn.layer)
    return found


# Replicas: gradients summed in buckets beside the backward pass (Li et al. 2020, PyTorch Distributed)


@dataclass(slots=True)
class Buckets:
    """Gradients that are ready and not on their way.

    Parameters
    ----------
    capacity : int
        Bytes.
    first_capacity : int
        Of the first bucket.
    """

    capacity: int
    first_capacity: int
    filled: int = 0
    closed: int = 0

    def add(self, tensors: Iterable[int]) -> list[int]:
        """Puts gradients in, in the order given; returns the bytes of each bucket that they close."""
        sizes = []
        for size in tensors:
            self.filled += size
            if self.filled >= (self.capacity if self.closed else self.first_capacity):
                sizes.append(self.filled)
                self.filled, self.closed = 0, self.closed + 1
        return sizes

    def close(self) -> list[int]:
        """The size of the last bucket, if there is anything in it."""
        rest, self.filled = self.filled, 0
        return [rest] if rest else []


BucketKind = tuple[CollectiveKind, tuple[str, ...]]
"""The collective that reduces a bucket of gradients, and its axes."""


@dataclass(frozen=True)
class StageLayer:
    """The passes of a layer with a micro-batch, and the collectives of its weights and gradients.

    Parameters
    ----------
    name : str
    passes : LayerPart
    gathers : mapping of bool to tuple of Communication
        Weights gathered before a forward (True) or backward pass.
    drops_weights : bool
        They are dropped after each pass; else they are gathered once in a step.
    keeps_gradients : bool
        Gradients are added up and reduced after the last micro-batch; else after each backward pass, those in
        buckets only where there are no other reductions.
    reductions : tuple of tuples of Communication
        Of gradients; those of an inner tuple one after the other.
    buckets : tuple of pairs of (BucketKind, tuple of int)
        Bytes of gradients that are reduced in buckets.
    """

    name: str
    passes: LayerPart
    gathers: Mapping[bool, tuple[Communication, ...]] = field(default_factory=dict)
    drops_weights: bool = False
    keeps_gradients: bool = True
    reductions: tuple[tuple[Communication, ...], ...] = ()
    buckets: tuple[tuple[BucketKind, tuple[int, ...]], ...] = ()


@dataclass(frozen=True)
class PipelineCut:
    """Layers on the stages of a pipeline.

    Parameters
    ----------
    chunks : tuple of range
        Places of the layers of each piece, in order of the forward pass; piece c is on stage c mod `stages`.
    stages : int
    """

    chunks: tuple[range, ...]
    stages: int

    def stage_of(self, place: int) -> int:
        """Stage of a layer."""
        (chunk,) = (number for number, places in enumerate(self.chunks) if place in places)
        return chunk % self.stages

    def stage_layers(self, stage: int) -> list[int]:
        """Layers of a stage."""
        return [place for places in self.chunks[stage :: self.stages] for place in places]

    def turns(self, visit: Visit) -> list[Turn]:
        """Layers that a micro-batch passes in a piece, in order."""
        places = self.chunks[visit.chunk]
        ordered = places if visit.is_forward else reversed(places)
        return [Turn(place, visit.is_forward, visit.micro_batch) for place in ordered]


class Stage:
    """The tasks of a stage's ranks, added to an `Issue`.

    Parameters
    ----------
    issue : Issue
    device : int
        Number of the stage.
    cut : PipelineCut
    layers : sequence of StageLayer
        Of the whole model.
    bucket_bytes : int
    kept : frozenset of int
        Layers whose weights stay gathered.
    """

    def __init__(
        self,
        issue: Issue,
        device: int,
        cut: PipelineCut,
        layers: Sequence[StageLayer],
        bucket_bytes: int,
        kept: frozenset[int],
    ) -> None:
        self.issue, self.cut, self.layers, self.chain = issue, cut, layers, Chain(device)
        options, first = issue.options, issue.options.first_bucket_bytes
        self.order = deque(stage_order(device, cut.stages, options.micro_batches, options.interleave))
        self.last_batch, self.prefetch = options.micro_batches - 1, options.prefetch
        self.reductions: list[int] = []
        kinds = dict.fromkeys(kind for place in cut.stage_layers(device) for kind, _ in layers[place].buckets)
        self.buckets = {kind: Buckets(bucket_bytes, first or bucket_bytes) for kind in kinds}
        turns = [turn for visit in self.order for turn in cut.turns(visit)]
        stays = kept | {place for place in cut.stage_layers(device) if not layers[place].drops_weights}
        self.gathers = deque((place, turns[place]) for place in turns_to_gather_for(turns, kept=stays))
        self.gathered: dict[int, tuple[int, ...]] = {}
        self.turn = 0

    def visit(self, visit: Visit, arrived: tuple[int, ...]) -> tuple[int, ...]:
        """Pass a micro-batch that has arrived through a piece; return what its result waits for."""
        for turn in self.cut.turns(visit):
            # gathers do not wait for what arrives
            while self.gathers and self.gathers[0][0] <= self.turn + self.prefetch:
                place, ahead = self.gathers.popleft()
                layer = self.layers[ahead.layer]
                self.gathered[place] = tuple(
                    task
                    for one in layer.gathers.get(ahead.is_forward, ())
                    for task in self._communicate(f"weights of {layer.name}", one)
                )
            self.chain.tail += arrived + self.gathered.pop(self.turn, ())
            arrived = ()
            layer = self.layers[turn.layer]
            name = f"{layer.name}, micro-batch {turn.micro_batch}" if self.last_batch else layer.name
            if turn.is_forward:
                self.issue.act(self.chain, name, layer.passes.forward, Category.FORWARD)
            else:
                self.issue.act(self.chain, name, layer.passes.backward, Category.BACKWARD)
                self._reduce(layer, is_last=turn.micro_batch == self.last_batch)
            self.turn += 1
        return self.chain.tail

    def _communicate(
        self, name: str, exchange: Communication, waits_for: tuple[int, ...] | None = None
    ) -> tuple[int, ...]:
        """Add a communication that waits for the chain, or for other tasks."""
        waits = self.chain.tail if waits_for is None else waits_for
        return self.issue.communicate(self.chain.device, name, exchange, waits)

    def _reduce(self, layer: StageLayer, *, is_last: bool) -> None:
        if layer.keeps_gradients and not is_last:
            return
        for reduction in layer.reductions:
            waits: tuple[int, ...] | None = None
            for one in reduction:
                waits = self._communicate(f"gradients of {layer.name}", one, waits)
            self.reductions += waits or ()
        for kind, sizes in layer.buckets if is_last or not layer.reductions else ():
            self._sum(kind, self.buckets[kind].add(sizes))

    def _sum(self, kind: BucketKind, sizes: Sequence[int]) -> None:
        for size in sizes:
            name = f"bucket {len(self.reductions)}"
            self.reductions += self._communicate(name, Communication(*kind, size))

    def close(self) -> None:
        """Reduce the gradients that are left; the chain then waits for all gradients."""
        for kind, bucket in self.buckets.items():
            self._sum(kind, bucket.close())
        self.chain.tail += tuple(self.reductions)


def stage_tasks(
    layers: Sequence[StageLayer],
    cut: PipelineCut,
    costs: Costs,
    options: TrainingOptions,
    *,
    sent_bytes: Sequence[int],
    optimizer_s: Sequence[Seconds],
    bucket_bytes: int,
    kept: frozenset[int] = frozenset(),
    ties: Iterable[tuple[int, int, str, int]] = (),
) -> list[Task]:
    """Tasks of a step, in order of issue.

    Parameters
    ----------
    layers : sequence of StageLayer
    cut : PipelineCut
    costs : Costs
    options : TrainingOptions
    sent_bytes : sequence of int
        That each piece sends to the next one for a micro-batch.
    optimizer_s : sequence of number
        Of each stage.
    bucket_bytes : int
        Capacity of the buckets in which gradients are reduced.
    kept : frozenset of int
        Layers whose weights stay gathered: those that another layer shares.
    ties : iterable of (stage, stage, name, int)
        Gradients of a weight that two stages have, which they send each other, and their bytes.
    """
    issue = Issue(costs, options)
    stages = [Stage(issue, number, cut, layers, bucket_bytes, kept) for number in range(cut.stages)]
    _run_pipeline(issue, cut, stages, sent_bytes)
    for stage in stages:
        stage.close()
    for first, second, name, size in ties:
        ends = stages[first], stages[second]
        exchange = Communication(None, ("pp",), size)
        sent = [issue.communicate(end.chain.device, name, exchange, end.chain.tail) for end in ends]
        for stage, received in zip(ends, reversed(sent), strict=True):
            stage.chain.tail += received
    for stage, seconds in zip(stages, optimizer_s, strict=True):
        issue.compute(stage.chain, "optimizer", seconds, Category.OPTIMIZER)
    return issue.tasks


def _run_pipeline(issue: Issue, cut: PipelineCut, stages: Sequence[Stage], sent_bytes: Sequence[int]) -> None:
    """Issue every stage's visits, each once what it needs has been sent."""
    last = len(cut.chunks) - 1
    arriving: dict[Visit, tuple[int, ...]] = {}
    for batch in range(issue.options.micro_batches):
        arriving[Visit(True, batch, 0)] = arriving[Visit(False, batch, last)] = ()
    while left := sum(len(stage.order) for stage in stages):
        for stage in stages:
            while stage.order and stage.order[0] in arriving:
                visit = stage.order.popleft()
                done = stage.visit(visit, arriving.pop(visit))
                chunk = visit.chunk + 1 if visit.is_forward else visit.chunk - 1
                if 0 <= chunk <= last:
                    exchange = Communication(None, ("pp",), sent_bytes[min(chunk, visit.chunk)])
                    name = f"{'activations' if visit.is_forward else 'gradients'} of piece {visit.chunk}"
                    sent = issue.communicate(stage.chain.device, name, exchange, done)
                    arriving[replace(visit, chunk=chunk)] = sent or done
        # what a stage does next arrives sooner or later
        assert sum(len(stage.order) for stage in stages) < left
