"""Plans as JSON, version 1: what ``treadle parallelize -o`` writes, read with distrust.

A state is ``{"dims": [["dp"], [], ["tp"]], "partial": ["ep"]}``; what is empty or None is left out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from itertools import chain
from math import prod
from typing import Annotated, Any, Literal

from msgspec import Meta, field
from msgspec.structs import asdict, astuple

from treadle.errors import FormatError, ScheduleError
from treadle.input_files import read_input_string
from treadle.parallelism.graph.compute_graph import Phase
from treadle.parallelism.plan.parallel_plan import MOST_LAYERS, ParallelPlan, Pipeline, PlanClaim
from treadle.parallelism.plan.part_plan import (
    ActivationPolicy,
    Boundary,
    Chunk,
    OperatorPlan,
    PartPlan,
    TensorPlan,
)
from treadle.parallelism.plan.plan_setting import read_setting, setting_to_json
from treadle.parallelism.state.sharding import Sharding
from treadle.schedules.mesh import Mesh
from treadle.schedules.plan_files.manifest_values import indented
from treadle.typed_files import Table, read_json

VERSION = 1
KIND = "parallel plan"
MOST_BYTES = 2**26
"""Largest file: 2,500 operators take 2 MB."""
_MOST_ENTRIES = 2**17
_MOST_DIMS = 64
_MOST_RANKS = 2**24
_MOST_NAME = 1000
_Name = Annotated[str, Meta(min_length=1, max_length=_MOST_NAME)]
_Axes = Annotated[tuple[_Name, ...], Meta(max_length=_MOST_DIMS)]
_Whole = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
_Layers = Annotated[tuple[_Whole, ...], Meta(max_length=MOST_LAYERS)]
_Figure = Annotated[float, Meta(gt=-1e300, lt=1e300)]


class _State(Table, frozen=True):
    dims: Annotated[tuple[_Axes, ...], Meta(max_length=_MOST_DIMS)]
    partial: _Axes = ()

    def __post_init__(self) -> None:
        _check_lines((*self.partial, *chain(*self.dims)))
        if len(set(self.partial)) < len(self.partial):
            raise FormatError("an axis appears twice")
        self.value()

    def value(self) -> Sharding:
        return Sharding(self.dims, frozenset(self.partial))


_States = Annotated[list[_State], Meta(max_length=_MOST_ENTRIES)]
_NamedStates = Annotated[dict[_Name, _State], Meta(max_length=_MOST_ENTRIES)]


class _Chunk(Table, frozen=True):
    letter: _Name
    chunks: _Whole
    loop: _Whole


class _Operator(Table, frozen=True):
    inputs: _States
    outputs: _States
    parts: _Whole
    keep: ActivationPolicy | None = None
    chunk: _Chunk | None = None

    def value(self, name: str) -> OperatorPlan:
        inputs, outputs = (tuple(one.value() for one in states) for states in (self.inputs, self.outputs))
        chunk = None if self.chunk is None else Chunk(*astuple(self.chunk))
        return OperatorPlan(name, inputs, outputs, self.parts, self.keep, chunk)


class _Tensor(Table, frozen=True):
    tensor: _Name
    phase: Phase
    shared: _State | None = None
    saved: _State | None = None

    def value(self) -> TensorPlan:
        shared, saved = (None if one is None else one.value() for one in (self.shared, self.saved))
        return TensorPlan(self.tensor, self.phase, shared, saved)


class _Boundary(Table, frozen=True):
    activation: _State
    gradient: _State

    def value(self) -> Boundary:
        return Boundary(self.activation.value(), self.gradient.value())


class _Part(Table, frozen=True):
    operators: Annotated[dict[_Name, _Operator], Meta(max_length=_MOST_ENTRIES)]
    tensors: Annotated[list[_Tensor], Meta(max_length=_MOST_ENTRIES)]
    parameters: _NamedStates
    inputs: _NamedStates
    boundary: _Boundary | None = None

    def __post_init__(self) -> None:
        letters = (one.chunk.letter for one in self.operators.values() if one.chunk is not None)
        names = (row.tensor for row in self.tensors)
        _check_lines(chain(self.operators, self.parameters, self.inputs, letters, names))
        if len({(row.tensor, row.phase) for row in self.tensors}) < len(self.tensors):
            raise FormatError("a tensor appears twice for one phase")

    def value(self) -> PartPlan:
        return PartPlan(
            {name: row.value(name) for name, row in self.operators.items()},
            {(row.tensor, row.phase): row.value() for row in self.tensors},
            {path: state.value() for path, state in self.parameters.items()},
            {name: state.value() for name, state in self.inputs.items()},
            None if self.boundary is None else self.boundary.value(),
        )


class _Mesh(Table, frozen=True):
    axes: Annotated[list[tuple[_Name, _Whole]], Meta(max_length=_MOST_DIMS)]
    ranks: Annotated[tuple[_Whole, ...], Meta(max_length=_MOST_RANKS)] | None = None

    def __post_init__(self) -> None:
        _check_lines(name for name, _ in self.axes)
        if prod(max(size, 1) for _, size in self.axes) > _MOST_RANKS:
            raise FormatError(f"expected at most {_MOST_RANKS} ranks")

    def value(self) -> Mesh:
        return Mesh(tuple(size for _, size in self.axes), tuple(name for name, _ in self.axes), self.ranks)


class _Pipeline(Table, frozen=True):
    axis: _Name
    layers: _Layers
    micro_batches: _Whole
    interleave: _Whole = 1


class _Claim(Table, frozen=True):
    seconds: _Figure
    bound_s: _Figure
    memory_bytes: _Figure
    overlap: str


class _File(Table, frozen=True):
    treadle: Literal["parallel plan"]
    version: Literal[1]
    model: _Name
    digest: str
    mesh: _Mesh
    boundary: _Boundary
    parts: Annotated[
        dict[_Name, Annotated[list[_Part], Meta(max_length=MOST_LAYERS)]], Meta(max_length=_MOST_ENTRIES)
    ]
    layers: Annotated[dict[_Name, _Layers], Meta(max_length=_MOST_ENTRIES)] = field(default_factory=dict)
    pipeline: _Pipeline | None = None
    claim: _Claim | None = None
    zero: Literal[0, 1, 2] = 0
    made_for: Any = None

    def __post_init__(self) -> None:
        _check_lines((self.model, *self.parts))


def _check_lines(names: Iterable[str]) -> None:
    for name in names:
        if not name.isprintable():
            raise FormatError(f"{name[:40]!r}: expected a name of one line")


def format_plan_json(plan: ParallelPlan) -> str:
    """Format a plan as a file; equal plans give equal strings."""
    return indented(plan_to_json(plan)) + "\n"


def read_plan(path: str) -> ParallelPlan:
    """Return A plan from its file.

    Raises
    ------
    FormatError
        With its name: if it cannot be read, is larger than `MOST_BYTES`, or is not a plan of this version.
    """
    return parse_plan_json(read_input_string(path, MOST_BYTES), source=path)


def plan_to_json(plan: ParallelPlan) -> dict[str, object]:
    """Return A plan as a value of JSON."""
    mesh, pipeline, claim, setting = plan.mesh, plan.pipeline, plan.claim, plan.setting
    return _given(
        treadle=KIND,
        version=VERSION,
        model=plan.model,
        digest=plan.digest,
        mesh=_given(
            axes=[list(pair) for pair in zip(mesh.axis_names, mesh.shape, strict=True)],
            ranks=None if mesh.rank_order is None else list(mesh.rank_order),
        ),
        boundary=_boundary_json(plan.boundary),
        parts={name: [_part_json(one) for one in plans] for name, plans in plan.parts.items()},
        layers={name: list(choice) for name, choice in plan.layers.items()} or None,
        pipeline=pipeline
        and _given(
            axis=pipeline.axis,
            layers=list(pipeline.layers),
            micro_batches=pipeline.micro_batches,
            interleave=None if pipeline.interleave == 1 else pipeline.interleave,
        ),
        claim=claim and dataclasses.asdict(claim),
        zero=plan.zero or None,
        made_for=setting and setting_to_json(setting),
    )


def _given(**fields: object) -> dict[str, object]:
    """Return an object of JSON without the fields that are None."""
    return {name: value for name, value in fields.items() if value is not None}


def parse_plan_json(text: str, *, source: str = "") -> ParallelPlan:
    """Parse a plan file.

    Raises
    ------
    FormatError
        If it is not a plan of this version, a key is unknown, missing or of a wrong kind, a number is out of
        its range, or what it says does not fit together.
    """
    file = read_json(text, _File, source=source)
    try:
        return ParallelPlan(
            file.model,
            file.digest,
            file.mesh.value(),
            file.boundary.value(),
            {name: tuple(row.value() for row in rows) for name, rows in file.parts.items()},
            file.layers,
            None if file.pipeline is None else Pipeline(**asdict(file.pipeline)),
            None if file.claim is None else PlanClaim(**asdict(file.claim)),
            file.zero,
            None if file.made_for is None else read_setting(file.made_for, "made_for"),
        )
    except (ScheduleError, FormatError) as error:
        raise FormatError(str(error), source=source) from None


def _part_json(plan: PartPlan) -> dict[str, object]:
    return _given(
        operators={
            name: _given(
                inputs=[_state_json(state) for state in one.inputs],
                outputs=[_state_json(state) for state in one.outputs],
                parts=one.parts,
                keep=one.keep and one.keep.value,
                chunk=one.chunk and dict(zip(("letter", "chunks", "loop"), one.chunk, strict=True)),
            )
            for name, one in plan.operators.items()
        },
        tensors=[
            _given(
                tensor=one.tensor,
                phase=one.phase.value,
                shared=one.shared and _state_json(one.shared),
                saved=one.saved and _state_json(one.saved),
            )
            for one in plan.tensors.values()
        ],
        parameters={path: _state_json(one) for path, one in plan.parameters.items()},
        inputs={name: _state_json(one) for name, one in plan.inputs.items()},
        boundary=plan.boundary and _boundary_json(plan.boundary),
    )


def _state_json(sharding: Sharding) -> dict[str, object]:
    dims = [list(axes) for axes in sharding.dims]
    return _given(dims=dims, partial=sorted(sharding.partial) or None)


def _boundary_json(boundary: Boundary) -> dict[str, object]:
    return {"activation": _state_json(boundary.activation), "gradient": _state_json(boundary.gradient)}
