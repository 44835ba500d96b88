"""Cost models as files: JSON, version 1."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, field
from msgspec.structs import asdict

from treadle.atomic import write_bytes
from treadle.errors import FormatError, ScheduleError
from treadle.input_files import read_input_string
from treadle.simulation.costs.cost_model import ClassCost, CostModel, LinkClass, Protocol
from treadle.typed_files import Table, format_value, read_json

MAX_FILE_BYTES = 2**20
_VERSION = 1
_LONGEST = 40
"""Characters of an efficiency."""


def load_cost_model(path: str | Path) -> CostModel:
    """Read a cost model.

    Parameters
    ----------
    path : str or Path
        JSON, version 1, UTF-8, at most 1 MiB.

    Raises
    ------
    FormatError
        If the file cannot be read, is malformed, or a figure is out of range.

    Examples
    --------
    >>> from treadle import planning
    >>> planning.save_cost_model("costs.json", planning.as_cost_model("reference"))
    >>> planning.load_cost_model("costs.json")
    <CostModel reference, 1 protocol>
    """
    return parse_cost_model(read_input_string(path, MAX_FILE_BYTES), source=str(path))


def parse_cost_model(text: str, *, source: str = "") -> CostModel:
    """The cost model of a file's text; FormatError, which names `source`, if it is malformed."""
    file = read_json(text, _File, source=source)
    try:
        return CostModel(
            name=file.name,
            source=file.source,
            protocols=tuple(row.value() for row in file.protocols),
            reduction_bytes_per_s=file.reduction_bytes_per_s,
            bands=file.bands,
        )
    except ScheduleError as error:
        raise FormatError(str(error), source=source) from None


_SHARE = Meta(description='a share such as "23/25" or 0.92')
_BANDS = Meta(max_length=1000, description="an object of at most 1000 intervals")


class _Cost(Table, frozen=True):
    alpha_ns: int = 0
    occupancy_ns: int = 0
    hop_ns: int = 0
    efficiency: Annotated[str | int | float, _SHARE] = "1"

    def __post_init__(self) -> None:
        self.value()

    def value(self) -> ClassCost:
        text = str(self.efficiency)
        try:
            if not 0 < len(text) <= _LONGEST or "e" in text.lower():
                raise ValueError
            efficiency = Fraction(text)
        except (ValueError, ZeroDivisionError):
            raise FormatError(
                f"efficiency: expected {_SHARE.description}, found {format_value(text)}"
            ) from None
        return ClassCost(self.alpha_ns, self.occupancy_ns, self.hop_ns, efficiency=efficiency)


class _Protocol(Table, frozen=True):
    name: str
    launch_ns: int = 0
    channels: int = 0
    channel_bytes_per_s: int = 0
    box: _Cost = _Cost()
    network: _Cost = _Cost()
    hop: _Cost = _Cost()

    def __post_init__(self) -> None:
        self.value()

    def value(self) -> Protocol:
        costs = {str(link_class): getattr(self, link_class).value() for link_class in LinkClass}
        return Protocol(**{**asdict(self), **costs})


class _File(Table, frozen=True):
    treadle: Literal["cost-model"]
    version: Literal[1]
    name: str
    source: str
    protocols: list[_Protocol]
    reduction_bytes_per_s: int = 0
    bands: Annotated[dict[str, tuple[float, float]], _BANDS] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, (low, high) in self.bands.items():
            if not -math.inf < low <= high < math.inf:
                raise FormatError(f"bands: {format_value(name)}: expected two numbers, the smaller first")


def cost_model_to_json(model: CostModel) -> dict[str, Any]:
    """The file's JSON object."""
    value: dict[str, Any] = {
        "treadle": "cost-model",
        "version": _VERSION,
        "name": model.name,
        "source": model.source,
        "protocols": [_protocol_to_json(protocol) for protocol in model.protocols],
    }
    if model.reduction_bytes_per_s:
        value["reduction_bytes_per_s"] = model.reduction_bytes_per_s
    if model.bands:
        value["bands"] = {name: list(band) for name, band in model.bands.items()}
    return value


def dump_cost_model(model: CostModel) -> str:
    """The file's text."""
    return json.dumps(cost_model_to_json(model), indent=1, allow_nan=False) + "\n"


def save_cost_model(path: str | Path, model: CostModel) -> None:
    """Write a cost model; the file appears whole or not at all. FormatError if it cannot be written.

    Examples
    --------
    >>> from treadle import planning
    >>> simple = planning.Protocol("simple", planning.ClassCost(alpha_ns=2000))
    >>> planning.save_cost_model("ours.json", planning.CostModel("ours", "measured in May", (simple,)))
    >>> planning.load_cost_model("ours.json").source
    'measured in May'
    """
    write_bytes(path, dump_cost_model(model).encode())


def _protocol_to_json(protocol: Protocol) -> dict[str, Any]:
    value: dict[str, Any] = {"name": protocol.name, "launch_ns": protocol.launch_ns}
    if protocol.channels:
        value |= {"channels": protocol.channels, "channel_bytes_per_s": protocol.channel_bytes_per_s}
    for link_class in LinkClass:
        cost = protocol.of(link_class)
        value[link_class.value] = {
            "alpha_ns": cost.alpha_ns,
            "occupancy_ns": cost.occupancy_ns,
            "hop_ns": cost.hop_ns,
            "efficiency": str(cost.efficiency),
        }
    return value
