"""Model graphs as JSON, version 1: what ``treadle capture`` writes."""

from __future__ import annotations

from typing import Any

from treadle.errors import FormatError, TreadleError
from treadle.input_files import parse_json
from treadle.parallelism.graph.graph_files import from_json
from treadle.parallelism.graph.graph_values import (
    MOST_CHARACTERS,
    brief_of,
    table_of,
    tensor_of,
    text_of,
    whole_number,
)
from treadle.parallelism.graph.model_graph import VERSION, ModelGraph, ModelPart, Tie

_KEYS = frozenset(("treadle", "version", "name", "parts", "batch", "sequence", "tokens", "order", "ties"))
_PART_KEYS = frozenset(("name", "repeats", "enters", "leaves", "graph"))


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
    if type(data.get("version")) is not int or data["version"] != VERSION:
        raise FormatError(
            f"version {brief_of(data.get('version'))} of a model graph; expected {VERSION}", source=source
        )
    if unknown := sorted(set(data) - _KEYS):
        raise FormatError(f"unknown key {str(unknown[0])[:40]!r} of a model graph", source=source)
    try:
        return ModelGraph(
            text_of(data["name"]),
            tuple(_part(table_of(part, "part of a model graph")) for part in data["parts"]),
            text_of(data["batch"]),
            text_of(data["sequence"]),
            whole_number(data["tokens"]),
            tuple(whole_number(place) for place in data["order"]),
            tuple(Tie(_parameter(first), _parameter(second)) for first, second in data["ties"]),
        )
    except TreadleError as error:
        raise FormatError(str(error), source=source) from error
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise FormatError(
            f"malformed model graph: {type(error).__name__}: {' '.join(str(error).split())[:80]}",
            source=source,
        ) from error


def read_model_graph(text: str, *, source: str = "") -> ModelGraph:
    """A model graph from the text of its file.

    Raises
    ------
    FormatError
        As `model_from_json`, or if it is no JSON.
    """
    if len(text) > MOST_CHARACTERS:
        raise FormatError(
            f"model graph: {len(text)} characters; expected at most {MOST_CHARACTERS}", source=source
        )
    return model_from_json(parse_json(text, source=source or "model graph"), source=source)


def _part(data: dict[str, Any]) -> ModelPart:
    if unknown := sorted(set(data) - _PART_KEYS):
        raise FormatError(f"unknown key {str(unknown[0])[:40]!r} of a part of a model graph")
    return ModelPart(
        text_of(data["name"]),
        from_json(data["graph"]),
        whole_number(data["repeats"]),
        *(None if data[end] is None else tensor_of(data[end]) for end in ("enters", "leaves")),
    )


def _parameter(pair: Any) -> tuple[str, str]:
    name, path = pair
    return text_of(name), text_of(path)
