"""Producers and readers of each tensor of a part, and tensors that the backward pass needs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from treadle.parallelism.graph.compute_graph import ComputeGraph, OperatorKind, Phase, Source, TensorRef
from treadle.parallelism.graph.model_graph import ModelPart
from treadle.parallelism.problem.operator_clusters import Cluster, clusters_of


@dataclass(frozen=True, eq=False)
class PartValues:
    """A part's clusters, and how tensors run between them.

    Parameters
    ----------
    part : ModelPart
    clusters : tuple of Cluster
    """

    part: ModelPart
    clusters: tuple[Cluster, ...]

    @property
    def graph(self) -> ComputeGraph:
        """The part's graph."""
        return self.part.graph

    @cached_property
    def producer(self) -> dict[TensorRef, int]:
        """Producing cluster of each tensor."""
        return {tensor: at for at, one in enumerate(self.clusters) for tensor in (*one.makes, *one.inner)}

    def readers(self, tensor: TensorRef, phase: Phase) -> tuple[int, ...]:
        """Return the clusters of a phase that read a tensor of others."""
        return self._readers[tensor, phase]

    @cached_property
    def _readers(self) -> Mapping[tuple[TensorRef, Phase], tuple[int, ...]]:
        found: dict[tuple[TensorRef, Phase], tuple[int, ...]] = defaultdict(tuple)
        for at, one in enumerate(self.clusters):
            for tensor in one.takes:
                found[tensor, one.phase] += (at,)
        return found

    @cached_property
    def is_reread(self) -> tuple[bool, ...]:
        """Whether the backward pass may need each cluster's results, directly or to recompute others."""
        needed = [False] * len(self.clusters)
        for at in reversed(range(len(self.clusters))):
            if self.clusters[at].phase is Phase.FORWARD:
                makes = self.clusters[at].makes
                late = [reader for tensor in makes for reader in self.readers(tensor, Phase.FORWARD)]
                needed[at] = self.is_read_backward(at) or any(needed[reader] for reader in late)
        return tuple(needed)

    def backward_readers(self, tensor: TensorRef) -> tuple[int, ...]:
        """Return the clusters of the forward pass that may read a tensor once more."""
        return tuple(at for at in self.readers(tensor, Phase.FORWARD) if self.is_reread[at])

    def is_read_backward(self, cluster: int) -> bool:
        """Whether the backward pass reads a result of a cluster of the forward pass."""
        return any(self.readers(tensor, Phase.BACKWARD) for tensor in self.clusters[cluster].makes)

    @cached_property
    def tangent(self) -> TensorRef | None:
        """Gradient with which the backward pass of the part begins, from the next part."""
        return None if self.part.leaves is None else self.graph.tangents[self.part.leaves]

    @cached_property
    def entered_gradient(self) -> TensorRef | None:
        """The gradient of what enters."""
        return None if self.part.enters is None else self.graph.gradients[self.part.enters]

    @cached_property
    def parameter_gradients(self) -> dict[TensorRef, TensorRef]:
        """Parameter of each gradient."""
        return {
            gradient: owner
            for owner, gradient in self.graph.gradients.items()
            if self.graph.nodes[owner.node].source is Source.PARAMETER
        }

    def is_free(self, tensor: TensorRef) -> bool:
        """Whether a tensor lies at every rank from the beginning: an input, a buffer, the loss's tangent."""
        node = self.graph.nodes[tensor.node]
        return (
            node.kind is OperatorKind.PLACEHOLDER
            and node.source is not Source.PARAMETER
            and tensor not in (self.part.enters, self.tangent)
        )


def values_of(part: ModelPart) -> PartValues:
    """Return the values of a part."""
    ends = (part.enters, None if part.leaves is None else part.graph.tangents[part.leaves])
    return PartValues(part, clusters_of(part.graph, frozenset(one for one in ends if one is not None)))
