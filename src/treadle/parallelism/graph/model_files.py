"""Model graphs as JSON, version 1: what ``treadle capture`` writes."""

from __future__ import annotations

from typing import Literal

from treadle.errors import FormatError, TreadleError
from treadle.parallelism.graph.compute_graph import TensorRef
from treadle.parallelism.graph.graph_files import GraphTable, Number, Tensor
from treadle.parallelism.graph.model_graph import ModelGraph, ModelPart, Tie
from treadle.typed_files import Table, read_json

MOST_CHARACTERS = 2**28
"""Largest file: a language model of 32 layers, unfolded, has 4 million."""


class _Part(Table, frozen=True):
    name: str
    repeats: Number
    enters: Tensor | None
    leaves: Tensor | None
    graph: GraphTable

    def value(self) -> ModelPart:
        ends = (None if end is None else TensorRef(*end) for end in (self.enters, self.leaves))
        return ModelPart(self.name, self.graph.value(), self.repeats, *ends)


class _File(Table, frozen=True):
    treadle: Literal["model graph"]
    version: Literal[1]
    name: str
    parts: list[_Part]
    batch: str
    sequence: str
    tokens: Number
    order: tuple[Number, ...]
    ties: list[tuple[tuple[str, str], tuple[str, str]]]


def read_model_graph(text: str, *, source: str = "") -> ModelGraph:
    """Parse a model graph file; FormatError for anything else."""
    if len(text) > MOST_CHARACTERS:
        fault = f"model graph: {len(text)} characters; expected at most {MOST_CHARACTERS}"
        raise FormatError(fault, source=source)
    file = read_json(text, _File, source=source or "model graph")
    try:
        return ModelGraph(
            file.name,
            tuple(part.value() for part in file.parts),
            file.batch,
            file.sequence,
            file.tokens,
            file.order,
            tuple(Tie(first, second) for first, second in file.ties),
        )
    except TreadleError as error:
        raise FormatError(str(error), source=source) from error
