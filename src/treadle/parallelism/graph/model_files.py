"""Model graphs as JSON, version 1: what ``treadle capture`` writes."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from treadle.errors import FormatError, TreadleError
from treadle.parallelism.graph.compute_graph import TensorRef
from treadle.parallelism.graph.graph_files import from_json, to_json
from treadle.parallelism.graph.model_graph import ModelGraph, ModelPart, Tie

_Value = TypeVar("_Value", str, int)
VERSION = 1
_KEYS = frozenset(("treadle", "version", "name", "parts", "batch", "sequence", "tokens", "order", "ties"))
_PART_KEYS = frozenset(("name", "repeats", "enters", "leaves", "graph"))


def model_to_json(model: ModelGraph) -> dict[str, object]:
    """A model graph as a value of JSON."""
    return {
        "treadle": "model graph",
        "version": VERSION,
        "name": model.name,
        "batch": model.batch,
        "sequence": model.sequence,
        "tokens": model.tokens,
        "order": list(model.order),
        "ties": [[list(tie.first), list(tie.second)] for tie in model.ties],
        "parts": [_part_json(part) for part in model.parts],
    }


def model_from_json(data: object, *, source: str = "") -> ModelGraph:
    """A model graph from `model_to_json`.

    Parameters
    ----------
    data : object
        Parsed JSON.
    source : str
        Its file, for messages.

    Raises
    ------
    FormatError
        If it is no model graph of this version, or a malformed one.
    """
    if not isinstance(data, dict) or data.get("treadle") != "model graph":
        raise FormatError('no model graph: expected "treadle": "model graph"', source=source)
    if data.get("version") != VERSION:
        raise FormatError(
            f"version {data.get('version')!r} of a model graph; expected {VERSION}", source=source
        )
    if unknown := sorted(set(data) - _KEYS):
        raise FormatError(f"unknown key {str(unknown[0])[:40]!r} of a model graph", source=source)
    try:
        return ModelGraph(
            _of(str, data["name"]),
            tuple(_part(part) for part in data["parts"]),
            _of(str, data["batch"]),
            _of(str, data["sequence"]),
            _of(int, data["tokens"]),
            tuple(_of(int, place) for place in data["order"]),
            tuple(Tie(_parameter(first), _parameter(second)) for first, second in data["ties"]),
        )
    except TreadleError as error:
        raise FormatError(str(error), source=source) from error
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise FormatError(f"malformed model graph: {type(error).__name__}: {error}", source=source) from error


def read_model_graph(text: str, *, source: str = "") -> ModelGraph:
    """A model graph from the text of its file.

    Raises
    ------
    FormatError
        As `model_from_json`, or if it is no JSON.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        place = f"line {error.lineno}: {error.msg}" if isinstance(error, json.JSONDecodeError) else "too deep"
        raise FormatError(f"model graph: no JSON: {place}", source=source) from None
    return model_from_json(data, source=source)


def _part_json(part: ModelPart) -> dict[str, object]:
    return {
        "name": part.name,
        "repeats": part.repeats,
        "enters": None if part.enters is None else list(part.enters),
        "leaves": None if part.leaves is None else list(part.leaves),
        "graph": to_json(part.graph),
    }


def _part(data: dict[str, Any]) -> ModelPart:
    if unknown := sorted(set(data) - _PART_KEYS):
        raise FormatError(f"unknown key {str(unknown[0])[:40]!r} of a part of a model graph")
    return ModelPart(
        _of(str, data["name"]),
        from_json(data["graph"]),
        _of(int, data["repeats"]),
        _tensor(data["enters"]),
        _tensor(data["leaves"]),
    )


def _tensor(pair: Any) -> TensorRef | None:
    if pair is None:
        return None
    node, slot = pair
    return TensorRef(_of(int, node), _of(int, slot))


def _parameter(pair: Any) -> tuple[str, str]:
    name, path = pair
    return _of(str, name), _of(str, path)


def _of(kind: type[_Value], value: object) -> _Value:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise FormatError(f"{str(value)[:40]!r}: expected a {'text' if kind is str else 'whole number'}")
    return value
