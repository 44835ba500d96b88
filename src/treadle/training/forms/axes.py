"""What the axes of a mesh mean: the table of forms, and what follows for weights, tokens and gradients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from types import MappingProxyType

from treadle.errors import ScheduleError
from treadle.schedules.mesh import Mesh


@dataclass(frozen=True)
class AxisForm:
    """The meaning of an axis.

    Parameters
    ----------
    words : str
        For messages and help.
    splits_sequences : bool
        Its ranks have different sequences.
    """

    words: str
    splits_sequences: bool = False


AXIS_FORMS: Mapping[str, AxisForm] = MappingProxyType(
    {
        "dp": AxisForm("replicas, whose gradients are summed in buckets", splits_sequences=True),
        "fsdp": AxisForm("weights sharded, gathered layer by layer", splits_sequences=True),
        "tp": AxisForm("matrices cut: tensor parallelism"),
        "cp": AxisForm("sequences cut: context parallelism"),
        "ep": AxisForm("experts spread, tokens exchanged", splits_sequences=True),
        "pp": AxisForm("layers cut into stages of a pipeline"),
    }
)
"""By name of the axis."""


@dataclass(frozen=True)
class ParallelLayout:
    """A mesh whose axes are forms of parallelism.

    Parameters
    ----------
    mesh : Mesh

    Raises
    ------
    ScheduleError
        If an axis has no such name; lists those that there are.
    """

    mesh: Mesh

    def __post_init__(self) -> None:
        for name in self.mesh.axis_names:
            if name not in AXIS_FORMS:
                known = "; ".join(f"{axis}: {form.words}" for axis, form in AXIS_FORMS.items())
                raise ScheduleError(
                    f"mesh {self.mesh.notation}: axis {name[:40]!r} has no meaning here ({known})"
                )

    @cached_property
    def _sizes(self) -> dict[str, int]:
        return dict(zip(self.mesh.axis_names, self.mesh.shape, strict=True))

    def size(self, *axes: str) -> int:
        """Ranks along these axes; of an axis that the mesh lacks, 1."""
        return prod(self._sizes.get(axis, 1) for axis in axes)

    def among(self, *axes: str) -> tuple[str, ...]:
        """Those along which there are several ranks, in the mesh's order."""
        return tuple(axis for axis in self.mesh.axis_names if axis in axes and self._sizes[axis] > 1)

    @cached_property
    def replicas(self) -> int:
        """Groups of ranks that have sequences of their own."""
        return self.size(*(axis for axis, form in AXIS_FORMS.items() if form.splits_sequences))

    def shard_axes(self, *, expert: bool) -> tuple[str, ...]:
        """Along which weights (of experts, or the others) are sharded and gathered when needed."""
        if self.size("fsdp") == 1:
            return ()
        return self.among("fsdp", "cp", *(() if expert else ("ep",)))

    def replica_axes(self, *, expert: bool) -> tuple[str, ...]:
        """Along which gradients are summed by allreduce: of shards, if weights are sharded."""
        if self.size("fsdp") > 1:
            return self.among("dp")
        return self.among("dp", "cp", *(() if expert else ("ep",)))
