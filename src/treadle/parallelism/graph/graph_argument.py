"""Model graphs as people name them: a model of the zoo, a config.json, a graph that was captured."""

from __future__ import annotations

from pathlib import Path

from treadle.checking import unexpected
from treadle.errors import FormatError
from treadle.input_files import read_head, read_input_string
from treadle.parallelism.graph.blocks.transformer_graph import model_graph
from treadle.parallelism.graph.model_files import read_model_graph
from treadle.parallelism.graph.model_graph import ModelGraph
from treadle.training.model_argument import as_model
from treadle.training.models.training_model import MOST_DEFAULT_TOKENS, TrainingModel

_MOST_FILE = 10**9
_HEAD = 2**12
_MARK = '"model graph"'


def as_model_graph(
    value: object, *, tokens: int | None, sequence: int | None, notes: list[str], micro_batches: int = 1
) -> tuple[ModelGraph, TrainingModel | None]:
    """Return the graph of one step, and the model's layers where it has a table of them.

    Parameters
    ----------
    value : ModelGraph, TrainingModel, str or Path
        A graph is as large as it was captured.
    tokens, sequence : int, optional
        Of a step on all ranks, and of a sequence.
    notes : list of str
        What is assumed is added.
    micro_batches : int
        The graph is that of one of this many parts of the step.

    Raises
    ------
    TreadleError
        For anything but a model, if tokens are unknown, or if tokens are given and the graph has them.
    """
    graph = value if isinstance(value, ModelGraph) else _read(value)
    if graph is not None:
        if tokens not in (None, graph.tokens) and graph.tokens:
            raise FormatError(
                f"--tokens {tokens}: the graph of {graph.name} was captured with {graph.tokens}; capture it "
                f"again with other inputs, or leave --tokens out"
            )
        if sequence is not None:
            raise FormatError(f"--sequence {sequence}: the graph of {graph.name} has its own; leave it out")
        if micro_batches > 1:
            raise FormatError(
                f"--micro-batches {micro_batches}: the graph of {graph.name} is that of a whole step; name a "
                f"model of the zoo instead"
            )
        return graph, None
    model = as_model(value)
    if model.unit != "token":
        raise FormatError(f"{model.name}: it is trained on samples; capture its module (treadle capture)")
    if sequence is None:
        own = model.default_tokens or MOST_DEFAULT_TOKENS
        sequence = min(own, tokens or own)
        notes.append(f"sequences of {sequence} tokens (--sequence)")
    if tokens is None:
        raise FormatError("--tokens N is missing: of a step, on all ranks together, as 1M")
    batch, rest = divmod(tokens, sequence * micro_batches)
    if rest or not batch:
        parts = f" in {micro_batches} micro-batches" if micro_batches > 1 else ""
        raise FormatError(
            f"--tokens {tokens}: not a multiple of the sequence length of {sequence} tokens{parts}; give a "
            f"multiple of {sequence * micro_batches}, or another --sequence"
        )
    return model_graph(model, batch=batch, sequence=sequence), model


def _read(value: object) -> ModelGraph | None:
    """Return the graph of a file that holds one; None for whatever names a model."""
    if isinstance(value, TrainingModel):
        return None
    if not isinstance(value, str | Path):
        raise unexpected("model", "a ModelGraph, a TrainingModel, a name, or a file", value)
    if _MARK not in read_head(value, _HEAD).decode("utf-8", "replace"):
        return None
    text = read_input_string(value, _MOST_FILE, expected="a graph that treadle capture wrote")
    return read_model_graph(text, source=str(value))
