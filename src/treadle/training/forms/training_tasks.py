"""A step of training as tasks: every stage's passes in the order of its pipeline, and what goes with them.

Gradients that are not sharded, and those of weights that stay gathered, are reduced after the last
micro-batch; where weights are gathered anew, after each.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil

from treadle.errors import ScheduleError
from treadle.schedules.collective import CollectiveKind
from treadle.training.costs import Costs, Seconds
from treadle.training.forms.issue import Chain, Issue
from treadle.training.forms.layer_forms import layer_passes
from treadle.training.forms.layer_passes import Communication, LayerPart, LayerSeconds
from treadle.training.forms.pipeline_parallel import Visit, cut_layers, stage_order
from treadle.training.forms.share import Share
from treadle.training.models.model_layer import ModelLayer
from treadle.training.timeline.task import Category, Task

# Fully sharded weights: when they are gathered (Zhao et al. 2023, PyTorch FSDP; ZeRO-3, or ZeRO-2)


@dataclass(frozen=True)
class Turn:
    """A layer's pass with a micro-batch."""

    layer: int
    is_forward: bool
    micro_batch: int


def turns_to_gather_for(turns: Sequence[Turn], *, reshards: bool, kept: frozenset[int]) -> list[int]:
    """Places of the turns for which weights must be gathered.

    Parameters
    ----------
    turns : sequence of Turn
        All of a rank, in order.
    reshards : bool
        Weights are dropped after each turn; else they stay once they are there.
    kept : frozenset of int
        Layers whose weights stay in any case: those that another layer shares.
    """
    found: list[int] = []
    there: set[int] = set()
    for place, turn in enumerate(turns):
        if turn.layer not in there:
            found.append(place)
            there.add(turn.layer)
        goes = place + 1 < len(turns) and turns[place + 1].layer != turn.layer
        if reshards and turn.layer not in kept and goes:
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


_KINDS_OF_WEIGHTS = (False, True)
"""Not of experts, and of experts: sharded and summed along different axes."""


@dataclass(frozen=True)
class PlacedModel:
    """A model's layers on the stages of a pipeline.

    Parameters
    ----------
    layers : tuple of ModelLayer
        A layer that shares a weight with one of another stage has a copy of it, as its last weight.
    chunks : tuple of range
        Places of the layers of each piece, in order of the forward pass; piece c is on stage c mod `stages`.
    stages : int
    """

    layers: tuple[ModelLayer, ...]
    chunks: tuple[range, ...]
    stages: int

    def stage_of(self, place: int) -> int:
        """Stage of a layer."""
        (chunk,) = (number for number, places in enumerate(self.chunks) if place in places)
        return chunk % self.stages

    def places(self, stage: int) -> list[int]:
        """Layers of a stage."""
        return [place for places in self.chunks[stage :: self.stages] for place in places]

    def turns(self, visit: Visit) -> list[Turn]:
        """Layers that a micro-batch passes in a piece, in order."""
        places = self.chunks[visit.chunk]
        ordered = places if visit.is_forward else reversed(places)
        return [Turn(place, visit.is_forward, visit.micro_batch) for place in ordered]


class Stage:
    """What the ranks of a stage do, as tasks of an `Issue`.

    Parameters
    ----------
    issue : Issue
    device : int
        Number of the stage.
    placed : PlacedModel
    passes : sequence of LayerPart
        Of all layers of the model.
    share : Share
    bucket_bytes : int
    """

    def __init__(
        self,
        issue: Issue,
        device: int,
        placed: PlacedModel,
        passes: Sequence[LayerPart],
        share: Share,
        bucket_bytes: int,
    ) -> None:
        self.issue, self.share, self.chain = issue, share, Chain(device)
        self.placed, self.passes, self.options = placed, passes, share.options
        batches, first = self.options.micro_batches, self.options.first_bucket_bytes
        self.order = deque(stage_order(device, placed.stages, batches, self.options.interleave))
        self.last_batch = batches - 1
        self.reductions: list[int] = []
        first_bytes = bucket_bytes if first is None else first
        self.buckets = {kind: Buckets(bucket_bytes, first_bytes) for kind in _KINDS_OF_WEIGHTS}
        layers = {
            placed.layers[place].name: (place, placed.layers[place].shares) for place in placed.places(device)
        }
        kept = frozenset(layers[shared][0] for _, shared in layers.values() if shared in layers)
        turns = [turn for visit in self.order for turn in placed.turns(visit)]
        gathers = turns_to_gather_for(turns, reshards=share.reshards, kept=kept)
        self.gathers = deque((place, placed.layers[turns[place].layer]) for place in gathers)
        self.gathered: dict[int, tuple[int, ...]] = {}
        self.turn = 0

    def visit(self, visit: Visit, arrived: tuple[int, ...]) -> tuple[int, ...]:
        """Passes a micro-batch that has arrived through a piece; returns what its result waits for."""
        for turn in self.placed.turns(visit):
            # gathers do not wait for what arrives
            while self.gathers and self.gathers[0][0] <= self.turn + self.options.prefetch:
                place, ahead = self.gathers.popleft()
                self.gathered[place] = self._gather(ahead)
            self.chain.tail += arrived + self.gathered.pop(self.turn, ())
            arrived = ()
            layer, passes = self.placed.layers[turn.layer], self.passes[turn.layer]
            name = f"{layer.name}, micro-batch {turn.micro_batch}" if self.last_batch else layer.name
            if turn.is_forward:
                self.issue.act(self.chain, name, passes.forward, Category.FORWARD)
            else:
                self.issue.act(self.chain, name, passes.backward, Category.BACKWARD)
                for expert in _KINDS_OF_WEIGHTS:
                    self._reduce(layer, is_last=turn.micro_batch == self.last_batch, expert=expert)
            self.turn += 1
        return self.chain.tail

    def _communicate(
        self,
        name: str,
        kind: CollectiveKind | None,
        axes: tuple[str, ...],
        size_bytes: Fraction | int,
        waits_for: tuple[int, ...] | None = None,
    ) -> tuple[int, ...]:
        """Adds a communication that waits for the chain, unless it is said what for."""
        exchange = Communication(kind, axes, ceil(size_bytes))
        waits = self.chain.tail if waits_for is None else waits_for
        return self.issue.communicate(self.chain.device, name, exchange, waits)

    def _gather(self, layer: ModelLayer) -> tuple[int, ...]:
        found: tuple[int, ...] = ()
        for expert in _KINDS_OF_WEIGHTS:
            if axes := self.share.layout.shard_axes(expert=expert):
                size = self.share.layer_elements(layer, expert=expert) * self.options.element_bytes
                found += self._communicate(f"weights of {layer.name}", CollectiveKind.ALLGATHER, axes, size)
        return found

    def _reduce(self, layer: ModelLayer, *, is_last: bool, expert: bool) -> None:
        layout, width = self.share.layout, self.options.gradient_bytes
        shard, replica = layout.shard_axes(expert=expert), layout.replica_axes(expert=expert)
        if not shard:
            if is_last and replica:
                own = [weight for weight in reversed(layer.weights) if weight.expert == expert]
                sizes = [ceil(self.share.elements(weight) * width) for weight in own]
                self._sum(self.buckets[expert].add(sizes), expert=expert)
        elif is_last or self.share.reshards:
            size = ceil(self.share.layer_elements(layer, expert=expert) * width)
            name = f"gradients of {layer.name}"
            waits = self._communicate(name, CollectiveKind.REDUCE_SCATTER, shard, size)
            if replica:
                part = Fraction(size, layout.size(*shard))
                waits = self._communicate(name, CollectiveKind.ALLREDUCE, replica, part, waits)
            self.reductions += waits

    def _sum(self, sizes: Sequence[int], *, expert: bool) -> None:
        axes = self.share.layout.replica_axes(expert=expert)
        for size in sizes:
            name = f"bucket {len(self.reductions)}"
            self.reductions += self._communicate(name, CollectiveKind.ALLREDUCE, axes, size)

    def close(self) -> None:
        """Sums the gradients that are left; the chain then waits for all gradients."""
        for expert in _KINDS_OF_WEIGHTS:
            self._sum(self.buckets[expert].close(), expert=expert)
        self.chain.tail += tuple(self.reductions)

    def send_gradients(self, layer: ModelLayer) -> tuple[int, ...]:
        """Sends the gradient of a layer's last weight, which another stage holds as well."""
        weight = layer.weights[-1]
        only = self.share.held_elements(replace(layer, weights=(weight,)))
        return self._communicate(
            f"gradient of {weight.name}", None, ("pp",), only * self.options.gradient_bytes
        )


def place_model(layers: Sequence[ModelLayer], seconds: Sequence[LayerSeconds], share: Share) -> PlacedModel:
    """Cuts a model into the pieces of its pipeline.

    Raises
    ------
    ScheduleError
        If there are fewer layers than pieces, or `layers_per_chunk` has another number of either.
    """
    stages = share.layout.size("pp")
    pieces = stages * share.options.interleave
    lengths = share.options.layers_per_chunk
    if lengths is None:
        chunks = cut_layers([one.total_s for one in seconds], pieces)
    else:
        if len(lengths) != pieces or sum(lengths) != len(layers):
            raise ScheduleError(
                f"layers_per_chunk: {len(lengths)} pieces of {sum(lengths)} layers in all; expected {pieces} "
                f"(pp x interleave) of {len(layers)}"
            )
        ends = [sum(lengths[: number + 1]) for number in range(pieces)]
        chunks = [range(end - length, end) for end, length in zip(ends, lengths, strict=True)]
    plain = PlacedModel(tuple(layers), tuple(chunks), stages)
    places = {layer.name: place for place, layer in enumerate(layers)}
    copied = [
        replace(layer, weights=(*layer.weights, layers[places[layer.shares]].weights[0]))
        if layer.shares and plain.stage_of(place) != plain.stage_of(places[layer.shares])
        else layer
        for place, layer in enumerate(layers)
    ]
    return replace(plain, layers=tuple(copied))


def training_tasks(
    placed: PlacedModel,
    seconds: Sequence[LayerSeconds],
    share: Share,
    costs: Costs,
    *,
    optimizer_s: Callable[[int], Seconds],
    bucket_bytes: int,
) -> list[Task]:
    """Tasks of a step, in order of issue.

    Parameters
    ----------
    placed : PlacedModel
    seconds : sequence of LayerSeconds
        Of each layer, for a micro-batch.
    share : Share
    costs : Costs
    optimizer_s : callable
        Seconds of an update of so many elements.
    bucket_bytes : int
        Capacity of the buckets in which replicas sum gradients.
    """
    passes = [layer_passes(layer, one, share) for layer, one in zip(placed.layers, seconds, strict=True)]
    issue = Issue(costs, share.options)
    stages = [Stage(issue, number, placed, passes, share, bucket_bytes) for number in range(placed.stages)]
    _run_pipeline(issue, placed, stages, share)
    _close(issue, placed, stages, share, optimizer_s)
    return issue.tasks


def _run_pipeline(issue: Issue, placed: PlacedModel, stages: Sequence[Stage], share: Share) -> None:
    """Issues every stage's visits, each once what it needs has been sent."""
    last = len(placed.chunks) - 1
    sizes = [boundary_bytes(placed.layers[: places.stop], placed.layers, share) for places in placed.chunks]
    arriving: dict[Visit, tuple[int, ...]] = {}
    for batch in range(share.options.micro_batches):
        arriving[Visit(True, batch, 0)] = arriving[Visit(False, batch, last)] = ()
    while left := sum(len(stage.order) for stage in stages):
        for stage in stages:
            while stage.order and stage.order[0] in arriving:
                visit = stage.order.popleft()
                done = stage.visit(visit, arriving.pop(visit))
                chunk = visit.chunk + 1 if visit.is_forward else visit.chunk - 1
                if 0 <= chunk <= last:
                    exchange = Communication(None, ("pp",), sizes[min(chunk, visit.chunk)])
                    name = f"{'activations' if visit.is_forward else 'gradients'} of piece {visit.chunk}"
                    sent = issue.communicate(stage.chain.device, name, exchange, done)
                    arriving[replace(visit, chunk=chunk)] = sent or done
        # what a stage does next arrives sooner or later
        assert sum(len(stage.order) for stage in stages) < left


def boundary_bytes(before: Sequence[ModelLayer], layers: Sequence[ModelLayer], share: Share) -> int:
    """What a stage hands on after the layers `before`, of all `layers`, for a micro-batch.

    What the last layer made, and what the layers before made for a stream that later layers attend to.
    """
    works = [(layer, work) for layer in layers[len(before) :] for work in layer.works]
    later = {layer.attended_stream(work) for layer, work in works}
    ends = {layer.stream: layer for layer in before}
    final = before[-1].stream
    needed = [layer for stream, layer in ends.items() if stream == final or stream in later]
    size = sum(share.activation_bytes(layer, layer.boundary_elements) for layer in needed)
    return ceil(size / share.layout.size("tp")) if share.options.sequence_parallel else size


def _close(
    issue: Issue,
    placed: PlacedModel,
    stages: Sequence[Stage],
    share: Share,
    optimizer_s: Callable[[int], Seconds],
) -> None:
    """Sums the last gradients, exchanges those of weights on two stages, and updates the weights."""
    for stage in stages:
        stage.close()
    places = {layer.name: place for place, layer in enumerate(placed.layers)}
    for place, layer in enumerate(placed.layers):
        if layer.shares:
            ends = [stages[placed.stage_of(one)] for one in (place, places[layer.shares])]
            if ends[0] is not ends[1]:
                sent = [stage.send_gradients(layer) for stage in ends]
                for stage, received in zip(ends, reversed(sent), strict=True):
                    stage.chain.tail += received
    if share.options.has_optimizer:
        for number, stage in enumerate(stages):
            held = sum(share.held_elements(placed.layers[place]) for place in placed.places(number))
            issue.compute(stage.chain, "optimizer", optimizer_s(ceil(held)), Category.OPTIMIZER)
