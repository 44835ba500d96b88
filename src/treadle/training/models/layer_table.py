"""Users' models as tables of layers: CSV with a row per layer."""

from __future__ import annotations

from treadle.errors import FormatError
from treadle.spelling import unknown
from treadle.training.csv_rows import csv_rows
from treadle.training.models.config_json import read_config
from treadle.training.models.model_layer import Attended, ModelLayer, Saved, Weight, Work, WorkKind
from treadle.training.models.training_model import TrainingModel

MAX_TABLE_BYTES = 4 * 2**20
_MOST_LAYERS = 10_000
_MOST_DIGITS = 18
REQUIRED = ("layer", "parameters", "flops")
OPTIONAL = (
    "flops_per_context",
    "moved_elements",
    "output_elements",
    "saved_elements",
    "reductions",
    "experts",
    "top_k",
    "expert_parameters",
    "expert_flops",
    "routed_elements",
)


def read_model(text: str, *, name: str = "", unit: str = "token") -> TrainingModel:
    """Parse the content of a file: a ``config.json``, or a table of layers per token or "sample" (`unit`)."""
    if text.lstrip()[:1] in ("{", "["):
        return read_config(text, name=name)
    return read_layer_table(text, name=name or "table", unit=unit)


def read_layer_table(text: str, *, name: str = "table", unit: str = "token") -> TrainingModel:
    """Parse a model from CSV; FormatError with the line if it is malformed.

    Parameters
    ----------
    text : str
        A header and a row per layer. Columns: ``layer`` (a name), ``parameters``, ``flops`` (forward, per
        token or sample), and unless they are 0, ``flops_per_context`` (causal attention: per token and
        context token), ``moved_elements`` (activations read and written per token), ``output_elements``
        (sent on per token), ``saved_elements`` (saved per token), ``reductions`` (sums over tensor ranks),
        ``experts``, ``top_k``, ``expert_parameters`` (of all experts), ``expert_flops`` (per token, of all
        experts that it visits) and ``routed_elements`` (per token and direction). All are integers.
    name, unit : str

    Examples
    --------
    >>> read_layer_table("layer,parameters,flops\\nfirst,1000,2000\\nsecond,10,20\\n").parameters
    1010
    """
    if len(text) > MAX_TABLE_BYTES:
        raise FormatError(f"layer table: expected at most {MAX_TABLE_BYTES} bytes, found {len(text)}")
    layers: dict[str, ModelLayer] = {}
    for number, row in csv_rows(text, "layer table", _check_header):
        own = row.pop("layer")
        if not own or own in layers:
            raise FormatError(
                f"layer table: line {number}: expected a new name of a layer, found {own[:40]!r}"
            )
        layers[own] = _layer(own, {key: _number(key, cell, number) for key, cell in row.items()}, number)
        if len(layers) > _MOST_LAYERS:
            raise FormatError(f"layer table: expected at most {_MOST_LAYERS} layers")
    if not layers:
        raise FormatError("layer table: expected a row per layer below the header, found none")
    return TrainingModel(name, tuple(layers.values()), unit=unit, source="a table of layers")


def _check_header(header: list[str]) -> None:
    if missing := [name for name in REQUIRED if name not in header]:
        raise FormatError(
            f"layer table: line 1: the column {missing[0]} is missing; expected {','.join(REQUIRED)} at least"
        )
    for name in header:
        if name not in (*REQUIRED, *OPTIONAL):
            raise FormatError(f"layer table: line 1: {unknown('column', name, (*REQUIRED, *OPTIONAL))}")
    if len(set(header)) < len(header):
        raise FormatError("layer table: line 1: two columns have the same name")


def _number(column: str, cell: str, line: int) -> int:
    if not cell:
        return 0
    if not (cell.isascii() and cell.isdigit() and len(cell) <= _MOST_DIGITS):
        raise FormatError(
            f"layer table: line {line}: {column}: expected an integer, 0 or more, found {cell[:20]!r}"
        )
    return int(cell)


def _layer(name: str, row: dict[str, int], line: int) -> ModelLayer:
    def of(column: str) -> int:
        return row.get(column, 0)

    experts = of("experts")
    has_parts = [bool(of(column)) for column in ("top_k", "expert_parameters", "routed_elements")]
    if any(has_parts) != bool(experts) or all(has_parts) != any(has_parts) or of("top_k") > experts:
        raise FormatError(
            f"layer table: line {line}: experts, top_k (at most as many), expert_parameters and "
            "routed_elements: expected all of them, or none"
        )
    weights = [Weight("weights", of("parameters"))] if of("parameters") else []
    moved, elements = of("moved_elements"), of("parameters")
    works = [Work("work", WorkKind.MATMUL, flops=of("flops"), moved_elements=moved, weight_elements=elements)]
    if flops := of("flops_per_context"):
        works.append(Work("scores", WorkKind.ATTENTION, flops_per_context=flops, attended=Attended()))
    if experts:
        flops, elements = of("expert_flops"), of("expert_parameters")
        weights.append(Weight("experts", elements, expert=True))
        works.append(Work("experts", WorkKind.MATMUL, flops=flops, weight_elements=elements, expert=True))
    return ModelLayer(
        name,
        weights=tuple(weights),
        works=tuple(works),
        saved=(Saved("saved", of("saved_elements")),) if of("saved_elements") else (),
        boundary_elements=of("output_elements"),
        reductions=of("reductions"),
        experts=experts,
        top_k=of("top_k"),
        routed_elements=of("routed_elements"),
        exchanges=2 if experts else 0,
    )
