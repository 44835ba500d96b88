"""Plans as JSON, version 1: what ``treadle parallelize -o`` writes, read with distrust.

A state is ``{"dims": [["dp"], [], ["tp"]], "partial": ["ep"]}``; what is empty or None is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from treadle.errors import FormatError, ScheduleError
from treadle.input_files import parse_json, read_input_text
from treadle.parallelism.graph.compute_graph import Phase
from treadle.parallelism.plan.parallel_plan import MOST_LAYERS, ParallelPlan, Pipeline, PlanClaim
from treadle.parallelism.plan.part_plan import Boundary, Chunk, Keep, OperatorPlan, PartPlan, TensorPlan
from treadle.parallelism.plan.plan_setting import read_setting, setting_to_json
from treadle.parallelism.state.sharding import Sharding
from treadle.schedules.mesh import Mesh
from treadle.schedules.plan_files.manifest_values import (
    indented,
    read_list,
    read_object,
    read_optional,
    read_string,
    read_whole,
    read_wholes,
)

VERSION = 1
KIND = "parallel plan"
MOST_BYTES = 2**26
"""Of a file: 2,500 operators take 2 MB."""
_MOST_ENTRIES = 2**17
_MOST_DIMS = 64
_MOST_RANKS = 2**24
_MOST_NAME = 1000
_Value = TypeVar("_Value")


def plan_text(plan: ParallelPlan) -> str:
    """A plan as the text of its file; equal plans give equal texts."""
    return indented(plan_to_json(plan)) + "\n"


def read_plan(path: str) -> ParallelPlan:
    """A plan from its file.

    Raises
    ------
    FormatError
        With its name: if it cannot be read, is larger than `MOST_BYTES`, or is no plan of this version.
    """
    return plan_from_json(parse_json(read_input_text(path, MOST_BYTES), source=path), source=path)


def plan_to_json(plan: ParallelPlan) -> dict[str, object]:
    """A plan as a value of JSON."""
    mesh = plan.mesh
    found: dict[str, object] = {
        "treadle": KIND,
        "version": VERSION,
        "model": plan.model,
        "digest": plan.digest,
        "mesh": {
            "axes": [list(pair) for pair in zip(mesh.axis_names, mesh.shape, strict=True)],
            **({} if mesh.rank_order is None else {"ranks": list(mesh.rank_order)}),
        },
        "boundary": _boundary_json(plan.boundary),
        "parts": {name: [_part_json(one) for one in plans] for name, plans in plan.parts.items()},
    }
    if plan.layers:
        found["layers"] = {name: list(choice) for name, choice in plan.layers.items()}
    if plan.pipeline is not None:
        one = plan.pipeline
        found["pipeline"] = {
            "axis": one.axis,
            "layers": list(one.layers),
            "micro_batches": one.micro_batches,
        }
    if plan.claim is not None:
        found["claim"] = {
            "seconds": plan.claim.seconds,
            "bound_s": plan.claim.bound_s,
            "memory_bytes": plan.claim.memory_bytes,
            "overlap": plan.claim.overlap,
        }
    if plan.setting is not None:
        found["made_for"] = setting_to_json(plan.setting)
    return found


def plan_from_json(data: object, *, source: str = "") -> ParallelPlan:
    """A plan from `plan_to_json`.

    Parameters
    ----------
    data : object
        Parsed JSON.
    source : str
        Its file, for messages.

    Raises
    ------
    FormatError
        If it is no plan of this version, a key is unknown, missing or of a wrong kind, a number is out of its
        range, or what it says does not fit together.
    """
    try:
        return _plan(data)
    except ScheduleError as error:
        raise FormatError(str(error), source=source) from None
    except FormatError as error:
        raise FormatError(str(error), source=source) from None


def _plan(data: object) -> ParallelPlan:
    if not isinstance(data, dict) or data.get("treadle") != KIND:
        raise FormatError(f'no parallel plan: expected "treadle": "{KIND}"')
    if type(data.get("version")) is not int or data["version"] != VERSION:
        raise FormatError(f"version {str(data.get('version'))[:20]} of a parallel plan; expected {VERSION}")
    table = read_object(
        data,
        "plan",
        {"treadle", "version", "model", "digest", "mesh", "boundary", "parts"},
        {"layers", "pipeline", "claim", "made_for"},
    )
    return ParallelPlan(
        _name(table["model"], "model"),
        read_string(table["digest"], "digest"),
        _mesh(table["mesh"]),
        _boundary(table["boundary"], "boundary"),
        _table(
            table["parts"],
            "parts",
            lambda rows, place: tuple(
                _part(row, f"{place}, plan {at}") for at, row in enumerate(_list(rows, place, MOST_LAYERS))
            ),
        ),
        _table(table.get("layers", {}), "layers", _wholes),
        read_optional(table.get("pipeline"), _pipeline, "pipeline"),
        read_optional(table.get("claim"), _claim, "claim"),
        read_optional(table.get("made_for"), read_setting, "made_for"),
    )


def _part_json(plan: PartPlan) -> dict[str, object]:
    found: dict[str, object] = {
        "operators": {name: _operator_json(one) for name, one in plan.operators.items()},
        "tensors": [
            {
                "tensor": one.tensor,
                "phase": one.phase.value,
                **({} if one.shared is None else {"shared": _state_json(one.shared)}),
                **({} if one.saved is None else {"saved": _state_json(one.saved)}),
            }
            for one in plan.tensors.values()
        ],
        "parameters": {path: _state_json(one) for path, one in plan.parameters.items()},
        "inputs": {name: _state_json(one) for name, one in plan.inputs.items()},
    }
    if plan.boundary is not None:
        found["boundary"] = _boundary_json(plan.boundary)
    return found


def _part(data: Any, place: str) -> PartPlan:
    table = read_object(data, place, {"operators", "tensors", "parameters", "inputs"}, {"boundary"})
    tensors = [
        _tensor(row, f"{place}, tensor {at}")
        for at, row in enumerate(_list(table["tensors"], f"{place}, tensors", _MOST_ENTRIES))
    ]
    by_name = {(one.tensor, one.phase): one for one in tensors}
    if len(by_name) < len(tensors):
        raise FormatError(f"{place}: a tensor stands twice for one phase")
    return PartPlan(
        {
            name: _operator(name, row, f"{place}, operator {name!r}")
            for name, row in _entries(table["operators"], f"{place}, operators")
        },
        by_name,
        _table(table["parameters"], f"{place}, parameters", _state),
        _table(table["inputs"], f"{place}, inputs", _state),
        read_optional(table.get("boundary"), _boundary, f"{place}, boundary"),
    )


def _operator_json(plan: OperatorPlan) -> dict[str, object]:
    found: dict[str, object] = {
        "inputs": [_state_json(one) for one in plan.inputs],
        "outputs": [_state_json(one) for one in plan.outputs],
        "parts": plan.parts,
    }
    if plan.keep is not None:
        found["keep"] = plan.keep.value
    if plan.chunk is not None:
        found["chunk"] = {"letter": plan.chunk.letter, "chunks": plan.chunk.n_chunks, "loop": plan.chunk.loop}
    return found


def _operator(name: str, data: Any, place: str) -> OperatorPlan:
    table = read_object(data, place, {"inputs", "outputs", "parts"}, {"keep", "chunk"})
    inputs, outputs = (
        tuple(
            _state(one, f"{place}, {side}") for one in _list(table[side], f"{place}, {side}", _MOST_ENTRIES)
        )
        for side in ("inputs", "outputs")
    )
    return OperatorPlan(
        name,
        inputs,
        outputs,
        read_whole(table["parts"], f"{place}, parts"),
        read_optional(table.get("keep"), lambda value, at: _word(Keep, value, at), f"{place}, keep"),
        read_optional(table.get("chunk"), _chunk, f"{place}, chunk"),
    )


def _chunk(data: Any, place: str) -> Chunk:
    table = read_object(data, place, {"letter", "chunks", "loop"})
    return Chunk(
        _name(table["letter"], place), read_whole(table["chunks"], place), read_whole(table["loop"], place)
    )


def _tensor(data: Any, place: str) -> TensorPlan:
    table = read_object(data, place, {"tensor", "phase"}, {"shared", "saved"})
    return TensorPlan(
        _name(table["tensor"], place),
        _word(Phase, table["phase"], place),
        read_optional(table.get("shared"), _state, f"{place}, shared"),
        read_optional(table.get("saved"), _state, f"{place}, saved"),
    )


def _state_json(sharding: Sharding) -> dict[str, object]:
    found: dict[str, object] = {"dims": [list(axes) for axes in sharding.dims]}
    if sharding.partial:
        found["partial"] = sorted(sharding.partial)
    return found


def _state(data: Any, place: str) -> Sharding:
    table = read_object(data, place, {"dims"}, {"partial"})
    dims = tuple(
        tuple(_name(axis, place) for axis in _list(axes, place, _MOST_DIMS))
        for axes in _list(table["dims"], place, _MOST_DIMS)
    )
    partial = [_name(axis, place) for axis in _list(table.get("partial", []), place, _MOST_DIMS)]
    if len(set(partial)) < len(partial):
        raise FormatError(f"{place}: an axis stands twice")
    try:
        return Sharding(dims, frozenset(partial))
    except ScheduleError as error:
        raise FormatError(f"{place}: {error}") from None


def _boundary_json(boundary: Boundary) -> dict[str, object]:
    return {"activation": _state_json(boundary.activation), "gradient": _state_json(boundary.gradient)}


def _boundary(data: Any, place: str) -> Boundary:
    table = read_object(data, place, {"activation", "gradient"})
    return Boundary(
        _state(table["activation"], f"{place}, activation"), _state(table["gradient"], f"{place}, gradient")
    )


def _mesh(data: Any) -> Mesh:
    table = read_object(data, "mesh", {"axes"}, {"ranks"})
    names, shape, ranks = [], [], 1
    for row in _list(table["axes"], "mesh, axes", _MOST_DIMS):
        name, size = (*_list(row, "mesh, axis", 2), None, None)[:2]
        names.append(_name(name, "mesh, axis"))
        shape.append(read_whole(size, "mesh, axis"))
        ranks *= max(shape[-1], 1)
        if ranks > _MOST_RANKS:
            raise FormatError(f"mesh: expected at most {_MOST_RANKS} ranks")
    order = read_optional(table.get("ranks"), read_wholes, "mesh, ranks")
    return Mesh(tuple(shape), tuple(names), order)


def _pipeline(data: Any, place: str) -> Pipeline:
    table = read_object(data, place, {"axis", "layers", "micro_batches"})
    return Pipeline(
        _name(table["axis"], place),
        _wholes(table["layers"], place),
        read_whole(table["micro_batches"], place),
    )


def _claim(data: Any, place: str) -> PlanClaim:
    table = read_object(data, place, {"seconds", "bound_s", "memory_bytes", "overlap"})
    numbers = []
    for key in ("seconds", "bound_s", "memory_bytes"):
        if type(table[key]) not in (int, float) or not -1e300 < table[key] < 1e300:
            raise FormatError(f"{place}, {key}: expected a number")
        numbers.append(float(table[key]))
    return PlanClaim(numbers[0], numbers[1], numbers[2], read_string(table["overlap"], place))


def _table(data: Any, place: str, read: Callable[[Any, str], _Value]) -> Mapping[str, _Value]:
    return {key: read(row, f"{place}, {key!r}") for key, row in _entries(data, place)}


def _entries(data: Any, place: str) -> list[tuple[str, Any]]:
    if not isinstance(data, dict) or len(data) > _MOST_ENTRIES:
        raise FormatError(f"{place}: expected an object of at most {_MOST_ENTRIES} entries")
    return [(_name(key, place), row) for key, row in data.items()]


def _list(data: Any, place: str, most: int) -> list[Any]:
    rows = read_list(data, place)
    if len(rows) > most:
        raise FormatError(f"{place}: {len(rows)} entries; expected at most {most}")
    return rows


def _wholes(data: Any, place: str) -> tuple[int, ...]:
    return read_wholes(_list(data, place, MOST_LAYERS), place)


def _name(data: Any, place: str) -> str:
    text = read_string(data, place)
    if not 0 < len(text) <= _MOST_NAME or not text.isprintable():
        raise FormatError(f"{place}: expected a name of one line, at most {_MOST_NAME} characters")
    return text


def _word(words: Callable[[str], _Value], data: Any, place: str) -> _Value:
    try:
        return words(read_string(data, place))
    except ValueError as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"{place}: {str(data)[:40]!r} is none of its words") from None
