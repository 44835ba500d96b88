"""Meaning of the axes of a mesh: the table of forms of parallelism, and how they shard weights and tokens."""

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
        Description in messages and help.
    splits_sequences : bool
        Ranks along the axis have different sequences.
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
"""Forms by name of the axis."""


@dataclass(frozen=True)
class ParallelLayout:
    """A mesh whose axes are forms of parallelism; ScheduleError for other names of axes."""

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
        """Return the ranks along these axes; an axis that the mesh lacks counts as 1."""
        return prod(self._sizes.get(axis, 1) for axis in axes)

    def among(self, *axes: str) -> tuple[str, ...]:
        """Return the axes with several ranks, in the mesh's order."""
        return tuple(axis for axis in self.mesh.axis_names if axis in axes and self._sizes[axis] > 1)

    @cached_property
    def replicas(self) -> int:
        """Number of groups of ranks with different sequences."""
        return self.size(*(axis for axis, form in AXIS_FORMS.items() if form.splits_sequences))

    @property
    def has_buckets(self) -> bool:
        """Whether replicas sum gradients in buckets."""
        return self.size("fsdp") == 1 and any(self.replica_axes(expert=one) for one in (False, True))

    def shard_axes(self, *, expert: bool) -> tuple[str, ...]:
        """Return the axes along which weights (of experts, or the others) are sharded."""
        if self.size("fsdp") == 1:
            return ()
        return self.among("fsdp", "cp", *(() if expert else ("ep",)))

    def replica_axes(self, *, expert: bool) -> tuple[str, ...]:
        """Return the axes along which gradients (of shards, with sharded weights) are summed by allreduce."""
        if self.size("fsdp") > 1:
            return self.among("dp")
        return self.among("dp", "cp", *(() if expert else ("ep",)))
