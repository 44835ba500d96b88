"""Comparison of the ranks' results with the step on one device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from math import prod
from typing import Any

import numpy as np

from treadle.errors import TreadleError
from treadle.parallelism.execution.rank_step import ReadTensor
from treadle.parallelism.execution.reference import RunValues, numbers_of
from treadle.parallelism.execution.tensor_blocks import BlockPosition, block
from treadle.parallelism.graph.compute_graph import Source
from treadle.parallelism.graph.model_graph import ModelGraph
from treadle.parallelism.state.sharding import Sharding, axis_sizes
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.mesh import Mesh

CollectiveKey = tuple[CollectiveKind, tuple[str, ...], int]
"""Kind, axes in the order of the mesh, and bytes of a rank's larger buffer."""


def errors_of(
    model: ModelGraph, mesh: Mesh, expected: list[RunValues], found: Sequence[ReadTensor]
) -> dict[str, float]:
    """Return the relative errors of all outputs and gradients, by name.

    Raises
    ------
    TreadleError
        If one is missing on either side.
    """
    wanted: dict[str, Any] = {}
    for number, run in enumerate(expected):
        part = model.part(run.part)
        for n, value in enumerate(run.outputs):
            if value is not None:
                wanted[f"{number} {part.name}: output {n}"] = value
                continue
            for one in found:  # what goes from part to part within a module is not known of it
                one.values.pop(f"{number} {part.name}: output {n}", None)
        for node, value in run.gradients.items():
            spec = part.graph.nodes[node]
            name = spec.path if spec.source is Source.PARAMETER else f"input {spec.path}"
            wanted[f"{number} {part.name}: {name}"] = value
    if missing := sorted(set(wanted) ^ set(found[0].values)):
        raise TreadleError(f"execution: {missing[0]} is not on both sides")
    # gradients of a parameter that two parts share add; both are stored alike
    numbers = {model.parts[at].name: number for number, at in enumerate(model.order)}
    for tie in model.ties:
        first, second = (f"{numbers[part]} {part}: {path}" for part, path in (tie.first, tie.second))
        for one in found:
            state, value = one.values[first]
            one.values[first] = one.values[second] = state, value + one.values[second][1]
    return {
        name: _error(numbers_of(value), [one.values[name] for one in found], mesh)
        for name, value in wanted.items()
    }


def precision_of(expected: list[RunValues]) -> float:
    """Return the coarsest precision of outputs and gradients."""
    import torch

    values = [value for run in expected for value in (*run.outputs, *run.gradients.values())]
    types = {value.dtype for value in values if value is not None and value.is_floating_point()}
    return max((float(torch.finfo(one).eps) for one in types), default=0.0)


def common_collectives(found: Sequence[ReadTensor], mesh: Mesh) -> dict[CollectiveKey, int]:
    """Return the collectives that each rank called, by axes.

    Raises
    ------
    TreadleError
        If ranks differ.
    """
    names = list(axis_sizes(mesh))
    subsets = (axes for n in range(1, len(names) + 1) for axes in combinations(names, n))
    axes_of = {frozenset(ranks): axes for axes in subsets for ranks in mesh.groups(axes)}
    keyed = [Counter[CollectiveKey]() for _ in found]
    for rank, one in enumerate(found):
        for (kind, ranks, size), count in one.collectives.items():
            keyed[rank][kind, axes_of[frozenset(ranks)], size] += count
        if keyed[rank] != keyed[0]:
            raise TreadleError(f"execution: ranks 0 and {rank} called different collectives")
    return dict(keyed[0])


def _error(wanted: Any, parts: Sequence[tuple[Sharding, Any]], mesh: Mesh) -> float:
    """Return the largest difference at any rank, or of partial sums, over the largest number."""
    state, local = parts[0]
    sizes = axis_sizes(mesh)
    shape = [n * prod(sizes[axis] for axis in axes) for n, axes in zip(local.shape, state.dims, strict=True)]
    if prod(shape) != wanted.size:
        return float("inf")
    whole, largest = wanted.reshape(shape).astype(np.float64), float(np.abs(wanted).max(initial=0.0)) or 1.0
    worst = 0.0
    axes = [axis for axis in sizes if axis in state.partial]
    for rank in range(mesh.n_ranks):
        place = BlockPosition(mesh, rank)
        members = [place.rank_at(at) for at in place.members(axes)] if axes else [rank]
        total = sum(parts[one][1].astype(np.float64) for one in members)
        cut = whole[block(state, shape, place.sizes, place.at)]
        worst = float(np.maximum(worst, np.abs(total - cut).max(initial=0.0)))
    return worst / largest
