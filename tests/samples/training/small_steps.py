"""Steps of small models with times and costs that can be followed by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Any

from treadle.schedules.collective import CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.training.costs import AlphaBetaCosts, Seconds, Traffic
from treadle.training.forms.axes import ParallelLayout
from treadle.training.forms.layer_passes import LayerSeconds
from treadle.training.forms.rank_part import rank_part
from treadle.training.forms.training_tasks import divide_model, training_tasks
from treadle.training.models.model_layer import ModelLayer, Weight
from treadle.training.timeline.contention import Contention
from treadle.training.timeline.streams import run_tasks
from treadle.training.timeline.task import Task
from treadle.training.timeline.timeline import Timeline
from treadle.training.training_options import TrainingOptions


def mesh_of(**axes: int) -> Mesh:
    """A mesh by names."""
    return Mesh(tuple(axes.values()), tuple(axes))


def free_costs(mesh: Mesh, rates: Mapping[CollectiveKind | None, Seconds] = {}) -> AlphaBetaCosts:
    """The same rate along all axes: as given by kind, else so high that it takes next to nothing."""
    traffic: list[Traffic] = []
    for n in range(1, len(mesh.axis_names) + 1):
        for axes in combinations(mesh.axis_names, n):
            traffic += [(kind, axes) for kind in (None, *CollectiveKind)]
    return AlphaBetaCosts(0, {one: rates.get(one[0], 10**30) for one in traffic})


def plain_layers(n: int, **fields: Any) -> list[ModelLayer]:
    """Layers l0, l1 and so on, of one weight of 8 elements, unless `fields` say otherwise."""
    return [
        ModelLayer(f"l{place}", **{"weights": (Weight("w", 8),), "boundary_elements": 1, **fields})
        for place in range(n)
    ]


@dataclass(frozen=True)
class SmallStep:
    """A step whose tasks are found by name."""

    timeline: Timeline

    def times(self, name: str, category: str) -> list[tuple[Seconds, Seconds]]:
        """Start and end of each task of a name and category, in order of issue."""
        found = self.timeline
        return [
            (found.starts[place], found.ends[place])
            for place, task in enumerate(found.tasks)
            if task.name == name and task.category == category
        ]

    def of(self, category: str) -> list[Task]:
        """All tasks of a category."""
        return [task for task in self.timeline.tasks if task.category == category]


def small_step(
    layers: Sequence[ModelLayer],
    mesh: Mesh,
    costs: AlphaBetaCosts,
    *,
    seconds: Sequence[LayerSeconds] | LayerSeconds = LayerSeconds((1, 2)),  # noqa: B008
    sequences: int | None = None,
    tokens: int = 1,
    optimizer_s: Seconds = 0,
    bucket_bytes: int = 1,
    **options: Any,
) -> SmallStep:
    """Runs a step; by default each rank has one sequence of one token, an element has one byte."""
    chosen = TrainingOptions(**{"kappa": 1, "element_bytes": 1, "gradient_bytes": 1, **options})
    layout = ParallelLayout(mesh)
    batch = sequences or layout.replicas * chosen.micro_batches
    share = rank_part(layout, chosen, batch, {"": tokens})
    each = [seconds] * len(layers) if isinstance(seconds, LayerSeconds) else list(seconds)
    placed = divide_model(layers, each, share)
    tasks = training_tasks(
        placed,
        each,
        share,
        costs,
        optimizer_s=lambda elements: Fraction(elements) * optimizer_s,
        bucket_bytes=bucket_bytes,
    )
    return SmallStep(run_tasks(tasks, Contention(chosen.kappa, costs.slowdowns)))
