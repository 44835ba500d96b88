"""A plan of a whole model: its parts, boundaries, mixed layers and stages on a mesh."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite, prod
from types import MappingProxyType

from treadle.brief import brief
from treadle.errors import ScheduleError
from treadle.parallelism.plan.part_plan import Boundary, PartPlan
from treadle.parallelism.plan.plan_setting import PlanSetting
from treadle.parallelism.state.sharding import Sharding, axis_sizes
from treadle.schedules.mesh import Mesh

_DIGEST = re.compile(r"[0-9a-f]{64}")
MOST_LAYERS = 2**16
OVERLAPS = ("none", "layer", "model")


@dataclass(frozen=True)
class Pipeline:
    """Stages along an axis, each with some of the layers; micro-batches pass one after the other.

    One forward, one backward (1F1B), or interleaved where stages have several virtual stages.

    The model graph is that of one micro-batch.

    Parameters
    ----------
    axis : str
        Of the mesh; no state mentions it.
    layers : tuple of int
        Layers (runs of parts, the ends among them) of each virtual stage, in their order: virtual stage c is
        on stage c modulo the number of stages.
    micro_batches : int
        Of a step.
    interleave : int
        Virtual stages on each stage.

    Raises
    ------
    ScheduleError
        For a stage without layers, or no micro-batch.
    """

    axis: str
    layers: tuple[int, ...]
    micro_batches: int
    interleave: int = 1

    def __post_init__(self) -> None:
        if self.stages < 2 or min(self.layers) < 1 or sum(self.layers) > MOST_LAYERS:
            raise ScheduleError(f"pipeline along {self.axis}: expected 2 stages or more, each with layers")
        if self.interleave * self.stages != len(self.layers) or (
            self.interleave > 1 and self.micro_batches % self.stages
        ):
            raise ScheduleError(
                f"pipeline along {self.axis}: interleave {self.interleave}: expected as many virtual stages "
                "for each stage, and micro-batches in multiples of the stages; found "
                f"{len(self.layers)} virtual stages and {self.micro_batches} micro-batches"
            )
        if not 1 <= self.micro_batches <= MOST_LAYERS:
            raise ScheduleError(f"pipeline along {self.axis}: {self.micro_batches} micro-batches")

    @property
    def stages(self) -> int:
        """Number of stages."""
        return len(self.layers) // max(self.interleave, 1)


@dataclass(frozen=True)
class PlanClaim:
    """Claims of the search that found a plan; `evaluation` computes the facts.

    Parameters
    ----------
    seconds : float
        Of a step.
    bound_s : float
        No plan of this kind takes less.
    memory_bytes : float
        Of the fullest moment.
    overlap : str
        How communication was taken to hide behind compute: one of `OVERLAPS`.
    """

    seconds: float
    bound_s: float
    memory_bytes: float
    overlap: str = "layer"

    def __post_init__(self) -> None:
        for number in (self.seconds, self.bound_s, self.memory_bytes):
            if not isfinite(number) or number < 0:
                raise ScheduleError(f"claim of a plan: {number}; expected seconds and bytes, 0 or more")
        if self.overlap not in OVERLAPS:
            raise ScheduleError(f"claim of a plan: overlap {self.overlap!r}; expected {', '.join(OVERLAPS)}")


@brief("model", "mesh_summary", "n_recomputed", "n_chunked", "pipeline_summary", "parts")
@dataclass(frozen=True)
class ParallelPlan:
    """Sharding, recomputation and pipelining of a model on a mesh.

    Parameters
    ----------
    model : str
        The model's name.
    digest : str
        ``ModelGraph.digest``: of the only model that the plan is for.
    mesh : Mesh
    boundary : Boundary
        Between parts, and between layers whose plans name none.
    parts : mapping from part name to tuple of PartPlan
        In the simple case one plan for all runs of the part; else those that are mixed.
    layers : mapping from part name to tuple of int
        For parts with several plans: which of them each run of the part takes, in the order of the model.
    pipeline : Pipeline or None
    zero : int
        Over the ranks that hold the same shard of a parameter, shard nothing (0), the optimizer's states
        (1: ZeRO-1, the distributed optimizer), or gradients as well (2: ZeRO-2).
    claim : PlanClaim or None
    setting : PlanSetting or None
        What it was made for, for those who time it again; plans are equal without it.

    Raises
    ------
    ScheduleError
        If a state names an axis that the mesh has not (or one of a single rank, or the pipeline's), or layers
        and plans do not fit each other.
    """

    model: str
    digest: str
    mesh: Mesh
    boundary: Boundary
    parts: Mapping[str, tuple[PartPlan, ...]]
    layers: Mapping[str, tuple[int, ...]] = field(default_factory=lambda: MappingProxyType({}))
    pipeline: Pipeline | None = None
    claim: PlanClaim | None = None
    zero: int = 0
    setting: PlanSetting | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not _DIGEST.fullmatch(self.digest):
            raise ScheduleError("plan: the model's digest: expected 64 hexadecimal digits")
        if not self.parts or not all(self.parts.values()):
            raise ScheduleError("plan: expected parts, each with a plan")
        for name, choice in self.layers.items():
            if name not in self.parts:
                raise ScheduleError(f"plan: layers of a part {name!r} that is not there")
            if len(choice) > MOST_LAYERS or set(choice) != set(range(len(self.parts[name]))):
                raise ScheduleError(f"plan: layers of {name!r} do not take each of its plans")
        for name, n_plans in ((name, len(plans)) for name, plans in self.parts.items()):
            if n_plans > 1 and name not in self.layers:
                raise ScheduleError(
                    f"plan: part {name!r} has {n_plans} plans; expected layers that take them"
                )
        if self.zero not in (0, 1, 2):
            raise ScheduleError(f"plan: zero {self.zero}; expected 0, 1 or 2")
        self._check_axes()
        for name in ("parts", "layers"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    def _check_axes(self) -> None:
        known = set(axis_sizes(self.mesh))
        if self.pipeline is not None:
            stages = dict(zip(self.mesh.axis_names, self.mesh.shape, strict=True)).get(self.pipeline.axis)
            if stages != self.pipeline.stages:
                raise ScheduleError(
                    f"plan: {self.pipeline.stages} stages along {self.pipeline.axis!r} of a mesh "
                    f"{self.mesh.notation}; expected one for each rank of an axis"
                )
            known.discard(self.pipeline.axis)
        for sharding in self.shardings():
            if not known.issuperset((*sharding.axes, *sharding.partial)):
                wrong = sorted({*sharding.axes, *sharding.partial} - known)
                raise ScheduleError(
                    f"plan: state {sharding} names the axis {wrong[0][:40]!r}; expected some of "
                    f"{', '.join(sorted(known)) or 'none'} (mesh {self.mesh.notation})"
                )

    def shardings(self) -> Iterator[Sharding]:
        """Yield every state of the plan."""
        boundaries = [self.boundary]
        for plan in (one for plans in self.parts.values() for one in plans):
            if plan.boundary is not None:
                boundaries.append(plan.boundary)
            for operator in plan.operators.values():
                yield from (*operator.inputs, *operator.outputs)
            for tensor in plan.tensors.values():
                yield from (one for one in (tensor.shared, tensor.saved) if one is not None)
            yield from (*plan.parameters.values(), *plan.inputs.values())
        for boundary in boundaries:
            yield from (boundary.activation, boundary.gradient)

    @property
    def sizes(self) -> dict[str, int]:
        """Ranks along each axis that states may name."""
        stages = None if self.pipeline is None else self.pipeline.axis
        return {name: size for name, size in axis_sizes(self.mesh).items() if name != stages}

    @property
    def n_ranks_of_stage(self) -> int:
        """Ranks that share a layer."""
        return prod(self.sizes.values())

    def plan_of(self, part: str, run: int = 0) -> PartPlan:
        """Return the plan of a part's run (counted from 0, in the order of the model)."""
        choice = self.layers.get(part)
        return self.parts[part][0 if choice is None else choice[run]]

    def boundary_of(self, part: str, run: int = 0) -> Boundary:
        """Return the boundary that a run of a part takes and gives."""
        return self.plan_of(part, run).boundary or self.boundary

    @property
    def n_recomputed(self) -> int:
        """Operators that run once more in the backward pass, over all plans."""
        return sum(one.n_recomputed for plans in self.parts.values() for one in plans)

    @property
    def n_chunked(self) -> int:
        """Operators in loops, over all plans."""
        return sum(one.n_chunked for plans in self.parts.values() for one in plans)

    @property
    def mesh_summary(self) -> str:
        """The mesh as on the command line."""
        return self.mesh.notation

    @property
    def pipeline_summary(self) -> str:
        """Stages and micro-batches, in words."""
        if self.pipeline is None:
            return ""
        return f"{self.pipeline.stages} stages, {self.pipeline.micro_batches} micro-batches"
