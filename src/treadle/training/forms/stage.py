"""A stage's layers in a step: weights gathered for their turns, passes, gradients reduced.

Gradients that are not sharded, and those of weights that stay gathered, are reduced after the last
micro-batch; where weights are gathered anew, after each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

from treadle.schedules.collective import CollectiveKind
from treadle.training.forms.issue import Chain, Issue
from treadle.training.forms.layer_passes import Communication, LayerPasses
from treadle.training.forms.pipeline_parallel import Visit
from treadle.training.forms.share import Share
from treadle.training.models.model_layer import ModelLayer
from treadle.training.timeline.task import Category

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
        stays = turns[place + 1].layer == turn.layer if place + 1 < len(turns) else True
        if reshards and turn.layer not in kept and not stays:
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


class Stage:
    """What the ranks of a stage do, as tasks of an `Issue`.

    Parameters
    ----------
    issue : Issue
    device : int
    layers : mapping of int to ModelLayer
        By place in the model.
    passes : mapping of int to LayerPasses
    chunks : mapping of int to range
        Places of the layers of each piece of the model that is here.
    visits : sequence of Visit
    share : Share
    bucket_bytes : int
    """

    def __init__(
        self,
        issue: Issue,
        device: int,
        layers: Mapping[int, ModelLayer],
        passes: Mapping[int, LayerPasses],
        chunks: Mapping[int, range],
        visits: Sequence[Visit],
        share: Share,
        bucket_bytes: int,
    ) -> None:
        self.issue, self.share, self.chain = issue, share, Chain(device)
        self.layers, self.passes, self.chunks = layers, passes, chunks
        self.last_batch = share.options.micro_batches - 1
        self.reductions: list[int] = []
        first = share.options.first_bucket_bytes
        self.buckets = {
            kind: Buckets(bucket_bytes, bucket_bytes if first is None else first)
            for kind in _KINDS_OF_WEIGHTS
        }
        self.turns = [turn for visit in visits for turn in self._turns(visit)]
        self.turn = 0
        self.reshards = share.reshards
        places = {layer.name: place for place, layer in layers.items()}
        kept = frozenset(places[layer.shares] for layer in layers.values() if layer.shares in places)
        self.gathers = turns_to_gather_for(self.turns, reshards=self.reshards, kept=kept)[::-1]
        self.gathered: dict[int, tuple[int, ...]] = {}

    def _turns(self, visit: Visit) -> list[Turn]:
        places = self.chunks[visit.chunk]
        ordered = places if visit.is_forward else reversed(places)
        return [Turn(place, visit.is_forward, visit.micro_batch) for place in ordered]

    def visit(self, visit: Visit, arrived: tuple[int, ...]) -> tuple[int, ...]:
        """Passes a micro-batch that has arrived through a piece; returns what its result waits for."""
        for _ in self._turns(visit):
            self._gather_ahead()  # does not wait for what arrives
            self.chain.tail += arrived
            arrived = ()
            self._take_turn()
        return self.chain.tail

    def _gather_ahead(self) -> None:
        while self.gathers and self.gathers[-1] <= self.turn + self.share.options.prefetch:
            place = self.gathers.pop()
            self.gathered[place] = self._gather(self.layers[self.turns[place].layer])

    def _take_turn(self) -> None:
        turn = self.turns[self.turn]
        layer = self.layers[turn.layer]
        self.chain.tail += self.gathered.pop(self.turn, ())
        passes = self.passes[turn.layer]
        batch = f", micro-batch {turn.micro_batch}" if self.last_batch else ""
        if turn.is_forward:
            self.issue.act(self.chain, layer.name + batch, passes.forward, Category.FORWARD)
        else:
            self.issue.act(self.chain, layer.name + batch, passes.backward, Category.BACKWARD)
            for expert in _KINDS_OF_WEIGHTS:
                self._reduce(layer, turn, expert=expert)
        self.turn += 1

    def _gather(self, layer: ModelLayer) -> tuple[int, ...]:
        found: tuple[int, ...] = ()
        for expert in _KINDS_OF_WEIGHTS:
            axes = self.share.layout.shard_axes(expert=expert)
            if axes:
                elements = self.share.layer_elements(layer, expert=expert)
                size = ceil(elements * self.share.options.element_bytes)
                exchange = Communication(CollectiveKind.ALLGATHER, axes, size)
                found += self.issue.communicate(
                    self.chain.device, f"weights of {layer.name}", exchange, self.chain.tail
                )
        return found

    def _reduce(self, layer: ModelLayer, turn: Turn, *, expert: bool) -> None:
        is_last = turn.micro_batch == self.last_batch
        layout, options = self.share.layout, self.share.options
        shard, replica = layout.shard_axes(expert=expert), layout.replica_axes(expert=expert)
        if not shard:
            if is_last and replica:
                own = [weight for weight in reversed(layer.weights) if weight.expert == expert]
                sizes = [ceil(self.share.elements(weight) * options.gradient_bytes) for weight in own]
                self._sum(self.buckets[expert].add(sizes), expert=expert)
        elif is_last or self.reshards:
            size = ceil(self.share.layer_elements(layer, expert=expert) * options.gradient_bytes)
            name = f"gradients of {layer.name}"
            scatter = Communication(CollectiveKind.REDUCE_SCATTER, shard, size)
            waits = self.issue.communicate(self.chain.device, name, scatter, self.chain.tail)
            if replica:
                total = Communication(CollectiveKind.ALLREDUCE, replica, -(-size // layout.size(*shard)))
                waits = self.issue.communicate(self.chain.device, name, total, waits)
            self.reductions += waits

    def _sum(self, sizes: Sequence[int], *, expert: bool) -> None:
        axes = self.share.layout.replica_axes(expert=expert)
        for size in sizes:
            exchange = Communication(CollectiveKind.ALLREDUCE, axes, size)
            self.reductions += self.issue.communicate(
                self.chain.device, f"bucket {len(self.reductions)}", exchange, self.chain.tail
            )

    def close(self) -> None:
        """Sums the gradients that are left; the chain then waits for all gradients."""
        for expert in _KINDS_OF_WEIGHTS:
            self._sum(self.buckets[expert].close(), expert=expert)
        self.chain.tail += tuple(self.reductions)

    def send_gradients(self, layer: ModelLayer) -> tuple[int, ...]:
        """Sends the gradient of a layer's last weight, which another stage holds as well."""
        weight = layer.weights[-1]
        only = self.share.held_elements(replace(layer, weights=(weight,)))
        exchange = Communication(None, ("pp",), ceil(only * self.share.options.gradient_bytes))
        return self.issue.communicate(
            self.chain.device, f"gradient of {weight.name}", exchange, self.chain.tail
        )
