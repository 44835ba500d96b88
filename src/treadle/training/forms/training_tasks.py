"""A step of training as tasks: every stage's passes in the order of its pipeline, and what goes with them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil

from treadle.errors import ScheduleError
from treadle.training.costs import Costs, Seconds
from treadle.training.forms.issue import Issue
from treadle.training.forms.layer_forms import layer_passes
from treadle.training.forms.layer_passes import Communication, LayerSeconds
from treadle.training.forms.pipeline_parallel import Visit, cut_layers, stage_order
from treadle.training.forms.share import Share
from treadle.training.forms.stage import Stage
from treadle.training.models.model_layer import ModelLayer
from treadle.training.timeline.task import Category, Task


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
    orders: list[deque[Visit]] = []
    stages: list[Stage] = []
    for number in range(placed.stages):
        order = stage_order(number, placed.stages, share.options.micro_batches, share.options.interleave)
        places = placed.places(number)
        chunks = {
            chunk: places for chunk, places in enumerate(placed.chunks) if chunk % placed.stages == number
        }
        own = {place: placed.layers[place] for place in places}
        stages.append(Stage(issue, number, own, dict(enumerate(passes)), chunks, order, share, bucket_bytes))
        orders.append(deque(order))
    _run_pipeline(issue, placed, stages, orders, share)
    _close(issue, placed, stages, share, optimizer_s)
    return issue.tasks


def _run_pipeline(
    issue: Issue, placed: PlacedModel, stages: Sequence[Stage], orders: Sequence[deque[Visit]], share: Share
) -> None:
    """Issues every stage's visits, each once what it needs has been sent."""
    last = len(placed.chunks) - 1
    sizes = [boundary_bytes(placed.layers[: places.stop], placed.layers, share) for places in placed.chunks]
    arriving: dict[Visit, tuple[int, ...]] = {}
    for batch in range(share.options.micro_batches):
        arriving[Visit(True, batch, 0)] = ()
        arriving[Visit(False, batch, last)] = ()
    while any(orders):
        left = sum(map(len, orders))
        for stage, order in zip(stages, orders, strict=True):
            while order and order[0] in arriving:
                visit = order.popleft()
                done = stage.visit(visit, arriving.pop(visit))
                chunk = visit.chunk + 1 if visit.is_forward else visit.chunk - 1
                if 0 <= chunk <= last:
                    size = sizes[min(chunk, visit.chunk)]
                    name = f"{'activations' if visit.is_forward else 'gradients'} of piece {visit.chunk}"
                    sent = issue.communicate(
                        stage.chain.device, name, Communication(None, ("pp",), size), done
                    )
                    arriving[replace(visit, chunk=chunk)] = sent or done
        assert sum(map(len, orders)) < left  # what a stage does next arrives sooner or later


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
