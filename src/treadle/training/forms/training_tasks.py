"""A step of training as tasks: a model's layers, as the axes of a mesh shard and place them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil

from treadle.errors import ScheduleError
from treadle.schedules.collective import CollectiveKind
from treadle.training.costs import Costs, Seconds
from treadle.training.forms.layer_forms import layer_passes
from treadle.training.forms.layer_passes import Communication, LayerSeconds
from treadle.training.forms.pipeline_parallel import cut_layers
from treadle.training.forms.rank_part import RankPart
from treadle.training.forms.stage_tasks import BucketKind, PipelineCut, StageLayer, stage_tasks
from treadle.training.models.model_layer import ModelLayer
from treadle.training.timeline.task import Task

_KINDS_OF_WEIGHTS = (False, True)
"""Not of experts, and of experts: sharded and summed along different axes."""


@dataclass(frozen=True)
class PlacedModel(PipelineCut):
    """A model's layers on the stages of a pipeline.

    Parameters
    ----------
    layers : tuple of ModelLayer
        A layer that shares a weight with one of another stage has a copy of it, as its last weight.
    """

    layers: tuple[ModelLayer, ...]


def divide_model(
    layers: Sequence[ModelLayer], seconds: Sequence[LayerSeconds], share: RankPart
) -> PlacedModel:
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
    plain = PlacedModel(tuple(chunks), stages, tuple(layers))
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
    share: RankPart,
    costs: Costs,
    *,
    optimizer_s: Callable[[int], Seconds],
    bucket_bytes: int,
) -> list[Task]:
    """Return the tasks of a step, in order of issue.

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
    places = {layer.name: place for place, layer in enumerate(placed.layers)}
    shared = [(place, places[layer.shares]) for place, layer in enumerate(placed.layers) if layer.shares]
    ends = [(placed.stage_of(place), placed.stage_of(other), place) for place, other in shared]
    held = [
        sum(share.updated_elements(placed.layers[place]) for place in placed.stage_layers(stage))
        for stage in range(placed.stages)
    ]
    return stage_tasks(
        [stage_layer(layer, one, share) for layer, one in zip(placed.layers, seconds, strict=True)],
        placed,
        costs,
        share.options,
        sent_bytes=[boundary_bytes(placed.layers[: one.stop], placed.layers, share) for one in placed.chunks],
        optimizer_s=[optimizer_s(ceil(one)) if share.options.has_optimizer else 0 for one in held],
        bucket_bytes=bucket_bytes,
        kept=frozenset(other for place, other in shared if placed.stage_of(place) == placed.stage_of(other)),
        ties=[
            (first, second, *_tied_gradient(placed.layers[place], share))
            for first, second, place in ends
            if first != second
        ],
    )


def _tied_gradient(layer: ModelLayer, share: RankPart) -> tuple[str, int]:
    """Name and bytes of the gradient of a layer's last weight, which another stage holds as well."""
    weight = layer.weights[-1]
    held = share.held_elements(replace(layer, weights=(weight,)))
    return f"gradient of {weight.name}", ceil(held * share.options.gradient_bytes)


def stage_layer(layer: ModelLayer, seconds: LayerSeconds, share: RankPart) -> StageLayer:
    """Return a layer with what its ranks gather and reduce."""
    layout, options = share.layout, share.options
    drops = share.reshards and layout.size("fsdp") > 1
    gathers: list[Communication] = []
    reductions: list[tuple[Communication, ...]] = []
    buckets: list[tuple[BucketKind, tuple[int, ...]]] = []
    for expert in _KINDS_OF_WEIGHTS:
        shard, replica = layout.shard_axes(expert=expert), layout.replica_axes(expert=expert)
        elements = share.layer_elements(layer, expert=expert)
        if shard:
            gathers.append(
                Communication(CollectiveKind.ALLGATHER, shard, ceil(elements * options.element_bytes))
            )
            size = ceil(elements * options.gradient_bytes)
            scatter = Communication(CollectiveKind.REDUCE_SCATTER, shard, size)
            part = ceil(Fraction(size, layout.size(*shard)))
            total = [Communication(CollectiveKind.ALLREDUCE, replica, part)] if replica else []
            reductions.append((scatter, *total))
        elif replica:
            kind = CollectiveKind.ALLREDUCE
            if options.zero:
                kind = CollectiveKind.REDUCE_SCATTER
                # in a step like the last one, the weights that it updated
                gathers.append(
                    Communication(CollectiveKind.ALLGATHER, replica, ceil(elements * options.element_bytes))
                )
            own = [weight for weight in reversed(layer.weights) if weight.expert == expert]
            sizes = tuple(ceil(share.elements(weight) * options.gradient_bytes) for weight in own)
            buckets.append(((kind, replica), sizes))
    return StageLayer(
        layer.name,
        layer_passes(layer, seconds, share),
        dict.fromkeys((True, False), tuple(gathers)),
        drops,
        not drops and options.zero < 2,
        tuple(reductions),
        tuple(buckets),
    )


def boundary_bytes(before: Sequence[ModelLayer], layers: Sequence[ModelLayer], share: RankPart) -> int:
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
